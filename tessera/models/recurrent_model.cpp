#include "tessera/models/recurrent_model.h"

namespace tessera {

namespace {

constexpr int64_t kMaxState = 4096;

}  // namespace

Result<> RecurrentModel::read_ssm_keys(Groups groups) {
  TESSERA_ASSIGN(ssm_.conv_width, hp_.integer("ssm.conv_kernel", 2, kMaxConvWidth));
  TESSERA_ASSIGN(ssm_.n_inner, hp_.integer("ssm.inner_size", 1, kMaxWidth));
  TESSERA_ASSIGN(ssm_.n_state, hp_.integer("ssm.state_size", 1, kMaxState));
  TESSERA_ASSIGN(ssm_.rank, hp_.integer("ssm.time_step_rank", 1, kMaxWidth));
  if (groups == Groups::wanted) {
    TESSERA_ASSIGN(ssm_.n_groups, hp_.integer("ssm.group_count", 1, kMaxHeads));
  }
  return {};
}

Result<> RecurrentModel::read_mamba2_keys() {
  TESSERA_TRY(read_ssm_keys(Groups::wanted));
  if (ssm_.n_inner % ssm_.rank != 0 || ssm_.rank % ssm_.n_groups != 0)
    return fail(ErrorCode::mismatch,
                "{}: ssm.inner_size {}, ssm.time_step_rank {}, ssm.group_count {}: want each a multiple of the next",
                files_.name(), ssm_.n_inner, ssm_.rank, ssm_.n_groups);
  return {};
}

Result<> RecurrentModel::require_eps() const {
  if (eps_ > 0.0f) return {};
  return fail(ErrorCode::limit, "{}: key '{}': 0, want more", files_.name(),
              hp_.full_key("attention.layer_norm_rms_epsilon"));
}

int64_t RecurrentModel::add_state_layer(std::vector<int64_t> n_elements) {
  info_.recurrent_layers.push_back({std::move(n_elements)});
  info_.recurrent_blocks.push_back(static_cast<int64_t>(layers_.size()));
  return static_cast<int64_t>(info_.recurrent_layers.size()) - 1;
}

nn::Mamba RecurrentModel::mamba(int64_t il) {
  const auto& [width, n, n_state, rank, n_groups] = ssm_;
  return {.in = linear(block(il, "ssm_in"), info_.n_embd, 2 * n),
          .conv = {.weight = weights_.need(block(il, "ssm_conv1d.weight"), {width, n}, Op::causal_conv),
                   .bias = weights_.need(block(il, "ssm_conv1d.bias"), {n}, Op::causal_conv)},
          .x_proj = linear(block(il, "ssm_x"), n, rank + 2 * n_state),
          .dt_proj = linear(block(il, "ssm_dt"), rank, n),
          .a = weights_.need(block(il, "ssm_a"), {n_state, n}, Op::selective_scan),
          .d = weights_.need(block(il, "ssm_d"), {n}, Op::selective_scan),
          .out = linear(block(il, "ssm_out"), n, info_.n_embd),
          .n_inner = n,
          .n_state = n_state,
          .dt_rank = rank,
          .state_layer = add_state_layer({(width - 1) * n, n_state * n})};
}

nn::Mamba2 RecurrentModel::mamba2(int64_t il, bool needs_norm) {
  const auto& [width, n, n_state, n_heads, n_groups] = ssm_;
  const int64_t n_conv = n + 2 * n_groups * n_state;
  const std::string name = block(il, "ssm_norm");
  const Shape norm_shape{n / n_groups, n_groups};
  return {.in = linear(block(il, "ssm_in"), info_.n_embd, n + n_conv + n_heads),
          .conv = {.weight = weights_.need(block(il, "ssm_conv1d.weight"), {width, n_conv}, Op::causal_conv),
                   .bias = weights_.maybe(block(il, "ssm_conv1d.bias"), {n_conv}, Op::causal_conv)},
          .dt_bias = weights_.need(block(il, "ssm_dt.bias"), {n_heads}, Op::add),
          .a = weights_.need(block(il, "ssm_a"), {1, n_heads}, Op::selective_scan),
          .d = weights_.need(block(il, "ssm_d"), {1, n_heads}, Op::selective_scan),
          .norm = needs_norm ? norm(name, norm_shape) : maybe_norm(name, norm_shape),
          .out = linear(block(il, "ssm_out"), n, info_.n_embd),
          .n_inner = n,
          .n_state = n_state,
          .n_heads = n_heads,
          .n_groups = n_groups,
          .state_layer = add_state_layer({(width - 1) * n_conv, n_state * n})};
}

}  // namespace tessera
