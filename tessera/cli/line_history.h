// The texts that were sent before, in memory and in a file. A chat that runs beside this one may share the file.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::cli {

inline constexpr size_t kMaxHistoryEntries = 1000;
inline constexpr size_t kMaxHistoryBytes = size_t{1} << 20;        // of the file
inline constexpr size_t kMaxHistoryEntryBytes = size_t{64} << 10;  // longer texts stay in memory only

class LineHistory {
 public:
  /// state_file_path("history").
  static std::string default_path();

  /// A history without a file.
  LineHistory() = default;

  /// Reads the entries of a file, which need not exist, and keeps later ones there. Without a path: no file. Errors:
  /// io.
  static Result<LineHistory> open(std::string path);

  /// Adds an entry, unless it is empty, begins with a blank or repeats the last one. Errors of the file: io. The entry
  /// is in memory even then.
  Result<> add(std::string_view text);

  /// From the oldest entry to the newest.
  size_t size() const { return entries_.size(); }
  const std::string& at(size_t index) const { return entries_[index]; }

  /// The newest entry before `index` that begins with `prefix`, or that contains `part`.
  std::optional<size_t> find_prefix_before(size_t index, std::string_view prefix) const;
  std::optional<size_t> find_part_before(size_t index, std::string_view part) const;
  /// The oldest entry after `index` that begins with `prefix`.
  std::optional<size_t> find_prefix_after(size_t index, std::string_view prefix) const;

 private:
  std::string path_;  // empty: no file
  std::vector<std::string> entries_;
};

}  // namespace tessera::cli
