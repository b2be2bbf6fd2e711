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

void mean_of_rows(std::span<const float> rows, std::span<float> mean) {
  const size_t n_rows = rows.size() / mean.size();
  for (size_t i = 0; i < mean.size(); ++i) {
    double sum = 0;
    for (size_t r = 0; r < n_rows; ++r) sum += double{rows[r * mean.size() + i]};
    mean[i] = static_cast<float>(sum / static_cast<double>(n_rows));
  }
}

int64_t RankHead::n_scores() const {
  const Tensor* last = output.weight != nullptr ? output.weight : dense.weight;
  return last == nullptr ? 0 : last->shape()[1];
}

Value rank(GraphBuilder& b, Value x, const RankHead& head) {
  if (head.dense.weight != nullptr) {
    x = linear(b, x, head.dense);
    x = head.activation == RankHead::Activation::gelu ? b.gelu(x) : b.soft_cap(x, 1.0f);  // tanh
    if (head.norm.present()) x = norm(b, x, head.norm);
  }
  if (head.output.weight != nullptr) x = linear(b, x, head.output);
  return head.has_soft_max ? b.soft_max(x) : x;
}

}  // namespace tessera::nn
