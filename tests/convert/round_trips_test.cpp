// Classes of decoders: models of GGUF, written as hubs store them, come back (tests/convert/round_trip.h).
#include "tests/convert/round_trip.h"

namespace tessera::convert {
namespace {

using namespace testing;

TEST(RoundTrips, RowsOfHeadsInHalves) {
  expect_round_trip({.class_name = "ArceeForCausalLM",
                     .model = spec_float_model("arcee-dense", kUnusedTensors),
                     .rows = llama_rope_rows()});
  expect_round_trip(
      {.class_name = "XverseForCausalLM", .model = twin_of("internlm2-dense", "xverse"), .rows = llama_rope_rows()});
}

TEST(RoundTrips, Ernie) {
  const std::vector<HubRow> fused = {{"model.layers.{i}.self_attn.qkv_proj.{}", "attn_q.{} attn_k.{} attn_v.{}"},
                                     {"model.layers.{i}.mlp.up_gate_proj.weight", "ffn_gate.weight ffn_up.weight"}};
  for (const std::vector<HubRow>& rows : {std::vector<HubRow>{}, fused})
    expect_round_trip(
        {.class_name = "Ernie4_5ForCausalLM", .model = twin_of("ernie4_5-moe", "ernie4_5"), .rows = rows});
}

TEST(RoundTrips, ErnieMoe) {
  FloatModel m = twin_of("ernie4_5-moe", "ernie4_5-moe");
  const FloatModel dense = m;
  become_experts(m, 1, 4);
  add_shared_expert(m, 1, dense);
  add_vector(m, "blk.1.exp_probs_b.bias", 4);
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, uint32_t>>{{"expert_feed_forward_length", 192},
                                                               {"expert_shared_feed_forward_length", 192},
                                                               {"expert_shared_count", 1},
                                                               {"leading_dense_block_count", 1},
                                                               {"interleave_moe_layer_step", 1}})
    m.keys.set(std::string("ernie4_5-moe.") + key, value);
  expect_round_trip(
      {.class_name = "Ernie4_5_MoeForCausalLM",
       .model = m,
       .config = {{"moe_num_experts", 4},
                  {"moe_k", 2},
                  {"moe_layer_interval", 1},
                  {"moe_layer_start_index", 1},
                  {"moe_intermediate_size", 192},
                  {"moe_num_shared_experts", 1}},
       .rows = {{"model.layers.{i}.mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias", reshaped_to({1, -1})}},
       .extra = {"model.mtp_block.0.self_attn.q_proj.weight", "model.mtp_linear_proj.0.weight"}});
}

const std::vector<HubRow> kHunyuanRows = {
    {"model.layers.{i}.self_attn.query_layernorm.weight", "attn_q_norm.weight"},
    {"model.layers.{i}.self_attn.key_layernorm.weight", "attn_k_norm.weight"},
    {"model.layers.{i}.mlp.gate.wg.weight", "ffn_gate_inp.weight"},
    {"model.layers.{i}.mlp.shared_mlp.gate_proj.weight", "ffn_gate_shexp.weight"},
    {"model.layers.{i}.mlp.shared_mlp.up_proj.weight", "ffn_up_shexp.weight"},
    {"model.layers.{i}.mlp.shared_mlp.down_proj.weight", "ffn_down_shexp.weight"}};

TEST(RoundTrips, Hunyuan) {
  FloatModel m = twin_of("hunyuan-dense-dense", "hunyuan-dense");
  expect_round_trip({.class_name = "HunYuanDenseV1ForCausalLM",
                     .model = m,
                     .config = {{"head_dim", 32}, {"num_experts", 1}},
                     .rows = kHunyuanRows});
  m.keys.set("hunyuan-dense.rope.scaling.alpha", 20.0f);
  expect_round_trip({.class_name = "HunYuanDenseV1ForCausalLM",
                     .model = m,
                     .config = {{"head_dim", 32}, {"rope_scaling", {{"type", "dynamic"}, {"alpha", 20}}}},
                     .rows = kHunyuanRows});
}

TEST(RoundTrips, HunyuanMoe) {
  FloatModel m = twin_of("hunyuan-dense-dense", "hunyuan-moe");
  const FloatModel dense = m;
  become_experts(m, 0, 3);
  for (const int il : {0, 1}) add_shared_expert(m, il, dense);
  m.keys.set("hunyuan-moe.expert_count", 3u);
  m.keys.set("hunyuan-moe.expert_used_count", 2u);
  nlohmann::json config = {
      {"num_experts", 3}, {"moe_topk", {2, 2}}, {"moe_intermediate_size", {192, 192}}, {"num_shared_expert", {1, 1}}};
  RoundTrip trip{.class_name = "HunYuanMoEV1ForCausalLM", .model = m, .config = config, .rows = kHunyuanRows};
  expect_round_trip(trip);
  trip.config["moe_topk"] = 2;
  expect_round_trip(trip);
  trip.config["moe_topk"] = {2, 1};
  const auto refused = convert_to_floats(hub_folder_of(trip).write("refused"));
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message().find("moe_topk differs between layers"), std::string::npos);
}

TEST(RoundTrips, Exaone) {
  expect_round_trip(
      {.class_name = "ExaoneForCausalLM",
       .model = twin_of("qwen2-dense", "exaone"),
       .config = {{"rms_norm_eps", nullptr}, {"layer_norm_epsilon", 1e-5}, {"activation_function", "silu"}},
       .rows = {{"transformer.wte.weight", "token_embd.weight"},
                {"transformer.ln_f.weight", "output_norm.weight"},
                {"transformer.h.{i}.ln_1.weight", "attn_norm.weight"},
                {"transformer.h.{i}.ln_2.weight", "ffn_norm.weight"},
                {"transformer.h.{i}.attn.attention.q_proj.{}", "attn_q.{}"},
                {"transformer.h.{i}.attn.attention.k_proj.{}", "attn_k.{}"},
                {"transformer.h.{i}.attn.attention.v_proj.{}", "attn_v.{}"},
                {"transformer.h.{i}.attn.attention.out_proj.weight", "attn_output.weight"},
                {"transformer.h.{i}.mlp.c_fc_0.weight", "ffn_gate.weight"},
                {"transformer.h.{i}.mlp.c_fc_1.weight", "ffn_up.weight"},
                {"transformer.h.{i}.mlp.c_proj.weight", "ffn_down.weight"}}});
}

TEST(RoundTrips, ExaoneMoe) {
  FloatModel m = twin_of("qwen3-dense", "exaone-moe");
  const FloatModel dense = m;
  become_experts(m, 1, 3);
  add_shared_expert(m, 1, dense);
  add_vector(m, "blk.1.exp_probs_b.bias", 3);
  m.keys.set("exaone-moe.attention.sliding_window", 7u);
  m.keys.set("exaone-moe.expert_count", 3u);
  m.keys.set("exaone-moe.expert_used_count", 2u);
  m.keys.set("exaone-moe.expert_feed_forward_length", 192u);
  m.keys.set("exaone-moe.expert_shared_feed_forward_length", 192u);
  m.keys.set("exaone-moe.expert_gating_func", 2u);
  m.keys.set("exaone-moe.expert_weights_norm", true);
  m.keys.set("exaone-moe.expert_weights_scale", 2.5f);
  m.keys.set("exaone-moe.leading_dense_block_count", 1u);
  expect_round_trip({.class_name = "ExaoneMoEForCausalLM",
                     .model = m,
                     .config = {{"head_dim", 32},
                                {"sliding_window", 7},
                                {"sliding_window_pattern", "LLLG"},
                                {"num_experts", 3},
                                {"num_experts_per_tok", 2},
                                {"num_shared_experts", 1},
                                {"moe_intermediate_size", 192},
                                {"first_k_dense_replace", 1},
                                {"scoring_func", "sigmoid"},
                                {"norm_topk_prob", true},
                                {"routed_scaling_factor", 2.5}},
                     .rows = {{"model.layers.{i}.mlp.e_score_correction_bias", "exp_probs_b.bias"}},
                     .extra = {"mtp.fc.weight", "mtp.layers.0.self_attn.q_proj.weight"}});
}

TEST(RoundTrips, SeedOss) {
  FloatModel m = twin_of("qwen2-dense", "seed_oss");
  for (const int il : {0, 1}) m.rename(of_layer(il, "ffn_norm.weight"), of_layer(il, "post_attention_norm.weight"));
  expect_round_trip({.class_name = "SeedOssForCausalLM",
                     .model = m,
                     .config = {{"head_dim", 32}},
                     .rows = {{"model.layers.{i}.post_attention_layernorm.weight", "post_attention_norm.weight"}}});
}

TEST(RoundTrips, Dots1) {
  expect_round_trip({.class_name = "Dots1ForCausalLM",
                     .model = spec_float_model("dots1-moe"),
                     .config = {{"num_key_value_heads", 4},
                                {"n_routed_experts", 4},
                                {"num_experts_per_tok", 2},
                                {"n_shared_experts", 1},
                                {"moe_intermediate_size", 192},
                                {"first_k_dense_replace", 1},
                                {"scoring_func", "noaux_tc"},
                                {"norm_topk_prob", false},
                                {"routed_scaling_factor", 1.0}}});
}

const nlohmann::json kBailingConfig = {{"num_experts", 4},           {"num_experts_per_tok", 2},
                                       {"num_shared_experts", 1},    {"moe_intermediate_size", 192},
                                       {"first_k_dense_replace", 0}, {"norm_topk_prob", false}};

TEST(RoundTrips, Bailing) {
  RoundTrip trip{
      .class_name = "BailingMoeForCausalLM",
      .model = spec_float_model("bailingmoe-moe"),
      .config = kBailingConfig,
      .rows = {{"model.word_embeddings.weight", "token_embd.weight"},
               {"model.layers.{i}.attention.dense.weight", "attn_output.weight"},
               {"model.layers.{i}.attention.query_key_value.{}", "attn_q.{} attn_k.{} attn_v.{}", halves_and_v(4, 2)}}};
  expect_round_trip(trip);
  trip.config["norm_head"] = true;
  EXPECT_FALSE(convert_to_floats(hub_folder_of(trip).write("refused")).has_value());
}

TEST(RoundTrips, Bailing2) {
  nlohmann::json config = kBailingConfig;
  config.merge_patch({{"first_k_dense_replace", 1},
                      {"score_function", "sigmoid"},
                      {"routed_scaling_factor", 1.0},
                      {"partial_rotary_factor", 1.0}});
  expect_round_trip({.class_name = "BailingMoeV2ForCausalLM",
                     .model = spec_float_model("bailingmoe2-moe"),
                     .config = config,
                     .rows = {{"model.word_embeddings.weight", "token_embd.weight"},
                              {"model.layers.{i}.attention.dense.weight", "attn_output.weight"},
                              {"model.layers.{i}.attention.query_key_value.weight", "attn_qkv.weight"},
                              {"model.layers.{i}.attention.query_layernorm.weight", "attn_q_norm.weight"},
                              {"model.layers.{i}.attention.key_layernorm.weight", "attn_k_norm.weight"},
                              {"model.layers.{i}.mlp.gate.expert_bias", "exp_probs_b.bias"}},
                     .extra = {"model.layers.2.eh_proj.weight", "model.layers.2.attention.dense.weight",
                               "model.layers.2.final_layernorm.weight"}});
}

TEST(RoundTrips, SmallThinker) {
  RoundTrip trip{.class_name = "SmallThinkerForCausalLM",
                 .model = spec_float_model("smallthinker-moe"),
                 .config = {{"head_dim", 32},
                            {"intermediate_size", nullptr},
                            {"moe_num_primary_experts", 4},
                            {"moe_num_active_primary_experts", 2},
                            {"moe_ffn_hidden_size", 192},
                            {"moe_primary_router_apply_softmax", false},
                            {"sliding_window_layout", {0, 1}},
                            {"rope_layout", {0, 1}},
                            {"sliding_window_size", 4096}},
                 .rows = {{"model.layers.{i}.block_sparse_moe.primary_router.weight", "ffn_gate_inp.weight"},
                          {"model.layers.{i}.block_sparse_moe.experts.{e}.gate.weight", "ffn_gate_exps.weight"},
                          {"model.layers.{i}.block_sparse_moe.experts.{e}.up.weight", "ffn_up_exps.weight"},
                          {"model.layers.{i}.block_sparse_moe.experts.{e}.down.weight", "ffn_down_exps.weight"}}};
  expect_round_trip(trip);
  trip.config["rope_layout"] = {1, 1};
  const auto refused = convert_to_floats(hub_folder_of(trip).write("refused"));
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message().find("rope_layout of layer 0 is 1, want 0"), std::string::npos);
  trip.config["sliding_window_layout"] = {0, 0};
  EXPECT_OK(convert_to_floats(hub_folder_of(trip).write("without_windows")));
}

}  // namespace
}  // namespace tessera::convert
