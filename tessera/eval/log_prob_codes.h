// Log-probabilities as 16-bit codes, in the format of llama.cpp: log p = min + scale * code. The codes 0 to 65535 cover
// the range of the row's logits, but at most 16 nats below the highest. Less probable tokens have code 0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "tessera/base/result.h"
#include "tessera/base/vector_math.h"
#include "tessera/eval/log_likelihood.h"

namespace tessera::eval {

/// 16-bit words of a row of n_vocab codes: scale and min as two floats, then the codes, padded to an even number.
constexpr size_t log_prob_row_words(size_t n_vocab) { return 4 + (n_vocab + 1) / 2 * 2; }

struct LogProbGrid {
  float scale = 0;
  float min = 0;  // log-probability of code 0

  float log_prob(uint16_t code) const { return min + scale * static_cast<float>(code); }
  /// Whether code 0 also represents less probable tokens.
  bool is_cut() const { return scale >= 16.0f / 65535.0f; }
};

/// A row's softmax, its grid, and the conversion of its logits to the grid.
struct RowGrid {
  sample::SoftmaxSum softmax;
  LogProbGrid grid;
  float lowest = 0;   // the logit of code 0
  float inverse = 0;  // codes per unit of logit; 0 if all logits are equal

  /// -log p, not rounded to the grid; at least 0.
  double nll(float logit) const { return std::max(-softmax.log_p(logit), 0.0); }
  /// Returns the nearest grid points of logits; negative for tokens that are less probable than code 0.
  F32x4 codes(F32x4 logits) const { return round4((logits - lowest) * inverse); }
};

/// Errors: format (a logit is NaN or +infinity; -infinity is a token with probability 0).
Result<RowGrid> row_grid(std::span<const float> logits);

/// Writes a row of log_prob_row_words(logits.size()) words.
void encode_log_probs(const RowGrid& row, std::span<const float> logits, std::span<uint16_t> words);

/// The difference between two distributions for the same position; zero for equal logits.
struct RowDifference {
  double kl = 0;                 // Kullback-Leibler divergence from the base, in nats
  double nll = 0, nll_base = 0;  // -log p of the actual next token
  bool has_same_top = false;     // both have the same most probable token (the first, if there are several)
};

/// Compares logits with a row of the base. Both distributions are rounded to their grids. The divergence is the sum of
/// p (log(p/q) - 1 + q/p) over the base's codes above its cut. For distributions this equals the sum of p log(p/q), but
/// its error is of second order in the rounding of log p instead of first order. nll_base: the base's exact -log p of
/// the token, if known; otherwise the model's value is rounded and cut in the same way as the base's.
/// Errors: format (errors of row_grid(); a base row that is not a distribution; a divergence that is not finite).
Result<RowDifference> compare_log_probs(std::span<const uint16_t> base, std::span<const float> logits, int32_t token,
                                        std::optional<float> nll_base = {});

}  // namespace tessera::eval
