// mpt: layer norms, ALiBi instead of rope, clamped q, k and v, GELU. Optional learned positions, norms of q and k, and
// divisors of the activation (AWQ).
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Mpt final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(traits_.max_alibi, hp_.real("attention.max_alibi_bias", 0.0f, 1024.0f));
    return {};
  }

  void list_more() override {
    position_embd_ = weights_.maybe("position_embd.weight", {info_.n_embd, info_.n_ctx_train}, Op::get_rows);
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l = Transformer::list_layer(il);
    if (weights_.has(block(il, "attn_q_norm.weight"))) add_qk_norms(l.attention, il, QkNorms::whole);
    l.ffn.divisor = weights_.maybe(block(il, "ffn.act.scales"), {n_ff(il)}, Op::div);
    return l;
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_mpt(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Mpt>(files, rope,
                                 {.architecture = "mpt",
                                  .ffn = FfnForm::plain,
                                  .activation = nn::Activation::gelu,
                                  .norm = nn::NormKind::layer,
                                  .rope = RopePart::none,
                                  .clamp = KeyUse::optional});
}

}  // namespace tessera
