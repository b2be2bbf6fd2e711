// Typed members of the JSON objects that batch commands read, one per line.
#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/cancel.h"
#include "tessera/base/result.h"

namespace tessera::cli {

using RowJson = nlohmann::ordered_json;

/// Parses one line. Errors: format (not an object, or more than 64 levels).
Result<RowJson> parse_row(std::string_view line);

/// One line of JSON with a line break.
std::string row_line(const RowJson& row);

/// Reads lines of a file, or of stdin if it has no name, and prints the answer to each. An error of an answer is
/// printed with the number of its line. Errors: io; cancelled.
Result<> answer_rows(const std::string& file, const CancelToken& interrupt,
                     const std::function<Result<RowJson>(std::string_view line)>& answer);

class JsonRow {
 public:
  /// The object must outlive this.
  explicit JsonRow(const RowJson& row) : row_(row) {}

  bool has(const char* key) const;
  const RowJson& at(const char* key) const;

  /// The member, or the fallback where it is absent. Errors: format (a member of another type).
  Result<std::string> text(const char* key) const;
  Result<bool> boolean(const char* key, bool fallback) const;
  Result<uint64_t> integer(const char* key) const;
  Result<std::vector<std::string>> texts(const char* key) const;

 private:
  const RowJson& row_;
};

}  // namespace tessera::cli
