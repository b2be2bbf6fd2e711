// Checks of a model file for `tessera verify`: values, tokenizer, and logits against a reference. The structure of the
// file was checked when it was opened.
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

/// Called with the share of the checked bytes, 0 to 1. Returns false to stop.
using VerifyProgress = std::function<bool(float)>;

/// Checks every block of every tensor, on all threads. Errors: format, with file, tensor and block of the first fault,
/// independent of the number of threads; cancelled.
Result<> check_values(const ModelFiles& model, ThreadPool& threads, const VerifyProgress& progress = {});

/// Number of blocks of all tensors. In types without blocks each element counts as one.
uint64_t count_blocks(const ModelFiles& model);

/// Converts texts to tokens and back: sentences in several scripts, control characters, and the text of each normal
/// token of the vocabulary. Returns the number of texts. Returns 0 if the tokenizer does not guarantee a round trip (it
/// normalises texts, or has no token for some bytes). Error: format, with the text that changed.
Result<size_t> check_round_trips(const text::Tokenizer& tokenizer);

/// Reference logits in the format of `tessera logits`: int32 n, int32 n_vocab, int32 ids[n], f32 logits[n][n_vocab].
class ReferenceLogits {
 public:
  /// The deviation of the logits after one token from the reference.
  struct RowError {
    double nmse = 0;            // sum of squared differences over sum of squares; NaN if all were 0
    double max_difference = 0;  // largest difference of one logit; NaN if a logit is NaN
    bool same_top = false;      // the same token has the highest logit
  };

  /// Parses the bytes of a file, which must outlive the result. Errors start with the name: format (the size does not
  /// match the header, an id outside the n_vocab tokens).
  static Result<ReferenceLogits> parse(std::span<const std::byte> bytes, std::string name);

  std::span<const int32_t> ids() const { return ids_; }
  int64_t n_vocab() const { return n_vocab_; }

  /// Compares the logits after token i with the reference. Errors: mismatch (another n_vocab), format (the reference is
  /// not finite).
  Result<RowError> compare(size_t i, std::span<const float> logits);

  /// Sum of squared differences over sum of squares, for all compared logits. NaN if all were 0 or none was compared.
  double nmse() const;

 private:
  std::string name_;
  std::vector<int32_t> ids_;
  int64_t n_vocab_ = 0;
  std::span<const std::byte> logits_;
  double error_ = 0, power_ = 0;
};

}  // namespace tessera::convert
