// The feed-forward blocks of transformers: dense, or a mixture of experts with keys as the traits say.
#include <fmt/format.h>

#include "tessera/base/index.h"
#include "tessera/models/transformer.h"

namespace tessera {

// --- keys

Result<int64_t> Transformer::n_ff_experts(int64_t absent) {
  TESSERA_ASSIGN(const int64_t n, hp_.integer_or("expert_feed_forward_length", 0, 0, kMaxWidth));
  if (n > 0) return n;
  if (absent > 0) return absent;
  return hp_.integer("expert_feed_forward_length", 1, kMaxWidth);
}

Result<> Transformer::read_mixture() {
  const MixtureTraits& t = traits_.mixture;
  if (t.layers == ExpertLayers::none) n_experts_ = 0;
  const bool may_have_none = t.layers == ExpertLayers::if_counted || t.layers == ExpertLayers::with_router;
  if (n_experts_ == 0) {
    if (t.layers != ExpertLayers::none && !may_have_none) TESSERA_TRY(hp_.integer("expert_count", 1, kMaxExperts));
    return {};
  }
  if (t.layers == ExpertLayers::after_dense) {
    TESSERA_ASSIGN(mixture_.n_dense, hp_.integer_or("leading_dense_block_count", 0, 0, kMaxLayers));
  }
  if (t.step_key != KeyUse::ignored) {
    TESSERA_ASSIGN(mixture_.step, hp_.integer("interleave_moe_layer_step", 0, kMaxLayers));
  }
  if (t.width != ExpertWidth::dense) {
    const int64_t n_dense = n_ff_.empty() ? 0 : n_ff_[0];
    TESSERA_ASSIGN(mixture_.n_ff, n_ff_experts(t.width == ExpertWidth::own_or_share   ? n_dense / n_experts_used_
                                               : t.width == ExpertWidth::own_or_dense ? n_dense
                                                                                      : 0));
  }
  TESSERA_ASSIGN(mixture_.n_ff_shared, n_ff_shared_expert());
  TESSERA_ASSIGN(mixture_.router, read_router());
  return {};
}

Result<int64_t> Transformer::n_ff_shared_expert() const {
  const SharedWidth shared = traits_.mixture.shared;
  if (shared == SharedWidth::none) return 0;
  const bool is_counted = shared == SharedWidth::counted || shared == SharedWidth::counted_own;
  int64_t count = 1;
  if (is_counted || shared == SharedWidth::own_or_counted) {
    TESSERA_ASSIGN(count, hp_.integer_or("expert_shared_count", traits_.mixture.shared_count, 0, kMaxExperts));
  }
  const int64_t n_dense = n_ff_.empty() ? 0 : n_ff_[0], n_expert = mixture_.n_ff > 0 ? mixture_.n_ff : n_dense;
  if (shared == SharedWidth::counted) return count * n_expert;
  TESSERA_ASSIGN(const int64_t own, hp_.integer_or("expert_shared_feed_forward_length", 0, 0, kMaxWidth));
  if (shared == SharedWidth::own) return own;
  const int64_t other = shared == SharedWidth::own_or_dense ? n_dense : n_expert;
  if (own == 0 && other == 0) return hp_.integer("feed_forward_length", 1, kMaxWidth);
  if (is_counted) return count * (own > 0 ? own : other);
  return own > 0 ? own : count * other;
}

Result<nn::Router> Transformer::read_router() const {
  const MixtureTraits& t = traits_.mixture;
  nn::Router router{.gating = t.gating, .normalize = t.normalize};
  constexpr auto kLastGating = static_cast<int64_t>(nn::Gating::sqrt_softplus);
  if (t.gating_key != KeyUse::ignored) {
    const int64_t min = t.gating_key == KeyUse::required ? 1 : 0;
    TESSERA_ASSIGN(const int64_t gating, min == 1 ? hp_.integer("expert_gating_func", min, kLastGating)
                                                  : hp_.integer_or("expert_gating_func", 0, min, kLastGating));
    if (gating != 0) router.gating = static_cast<nn::Gating>(gating);
  }
  if (t.reads_norm) {
    TESSERA_ASSIGN(router.normalize, hp_.flag_or("expert_weights_norm", false));
  }
  if (t.reads_scale) {
    TESSERA_ASSIGN(router.scale, hp_.real_or("expert_weights_scale", 1.0f, 0.0f, 1e6f));
    if (router.scale == 0.0f) router.scale = 1.0f;  // 0 means "not scaled"
  }
  TESSERA_ASSIGN(const int64_t n_groups, hp_.integer_or("expert_group_count", 0, 0, kMaxExperts));
  if (n_groups <= 1) return router;
  router.n_groups = n_groups;
  TESSERA_ASSIGN(router.n_groups_used, hp_.integer("expert_group_used_count", 1, n_groups));
  if (n_experts_ % n_groups != 0 || n_experts_ / n_groups * router.n_groups_used < n_experts_used_)
    return fail(ErrorCode::mismatch, "{}: {} experts in {} groups, of which {} are kept: too few for {} chosen",
                files_.name(), n_experts_, n_groups, router.n_groups_used, n_experts_used_);
  return router;
}

int64_t Transformer::n_ff(int64_t il) {
  if (!n_ff_.empty() && n_ff_[to_size(il)] > 0) return n_ff_[to_size(il)];
  const auto missing = hp_.per_layer("feed_forward_length", n_blocks_, 1, kMaxWidth);
  if (!missing) weights_.fail_with(missing.error());
  return 1;
}

// --- weights

nn::Linear Transformer::ffn_linear(int64_t il, std::string_view name, int64_t n_in, int64_t n_out) {
  return linear(
      block(il, name), n_in, n_out,
      {.scale_of = nn::ScaleOf::sum, .bias = traits_.optional.ffn_bias, .scale = traits_.ffn_scales == FfnScales::all});
}

nn::Ffn Transformer::dense_ffn(int64_t il, int64_t n_ff) {
  const int64_t n_embd = info_.n_embd;
  nn::Ffn ffn{.up = ffn_linear(il, "ffn_up", n_embd, traits_.ffn == FfnForm::fused ? 2 * n_ff : n_ff),
              .down = ffn_linear(il, "ffn_down", n_ff, n_embd),
              .activation = traits_.activation};
  if (traits_.ffn == FfnForm::gated) ffn.gate = ffn_linear(il, "ffn_gate", n_embd, n_ff);
  return ffn;
}

nn::Ffn Transformer::shared_expert(int64_t il, int64_t n_ff) {
  nn::Ffn ffn{.up = ffn_linear(il, "ffn_up_shexp", info_.n_embd, n_ff),
              .down = ffn_linear(il, "ffn_down_shexp", n_ff, info_.n_embd),
              .activation = traits_.activation};
  if (traits_.ffn != FfnForm::plain) ffn.gate = ffn_linear(il, "ffn_gate_shexp", info_.n_embd, n_ff);
  return ffn;
}

nn::ExpertLinear Transformer::expert_linear(const std::string& name, int64_t n_in, int64_t n_out) {
  nn::ExpertLinear layer{.weight = weights_.need(name + ".weight", {n_in, n_out, n_experts_}, Op::mul_mat_experts),
                         .bias = weights_.maybe(name + ".bias", {n_out, n_experts_}, Op::expert_rows)};
  const bool has_scale_of_format = layer.weight != nullptr && layer.weight->dtype == DType::nvfp4;
  if (traits_.ffn_scales == FfnScales::all || has_scale_of_format)
    layer.scale = weights_.maybe(name + ".scale", {n_experts_}, Op::expert_rows);
  return layer;
}

nn::Experts Transformer::experts(int64_t il, int64_t n_ff, const nn::Router& router, int64_t n_in) {
  nn::Experts e{.router = router, .activation = traits_.activation};
  e.router.weight = weights_.need(block(il, "ffn_gate_inp.weight"), {info_.n_embd, n_experts_}, Op::mul_mat);
  e.router.bias = weights_.maybe(block(il, "ffn_gate_inp.bias"), {n_experts_}, Op::add);
  // hy_v3 stores this vector without the suffix.
  const std::string selection_bias = block(il, "exp_probs_b");
  e.router.selection_bias =
      weights_.maybe(weights_.has(selection_bias) ? selection_bias : selection_bias + ".bias", {n_experts_}, Op::add);
  e.router.n_experts = n_experts_;
  e.router.n_used = n_experts_used_;
  if (weights_.has(block(il, "ffn_gate_up_exps.weight"))) {
    e.gate_up = expert_linear(block(il, "ffn_gate_up_exps"), n_in, 2 * n_ff);
  } else {
    if (traits_.ffn != FfnForm::plain) e.gate = expert_linear(block(il, "ffn_gate_exps"), n_in, n_ff);
    e.up = expert_linear(block(il, "ffn_up_exps"), n_in, n_ff);
  }
  e.down = expert_linear(block(il, "ffn_down_exps"), n_ff, n_in);
  return e;
}

bool Transformer::has_experts(int64_t il) const {
  if (n_experts_ == 0 || il < mixture_.n_dense) return false;
  if (mixture_.step == 0 || (il + 1) % mixture_.step != 0) return false;
  return traits_.mixture.layers != ExpertLayers::with_router || weights_.has(block(il, "ffn_gate_inp.weight"));
}

void Transformer::add_ffn(TransformerLayer& l, int64_t il) {
  if (!has_experts(il)) {
    l.ffn = dense_ffn(il);
    return;
  }
  l.experts = experts(il, mixture_.n_ff > 0 ? mixture_.n_ff : n_ff(il), mixture_.router);
  if (mixture_.n_ff_shared > 0) l.shared_expert = shared_expert(il, mixture_.n_ff_shared);
  if (traits_.mixture.has_shared_gate)
    l.shared_gate = {.weight = weights_.need(block(il, "ffn_gate_inp_shexp.weight"), {info_.n_embd}, Op::mul_mat)};
}

}  // namespace tessera
