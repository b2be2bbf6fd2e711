#include "tessera/eval/log_prob_codes.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tessera/base/index.h"
#include "tessera/base/vector_math.h"
#include "tessera/eval/log_likelihood.h"

namespace tessera::eval {

namespace {

constexpr float kRange = 16.0f, kMaxCode = 65535.0f;
// The number of terms that are summed in f32 before they are added to a double.
constexpr size_t kCodeBlock = 256;
// Bounds on the total probability of codes above the cut: 2^18 tokens below it have at most 3 %, rounding adds 0.01 %.
constexpr double kMinSum = 0.9, kMaxSum = 1.01;

LogProbGrid read_grid(std::span<const uint16_t> words) {
  LogProbGrid grid;
  std::memcpy(&grid.scale, words.data(), sizeof grid.scale);
  std::memcpy(&grid.min, words.data() + 2, sizeof grid.min);
  return grid;
}

// e^d - 1 - d. For |d| <= 1/2 the remainder of the series is below 1e-7 of the sum.
F32x4 excess(F32x4 d) {
  F32x4 series = d * (1.0f / 40320) + (1.0f / 5040);
  series = series * d + (1.0f / 720);
  series = series * d + (1.0f / 120);
  series = series * d + (1.0f / 24);
  series = series * d + (1.0f / 6);
  series = (series * d + 0.5f) * d * d;
  const I32x4 is_far = (d <= -0.5f) | (d >= 0.5f);
  if (!any4(is_far)) return series;
  return select4(is_far, exp4(d) - 1.0f - d, series);
}

struct Sums {
  double kl = 0, p = 0;
};

// Compares four elements of a row at a time: the base's codes and the logits.
class Comparison {
 public:
  Comparison(const LogProbGrid& base, const RowGrid& row) : base_(base), row_(row) {}

  void add(F32x4 codes, F32x4 logits, F32x4& kl, F32x4& p_sum) const {
    const F32x4 log_p = codes * base_.scale + base_.min;
    const F32x4 log_q = row_.codes(logits) * row_.grid.scale + row_.grid.min;
    const I32x4 counts = codes >= splat(base_.is_cut() ? 1.0f : 0.0f);
    const F32x4 p = select4(counts, exp4(log_p), splat(0.0f));
    p_sum += p;
    // If p is 0, the term is 0. This avoids 0 times infinity.
    kl += select4(p > 0.0f, p * excess(log_q - log_p), splat(0.0f));
  }

 private:
  LogProbGrid base_;
  RowGrid row_;
};

Sums compare_all(const Comparison& comparison, const uint16_t* codes, std::span<const float> logits) {
  Sums sums;
  const size_t n_whole = logits.size() / 4 * 4;
  for (size_t i = 0; i < n_whole;) {
    F32x4 kl = splat(0.0f), p = splat(0.0f);
    for (const size_t end = std::min(n_whole, i + kCodeBlock); i < end; i += 4)
      comparison.add(load4(codes + i), load4(&logits[i]), kl, p);
    sums.kl += sum_of(kl);
    sums.p += sum_of(p);
  }
  for (size_t i = n_whole; i < logits.size(); ++i) {
    F32x4 kl = splat(0.0f), p = splat(0.0f);
    comparison.add(splat(codes[i]), splat(logits[i]), kl, p);
    sums.kl += static_cast<double>(kl[0]);
    sums.p += static_cast<double>(p[0]);
  }
  return sums;
}

// Returns the index of the first highest code, which the encoder assigns to the highest logit.
size_t first_top(std::span<const uint16_t> codes) {
  const auto top = std::ranges::find(codes, UINT16_MAX);
  return to_size((top != codes.end() ? top : std::ranges::max_element(codes)) - codes.begin());
}
size_t first_top(const RowGrid& row, std::span<const float> logits) {
  if (row.inverse == 0) return 0;
  const auto rounds_to_top = [&](float logit) { return (logit - row.lowest) * row.inverse > kMaxCode - 0.5f; };
  return to_size(std::ranges::find_if(logits, rounds_to_top) - logits.begin());
}

}  // namespace

Result<RowGrid> row_grid(std::span<const float> logits) {
  const sample::SoftmaxSum sum = sample::softmax_sum(logits);
  if (!std::isfinite(sum.log_sum)) return fail(ErrorCode::format, "a logit is not a finite number");
  const auto [lowest, highest] = extremes_of(logits);
  RowGrid row;
  row.softmax = sum;
  row.lowest = std::max(lowest, highest - kRange);
  row.grid = {.scale = (highest - row.lowest) / kMaxCode, .min = static_cast<float>(sum.log_p(row.lowest))};
  row.inverse = row.grid.scale > 0 ? 1.0f / row.grid.scale : 0.0f;
  return row;
}

void encode_log_probs(const RowGrid& row, std::span<const float> logits, std::span<uint16_t> words) {
  std::memcpy(words.data(), &row.grid.scale, sizeof row.grid.scale);
  std::memcpy(words.data() + 2, &row.grid.min, sizeof row.grid.min);
  const std::span<uint16_t> codes = words.subspan(4);
  const auto words_of = [&](F32x4 x) {
    const F32x4 code = row.codes(x), zero = splat(0.0f), most = splat(kMaxCode);
    const F32x4 above = code > zero ? code : zero;
    return above < most ? above : most;
  };
  size_t i = 0;
  for (; i + 4 <= logits.size(); i += 4) store4(words_of(load4(&logits[i])), &codes[i]);
  for (; i < logits.size(); ++i) codes[i] = static_cast<uint16_t>(words_of(splat(logits[i]))[0]);
  if (codes.size() > logits.size()) codes.back() = 0;
}

Result<RowDifference> compare_log_probs(std::span<const uint16_t> base, std::span<const float> logits, int32_t token,
                                        std::optional<float> nll_base) {
  const LogProbGrid grid = read_grid(base);
  const std::span<const uint16_t> codes = base.subspan(4, logits.size());
  TESSERA_ASSIGN(const RowGrid row, row_grid(logits));
  if (!(grid.scale >= 0) || !(grid.log_prob(UINT16_MAX) < 0.01f) || !(grid.min > -1e6f))
    return fail(ErrorCode::format, "the base's probabilities are damaged: scale {}, least log p {}", grid.scale,
                grid.min);
  const Sums sums = compare_all(Comparison(grid, row), codes.data(), logits);
  if (!(sums.p >= kMinSum && sums.p <= kMaxSum))
    return fail(ErrorCode::format, "the base's probabilities are damaged: they sum to {}", sums.p);
  if (!std::isfinite(sums.kl))
    return fail(ErrorCode::format, "the divergence is infinite: a token that the base gives never comes");
  RowDifference difference{.kl = sums.kl, .has_same_top = first_top(row, logits) == first_top(codes)};
  const float logit = logits[to_size(token)];
  if (nll_base) {
    difference.nll = static_cast<double>(static_cast<float>(row.nll(logit)));  // rounded to f32 like the base's
    difference.nll_base = static_cast<double>(*nll_base);
  } else {
    const float code = std::clamp(row.codes(splat(logit))[0], 0.0f, kMaxCode);
    difference.nll = -static_cast<double>(row.grid.log_prob(static_cast<uint16_t>(code)));
    difference.nll_base = -static_cast<double>(grid.log_prob(codes[to_size(token)]));
  }
  return difference;
}

}  // namespace tessera::eval
