// glm4moe: GLM 4.5 and 4.6. Partial rope over halves, optional norms of the heads of q and k. Dense layers come first.
// The other layers have experts, chosen by sigmoids plus a bias, and a shared expert. The norm before the feed-forward
// block is named post_attention_norm.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Glm4Moe final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_TRY(require_experts());
    TESSERA_TRY(read_rope_sections());
    TESSERA_ASSIGN(n_dense_, hp_.integer_or("leading_dense_block_count", 0, 0, kMaxLayers));
    TESSERA_ASSIGN(n_ff_experts_, n_ff_experts(0));
    TESSERA_ASSIGN(n_shared_, hp_.integer_or("expert_shared_count", 0, 0, kMaxExperts));
    TESSERA_ASSIGN(router_, router_from_keys(nn::Gating::sigmoid));
    return {};
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l{
        .attn_norm = norm(il, "attn_norm"), .attention = attention(il), .ffn_norm = norm(il, "post_attention_norm")};
    l.attention.q_norm = maybe_norm(block(il, "attn_q_norm"), {k_dim_});
    l.attention.k_norm = maybe_norm(block(il, "attn_k_norm"), {k_dim_});
    if (il < n_dense_) {
      l.ffn = gated_ffn(il);
      return l;
    }
    l.experts = experts(il, n_ff_experts_, router_);
    if (n_shared_ > 0) l.shared_expert = shared_expert(il, n_ff_experts_ * n_shared_);
    return l;
  }

 private:
  int64_t n_dense_ = 0, n_ff_experts_ = 0, n_shared_ = 0;
  nn::Router router_;
};

}  // namespace

Result<std::unique_ptr<Model>> create_glm4moe(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Glm4Moe>(files, rope,
                                     {.architecture = "glm4moe", .pairs = RopePairs::halves, .has_heads = true});
}

}  // namespace tessera
