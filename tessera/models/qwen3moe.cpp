// qwen3moe: like qwen3 with experts in every layer. The weights of the chosen experts are divided by their sum.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Qwen3Moe final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_TRY(require_experts());
    TESSERA_ASSIGN(n_ff_experts_, n_ff_experts(0));
    return {};
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l{.attn_norm = norm(il, "attn_norm"),
                       .attention = attention(il),
                       .ffn_norm = norm(il, "ffn_norm"),
                       .experts = experts(il, n_ff_experts_, {.gating = nn::Gating::softmax, .normalize = true})};
    add_head_norms(l.attention, il);
    return l;
  }

 private:
  int64_t n_ff_experts_ = 0;
};

}  // namespace

Result<std::unique_ptr<Model>> create_qwen3moe(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Qwen3Moe>(
      files, rope, {.architecture = "qwen3moe", .pairs = RopePairs::halves, .ffn_scales = FfnScales::all});
}

}  // namespace tessera
