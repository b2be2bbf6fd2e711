// granitehybrid: Granite 4. Layers without KV heads are Mamba 2 mixers. The others are attention, with rope only if the
// file enables it. Each is followed by a SwiGLU block, or by experts with a shared expert. Embeddings, scores, layer
// outputs and logits have factors as in granite.
#include "tessera/base/index.h"
#include "tessera/models/recurrent_model.h"

namespace tessera {

namespace {

class GraniteHybrid final : public RecurrentModel {
 public:
  using RecurrentModel::RecurrentModel;

 protected:
  Result<> read_keys() override {
    TESSERA_TRY(read_mamba2_keys());
    TESSERA_ASSIGN(has_rope_, hp_.flag_or("rope.scaling.finetuned", true));
    TESSERA_ASSIGN(const float divisor, hp_.real_or("logit_scale", 0.0f, 0.0f, 1e6f));
    if (divisor != 0.0f) logit_scale_ = 1.0f / divisor;  // 0 means "not scaled"
    TESSERA_TRY(read_multipliers());
    return {};
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l{.attn_norm = norm(il, "attn_norm")};
    mixers_.push_back(is_recurrent(il) ? mamba2(il) : nn::Mamba2{});
    if (!is_recurrent(il)) {
      l.attention = attention(il);
      if (!has_rope_) l.attention.rope = nn::kNoRope;
    }
    l.ffn_norm = norm(il, "ffn_norm");
    add_ffn(l, il);
    return l;
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    const nn::Mamba2& m = mixers_[to_size(s.layer)];
    const Value h = s.norm(x, l.attn_norm);
    const Value y =
        m.state_layer < 0 ? s.attend(h, l.attention) : nn::linear(s.b, s.wanted(nn::mamba2(s.b, h, m, s.in)), m.out);
    x = s.residual(x, y);
    return s.residual(x, s.ffn(s.norm(x, l.ffn_norm), l));
  }

 private:
  bool has_rope_ = true;
  std::vector<nn::Mamba2> mixers_;
};

}  // namespace

Result<std::unique_ptr<Model>> create_granitehybrid(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<GraniteHybrid>(
      files, rope,
      {.architecture = "granitehybrid",
       .mixture = {.layers = ExpertLayers::if_counted, .width = ExpertWidth::dense, .shared = SharedWidth::own},
       .min_heads_kv = 0});
}

}  // namespace tessera
