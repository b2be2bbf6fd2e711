// granite and granitemoe: like llama, with constant factors on embeddings, scores, the output of each block, and
// logits. With experts there may be a shared expert; the routing weights are a softmax divided by its sum.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Granite final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(const float divisor, hp_.real("logit_scale", 1e-6f, 1e6f));
    logit_scale_ = 1.0f / divisor;
    TESSERA_TRY(read_multipliers());
    TESSERA_ASSIGN(n_ff_shared_, hp_.integer_or("expert_shared_feed_forward_length", 0, 0, kMaxWidth));
    TESSERA_ASSIGN(has_rope_, hp_.flag_or("rope.scaling.finetuned", true));
    return {};
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l{
        .attn_norm = norm(il, "attn_norm"), .attention = attention(il), .ffn_norm = norm(il, "ffn_norm")};
    if (attention_scale_ != 0.0f) l.attention.params.scale = attention_scale_;
    if (!has_rope_) l.attention.rope = nn::kNoRope;
    add_ffn_or_experts(l, il);
    if (n_experts_ > 0 && n_ff_shared_ > 0) l.shared_expert = shared_expert(il, n_ff_shared_);
    return l;
  }

 private:
  int64_t n_ff_shared_ = 0;  // 0: no shared expert
  bool has_rope_ = true;
};

}  // namespace

Result<std::unique_ptr<Model>> create_granite(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Granite>(files, rope, {.architecture = "granite", .rope = RopePart::whole});
}

Result<std::unique_ptr<Model>> create_granitemoe(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Granite>(files, rope, {.architecture = "granitemoe", .rope = RopePart::whole});
}

}  // namespace tessera
