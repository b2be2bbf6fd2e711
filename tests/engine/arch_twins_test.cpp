// Architectures without reference logits, as twins of ones that have them: the file of an architecture, changed into a
// file of the other, must give the same logits.
#include <functional>

#include "tests/support/compared_logits.h"
#include "tests/support/documented_operations.h"
#include "tests/support/float_model.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;

constexpr double kTwinRounding = 1e-10;  // the same products and sums in another order
constexpr double kTwinVisible = 1e-8;    // the least change by a difference between two architectures

std::vector<float> logits_of_model(const FloatModel& m) {
  const std::string path = m.write("twin.gguf");
  expect_documented(path, "twin");
  return logits_of_file(path);
}

/// A model of a golden file without scales of weights, which are applied by some architectures only.
FloatModel golden_model(const std::string& name) {
  FloatModel m(arch_model(name));
  m.drop_scales();
  return m;
}

using TwinChange = std::function<void(FloatModel&)>;

/// The twin differs from the golden file by its name and the change.
void expect_twin(
    const std::string& golden, const std::string& twin, const TwinChange& change = [](FloatModel&) {}) {
  FloatModel m = golden_model(golden);
  const std::vector<float> want = logits_of_model(m);
  m.become(twin);
  change(m);
  EXPECT_LE(relative_squared_error(logits_of_model(m), want), kTwinRounding) << golden << " as " << twin;
}

/// The dense block of a layer becomes n equal experts of which any one is chosen. Their output, times `share`.
void become_experts(FloatModel& m, int il, int n, float share = 1.0f) {
  for (const std::string part : {"gate", "up", "down"}) {
    const FloatModel::Entry& dense = m.at(in_layer(il, "ffn_" + part + ".weight"));
    FloatModel::Entry experts{in_layer(il, "ffn_" + part + "_exps.weight"), {dense.shape[0], dense.shape[1], n}, {}};
    for (int i = 0; i < n; ++i) experts.values.insert(experts.values.end(), dense.values.begin(), dense.values.end());
    m.tensors.push_back(std::move(experts));
  }
  m.scale(in_layer(il, "ffn_down_exps.weight"), share);
  m.tensors.push_back(
      {in_layer(il, "ffn_gate_inp.weight"), {128, n}, std::vector<float>(static_cast<size_t>(128 * n))});
}

void drop_dense_block(FloatModel& m, int il) {
  for (const char* part : {"gate", "up", "down"}) m.drop(in_layer(il, std::string("ffn_") + part + ".weight"));
}

TEST(ArchTwins, DifferByNameOnly) {
  expect_twin("internlm2-dense", "xverse");
  expect_twin("qwen2-dense", "exaone");
  expect_twin("nemotron-dense", "jais2");
  expect_twin("hunyuan-dense-dense", "hunyuan_vl");
}

TEST(ArchTwins, SeedOssNamesTheSecondNormAfterAttention) {
  expect_twin("qwen2-dense", "seed_oss", [](FloatModel& m) {
    for (const int il : {0, 1}) m.rename(in_layer(il, "ffn_norm.weight"), in_layer(il, "post_attention_norm.weight"));
  });
}

TEST(ArchTwins, ChatGlmHasGateAndUpInOneMatrix) {
  FloatModel m = golden_model("llama-dense");
  for (const int il : {0, 1})
    for (const char* part : {"gate", "up", "down"}) m.drop(in_layer(il, std::string("ffn_") + part + ".bias"));
  const std::vector<float> want = logits_of_model(m);
  m.become("chatglm");
  for (const int il : {0, 1}) {
    FloatModel::Entry& up = m.at(in_layer(il, "ffn_up.weight"));
    const std::vector<float> gate = m.at(in_layer(il, "ffn_gate.weight")).values;
    up.values.insert(up.values.begin(), gate.begin(), gate.end());
    up.shape[1] *= 2;
    m.drop(in_layer(il, "ffn_gate.weight"));
  }
  EXPECT_LE(relative_squared_error(logits_of_model(m), want), kTwinRounding);
}

TEST(ArchTwins, Qwen3VlMoeIsQwen3MoeWithSections) {
  expect_twin("qwen3moe-moe", "qwen3vlmoe", [](FloatModel& m) {
    m.keys.set_array("qwen3vlmoe.rope.dimension_sections", std::vector<int32_t>{6, 5, 5, 0});
  });
}

// Only texts that are longer than a chunk tell the difference: rope, norms and temperatures have a period of their own.
TEST(ArchTwins, Llama4sPeriodOfChunksIsNotThatOfRope) {
  expect_twin("llama4-moe", "llama4", [](FloatModel& m) { m.keys.set("llama4.attention.sliding_window_pattern", 2u); });
}

// A softmax over all experts sums to 1, so with all experts chosen it makes no difference that weights are not divided.
TEST(ArchTwins, LladaMoeIsRnd1WithoutDividedWeights) {
  const auto logits = [](const std::string& name, uint32_t n_used) {
    FloatModel m = golden_model("rnd1-moe");
    m.become(name);
    m.keys.set(name + ".expert_used_count", n_used);
    return logits_of_model(m);
  };
  EXPECT_LE(relative_squared_error(logits("llada-moe", 4), logits("rnd1", 4)), kTwinRounding);
  EXPECT_GE(relative_squared_error(logits("llada-moe", 2), logits("rnd1", 2)), kTwinVisible);
}

// In steps of two, only the second layer has experts.
TEST(ArchTwins, Ernie45MoeHasExpertsInSteps) {
  expect_twin("ernie4_5-moe", "ernie4_5-moe", [](FloatModel& m) {
    for (const int il : {0, 1}) m.drop(in_layer(il, "attn_output.bias"));
    m.keys.set("ernie4_5-moe.expert_count", 3u);
    m.keys.set("ernie4_5-moe.expert_used_count", 2u);
    m.keys.set("ernie4_5-moe.expert_feed_forward_length", 192u);
    m.keys.set("ernie4_5-moe.interleave_moe_layer_step", 2u);
    become_experts(m, 1, 3);
    drop_dense_block(m, 1);
  });
}

TEST(ArchTwins, HunyuanMoeHasASharedExpert) {
  expect_twin("hunyuan-dense-dense", "hunyuan-moe", [](FloatModel& m) {
    m.keys.set("hunyuan-moe.expert_count", 3u);
    m.keys.set("hunyuan-moe.expert_used_count", 2u);
    for (const int il : {0, 1}) {
      become_experts(m, il, 3, 0.25f);
      for (const std::string part : {"gate", "up", "down"})
        m.rename(in_layer(il, "ffn_" + part + ".weight"), in_layer(il, "ffn_" + part + "_shexp.weight"));
      m.scale(in_layer(il, "ffn_down_shexp.weight"), 0.75f);
    }
  });
}

TEST(ArchTwins, ExaoneMoeBeginsWithDenseLayers) {
  expect_twin("qwen3-dense", "exaone-moe", [](FloatModel& m) {
    m.keys.set("exaone-moe.attention.sliding_window", 1000u);
    m.keys.set("exaone-moe.rope.freq_base_swa", 77.0f);  // not used
    m.keys.set("exaone-moe.expert_count", 3u);
    m.keys.set("exaone-moe.expert_used_count", 2u);
    m.keys.set("exaone-moe.expert_feed_forward_length", 192u);
    m.keys.set("exaone-moe.expert_shared_feed_forward_length", 0u);
    m.keys.set("exaone-moe.expert_gating_func", 2u);
    m.keys.set("exaone-moe.expert_weights_norm", true);
    m.keys.set("exaone-moe.leading_dense_block_count", 1u);
    become_experts(m, 1, 3, 0.5f);
    for (const std::string part : {"gate", "up", "down"})
      m.rename(in_layer(1, "ffn_" + part + ".weight"), in_layer(1, "ffn_" + part + "_shexp.weight"));
    m.scale(in_layer(1, "ffn_down_shexp.weight"), 0.5f);
  });
}

// The indexer's weights have no effect as long as it chooses all keys.
void add_indexer(FloatModel& m, const std::string& architecture) {
  constexpr int64_t kHeads = 2, kDim = 64;
  const int64_t n_embd = m.at("token_embd.weight").shape[0];
  m.keys.set(architecture + ".attention.indexer.head_count", static_cast<uint32_t>(kHeads));
  m.keys.set(architecture + ".attention.indexer.key_length", static_cast<uint32_t>(kDim));
  m.keys.set(architecture + ".attention.indexer.top_k", 64u);
  for (const int il : {0, 1}) {
    const int64_t n_latent = m.at(in_layer(il, "attn_q_a.weight")).shape[1];
    m.add(in_layer(il, "indexer.attn_q_b.weight"), {n_latent, kHeads * kDim});
    m.add(in_layer(il, "indexer.attn_k.weight"), {n_embd, kDim});
    m.add(in_layer(il, "indexer.k_norm.weight"), {kDim});
    m.add(in_layer(il, "indexer.proj.weight"), {n_embd, kHeads});
  }
}

TEST(ArchTwins, DeepSeek32AndGlmDsaAreMistral4) {
  expect_twin("mistral4-moe", "deepseek32", [](FloatModel& m) { add_indexer(m, "deepseek32"); });
  FloatModel m = golden_model("mistral4-moe");
  m.keys.set("mistral4.rope.scaling.yarn_log_multiplier", 0.0f);
  const std::vector<float> want = logits_of_model(m);
  m.become("glm-dsa");
  add_indexer(m, "glm-dsa");
  m.keys.set_array("glm-dsa.attention.indexer.types", std::vector<int32_t>{1, 1});
  m.keys.set("glm-dsa.expert_gating_func", 0u);                     // a sigmoid
  m.keys.set("glm-dsa.rope.scaling.yarn_log_multiplier", 0.0625f);  // not used
  EXPECT_LE(relative_squared_error(logits_of_model(m), want), kTwinRounding);
}

TEST(ArchTwins, HyV3FindsItsExpertsInTheFile) {
  expect_twin("dots1-moe", "hy_v3", [](FloatModel& m) {
    m.keys.set("hy_v3.leading_dense_block_count", 0u);
    m.rename(in_layer(1, "exp_probs_b.bias"), in_layer(1, "exp_probs_b"));
  });
}

}  // namespace
}  // namespace tessera
