// Classes of decoders with parts that few others have (tests/convert/round_trip.h).
#include "tests/convert/round_trip.h"

namespace tessera::convert {
namespace {

using namespace testing;

const std::vector<std::string> kProjectionBias = {".attn_q.bias", ".attn_k.bias", ".attn_v.bias"};

/// Adds a tensor of one value to the folder.
void add_number(HubFolder& folder, const std::string& name, float value) {
  folder.tensors.push_back({name, "F32", {1}, hub_bytes({value}, "F32")});
}

TEST(RoundTripsOwn, ApertusHasNumbersOfItsActivation) {
  FloatModel m = twin_of("qwen3-dense", "apertus");
  for (const int il : {0, 1}) m.drop(of_layer(il, "ffn_gate.weight"));
  const std::vector<float> alpha_p = {0.5f, -0.25f}, alpha_n = {0.75f, 1.5f}, beta = {0.5f, 0.625f},
                           eps = {-1e-6f, -2e-6f};
  m.keys.set_array("xielu.alpha_p", alpha_p);
  m.keys.set_array("xielu.alpha_n", alpha_n);
  m.keys.set_array("xielu.beta", beta);
  m.keys.set_array("xielu.eps", eps);
  RoundTrip trip{.class_name = "ApertusForCausalLM",
                 .model = m,
                 .config = {{"head_dim", 32}},
                 .rows = {{"model.layers.{i}.attention_layernorm.weight", "attn_norm.weight"},
                          {"model.layers.{i}.feedforward_layernorm.weight", "ffn_norm.weight"}}};
  HubFolder folder = hub_folder_of(trip);
  for (const int il : {0, 1}) {
    const std::string act = "model.layers." + std::to_string(il) + ".mlp.act_fn.";
    const auto i = static_cast<size_t>(il);
    add_number(folder, act + "alpha_p", alpha_p[i]);
    add_number(folder, act + "alpha_n", alpha_n[i]);
    add_number(folder, act + "beta", beta[i]);
    add_number(folder, act + "eps", eps[i]);
  }
  expect_folder(folder, trip);
  ASSERT_OK_AND_ASSIGN(const auto files, ModelFiles::open(temporary_path("round_trip.gguf")));
  EXPECT_EQ(files->metadata().get_vector<float>("xielu.alpha_n").value(), alpha_n);
  EXPECT_EQ(files->metadata().get_vector<float>("xielu.eps").value(), eps);
  folder.remove("model.layers.1.mlp.act_fn.beta");
  EXPECT_ERROR(convert_to_floats(folder.write("refused")), "xielu.beta of layer 1: 0 values, want one number");
}

/// -s, 0 or s.
float third_of(float value, float scale) { return value > scale / 2 ? scale : value < -scale / 2 ? -scale : 0.0f; }

TEST(RoundTripsOwn, BitNetRoundsItsMatrices) {
  FloatModel m = twin_of("qwen2-dense", "bitnet");
  m.drop("output.weight");
  for (const int il : {0, 1}) {
    for (const char* part : {"attn_q.bias", "attn_k.bias", "attn_v.bias"}) m.drop(of_layer(il, part));
    add_norm(m, of_layer(il, "attn_sub_norm"), 128);
    add_norm(m, of_layer(il, "ffn_sub_norm"), 192);
  }
  RoundTrip trip{.class_name = "BitnetForCausalLM",
                 .model = m,
                 .rows = {{"model.layers.{i}.self_attn.inner_attn_ln.weight", "attn_sub_norm.weight"},
                          {"model.layers.{i}.mlp.ffn_layernorm.weight", "ffn_sub_norm.weight"}},
                 .has_other_values = true};
  const HubFolder folder = hub_folder_of(trip);
  for (FloatModel::Entry& entry : trip.model.tensors) {
    if (!entry.name.starts_with("blk.") || entry.name.find("norm") != std::string::npos) continue;
    double sum = 0;
    for (const float value : entry.values) sum += std::abs(double{value});
    const auto scale = static_cast<float>(sum / static_cast<double>(entry.values.size()));
    for (float& value : entry.values) value = third_of(value, scale);
  }
  expect_folder(folder, trip);
}

TEST(RoundTripsOwn, DeciHasLayersWithoutParts) {
  FloatModel m = twin_of("internlm2-dense", "deci");
  m.repeat_layer_0("deci", 4);
  // 0: whole; 1: one KV head; 2: a matrix in place of attention; 3: nothing.
  const auto drop_of = [&](int il, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) m.drop(of_layer(il, part));
  };
  for (const int il : {0, 1, 2}) drop_of(il, {"attn_q.bias", "attn_k.bias", "attn_v.bias"});
  for (const char* part : {"attn_k.weight", "attn_v.weight"}) {
    FloatModel::Entry& entry = m.at(of_layer(1, part));
    entry.shape[1] = 32;
    entry.values.resize(32 * 128);
  }
  drop_of(2, {"attn_q.weight", "attn_k.weight", "attn_v.weight"});
  std::erase_if(m.tensors, [](const auto& entry) { return entry.name.starts_with("blk.3."); });
  for (const int il : {0, 1, 2})
    for (const char* part : {"ffn_gate", "ffn_up", "ffn_down"}) {
      m.drop(of_layer(il, part + std::string(".weight")));
      add_linear(m, of_layer(il, part), part == std::string("ffn_down") ? 256 : 128,
                 part == std::string("ffn_down") ? 128 : 256);
    }
  m.keys.set_array("deci.attention.head_count", std::vector<int32_t>{4, 4, 4, 0});
  m.keys.set_array("deci.attention.head_count_kv", std::vector<int32_t>{2, 1, 0, 0});
  m.keys.set_array("deci.feed_forward_length", std::vector<int32_t>{256, 256, 256, 0});
  m.keys.set("deci.attention.key_length", 32u);
  m.keys.set("deci.attention.value_length", 32u);
  const auto attention = [](const nlohmann::json& n_in_group, bool is_linear) {
    return nlohmann::json{{"n_heads_in_group", n_in_group}, {"replace_with_linear", is_linear}};
  };
  const auto ffn = [](const nlohmann::json& share) { return nlohmann::json{{"ffn_mult", share}}; };
  const HubChange pairs_of_rows = [](std::vector<HubPiece> p) {
    return halves_of_heads(std::move(p[0]), p[0].shape[0] / 32);
  };
  RoundTrip trip{.class_name = "DeciLMForCausalLM",
                 .model = m,
                 .config = {{"num_hidden_layers", 4},
                            {"num_key_value_heads", nullptr},
                            {"intermediate_size", nullptr},
                            {"block_configs",
                             {{{"attention", attention(2, false)}, {"ffn", ffn(2.0)}},
                              {{"attention", attention(4, false)}, {"ffn", ffn(2.5)}},
                              {{"attention", attention(nullptr, true)}, {"ffn", ffn(3.0)}},
                              {{"attention", attention(nullptr, false)}, {"ffn", ffn(nullptr)}}}}},
                 .rows = {{"model.layers.{i}.self_attn.q_proj.weight", "attn_q.weight", pairs_of_rows},
                          {"model.layers.{i}.self_attn.k_proj.weight", "attn_k.weight", pairs_of_rows}}};
  HubFolder folder = hub_folder_of(trip);
  folder.find("model.layers.2.self_attn.o_proj.weight").name = "model.layers.2.self_attn.linear_attn.weight";
  expect_folder(folder, trip);
  trip.config["block_configs"][0]["ffn"]["replace_with_linear"] = true;
  EXPECT_ERROR(convert_to_floats(hub_folder_of(trip).write("refused")), "block_configs 0: ffn.replace_with_linear");
}

TEST(RoundTripsOwn, TalkieRotatesBackwards) {
  FloatModel m = empty_model("talkie");
  add_weight(m, "token_embd.weight", {128, 256});
  add_linear(m, "output", 128, 256);
  for (const int il : {0, 1}) {
    for (const char* part : {"attn_q", "attn_k", "attn_v", "attn_output"}) add_linear(m, of_layer(il, part), 128, 128);
    for (const char* part : {"ffn_gate", "ffn_up"}) add_linear(m, of_layer(il, part), 128, 192);
    add_linear(m, of_layer(il, "ffn_down"), 192, 128);
    add_weight(m, of_layer(il, "attn_q_norm.weight"), {1, 4}, 2.0);
    for (const char* part : {"attn_output.scale", "ffn_down.scale", "layer_output_scale.weight"})
      add_weight(m, of_layer(il, part), {1}, 2.0);
  }
  m.keys.set("talkie.attention.head_count_kv", 4u);
  m.keys.set("talkie.attention.layer_norm_rms_epsilon", 1.1920929e-7f);
  m.keys.set("talkie.logit_scale", 2.5f);
  const HubChange negated = [](std::vector<HubPiece> p) {
    for (int64_t row = 0; row < p[0].shape[0]; ++row)
      for (int64_t i = 0; i < p[0].n_columns() && row % 32 >= 16; ++i) {
        float& value = p[0].values[static_cast<size_t>(row * p[0].n_columns() + i)];
        value = -value;
      }
    return std::move(p[0]);
  };
  const std::string layer = "model.blocks.{i}.";
  RoundTrip trip{.class_name = "TalkieForCausalLM",
                 .model = m,
                 .config = {{"num_key_value_heads", nullptr}, {"head_dim", 32}},
                 .rows = {{"model.embed.weight", "token_embd.weight"},
                          {"lm_head", "output.weight"},
                          {layer + "attn.attn_query.weight", "attn_q.weight", negated},
                          {layer + "attn.attn_key.weight", "attn_k.weight", negated},
                          {layer + "attn.attn_value.weight", "attn_v.weight"},
                          {layer + "attn.attn_resid.weight", "attn_output.weight"},
                          {layer + "attn.head_gain.head_g", "attn_q_norm.weight", reshaped_to({-1})},
                          {layer + "attn_gain.a_g", "attn_output.scale"},
                          {layer + "mlp.mlp_gate.weight", "ffn_gate.weight"},
                          {layer + "mlp.mlp_linear.weight", "ffn_up.weight"},
                          {layer + "mlp.mlp_resid.weight", "ffn_down.weight"},
                          {layer + "mlp_gain.a_g", "ffn_down.scale"},
                          {layer + "embed_skip.a_g", "layer_output_scale.weight"}}};
  HubFolder folder = hub_folder_of(trip);
  add_number(folder, "lm_head_gain.w_g", 2.5f);
  expect_folder(folder, trip);
}

}  // namespace
}  // namespace tessera::convert
