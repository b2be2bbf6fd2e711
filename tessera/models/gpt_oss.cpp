// gpt-oss: every layer has experts with biases and a clamped SwiGLU. They are chosen by their logits and weighted by a
// softmax over the chosen ones. Every head has a sink, and every other layer has a window.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class GptOss final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_TRY(require_experts());
    TESSERA_ASSIGN(n_ff_experts_, n_ff_experts(0));
    TESSERA_ASSIGN(window_, hp_.integer("attention.sliding_window", 1, kMaxContext));
    TESSERA_ASSIGN(window_rope_, window_rope({.base = info_.ropes[0].config.freq_base}));
    return {};
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l{.attn_norm = norm(il, "attn_norm"),
                       .attention = attention(il),
                       .ffn_norm = norm(il, "post_attention_norm"),
                       .experts = experts(il, n_ff_experts_, {.gating = nn::Gating::softmax_of_chosen})};
    l.experts.activation = nn::Activation::swiglu_oai;
    l.attention.sinks = weights_.need(block(il, "attn_sinks.weight"), {l.attention.n_heads}, Op::paged_attention);
    alternate_window(l.attention, il, 2);
    return l;
  }

 private:
  int64_t n_ff_experts_ = 0;
};

}  // namespace

Result<std::unique_ptr<Model>> create_gpt_oss(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<GptOss>(
      files, rope, {.architecture = "gpt-oss", .pairs = RopePairs::halves, .output = OutputWeights::own});
}

}  // namespace tessera
