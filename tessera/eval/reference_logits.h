// Comparison of a model's logits with those of a reference file, position by position, for `tessera logits` and
// `tessera verify`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/file.h"
#include "tessera/base/function_ref.h"
#include "tessera/engine/session.h"
#include "tessera/eval/nmse.h"

namespace tessera::eval {

/// A file of logits: int32 n, int32 n_vocab, int32 ids[n], f32 logits[n][n_vocab].
class ReferenceLogits {
 public:
  /// The deviation of the logits after one token from the reference.
  struct RowError {
    double nmse = 0;            // see SquaredError; NaN if all were 0
    double max_difference = 0;  // largest difference of one logit; NaN if a logit is NaN
    bool same_top = false;      // the same token has the highest logit
  };

  /// Maps a file. Errors: those of parse(), not_found, io.
  static Result<ReferenceLogits> open(const std::string& path);
  /// Parses the bytes of a file, which must outlive the result. Errors start with the name: format (the size does not
  /// match the header, an id outside the n_vocab tokens).
  static Result<ReferenceLogits> parse(std::span<const std::byte> bytes, std::string name);

  const std::string& name() const { return name_; }
  std::span<const int32_t> ids() const { return ids_; }
  int64_t n_vocab() const { return n_vocab_; }

  /// Compares the logits after the next token of ids(). Errors: mismatch (another n_vocab), format (the reference is
  /// not finite).
  Result<> compare_next(std::span<const float> logits);

  /// The error of all compared logits. NaN if all were 0 or none was compared.
  double nmse() const { return all_.nmse(); }
  /// By compared token.
  std::span<const RowError> rows() const { return rows_; }

 private:
  std::string name_;
  std::unique_ptr<MappedFile> map_;
  std::vector<int32_t> ids_;
  int64_t n_vocab_ = 0;
  std::span<const std::byte> logits_;
  SquaredError all_;
  std::vector<RowError> rows_;
};

/// Computes the logits after each of the ids, from position 0 on, and calls `visit` with one row at a time, so that
/// memory does not grow with their number. Errors: limit (more ids than the context holds).
Result<> for_each_logits(Session& session, std::span<const int32_t> ids, const CancelToken& interrupt,
                         FunctionRef<Result<>(std::span<const float>)> visit);
/// Sets context and outputs of a session for for_each_logits() with n ids.
void fit_to_logits(SessionOptions& options, size_t n);

}  // namespace tessera::eval
