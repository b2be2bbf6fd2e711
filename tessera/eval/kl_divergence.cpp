#include "tessera/eval/kl_divergence.h"

#include <algorithm>
#include <cmath>

namespace tessera::eval {

Distribution::Distribution(std::vector<float> values) : sorted_(std::move(values)) {
  std::ranges::sort(sorted_);
  for (const float value : sorted_) mean_ += static_cast<double>(value);
  mean_ /= static_cast<double>(std::max<size_t>(sorted_.size(), 1));
}

double Distribution::quantile(double share) const {
  const double place = std::clamp(share, 0.0, 1.0) * static_cast<double>(sorted_.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted_.size() - 1);
  const double weight = place - static_cast<double>(below);
  return (1 - weight) * static_cast<double>(sorted_[below]) + weight * static_cast<double>(sorted_[above]);
}

void KlDivergence::add(const RowDifference& difference) {
  const double nll = difference.nll, base = difference.nll_base;
  n_same_top_ += difference.has_same_top ? 1 : 0;
  nll_.add(nll);
  base_.add(base);
  product_ += nll * base;
  kl_.add(difference.kl);
  const double p_change = std::exp(-nll) - std::exp(-base);
  p_change_.add(p_change);
  square_.add(p_change * p_change);
  kl_values_.push_back(static_cast<float>(difference.kl));
  p_changes_.push_back(static_cast<float>(p_change));
}

KlStatistics KlDivergence::statistics() const {
  const auto n = static_cast<double>(n_tokens());
  KlStatistics s;
  s.n_tokens = n_tokens();
  s.kl_values = Distribution(kl_values_);
  s.p_changes = Distribution(p_changes_);
  const Measured nll = nll_.mean(), base = base_.mean();
  // The covariance of the two means. The squares of their standard errors are their variances.
  const double covariance = n > 1 ? (product_ / n - nll.value * base.value) / (n - 1) : 0.0;
  const double q2 = nll.error * nll.error, b2 = base.error * base.error;
  const double spread = std::sqrt(q2 * b2);
  s.correlation = spread > 0 ? covariance / spread : 0.0;
  s.ppl = {std::exp(nll.value), std::exp(nll.value) * nll.error};
  s.ppl_base = {std::exp(base.value), std::exp(base.value) * base.error};
  s.log_ratio = {nll.value - base.value, std::sqrt(std::max(q2 + b2 - 2 * covariance, 0.0))};
  s.ratio = {std::exp(s.log_ratio.value), std::exp(s.log_ratio.value) * s.log_ratio.error};
  const double q = s.ppl.value, b = s.ppl_base.value;
  s.difference = {q - b, std::sqrt(std::max(q * q * q2 + b * b * b2 - 2 * q * b * covariance, 0.0))};
  s.kl = kl_.mean();
  s.p_change = p_change_.mean();
  const Measured square = square_.mean();
  const double rms = std::sqrt(square.value);
  s.p_change_rms = {rms, rms > 0 ? square.error / (2 * rms) : 0.0};
  const double share = static_cast<double>(n_same_top_) / n;
  s.same_top = {share, share_error(share, n_tokens())};
  return s;
}

Result<> compare(KlDivergence& divergence, const BaseFile& base, const Chunks& chunks, std::span<const ChunkRow> rows,
                 ThreadPool& threads) {
  const size_t n_words = log_prob_row_words(rows[0].logits.size());
  std::vector<uint16_t> words(rows.size() * n_words);
  TESSERA_TRY(base.read_rows(rows[0].chunk, rows[0].position, words));
  std::vector<RowDifference> differences(rows.size());
  const auto compare_row = [&](size_t i) -> Result<> {
    const ChunkRow& row = rows[i];
    auto difference =
        compare_log_probs(std::span(words).subspan(i * n_words, n_words), row.logits,
                          chunks.token(row.chunk, row.position + 1), base.exact_nll(row.chunk, row.position));
    if (!difference)
      return forward_error(difference, fmt::format("{}: chunk {}, position {}", base.path(), row.chunk, row.position));
    differences[i] = *difference;
    return {};
  };
  TESSERA_TRY(for_each_row(threads, rows.size(), compare_row));
  for (const RowDifference& difference : differences) divergence.add(difference);
  return {};
}

}  // namespace tessera::eval
