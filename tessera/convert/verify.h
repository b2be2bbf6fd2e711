// Whether a model file can be trusted, for `tessera verify`: values, tokenizer, logits against a reference. That the
// file's structure is sound, opening it has shown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/base/thread_pool.h"
#include "tessera/gguf/split.h"
#include "tessera/text/tokenizer.h"

namespace tessera::convert {

/// Called with the share of the bytes that are checked, 0 to 1; returns false to stop.
using VerifyProgress = std::function<bool(float)>;

/// Looks at every block of every tensor, on all threads. Errors: format, naming file, tensor and block of the first
/// fault, the same for any number of threads; cancelled.
Result<> check_values(const ModelFiles& model, ThreadPool& threads, const VerifyProgress& progress = {});

/// Blocks of all tensors; elements count as blocks where a type has none.
uint64_t count_blocks(const ModelFiles& model);

/// Turns texts into tokens and back: sentences in several scripts, control characters, and what each normal token of
/// the vocabulary stands for. Returns how many; 0 where the tokenizer need not give texts back (it normalises them, or
/// has no token for some bytes). Error: format, naming the text that comes back as another.
Result<size_t> check_round_trips(const text::Tokenizer& tokenizer);

/// Logits as `tessera logits` writes them: int32 n, int32 n_vocab, int32 ids[n], f32 logits[n][n_vocab].
class ReferenceLogits {
 public:
  /// How far the logits after one token are from the reference's.
  struct RowError {
    double nmse = 0;            // sum of squared differences over sum of squares; not a number if all were 0
    double max_difference = 0;  // the largest of one logit; not a number if a logit is none
    bool same_top = false;      // the highest logit is of the same token
  };

  /// Reads a file's bytes, which outlive the result. Errors start with the name: format (another size than the header
  /// says, an id that is none of the n_vocab tokens).
  static Result<ReferenceLogits> parse(std::span<const std::byte> bytes, std::string name);

  std::span<const int32_t> ids() const { return ids_; }
  int64_t n_vocab() const { return n_vocab_; }

  /// Compares the logits after token i with the reference. Errors: mismatch (another n_vocab), format (the reference is
  /// not finite).
  Result<RowError> compare(size_t i, std::span<const float> logits);

  /// Of all that was compared: sum of squared differences over sum of squares. Not a number if all were 0 or none.
  double nmse() const;

 private:
  std::string name_;
  std::vector<int32_t> ids_;
  int64_t n_vocab_ = 0;
  std::span<const std::byte> logits_;
  double error_ = 0, power_ = 0;
};

}  // namespace tessera::convert
