// Classes without a GGUF file to start from: small folders of the hub are converted, and the result runs. Tensors of
// the result have the values of those of the hub.
#include "tests/convert/round_trip.h"

namespace tessera::convert {
namespace {

using namespace testing;

nlohmann::json small_config(const std::string& class_name, const nlohmann::json& members) {
  nlohmann::json config = {{"architectures", {class_name}},  {"hidden_size", 64},        {"num_hidden_layers", 2},
                           {"num_attention_heads", 4},       {"num_key_value_heads", 4}, {"vocab_size", 256},
                           {"max_position_embeddings", 128}, {"rope_theta", 10000.0},    {"rms_norm_eps", 1e-5},
                           {"intermediate_size", 96}};
  config.merge_patch(members);
  return config;
}

using NamedShape = std::pair<std::string, std::vector<int64_t>>;

void add_all(HubFolder& folder, const std::string& prefix, const std::vector<NamedShape>& tensors) {
  for (const auto& [name, shape] : tensors) {
    folder.add(prefix + name, shape, "F32");
    // Weights that keep the activations small.
    for (size_t i = 0; i < folder.tensors.back().bytes.size(); i += sizeof(float)) {
      float value = 0;
      std::memcpy(&value, folder.tensors.back().bytes.data() + i, sizeof value);
      value *= 0.25f;
      std::memcpy(folder.tensors.back().bytes.data() + i, &value, sizeof value);
    }
  }
}

/// A tensor of the result has the values of one of the hub, or of rows of it from number `first` on.
struct SameValues {
  std::string gguf, hub;
  int64_t first = 0;
};

void expect_small_folder(HubFolder& folder, const std::vector<SameValues>& same) {
  ASSERT_OK_AND_ASSIGN(const std::string output, convert_to_floats(folder.write("small")));
  ASSERT_OK_AND_ASSIGN(const auto files, ModelFiles::open(output));
  for (const SameValues& pair : same) {
    const ModelFiles::Tensor* const tensor = files->find_tensor(pair.gguf);
    ASSERT_NE(tensor, nullptr) << pair.gguf;
    const std::string& bytes = folder.find(pair.hub).bytes;
    const auto got = files->data(*tensor);
    const size_t at = static_cast<size_t>(pair.first * tensor->info.shape[0]) * sizeof(float);
    ASSERT_LE(at + got.size(), bytes.size()) << pair.gguf;
    EXPECT_EQ(std::memcmp(got.data(), bytes.data() + at, got.size()), 0) << pair.gguf;
  }
  const std::vector<float> logits = logits_of_file(output);
  ASSERT_FALSE(logits.empty());
  double power = 0;
  for (const float logit : logits) power += double{logit} * double{logit};
  EXPECT_TRUE(std::isfinite(power));
  EXPECT_GT(power, 0);
}

TEST(SmallFolders, OpenElmHasOtherSizesInEachLayer) {
  HubFolder folder{.config = nlohmann::json({{"architectures", {"OpenELMForCausalLM"}},
                                             {"num_transformer_layers", 2},
                                             {"model_dim", 64},
                                             {"head_dim", 16},
                                             {"num_query_heads", {2, 4}},
                                             {"num_kv_heads", {1, 2}},
                                             {"max_context_length", 128},
                                             {"rope_freq_constant", 10000},
                                             {"vocab_size", 256}})
                                 .dump()};
  add_all(folder, "transformer.", {{"token_embeddings.weight", {256, 64}}, {"norm.weight", {64}}});
  for (const int64_t il : {0, 1}) {
    const int64_t heads = il == 0 ? 2 : 4, kv = heads / 2, ff = il == 0 ? 32 : 48;
    add_all(folder, "transformer.layers." + std::to_string(il) + ".",
            {{"attn_norm.weight", {64}},
             {"attn.qkv_proj.weight", {(heads + 2 * kv) * 16, 64}},
             {"attn.q_norm.weight", {16}},
             {"attn.k_norm.weight", {16}},
             {"attn.out_proj.weight", {64, heads * 16}},
             {"ffn_norm.weight", {64}},
             {"ffn.proj_1.weight", {2 * ff, 64}},
             {"ffn.proj_2.weight", {64, ff}}});
  }
  expect_small_folder(folder, {{"blk.1.attn_qkv.weight", "transformer.layers.1.attn.qkv_proj.weight"},
                               {"blk.1.ffn_gate.weight", "transformer.layers.1.ffn.proj_1.weight"},
                               {"blk.1.ffn_up.weight", "transformer.layers.1.ffn.proj_1.weight", 48},
                               {"blk.0.attn_output.weight", "transformer.layers.0.attn.out_proj.weight"}});
}

const std::vector<NamedShape> kLatentTensors = {{"input_layernorm.weight", {64}},
                                                {"post_attention_layernorm.weight", {64}},
                                                {"self_attn.kv_a_proj_with_mqa.weight", {40, 64}},
                                                {"self_attn.kv_a_layernorm.weight", {32}},
                                                {"self_attn.kv_b_proj.weight", {96, 32}},
                                                {"self_attn.o_proj.weight", {64, 64}},
                                                {"mlp.up_proj.weight", {96, 64}},
                                                {"mlp.down_proj.weight", {64, 96}}};

const nlohmann::json kLatentMembers = {
    {"kv_lora_rank", 32}, {"qk_nope_head_dim", 8}, {"qk_rope_head_dim", 8}, {"v_head_dim", 16}};

void add_outer(HubFolder& folder, bool has_head) {
  add_all(folder, "", {{"model.embed_tokens.weight", {256, 64}}, {"model.norm.weight", {64}}});
  if (has_head) add_all(folder, "", {{"lm_head.weight", {256, 64}}});
}

TEST(SmallFolders, MiniCpm3HasLatentAttention) {
  nlohmann::json members = kLatentMembers;
  members.merge_patch({{"q_lora_rank", 24}, {"scale_emb", 12}, {"scale_depth", 1.4}, {"dim_model_base", 256}});
  HubFolder folder{.config = small_config("MiniCPM3ForCausalLM", members).dump()};
  add_outer(folder, true);
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    add_all(folder, layer, kLatentTensors);
    add_all(folder, layer,
            {{"mlp.gate_proj.weight", {96, 64}},
             {"self_attn.q_a_proj.weight", {24, 64}},
             {"self_attn.q_a_layernorm.weight", {24}},
             {"self_attn.q_b_proj.weight", {64, 24}}});
  }
  expect_small_folder(folder, {{"blk.1.attn_q_b.weight", "model.layers.1.self_attn.q_b_proj.weight"},
                               {"blk.1.attn_kv_b.weight", "model.layers.1.self_attn.kv_b_proj.weight"}});
  members["scale_emb"] = 1;
  folder.config = small_config("MiniCPM3ForCausalLM", members).dump();
  const auto refused = convert_to_floats(folder.write("small"));
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message().find("want a scale_emb of 12"), std::string::npos);
}

TEST(SmallFolders, PlmHasNoGateAndNoHead) {
  HubFolder folder{.config = small_config("PLMForCausalLM", kLatentMembers).dump()};
  add_outer(folder, false);
  for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
    add_all(folder, layer, kLatentTensors);
    add_all(folder, layer, {{"self_attn.q_proj.weight", {64, 64}}});
  }
  expect_small_folder(folder, {{"blk.1.attn_q.weight", "model.layers.1.self_attn.q_proj.weight"},
                               {"blk.1.attn_kv_a_mqa.weight", "model.layers.1.self_attn.kv_a_proj_with_mqa.weight"}});
}

TEST(SmallFolders, AfmoeHasGatesAndFourNorms) {
  const nlohmann::json members = {{"num_key_value_heads", 2}, {"head_dim", 16},          {"num_experts", 4},
                                  {"num_experts_per_tok", 2}, {"num_shared_experts", 1}, {"moe_intermediate_size", 32},
                                  {"num_dense_layers", 1},    {"sliding_window", 7},     {"score_func", "sigmoid"},
                                  {"route_norm", true},       {"route_scale", 2.5},      {"mup_enabled", true}};
  HubFolder folder{.config = small_config("AfmoeForCausalLM", members).dump()};
  add_outer(folder, true);
  for (const std::string layer : {"model.layers.0.", "model.layers.1."})
    add_all(folder, layer,
            {{"input_layernorm.weight", {64}},
             {"post_attention_layernorm.weight", {64}},
             {"pre_mlp_layernorm.weight", {64}},
             {"post_mlp_layernorm.weight", {64}},
             {"self_attn.q_proj.weight", {64, 64}},
             {"self_attn.k_proj.weight", {32, 64}},
             {"self_attn.v_proj.weight", {32, 64}},
             {"self_attn.o_proj.weight", {64, 64}},
             {"self_attn.gate_proj.weight", {64, 64}},
             {"self_attn.q_norm.weight", {16}},
             {"self_attn.k_norm.weight", {16}}});
  add_all(folder, "model.layers.0.mlp.",
          {{"gate_proj.weight", {96, 64}}, {"up_proj.weight", {96, 64}}, {"down_proj.weight", {64, 96}}});
  const std::string moe = "model.layers.1.mlp.";
  add_all(folder, moe, {{"router.gate.weight", {4, 64}}, {"expert_bias", {4}}});
  for (const std::string expert : {"shared_experts.", "experts.0.", "experts.1.", "experts.2.", "experts.3."})
    add_all(folder, moe + expert,
            {{"gate_proj.weight", {32, 64}}, {"up_proj.weight", {32, 64}}, {"down_proj.weight", {64, 32}}});
  expect_small_folder(folder, {{"blk.1.attn_gate.weight", "model.layers.1.self_attn.gate_proj.weight"},
                               {"blk.1.post_attention_norm.weight", "model.layers.1.post_attention_layernorm.weight"},
                               {"blk.1.ffn_norm.weight", "model.layers.1.pre_mlp_layernorm.weight"},
                               {"blk.1.post_ffw_norm.weight", "model.layers.1.post_mlp_layernorm.weight"},
                               {"blk.1.exp_probs_b.bias", "model.layers.1.mlp.expert_bias"},
                               {"blk.1.ffn_up_shexp.weight", "model.layers.1.mlp.shared_experts.up_proj.weight"}});
  ASSERT_OK_AND_ASSIGN(const auto files, ModelFiles::open(temporary_path("round_trip.gguf")));
  const Metadata& keys = files->metadata();
  EXPECT_EQ(keys.get<uint32_t>("afmoe.leading_dense_block_count").value(), 1u);
  EXPECT_EQ(keys.get<uint32_t>("afmoe.expert_gating_func").value(), 2u);
  EXPECT_EQ(keys.get<float>("afmoe.expert_weights_scale").value(), 2.5f);
  EXPECT_TRUE(keys.get<bool>("afmoe.expert_weights_norm").value());
  EXPECT_EQ(keys.get<uint32_t>("afmoe.attention.sliding_window").value(), 7u);
}

}  // namespace
}  // namespace tessera::convert
