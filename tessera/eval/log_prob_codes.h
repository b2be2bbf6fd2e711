// Log-probabilities in 16 bits, as files of llama.cpp's users hold them: log p = min + scale * code, code 0 to 65535
// over the range of the row's logits, but at most the 16 nats below the highest: what is less probable has code 0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>

#include "tessera/base/result.h"
#include "tessera/eval/log_likelihood.h"
#include "tessera/eval/vector_math.h"

namespace tessera::eval {

/// Words of a row of n_vocab codes: scale and min as two floats, then the codes, to an even number.
constexpr size_t log_prob_row_words(size_t n_vocab) { return 4 + (n_vocab + 1) / 2 * 2; }

struct LogProbGrid {
  float scale = 0;
  float min = 0;  // log-probability of code 0

  float log_prob(uint16_t code) const { return min + scale * static_cast<float>(code); }
  /// Whether code 0 stands for all that is less probable, too.
  bool is_cut() const { return scale >= 16.0f / 65535.0f; }
};

/// A row's softmax, its grid, and what it takes to bring its logits there.
struct RowGrid {
  SoftmaxSum softmax;
  LogProbGrid grid;
  float lowest = 0;   // the logit of code 0
  float inverse = 0;  // codes per unit of logit; 0 where all logits are one

  /// -log p, not rounded to the grid; 0 at the least.
  double nll(float logit) const { return std::max(-softmax.log_p(logit), 0.0); }
  /// The numbers on the grid nearest to logits; below 0 for what is less probable than code 0.
  F32x4 codes(F32x4 logits) const { return round4((logits - lowest) * inverse); }
};

/// Errors: format, when a logit is NaN or infinite (-infinity is a token that never comes).
Result<RowGrid> row_grid(std::span<const float> logits);

/// Writes a row of log_prob_row_words(logits.size()) words.
void encode_log_probs(const RowGrid& row, std::span<const float> logits, std::span<uint16_t> words);

/// How two distributions for the same place differ; the same logits do not.
struct RowDifference {
  double kl = 0;                 // Kullback-Leibler divergence from the base, in nats
  double nll = 0, nll_base = 0;  // -log p of the token that came
  bool has_same_top = false;     // the first of the most probable tokens is the same
};

/// Compares logits with a base's row. Both are read off their grids, where p (log(p/q) - 1 + q/p) is summed over the
/// base's codes above its cut: the divergence for distributions, and of second order in the rounding of log p, where p
/// log(p/q) alone is of first. nll_base: the base's -log p of the token where its code does not tell enough; else the
/// model's is rounded and cut as the base's is.
/// Errors: format (row_grid()'s; a base row that is no distribution; a divergence that is not finite).
Result<RowDifference> compare_log_probs(std::span<const uint16_t> base, std::span<const float> logits, int32_t token,
                                        std::optional<float> nll_base = {});

}  // namespace tessera::eval
