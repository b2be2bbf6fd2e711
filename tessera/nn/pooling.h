// Pooling of token embeddings to one vector per text, and the head that computes scores from it.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/partition.h"
#include "tessera/nn/ffn.h"
#include "tessera/nn/norm.h"

namespace tessera::nn {

/// Values are those of GGUF files. rank: the scores of the model's head.
enum class Pooling : uint8_t { none, mean, cls, last, rank };
inline constexpr int64_t kNPoolings = 5;

/// Parses "none", "mean", "cls", "last" or "rank". Errors: invalid_argument, with these names.
Result<Pooling> pooling_from_name(std::string_view name);

/// The tokens whose embeddings are needed for a text of n_tokens > 0: all, the first or the last. Not for rank.
Range pooled_tokens(Pooling pooling, int64_t n_tokens);

/// The mean of rows that come in pieces. Sums are computed in double, in row order, so pieces do not change the bits.
class RowMean {
 public:
  explicit RowMean(size_t width) : sums_(width) {}
  /// rows [width, n]
  void add(std::span<const float> rows);
  /// mean [width]; rows were added
  void write(std::span<float> mean) const;

 private:
  std::vector<double> sums_;
  size_t n_rows_ = 0;
};

/// scores = output(norm(act(dense x))), where each part may be absent, followed by a softmax if the model requires it.
/// A projection of pooled embeddings has the same form, without an activation.
struct RankHead {
  Pooling pooling = Pooling::cls;  // computes the vector x; not rank
  Linear dense{};
  Norm norm{};
  Linear output{};
  enum class Activation : uint8_t { none, tanh, gelu } activation = Activation::tanh;
  bool has_soft_max = false;

  bool present() const { return dense.weight != nullptr || output.weight != nullptr; }
  int64_t n_scores() const;
};

/// Returns the scores [n_scores, n] of x [n_embd, n].
Value rank(GraphBuilder& b, Value x, const RankHead& head);

}  // namespace tessera::nn
