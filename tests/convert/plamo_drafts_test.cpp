// What the classes of PLaMo 2 and 3 do with tensors and settings.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "tests/convert/model_drafts.h"

namespace tessera::convert {
namespace {

using namespace testing;

TEST(PlamoDrafts, NormsOfPlamoStoreDifferences) {
  const std::string layer = "model.layers.layers.0.";
  const std::vector<DraftTensor> tensors = {{"model.norm.weight", {1}},
                                            {layer + "pre_mixer_norm.weight", {1}},
                                            {layer + "post_mixer_norm.weight", {1}},
                                            {layer + "pre_mlp_norm.weight", {1}},
                                            {layer + "post_mlp_norm.weight", {1}}};
  const std::string members = R"("num_hidden_layers": 1, "vocab_size": 8, "rope_theta": 10000)";
  for (const char* name : {"PLaMo2ForCausalLM", "Plamo2ForCausalLM", "PLaMo3ForCausalLM", "Plamo3ForCausalLM"}) {
    const Drafted made = draft(name, members, tensors);
    EXPECT_EQ(made.error, "");
    EXPECT_EQ(made.of("output_norm.weight"), Floats{1}) << name;
    EXPECT_EQ(made.of("blk.0.attn_norm.weight"), Floats{1 + 1});
    EXPECT_EQ(made.of("blk.0.post_attention_norm"), Floats{2 + 0.2f});
    EXPECT_EQ(made.of("blk.0.ffn_norm.weight"), Floats{3 + 1});
    EXPECT_EQ(made.of("blk.0.post_ffw_norm"), Floats{4 + static_cast<float>(1 / std::sqrt(125.0))});
  }
}

TEST(PlamoDrafts, PartsOfPlamo2) {
  const std::string mixer = "model.layers.layers.0.mixer.";
  const std::string members = R"("num_hidden_layers": 4, "vocab_size": 8, "mamba_num_heads": 2,
      "hidden_size_per_head": 3, "num_attention_heads": 4, "num_key_value_heads": 1)";
  const Drafted made = draft("Plamo2ForCausalLM", members,
                             {{mixer + "A_log", {2}},
                              {mixer + "D", {2}},
                              {mixer + "conv1d.weight", {6, 1, 4}},
                              {mixer + "dt_bias", {2}},
                              {mixer + "dt_proj.weight", {2, 1}},
                              {mixer + "bcdt_proj.weight", {1, 6}},
                              {mixer + "B_norm_weight", {1}},
                              {mixer + "C_norm_weight", {1}},
                              {mixer + "dt_norm_weight", {1}},
                              {mixer + "in_proj.weight", {1, 1}},
                              {mixer + "out_proj.weight", {1, 1}},
                              {mixer + "qkv_proj.weight", {1, 1}},
                              {mixer + "o_proj.weight", {1, 1}},
                              {mixer + "q_weight", {4, 3}},
                              {mixer + "k_weight", {1, 3}},
                              {"model.layers.layers.0.mlp.gate_up_proj.weight", {2, 1}},
                              {"model.layers.layers.0.mlp.down_proj.weight", {1, 1}}});
  EXPECT_EQ(made.error, "");
  std::string names;
  for (const ConvertedTensor& tensor : made.tensors) names += tensor.name.substr(std::strlen("blk.0.")) + " ";
  EXPECT_EQ(names,
            "ssm_a ssm_d ssm_conv1d.weight ssm_dt.bias ssm_dt.weight ssm_x.weight ssm_b_norm ssm_c_norm ssm_dt_norm "
            "ssm_in.weight ssm_out.weight attn_qkv.weight attn_output.weight attn_q_norm.weight attn_k_norm.weight "
            "ffn_up.weight ffn_down.weight ");
  EXPECT_FLOAT_EQ(made.of("blk.0.ssm_a")[1], -std::exp(1.0f));
  EXPECT_EQ(made.tensors[2].shape, (std::vector<int64_t>{6, 4}));
  EXPECT_EQ(made.of("blk.0.attn_k_norm.weight").size(), 3u);
  for (const char* key : {"head_count=[0, 4, 0, 4] ", "head_count_kv=[0, 1, 0, 1] ", "ssm.inner_size=6 ",
                          "ssm.group_count=0 ", "ssm.time_step_rank=2 ", "ssm.state_size=64 ", "ssm.conv_kernel=4 ",
                          "attention.key_length=3 ", "attention.value_length=3 ", "vocab_size=8 "})
    expect_in(made.keys,
              std::string("plamo2.") + (std::string_view(key).starts_with("head") ? "attention." : "") + key);
}

TEST(PlamoDrafts, LayersOfPlamo2WithAttention) {
  const auto heads = [](const std::string& members) {
    const Drafted made = draft("Plamo2ForCausalLM", R"("vocab_size": 8, "num_attention_heads": 2, )" + members, {});
    const size_t begin = made.keys.find("head_count=");
    return made.error + (begin == std::string::npos ? "" : made.keys.substr(begin, made.keys.find(']') + 1 - begin));
  };
  EXPECT_EQ(heads(R"("num_hidden_layers": 5, "mamba_step": 3)"), "head_count=[0, 2, 0, 0, 2]");
  EXPECT_EQ(heads(R"("num_hidden_layers": 3, "mamba_step": 6)"), "head_count=[0, 0, 2]");
  EXPECT_EQ(heads(R"("num_hidden_layers": 2, "mamba_enabled": false)"), "head_count=[2, 2]");
  expect_in(heads(R"("num_hidden_layers": 2, "mamba_step": 0)"), "mamba_step");
}

TEST(PlamoDrafts, SettingsOfPlamo3) {
  const auto made = [](const std::string& more) {
    return draft(
        "Plamo3ForCausalLM", R"("num_hidden_layers": 1, "vocab_size": 8, "rope_theta": 500000, "head_dim": 4)" + more,
        {{"model.layers.layers.0.mixer.q_norm.weight", {1}}, {"model.layers.layers.0.mixer.k_norm.weight", {1}}});
  };
  const Drafted plain = made(R"(, "window_size": 16, "rope_local_theta": 100)");
  EXPECT_EQ(plain.error, "");
  EXPECT_EQ(plain.of("blk.0.attn_q_norm.weight"), Floats{1});
  EXPECT_EQ(plain.of("blk.0.attn_k_norm.weight"), Floats{2});
  for (const char* key :
       {"attention.sliding_window=16 ", "attention.sliding_window_pattern=8 ", "rope.freq_base=500000 ",
        "rope.freq_base_swa=100 ", "attention.key_length=4 ", "attention.layer_norm_rms_epsilon=1e-06 "})
    expect_in(plain.keys, std::string("plamo3.") + key);
  expect_not_in(made("").keys, "sliding_window=");
  expect_in(made(R"(, "sliding_window_pattern": 4)").keys, "plamo3.attention.sliding_window_pattern=4 ");
  expect_in(made(R"(, "rope_scaling_factor": 2.5)").error, "rope_scaling_factor 2.5, supported: 1");
  expect_in(made(R"(, "scale_embedding": true)").error, "scale_embedding is not supported");
  EXPECT_EQ(made(R"(, "rope_scaling_factor": 1, "scale_embedding": false)").error, "");
}

}  // namespace
}  // namespace tessera::convert
