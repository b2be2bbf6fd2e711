// Logits beside those of a reference file, position by position: for `logits` and `verify`.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/file.h"
#include "tessera/base/function_ref.h"
#include "tessera/cli/model_args.h"
#include "tessera/convert/verify.h"

namespace tessera::cli {

/// A file of `tessera logits`, mapped.
class ReferenceFile {
 public:
  static Result<ReferenceFile> open(const std::string& path);

  std::span<const int32_t> ids() const { return logits_.ids(); }
  const std::string& path() const { return path_; }
  /// Compares the logits after the next token.
  Result<> compare_next(std::span<const float> logits);

  /// Of all that was compared.
  double nmse() const { return logits_.nmse(); }
  std::span<const convert::ReferenceLogits::RowError> rows() const { return rows_; }

 private:
  ReferenceFile(std::string path, std::unique_ptr<MappedFile> map, convert::ReferenceLogits logits)
      : path_(std::move(path)), map_(std::move(map)), logits_(std::move(logits)) {}

  std::string path_;
  std::unique_ptr<MappedFile> map_;
  convert::ReferenceLogits logits_;
  std::vector<convert::ReferenceLogits::RowError> rows_;
};

/// A line per position, the worst one's number in the last.
std::string position_table(const ReferenceFile& reference);
/// The same as a JSON array.
std::string position_json(const ReferenceFile& reference);

/// Computes the logits after each of the ids from position 0 on and hands them over one by one: memory does not grow
/// with their number. Errors: limit (more than the context holds).
Result<> for_each_logits(Session& session, std::span<const int32_t> ids, const CancelToken& interrupt,
                         FunctionRef<Result<>(std::span<const float>)> visit);
/// Sets context and outputs of a session that computes n logits so.
void fit_to_logits(SessionOptions& options, size_t n);

}  // namespace tessera::cli
