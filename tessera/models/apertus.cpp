// apertus: Apertus (Swiss AI Initiative 2025). Like llama with norms of q and k, and xIELU in place of a gate. The file
// has the numbers of xIELU as they were trained: softplus makes two of them factors.
#include <cmath>

#include "tessera/base/index.h"
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

constexpr double kMaxXieluNumber = 1e4;  // far above any trained one

class Apertus final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(const auto positive, numbers("xielu.alpha_p"));
    TESSERA_ASSIGN(const auto negative, numbers("xielu.alpha_n"));
    TESSERA_ASSIGN(const auto beta, numbers("xielu.beta"));
    TESSERA_ASSIGN(const auto eps, numbers("xielu.eps"));
    const auto softplus = [](float x) { return std::max(x, 0.0f) + std::log1p(std::exp(-std::abs(double{x}))); };
    for (size_t il = 0; il < positive.size(); ++il) {
      if (eps[il] > 0.0f)
        return fail(ErrorCode::limit, "{}: key 'xielu.eps': {} in layer {}, want at most 0", files_.name(), eps[il],
                    il);
      xielu_.push_back({.square = static_cast<float>(softplus(positive[il])),
                        .exponential = static_cast<float>(double{beta[il]} + softplus(negative[il])),
                        .linear = beta[il],
                        .bound = eps[il]});
    }
    return {};
  }

  // Files may have biases of the norms, which llama.cpp does not apply.
  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l = Transformer::list_layer(il);
    l.attention.q_norm.bias = l.attention.k_norm.bias = nullptr;
    l.ffn.xielu = xielu_[to_size(il)];
    return l;
  }

 private:
  // Keys of xIELU have no prefix of the architecture. They are one number, or one per layer.
  Result<std::vector<float>> numbers(std::string_view key) const {
    TESSERA_ASSIGN(auto values, files_.metadata().get_per_layer<float>(key, to_size(n_blocks_)));
    for (size_t il = 0; il < values.size(); ++il)
      if (!(std::abs(double{values[il]}) <= kMaxXieluNumber))
        return fail(ErrorCode::limit, "{}: key '{}': {} in layer {}, want -{} to {}", files_.name(), key, values[il],
                    il, kMaxXieluNumber, kMaxXieluNumber);
    return values;
  }

  std::vector<XieluParams> xielu_;
};

}  // namespace

Result<std::unique_ptr<Model>> create_apertus(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Apertus>(files, rope,
                                     {.architecture = "apertus",
                                      .ffn = FfnForm::plain,
                                      .activation = nn::Activation::xielu,
                                      .qk_norms = QkNorms::heads,
                                      .rope = RopePart::whole,
                                      .pairs = RopePairs::halves,
                                      .output = OutputWeights::own});
}

}  // namespace tessera
