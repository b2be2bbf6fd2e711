// step35: Step 3.5. A flag per layer tells which have a window. These rotate whole heads, the others half of a head,
// and only the others have factors of rope. Optional gates of heads and norms of q and k. Layers with a router have
// experts and a shared expert. SwiGLU may have a limit for each layer.
#include "tessera/base/index.h"
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class Step35 final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    // An equal rope was not added a second time.
    if (window_rope_ == 0) {
      window_rope_ = static_cast<int>(info_.ropes.size());
      info_.ropes.push_back({.config = info_.ropes[0].config});
    }
    n_most_rotated_ = info_.ropes[0].config.n_rot;
    info_.ropes[0].config.n_rot /= 2;
    if (n_most_rotated_ % 4 != 0)
      return fail(ErrorCode::mismatch, "{}: rope.dimension_count {}: want a multiple of 4", files_.name(),
                  n_most_rotated_);
    TESSERA_ASSIGN(expert_limits_, hp_.real_per_layer("swiglu_clamp_exp", n_blocks_));
    TESSERA_ASSIGN(dense_limits_, hp_.real_per_layer("swiglu_clamp_shexp", n_blocks_));
    return {};
  }

  void list_more() override {
    info_.ropes[0].factors = weights_.maybe("rope_freqs.weight", {n_most_rotated_ / 2}, Op::rope_table);
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l = Transformer::list_layer(il);
    l.experts.limit = swiglu_limit(expert_limits_[to_size(il)]);
    l.ffn.limit = l.shared_expert.limit = swiglu_limit(dense_limits_[to_size(il)]);
    return l;
  }

 private:
  int64_t n_most_rotated_ = 0;
  std::vector<float> expert_limits_, dense_limits_;
};

}  // namespace

Result<std::unique_ptr<Model>> create_step35(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Step35>(files, rope,
                                    {.architecture = "step35",
                                     .qk_norms = QkNorms::heads_if_any,
                                     .pairs = RopePairs::halves,
                                     .gate = HeadGate::sigmoid_if_any,
                                     .output = OutputWeights::own,
                                     .optional = {.qkv_bias = false, .qkv_scale = false, .rope_factors = false},
                                     .window = {.pattern = KeyUse::required,
                                                .is_required = true,
                                                .rope_base = 10000.0f,
                                                .has_own_n_rot = true,
                                                .is_stretched = false},
                                     .mixture = {.layers = ExpertLayers::with_router,
                                                 .shared = SharedWidth::own,
                                                 .gating = nn::Gating::sigmoid,
                                                 .gating_key = KeyUse::optional,
                                                 .reads_norm = true,
                                                 .reads_scale = true},
                                     .heads = PredictionHeads::before_norm});
}

}  // namespace tessera
