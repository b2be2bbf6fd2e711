// Classes of models with recurrent layers, and with factors in their configs (tests/convert/round_trip.h).
#include "tests/convert/round_trip.h"

namespace tessera::convert {
namespace {

using namespace testing;

HubChange divided(float divisor) {
  return [=](std::vector<HubPiece> p) {
    for (float& value : p[0].values) value /= divisor;
    return std::move(p[0]);
  };
}

float log_of_minus(float x) { return std::log(-x); }

/// The names of Mamba 2 mixers under a prefix such as "mamba.".
std::vector<HubRow> mixer_rows(const std::string& prefix) {
  const HubChange flat = reshaped_to({-1});
  return {{prefix + "A_log", "ssm_a",
           [=](std::vector<HubPiece> p) { return flat({changed_values(log_of_minus)(std::move(p))}); }},
          {prefix + "D", "ssm_d", flat},
          {prefix + "dt_bias", "ssm_dt.bias"},
          {prefix + "conv1d.weight", "ssm_conv1d.weight",
           [](std::vector<HubPiece> p) {
             p[0].shape = {p[0].shape[0], 1, p[0].shape[1]};
             return std::move(p[0]);
           }},
          {prefix + "conv1d.bias", "ssm_conv1d.bias"},
          {prefix + "norm.weight", "ssm_norm.weight", flat}};
}

FloatModel falcon_model() {
  std::vector<std::string> dropped = kUnusedTensors;
  for (const char* name : {".attn_q.bias", ".attn_k.bias", ".attn_v.bias"}) dropped.emplace_back(name);
  FloatModel m = spec_float_model("falcon-h1-dense", dropped);
  for (const int il : {0, 1})
    for (float& value : m.at(of_layer(il, "ssm_a")).values) value = -std::abs(value) - 0.01f;
  return m;
}

// Powers of two, so that dividing and multiplying give the same values.
TEST(RoundTripsHybrid, FalconH1HasFactors) {
  const std::string layer = "model.layers.{i}.";
  std::vector<HubRow> rows = mixer_rows(layer + "mamba.");
  for (HubRow row : std::vector<HubRow>{{"model.embed_tokens.weight", "token_embd.weight", divided(4)},
                                        {"lm_head.weight", "output.weight", divided(0.125)},
                                        {"model.final_layernorm.weight", "output_norm.weight"},
                                        {layer + "pre_ff_layernorm.weight", "ffn_norm"},
                                        {layer + "self_attn.q_proj.weight", "attn_q.weight", divided(2)},
                                        {layer + "self_attn.k_proj.weight", "attn_k.weight", divided(0.5)},
                                        {layer + "self_attn.v_proj.weight", "attn_v.weight", divided(2)},
                                        {layer + "self_attn.o_proj.weight", "attn_output.weight", divided(0.0625)},
                                        {layer + "feed_forward.gate_proj.weight", "ffn_gate.weight", divided(0.5)},
                                        {layer + "feed_forward.up_proj.weight", "ffn_up.weight"},
                                        {layer + "feed_forward.down_proj.weight", "ffn_down.weight", divided(8)},
                                        {layer + "mamba.out_proj.weight", "ssm_out.weight", divided(0.25)},
                                        {layer + "mamba.in_proj.weight", "ssm_in.weight", [](std::vector<HubPiece> p) {
                                           const int64_t ends[] = {256, 512, 768, 1024, 1028};
                                           const float factors[] = {2, 4, 8, 16, 32};
                                           for (size_t part = 0, i = 0; part < 5; ++part)
                                             for (; i < static_cast<size_t>(ends[part] * 128); ++i)
                                               p[0].values[i] /= 2 * factors[part];
                                           return std::move(p[0]);
                                         }}})
    rows.push_back(std::move(row));
  RoundTrip trip{.class_name = "FalconH1ForCausalLM",
                 .model = falcon_model(),
                 .config = {{"head_dim", 32},
                            {"mamba_d_ssm", 256},
                            {"mamba_d_conv", 4},
                            {"mamba_d_state", 128},
                            {"mamba_n_heads", 4},
                            {"mamba_n_groups", 2},
                            {"embedding_multiplier", 4},
                            {"lm_head_multiplier", 0.125},
                            {"attention_in_multiplier", 2},
                            {"attention_out_multiplier", 0.0625},
                            {"key_multiplier", 0.25},
                            {"mlp_multipliers", {0.5, 8}},
                            {"ssm_in_multiplier", 2},
                            {"ssm_out_multiplier", 0.25},
                            {"ssm_multipliers", {2, 4, 8, 16, 32}}},
                 .rows = rows,
                 .has_other_values = true};
  expect_round_trip(trip);
  trip.model.drop("output.weight");
  const auto refused = convert_to_floats(hub_folder_of(trip).write("refused"));
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message().find("no lm_head.weight, and its factor"), std::string::npos);
}

/// Three layers: a mixer, attention, and an FFN without a gate.
FloatModel nemotron_model() {
  FloatModel m = falcon_model();
  m.become("nemotron_h");
  const FloatModel whole = m;
  std::erase_if(m.tensors, [](const FloatModel::Entry& entry) {
    const bool is_mixer = entry.name.find(".ssm_") != std::string::npos;
    const bool is_norm = entry.name.ends_with("attn_norm.weight");
    if (entry.name.starts_with("blk.0.")) return !is_mixer && !is_norm;
    if (entry.name.starts_with("blk.1.")) return is_mixer || entry.name.find("ffn") != std::string::npos;
    return false;
  });
  FloatModel copy = whole;
  for (const auto& [from, to] :
       std::initializer_list<std::pair<const char*, const char*>>{{"blk.0.attn_norm.weight", "blk.2.attn_norm.weight"},
                                                                  {"blk.0.ffn_up.weight", "blk.2.ffn_up.weight"},
                                                                  {"blk.0.ffn_down.weight", "blk.2.ffn_down.weight"}}) {
    FloatModel::Entry entry = copy.at(from);
    entry.name = to;
    m.tensors.push_back(std::move(entry));
  }
  m.keys.set("nemotron_h.block_count", 3u);
  m.keys.set_array("nemotron_h.attention.head_count_kv", std::vector<int32_t>{0, 2, 0});
  m.keys.set_array("nemotron_h.feed_forward_length", std::vector<int32_t>{0, 0, 192});
  return m;
}

std::vector<HubRow> nemotron_rows() {
  std::vector<HubRow> rows = mixer_rows("backbone.layers.{i}.mixer.");
  for (const auto& [hub, gguf] :
       std::initializer_list<std::pair<std::string, std::string>>{{"mixer.in_proj", "ssm_in"},
                                                                  {"mixer.out_proj", "ssm_out"},
                                                                  {"mixer.q_proj", "attn_q"},
                                                                  {"mixer.k_proj", "attn_k"},
                                                                  {"mixer.v_proj", "attn_v"},
                                                                  {"mixer.o_proj", "attn_output"},
                                                                  {"mixer.up_proj", "ffn_up"},
                                                                  {"mixer.down_proj", "ffn_down"},
                                                                  {"norm", "attn_norm"},
                                                                  {"mixer.gate", "ffn_gate_inp"},
                                                                  {"mixer.experts.{e}.up_proj", "ffn_up_exps"},
                                                                  {"mixer.experts.{e}.down_proj", "ffn_down_exps"},
                                                                  {"mixer.shared_experts.up_proj", "ffn_up_shexp"},
                                                                  {"mixer.shared_experts.down_proj", "ffn_down_shexp"}})
    rows.push_back({"backbone.layers.{i}." + hub + ".weight", gguf + ".weight"});
  rows.push_back({"backbone.layers.{i}.mixer.gate.e_score_correction_bias", "exp_probs_b.bias"});
  rows.push_back({"backbone.embeddings.weight", "token_embd.weight"});
  rows.push_back({"backbone.norm_f.weight", "output_norm.weight"});
  return rows;
}

const nlohmann::json kNemotronConfig = {{"num_hidden_layers", 3},  {"hybrid_override_pattern", "M*-"},
                                        {"rms_norm_eps", nullptr}, {"layer_norm_epsilon", 1e-5},
                                        {"head_dim", 32},          {"conv_kernel", 4},
                                        {"ssm_state_size", 128},   {"n_groups", 2},
                                        {"mamba_num_heads", 4},    {"mamba_head_dim", 64}};

TEST(RoundTripsHybrid, NemotronH) {
  RoundTrip trip{.class_name = "NemotronHForCausalLM",
                 .model = nemotron_model(),
                 .config = kNemotronConfig,
                 .rows = nemotron_rows(),
                 .has_other_values = true,
                 .extra = {"mtp.layers.0.eh_proj.weight"}};
  expect_round_trip(trip);
  trip.config["hybrid_override_pattern"] = "M*";
  EXPECT_FALSE(convert_to_floats(hub_folder_of(trip).write("refused")).has_value());
}

TEST(RoundTripsHybrid, NemotronHWithExperts) {
  FloatModel m = nemotron_model();
  m.become("nemotron_h_moe");
  for (const std::string part : {"up", "down"}) {
    const FloatModel::Entry dense = m.at("blk.2.ffn_" + part + ".weight");
    FloatModel::Entry experts{"blk.2.ffn_" + part + "_exps.weight", {dense.shape[0], dense.shape[1], 3}, {}};
    for (const float factor : {1.0f, 0.5f, -0.25f})
      for (const float value : dense.values) experts.values.push_back(factor * value);
    m.rename("blk.2.ffn_" + part + ".weight", "blk.2.ffn_" + part + "_shexp.weight");
    m.tensors.push_back(std::move(experts));
  }
  m.tensors.push_back({"blk.2.ffn_gate_inp.weight", {128, 3}, spec_weights("router", 384, 0, 1, 5)});
  add_vector(m, "blk.2.exp_probs_b.bias", 3);
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, uint32_t>>{{"block_count", 3},
                                                               {"expert_count", 3},
                                                               {"expert_used_count", 2},
                                                               {"expert_feed_forward_length", 192},
                                                               {"expert_shared_feed_forward_length", 192},
                                                               {"expert_shared_count", 1}})
    m.keys.set(std::string("nemotron_h_moe.") + key, value);
  m.keys.set_array("nemotron_h_moe.attention.head_count_kv", std::vector<int32_t>{0, 2, 0});
  m.keys.set_array("nemotron_h_moe.feed_forward_length", std::vector<int32_t>{0, 0, 192});
  m.keys.set("nemotron_h_moe.expert_weights_norm", true);
  m.keys.set("nemotron_h_moe.expert_weights_scale", 2.5f);
  RoundTrip trip{.class_name = "NemotronHForCausalLM",
                 .model = m,
                 .config = kNemotronConfig,
                 .rows = nemotron_rows(),
                 .has_other_values = true};
  trip.config.merge_patch({{"hybrid_override_pattern", "M*E"},
                           {"num_experts_per_tok", 2},
                           {"n_routed_experts", 3},
                           {"n_shared_experts", 1},
                           {"moe_intermediate_size", 192},
                           {"moe_shared_expert_intermediate_size", 192},
                           {"norm_topk_prob", true},
                           {"routed_scaling_factor", 2.5},
                           {"n_group", 1},
                           {"topk_group", 1}});
  expect_round_trip(trip);
}

/// Keys without rope and values of one head: of k_b, transposed, and v_b.
HubPiece kv_b_of_one_head(std::vector<HubPiece> p) {
  p[0] = exchanged(std::move(p[0]));
  return one_after_another(std::move(p));
}

TEST(RoundTripsHybrid, KimiLinear) {
  FloatModel m = spec_float_model("kimi-linear-moe", {".attn_q.bias", ".attn_k.bias", ".attn_v.bias"});
  for (float& value : m.at("blk.1.ssm_a").values) value = -std::abs(value) - 0.01f;
  const std::string layer = "model.layers.{i}.", sparse = layer + "block_sparse_moe.";
  const HubChange conv = reshaped_to({128, -1});
  std::vector<HubRow> rows = {
      {layer + "self_attn.q_conv1d.weight", "ssm_conv1d_q.weight", conv},
      {layer + "self_attn.k_conv1d.weight", "ssm_conv1d_k.weight", conv},
      {layer + "self_attn.v_conv1d.weight", "ssm_conv1d_v.weight", conv},
      {layer + "self_attn.A_log", "ssm_a",
       [](std::vector<HubPiece> p) {
         return reshaped_to({1, 1, -1, 1})({changed_values(log_of_minus)(std::move(p))});
       }},
      {layer + "self_attn.dt_bias", "ssm_dt.bias"},
      {layer + "self_attn.f_a_proj.weight", "ssm_f_a.weight"},
      {layer + "self_attn.f_b_proj.weight", "ssm_f_b.weight"},
      {layer + "self_attn.b_proj.weight", "ssm_beta.weight", reshaped_to({1, -1})},
      {layer + "self_attn.g_a_proj.weight", "ssm_g_a.weight"},
      {layer + "self_attn.g_b_proj.weight", "ssm_g_b.weight"},
      {layer + "self_attn.o_norm.weight", "ssm_norm.weight"},
      {layer + "self_attn.kv_a_proj_with_mqa.weight", "attn_kv_a_mqa.weight"},
      {layer + "self_attn.kv_a_layernorm.weight", "attn_kv_a_norm.weight"},
      {layer + "self_attn.kv_b_proj.weight", "attn_k_b.weight attn_v_b.weight", kv_b_of_one_head},
      {sparse + "gate.weight", "ffn_gate_inp.weight"},
      {sparse + "gate.e_score_correction_bias", "exp_probs_b.bias"},
      {sparse + "experts.{e}.w1.weight", "ffn_gate_exps.weight"},
      {sparse + "experts.{e}.w2.weight", "ffn_down_exps.weight"},
      {sparse + "experts.{e}.w3.weight", "ffn_up_exps.weight"},
      {sparse + "shared_experts.gate_proj.weight", "ffn_gate_shexp.weight"},
      {sparse + "shared_experts.up_proj.weight", "ffn_up_shexp.weight"},
      {sparse + "shared_experts.down_proj.weight", "ffn_down_shexp.weight"}};
  expect_round_trip({.class_name = "KimiLinearForCausalLM",
                     .model = m,
                     .config = {{"num_attention_heads", 1},
                                {"num_key_value_heads", 1},
                                {"model_max_length", 128},
                                {"kv_lora_rank", 512},
                                {"qk_nope_head_dim", 128},
                                {"qk_rope_head_dim", 64},
                                {"v_head_dim", 128},
                                {"num_experts", 4},
                                {"num_experts_per_token", 2},
                                {"num_shared_experts", 1},
                                {"moe_intermediate_size", 192},
                                {"moe_router_activation_func", "sigmoid"},
                                {"routed_scaling_factor", 1.0},
                                {"first_k_dense_replace", 1},
                                {"linear_attn_config",
                                 {{"full_attn_layers", {1}},
                                  {"kda_layers", {2}},
                                  {"head_dim", 128},
                                  {"num_heads", 1},
                                  {"short_conv_kernel_size", 4}}}},
                     .rows = rows,
                     .has_other_values = true});
}

}  // namespace
}  // namespace tessera::convert
