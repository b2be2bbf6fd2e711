#include "tessera/nn/pooling.h"

#include <algorithm>
#include <array>

namespace tessera::nn {

Result<Pooling> pooling_from_name(std::string_view name) {
  constexpr std::array<std::string_view, kNPoolings> kNames = {"none", "mean", "cls", "last", "rank"};
  const auto* found = std::ranges::find(kNames, name);
  if (found == kNames.end())
    return fail(ErrorCode::invalid_argument, "'{}' is not one of none, mean, cls, last, rank", name);
  return static_cast<Pooling>(found - kNames.begin());
}

Range pooled_tokens(Pooling pooling, int64_t n_tokens) {
  if (pooling == Pooling::cls) return {0, 1};
  return {pooling == Pooling::last ? n_tokens - 1 : 0, n_tokens};
}

void RowMean::add(std::span<const float> rows) {
  const size_t width = sums_.size();
  for (; !rows.empty(); rows = rows.subspan(width), ++n_rows_)
    for (size_t i = 0; i < width; ++i) sums_[i] += double{rows[i]};
}

void RowMean::write(std::span<float> mean) const {
  for (size_t i = 0; i < mean.size(); ++i) mean[i] = static_cast<float>(sums_[i] / static_cast<double>(n_rows_));
}

int64_t RankHead::n_scores() const {
  const Tensor* last = output.weight != nullptr ? output.weight : dense.weight;
  return last == nullptr ? 0 : last->shape()[1];
}

Value rank(GraphBuilder& b, Value x, const RankHead& head) {
  if (head.dense.weight != nullptr) {
    x = linear(b, x, head.dense);
    if (head.activation == RankHead::Activation::gelu) x = b.gelu(x);
    if (head.activation == RankHead::Activation::tanh) x = b.soft_cap(x, 1.0f);
    if (head.norm.present()) x = norm(b, x, head.norm);
  }
  if (head.output.weight != nullptr) x = linear(b, x, head.output);
  return head.has_soft_max ? b.soft_max(x) : x;
}

}  // namespace tessera::nn
