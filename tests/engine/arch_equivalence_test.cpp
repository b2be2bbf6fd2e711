// Branches that the reference files do not exercise. Each case compares two models that must have equal logits: one
// uses the branch under test, the other has changed weights instead.
#include <cmath>

#include "tests/support/compared_logits.h"
#include "tests/support/float_model.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;

// Tolerance for the same products and sums in another order.
constexpr double kRounding = 1e-10;
// The least change of logits by each branch under test. A smaller one would not be detected.
constexpr double kVisible = 1e-7;

/// Replaces tensors with their concatenation.
void join(FloatModel& m, const std::vector<std::string>& from, const std::string& to) {
  FloatModel::Entry joined{to, m.at(from[0]).shape, {}};
  const int along = joined.shape[1] == 1 ? 0 : 1;
  joined.shape[along] = 0;
  for (const std::string& name : from) {
    const FloatModel::Entry& part = m.at(name);
    joined.shape[along] += part.shape[along];
    joined.values.insert(joined.values.end(), part.values.begin(), part.values.end());
  }
  for (const std::string& name : from) m.drop(name);
  m.tensors.push_back(std::move(joined));
}

TEST(ArchEquivalence, QKAndVInOneProductAreThree) {
  const std::string path = arch_model("qwen2-dense");
  FloatModel m(path);
  m.drop_scales();
  const std::vector<float> three = logits_of_file(m.write("three.gguf"));
  for (const int il : {0, 1})
    for (const std::string suffix : {".weight", ".bias"})
      join(m, {in_layer(il, "attn_q" + suffix), in_layer(il, "attn_k" + suffix), in_layer(il, "attn_v" + suffix)},
           in_layer(il, "attn_qkv" + suffix));
  EXPECT_TRUE(same_bits(logits_of_file(m.write("one.gguf")), three));
}

TEST(ArchEquivalence, GranitesFactorsAreFactorsOnWeights) {
  const std::string path = arch_model("granite-dense");
  FloatModel by_keys(path), by_weights(path);
  for (FloatModel* m : {&by_keys, &by_weights}) m->drop_scales();
  const std::vector<float> plain = logits_of_file(by_keys.write("plain.gguf"));
  by_keys.keys.set("granite.embedding_scale", 3.0f);
  by_keys.keys.set("granite.residual_scale", 0.5f);
  by_keys.keys.set("granite.attention.scale", 0.25f);
  by_keys.keys.set("granite.logit_scale", 4.0f);
  by_weights.scale("token_embd.weight", 3.0f);
  by_weights.scale("output.weight", 0.25f);
  for (const int il : {0, 1}) {
    for (const char* name : {"attn_output.weight", "attn_output.bias", "ffn_down.weight", "ffn_down.bias"})
      by_weights.scale(in_layer(il, name), 0.5f);
    for (const char* name : {"attn_q.weight", "attn_q.bias"})
      by_weights.scale(in_layer(il, name), 0.25f * std::sqrt(32.0f));
  }
  const std::vector<float> scaled = logits_of_file(by_keys.write("keys.gguf"));
  EXPECT_LE(relative_squared_error(scaled, logits_of_file(by_weights.write("weights.gguf"))), kRounding);
  EXPECT_GE(relative_squared_error(scaled, plain), kVisible);
}

TEST(ArchEquivalence, GraniteMayHaveNoPositions) {
  const std::string path = arch_model("granite-dense");
  FloatModel m(path);
  m.keys.set("granite.rope.scaling.finetuned", false);
  const std::vector<float> without = logits_of_file(m.write("without.gguf"));
  m.keys.set("granite.rope.scaling.finetuned", true);
  m.at("rope_freqs.weight").values.assign(16, 1e30f);  // angles of 0
  EXPECT_LE(relative_squared_error(logits_of_file(m.write("still.gguf")), without), kRounding);
}

TEST(ArchEquivalence, TheScaleOfTheOutputIsOneOfItsWeights) {
  const std::string path = arch_model("llama-dense");
  FloatModel by_scale(path), by_weights(path);
  by_scale.tensors.push_back({"output.scale", {1}, {0.5f}});
  by_weights.scale("output.weight", 0.5f);
  EXPECT_TRUE(same_bits(logits_of_file(by_scale.write("scale.gguf")), logits_of_file(by_weights.write("rows.gguf"))));
}

// Per head, the rows of attn_kv_b are the columns of k_b followed by the rows of v_b.
TEST(ArchEquivalence, DeepSeeksOldFilesAreTheNew) {
  const std::string path = arch_model("deepseek2-moe");
  FloatModel m(path);
  const std::vector<float> absorbed = logits_of_file(path);
  constexpr int64_t kNope = 128, kLatent = 512, kV = 128;
  for (const int il : {0, 1}) {
    FloatModel::Entry kv_b{in_layer(il, "attn_kv_b.weight"), {kLatent, kNope + kV}, {}};
    const std::vector<float>& k_b = m.at(in_layer(il, "attn_k_b.weight")).values;  // [nope, latent]
    for (int64_t n = 0; n < kNope; ++n)
      for (int64_t c = 0; c < kLatent; ++c) kv_b.values.push_back(k_b[static_cast<size_t>(c * kNope + n)]);
    const std::vector<float>& v_b = m.at(in_layer(il, "attn_v_b.weight")).values;  // [latent, v]
    kv_b.values.insert(kv_b.values.end(), v_b.begin(), v_b.end());
    for (const char* name : {"attn_k_b.weight", "attn_v_b.weight"}) m.drop(in_layer(il, name));
    m.tensors.push_back(std::move(kv_b));
  }
  m.keys.remove("deepseek2.attention.key_length_mla");
  m.keys.remove("deepseek2.attention.value_length_mla");
  m.keys.set("deepseek2.attention.key_length", uint32_t{192});
  m.keys.set("deepseek2.attention.value_length", uint32_t{kV});
  EXPECT_LE(relative_squared_error(logits_of_file(m.write("legacy.gguf")), absorbed), kRounding);
}

// Two identical heads, each with half of the output.
TEST(ArchEquivalence, DeepSeeksHeadsEachHaveTheirMatrices) {
  const std::string path = arch_model("deepseek2-moe");
  FloatModel m(path);
  const std::vector<float> one = logits_of_file(path);
  m.keys.set("deepseek2.attention.head_count", uint32_t{2});
  for (const int il : {0, 1}) {
    for (const char* name : {"attn_k_b.weight", "attn_v_b.weight", "attn_q_b.weight"}) {
      FloatModel::Entry& w = m.at(in_layer(il, name));
      const std::vector<float> head = w.values;
      w.values.insert(w.values.end(), head.begin(), head.end());
      w.shape[w.shape[0] == 512 && w.shape[1] == 192 ? 1 : 2] *= 2;
    }
    FloatModel::Entry& out = m.at(in_layer(il, "attn_output.weight"));
    std::vector<float> twice;
    for (size_t row = 0; row < out.values.size(); row += 128)
      for (int head = 0; head < 2; ++head)
        for (size_t i = 0; i < 128; ++i) twice.push_back(out.values[row + i] * 0.5f);
    out.values = twice;
    out.shape[0] *= 2;
  }
  EXPECT_LE(relative_squared_error(logits_of_file(m.write("two.gguf")), one), kRounding);
}

TEST(ArchEquivalence, DeepSeeksGroupsLimitTheChoice) {
  const std::string path = arch_model("deepseek2-moe");
  FloatModel m(path);
  const std::vector<float> any = logits_of_file(path);
  m.keys.set("deepseek2.expert_group_count", uint32_t{2});
  m.keys.set("deepseek2.expert_group_used_count", uint32_t{2});
  EXPECT_TRUE(same_bits(logits_of_file(m.write("all_groups.gguf")), any));
  m.keys.set("deepseek2.expert_group_used_count", uint32_t{1});
  EXPECT_GE(relative_squared_error(logits_of_file(m.write("one_group.gguf")), any), kVisible);
}

// A qwen3moe model written as glm4moe.
TEST(ArchEquivalence, Glm4MoeIsQwen3MoeWithOtherNames) {
  const std::string path = arch_model("qwen3moe-moe");
  FloatModel m(path);
  m.drop_scales();
  const std::vector<float> qwen = logits_of_file(m.write("qwen.gguf"));
  m.become("glm4moe");
  m.keys.set("glm4moe.expert_gating_func", uint32_t{1});
  m.keys.set("glm4moe.expert_weights_norm", true);
  for (const int il : {0, 1}) m.rename(in_layer(il, "ffn_norm.weight"), in_layer(il, "post_attention_norm.weight"));
  EXPECT_TRUE(same_bits(logits_of_file(m.write("glm.gguf")), qwen));
  // A bias influences the choice of experts. The same bias for all experts changes nothing.
  for (const int il : {0, 1}) m.tensors.push_back({in_layer(il, "exp_probs_b.bias"), {4}, {5, 5, 5, 5}});
  EXPECT_TRUE(same_bits(logits_of_file(m.write("same_bias.gguf")), qwen));
  for (const int il : {0, 1}) m.at(in_layer(il, "exp_probs_b.bias")).values = {9, 9, 0, 0};
  EXPECT_GE(relative_squared_error(logits_of_file(m.write("bias.gguf")), qwen), kVisible);
}

TEST(ArchEquivalence, Mistral3sTemperatureBeginsBeyondTheTrainedContext) {
  const std::string path = arch_model("mistral3-dense");
  FloatModel m(path);
  const std::vector<float> plain = logits_of_file(path);
  m.keys.set("mistral3.attention.temperature_scale", 0.5f);
  m.keys.set("mistral3.rope.scaling.original_context_length", uint32_t{10});
  const std::vector<float> scaled = logits_of_file(m.write("temperature.gguf"));
  const size_t n_vocab = plain.size() / kComparedTokens, n_same = 10 * n_vocab;
  ASSERT_EQ(scaled.size(), plain.size());
  EXPECT_TRUE(same_bits(std::span(scaled).first(n_same), std::span(plain).first(n_same)));
  EXPECT_GE(relative_squared_error({scaled.begin() + static_cast<ptrdiff_t>(n_same), scaled.end()},
                                   {plain.begin() + static_cast<ptrdiff_t>(n_same), plain.end()}),
            kVisible);
}

TEST(ArchEquivalence, Phi3sFactorsAreChosenByTheContext) {
  const std::string path = arch_model("phi3-dense");
  FloatModel m(path);
  m.keys.set("phi3.rope.scaling.original_context_length", uint32_t{256});
  const std::string both = m.write("both.gguf");
  const std::vector<float> long_context = logits_of_file(both, 257), short_context = logits_of_file(both, 256);
  m.at("rope_factors_short.weight").values = m.at("rope_factors_long.weight").values;
  EXPECT_TRUE(same_bits(logits_of_file(m.write("long.gguf"), 256), long_context));
  EXPECT_GE(relative_squared_error(long_context, short_context), kVisible);
}

}  // namespace
}  // namespace tessera
