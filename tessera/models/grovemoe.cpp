// grovemoe: GroveMoE (Wu et al. 2025). Besides its experts a layer has smaller ones, of which a group of adjacent
// experts shares one. llama.cpp computes them from the output of the experts, not from their input, and weighs them by
// the scores of the first experts; its results are followed here.
#include <algorithm>

#include "tessera/base/index.h"
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class GroveMoe final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_ASSIGN(group_scale_, hp_.real("expert_group_scale", 0.0f, 1e6f));
    TESSERA_ASSIGN(per_group_, hp_.integer("experts_per_group", 1, n_experts_));
    TESSERA_ASSIGN(const int64_t width, hp_.integer_or("expert_chunk_feed_forward_length", 0, 0, kMaxWidth));
    n_ff_shared_ = width > 0 ? width : k_dim_;
    if (n_experts_ % per_group_ != 0)
      return fail(ErrorCode::mismatch, "{}: {} experts in groups of {}: want a multiple", files_.name(), n_experts_,
                  per_group_);
    return {};
  }

  TransformerLayer list_layer(int64_t il) override {
    const auto product = [&](std::string_view name, int64_t n_in, int64_t n_out) -> nn::ExpertLinear {
      const Shape shape{n_in, n_out, n_experts_ / per_group_};
      return {.weight = weights_.need(block(il, name) + ".weight", shape, Op::mul_mat_experts)};
    };
    group_experts_.push_back({.gate = product("ffn_gate_chexps", info_.n_embd, n_ff_shared_),
                              .up = product("ffn_up_chexps", info_.n_embd, n_ff_shared_),
                              .down = product("ffn_down_chexps", n_ff_shared_, info_.n_embd)});
    return Transformer::list_layer(il);
  }

  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override {
    GraphBuilder& b = s.b;
    x = s.residual(x, s.attend(s.norm(x, l.attn_norm), l.attention));
    const Value n = s.norm(x, l.ffn_norm);
    const nn::Router& router = l.experts.router;
    const Value scores = nn::router_scores(b, n, router);
    const Value y = nn::experts(b, n, l.experts, nn::route_by_scores(b, scores, router));
    const int64_t n_groups = n_experts_ / per_group_;
    const Value groups = b.top_k(scores, std::min(n_experts_used_, n_groups), per_group_);
    const nn::Routed routed{.routes = b.expert_routes(groups, n_groups),
                            .weights = b.expert_weights(scores, groups, {.normalize = true})};
    const Value of_groups = nn::experts(b, y, group_experts_[to_size(s.layer)], routed);
    return s.residual(x, b.add(y, b.scale(of_groups, group_scale_)));
  }

 private:
  float group_scale_ = 0.0f;
  int64_t per_group_ = 1;    // experts that share a small one
  int64_t n_ff_shared_ = 0;  // its columns
  std::vector<nn::Experts> group_experts_;
};

}  // namespace

Result<std::unique_ptr<Model>> create_grovemoe(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<GroveMoe>(files, rope,
                                      {.architecture = "grovemoe",
                                       .qk_norms = QkNorms::heads,
                                       .rope = RopePart::whole,
                                       .pairs = RopePairs::halves,
                                       .mixture = {.layers = ExpertLayers::all}});
}

}  // namespace tessera
