// refact: ALiBi instead of rope, RMS norms, SwiGLU. Of a file with experts, llama.cpp computes only the activation of
// the feed-forward block. No such model is known.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Refact final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(const int64_t n_experts, hp_.integer_or("expert_count", 0, 0, kMaxExperts));
    has_experts_ = n_experts > 0;
    return {};
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l{
        .attn_norm = norm(il, "attn_norm"), .attention = attention(il), .ffn_norm = norm(il, "ffn_norm")};
    place(l.attention, il);
    if (!has_experts_) add_ffn(l, il);
    return l;
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    if (!has_experts_) return Transformer::layer(s, x, l);
    x = s.residual(x, s.attend(s.norm(x, l.attn_norm), l.attention));
    return s.residual(x, s.b.silu(s.norm(x, l.ffn_norm)));
  }

 private:
  bool has_experts_ = false;
};

}  // namespace

Result<std::unique_ptr<Model>> create_refact(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Refact>(files, rope,
                                    {.architecture = "refact",
                                     .rope = RopePart::none,
                                     .max_alibi = 8.0f,
                                     .optional = {.out_bias = false, .ffn_bias = false}});
}

}  // namespace tessera
