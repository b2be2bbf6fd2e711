// From the embeddings of a text's tokens to one vector, and the head that turns it into scores.
#pragma once

#include <span>
#include <string_view>

#include "tessera/base/partition.h"
#include "tessera/nn/ffn.h"
#include "tessera/nn/norm.h"

namespace tessera::nn {

/// Numbered as in GGUF files. rank: the scores of the model's head.
enum class Pooling : uint8_t { none, mean, cls, last, rank };
inline constexpr int64_t kNPoolings = 5;

/// "none", "mean", "cls", "last" or "rank". Errors: invalid_argument, naming these.
Result<Pooling> pooling_from_name(std::string_view name);

/// The tokens of a text of n_tokens > 0 whose embeddings are needed: all, the first or the last. Not for rank.
Range pooled_tokens(Pooling pooling, int64_t n_tokens);

/// The mean of rows [mean.size(), n], n > 0: sums in double, in the order of the rows.
void mean_of_rows(std::span<const float> rows, std::span<float> mean);

/// scores = output(norm(act(dense x))), of which each part may be absent; softmax of them where the model wants it.
struct RankHead {
  Pooling pooling = Pooling::cls;  // of the vector x; not rank
  Linear dense{};
  Norm norm{};
  Linear output{};
  enum class Activation : uint8_t { tanh, gelu } activation = Activation::tanh;
  bool has_soft_max = false;

  bool present() const { return dense.weight != nullptr || output.weight != nullptr; }
  int64_t n_scores() const;
};

/// x [n_embd, n]; returns [n_scores, n].
Value rank(GraphBuilder& b, Value x, const RankHead& head);

}  // namespace tessera::nn
