// Compares a model's predictions with a base model's predictions on the same text: the divergence of the distributions,
// and the change of the probability of the actual next token. Used to evaluate quantized files and optimized code.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "tessera/eval/base_file.h"
#include "tessera/eval/log_prob_codes.h"
#include "tessera/eval/perplexity.h"

namespace tessera::eval {

/// Statistics of a sorted sample.
class Distribution {
 public:
  explicit Distribution(std::vector<float> values = {});
  double mean() const { return mean_; }
  /// Returns the value below which `share` (0 to 1) of the sample is, interpolated linearly. Requires at least one
  /// value.
  double quantile(double share) const;

 private:
  double mean_ = 0;
  std::vector<float> sorted_;
};

struct KlStatistics {
  int64_t n_tokens = 0;
  Measured ppl, ppl_base;
  double correlation = 0;                 // between the log p of both models; 0 if either is constant
  Measured log_ratio, ratio, difference;  // ln(ppl / ppl_base), ppl / ppl_base, ppl - ppl_base
  Measured kl;
  Measured p_change, p_change_rms;  // change of the probability of the actual next token
  Measured same_top;                // share of positions with the same most probable token
  Distribution kl_values, p_changes;
};

class KlDivergence {
 public:
  void add(const RowDifference& difference);
  int64_t n_tokens() const { return kl_.n(); }
  /// Returns the statistics of all added differences. Requires at least one.
  KlStatistics statistics() const;
  /// The means so far; zeros if nothing was added.
  PerplexityEstimate perplexity() const { return perplexity_of(nll_); }
  double mean_kl() const { return kl_.mean().value; }

 private:
  RunningMean nll_, base_, kl_, p_change_, square_;  // square_: of p_change_
  double product_ = 0;                               // sum of nll times base
  int64_t n_same_top_ = 0;
  std::vector<float> kl_values_, p_changes_;
};

/// Compares rows of scored positions, in order, with the rows of the base. Errors: errors of reading, and errors of
/// compare_log_probs() with the position.
Result<> compare(KlDivergence& divergence, const BaseFile& base, const Chunks& chunks, std::span<const ChunkRow> rows,
                 ThreadPool& threads);

}  // namespace tessera::eval
