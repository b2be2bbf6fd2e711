// Windows, ropes and cache shapes of the layers of each architecture, for files with more layers or other keys than the
// golden files.
#include "tessera/models/transformer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "tests/support/engine_support.h"
#include "tests/support/float_model.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;

/// The model of a golden file after a change.
Result<std::unique_ptr<Model>> changed(const std::string& path, const std::function<void(FloatModel&)>& change,
                                       std::unique_ptr<ModelFiles>& files) {
  FloatModel m(path);
  change(m);
  TESSERA_ASSIGN(files, ModelFiles::open(m.write("changed.gguf")));
  return create_model(*files, {});
}

struct Layers {
  std::vector<int64_t> windows;
  std::vector<int> ropes;
};

Layers layers_of(const ModelInfo& info) {
  Layers layers;
  for (const KvLayerShape& shape : info.kv_layers) layers.windows.push_back(shape.window);
  layers.ropes = info.kv_ropes;
  return layers;
}

class TransformerLayers : public ::testing::Test {
 protected:
  void check(const std::string& file, const std::function<void(FloatModel&)>& change, const Layers& want) {
    const std::string path = arch_model(file);
    std::unique_ptr<ModelFiles> files;
    ASSERT_OK_AND_ASSIGN(const auto model, changed(path, change, files));
    const Layers got = layers_of(model->info());
    EXPECT_EQ(got.windows, want.windows);
    EXPECT_EQ(got.ropes, want.ropes);
  }
};

TEST_F(TransformerLayers, SmolLm3HasNoPositionsInEveryFourth) {
  check("smollm3-dense", [](FloatModel& m) { m.repeat_layer_0("smollm3", 8); },
        {std::vector<int64_t>(8, 0), {0, 0, 0, -1, 0, 0, 0, -1}});
}

// The cache holds a window as long as a chunk.
TEST_F(TransformerLayers, Llama4HasChunksInThreeOfFour) {
  check("llama4-moe", [](FloatModel&) {}, {{8192, 8192, 8192, 0}, {0, 0, 0, -1}});
}

// Every fourth layer is without rope whatever the period of chunks is.
TEST_F(TransformerLayers, Llama4sPeriodOfChunksIsAKey) {
  const auto with_period = [](uint32_t period) {
    return [=](FloatModel& m) { m.keys.set("llama4.attention.sliding_window_pattern", period); };
  };
  check("llama4-moe", with_period(2), {{8192, 0, 8192, 0}, {0, 0, 0, -1}});
  check("llama4-moe", with_period(0), {{8192, 8192, 8192, 8192}, {0, 0, 0, -1}});
}

TEST_F(TransformerLayers, SmallThinkersPeriodOfWindowsIsAKey) {
  const auto with_layers = [](FloatModel& m) { m.repeat_layer_0("smallthinker", 6); };
  const std::vector<int> ropes = {-1, 0, 0, 0, -1, 0};
  const int64_t w = 4096;
  check("smallthinker-moe", with_layers, {{0, w, w, w, 0, w}, ropes});
  const auto with_period = [&](FloatModel& m) {
    with_layers(m);
    m.keys.set("smallthinker.attention.sliding_window_pattern", 2u);
  };
  check("smallthinker-moe", with_period, {{0, w, 0, w, 0, w}, ropes});
  const auto with_array = [&](FloatModel& m) {  // only a number has an effect
    with_layers(m);
    m.keys.set_array("smallthinker.attention.sliding_window_pattern", std::vector<int32_t>(6, 1));
  };
  check("smallthinker-moe", with_array, {{0, w, w, w, 0, w}, ropes});
}

TEST_F(TransformerLayers, Gemma2HasAWindowInEveryOther) {
  check("gemma2-dense", [](FloatModel& m) { m.repeat_layer_0("gemma2", 4); }, {{16, 0, 16, 0}, {0, 0, 0, 0}});
}

TEST_F(TransformerLayers, Gemma3HasARopeForWindows) {
  check("gemma3-dense", [](FloatModel&) {}, {{16, 16, 16, 16, 16, 0, 16}, {1, 1, 1, 1, 1, 0, 1}});
  check("gemma3-dense", [](FloatModel& m) { m.keys.remove("gemma3.attention.sliding_window"); },
        {std::vector<int64_t>(7, 0), std::vector<int>(7, 0)});
}

/// Heads of half the width, so that the head size differs from n_embd / n_heads.
void halve_heads(FloatModel& m, const std::string& architecture) {
  for (const char* key : {"key_length", "value_length", "key_length_swa", "value_length_swa"})
    m.keys.set(architecture + ".attention." + key, 16u);
  m.keys.set(architecture + ".rope.dimension_count", 16u);
  for (FloatModel::Entry& entry : m.tensors) {
    const auto is = [&](std::string_view part) { return entry.name.find(part) != std::string::npos; };
    if (!is("attn_q") && !is("attn_k") && !is("attn_v") && !is("attn_output")) continue;
    const bool has_row_per_output = entry.name.ends_with("weight") && !is("attn_output") && !is("norm");
    entry.shape[has_row_per_output ? 1 : 0] /= 2;
    entry.values.resize(static_cast<size_t>(entry.shape.n_elements()));
  }
}

/// The factor of attention scores in a model of n layers.
std::set<float> score_scales(const std::string& architecture, int n_layers) {
  FloatModel m(arch_model(architecture + "-dense"));
  m.repeat_layer_0(architecture, n_layers);
  m.drop_scales();
  halve_heads(m, architecture);
  const auto engine = load_engine(m.write("scales.gguf"));
  EXPECT_OK(engine);
  if (!engine) return {};
  const auto cache = KvCache::plan((*engine)->device(), {.layers = (*engine)->model().info().kv_layers, .n_ctx = 64});
  EXPECT_OK(cache);
  GraphBuilder b;
  (*engine)->model().build(b, nn::add_batch_inputs(b, **cache, 2, 2), **cache);
  const auto graph = std::move(b).finish();
  EXPECT_OK(graph);
  std::set<float> scales;
  for (const Node& node : graph->nodes())
    if (const auto* params = std::get_if<AttentionParams>(&node.params)) scales.insert(params->scale);
  return scales;
}

TEST(DecoderScores, OfTheLargestGemmasAreScaledByTheWidthPerHead) {
  const std::set<float> of_head{1 / std::sqrt(16.0f)}, of_model{1 / std::sqrt(128.0f / 4)};
  EXPECT_EQ(score_scales("gemma2", 45), of_head);
  EXPECT_EQ(score_scales("gemma2", 46), of_model);
  EXPECT_EQ(score_scales("gemma3", 46), of_head);
  EXPECT_EQ(score_scales("gemma3", 62), of_model);
}

TEST_F(TransformerLayers, Cohere2TurnsOnlyWhereItHasAWindow) {
  check("cohere2-dense", [](FloatModel& m) { m.repeat_layer_0("cohere2", 5); },
        {{16, 16, 16, 0, 16}, {0, 0, 0, -1, 0}});
}

TEST_F(TransformerLayers, GptOssHasAWindowInEveryOther) {
  check("gpt-oss-moe", [](FloatModel& m) { m.repeat_layer_0("gpt-oss", 4); }, {{16, 0, 16, 0}, {0, 0, 0, 0}});
}

TEST_F(TransformerLayers, Olmo2sWindowsAreNotStretched) {
  const auto stretch = [](FloatModel& m) {
    m.keys.set("olmo2.rope.scaling.type", "yarn");
    m.keys.set("olmo2.rope.scaling.factor", 4.0f);
  };
  check("olmo2-dense", stretch, {{16, 16, 16, 0}, {1, 1, 1, 0}});
  const auto stretch_without_windows = [&](FloatModel& m) {
    stretch(m);
    m.keys.set("olmo2.attention.sliding_window", 0u);
  };
  check("olmo2-dense", stretch_without_windows, {{0, 0, 0, 0}, {0, 0, 0, 0}});
}

TEST_F(TransformerLayers, Exaone4HasWindowsIfItHas64Layers) {
  check("exaone4-dense", [](FloatModel&) {}, {{0, 0}, {0, 0}});
  Layers want;
  for (int il = 0; il < 64; ++il) {
    want.windows.push_back(il % 4 == 3 ? 0 : 16);
    want.ropes.push_back(il % 4 == 3 ? -1 : 0);
  }
  check(
      "exaone4-dense", [](FloatModel& m) { m.repeat_layer_0("exaone4", 64); }, want);
}

TEST_F(TransformerLayers, LayersThatPredictMoreTokensAreLeftOut) {
  check("glm4-dense",
        [](FloatModel& m) {
          m.repeat_layer_0("glm4", 3);
          m.keys.set("glm4.nextn_predict_layers", 1u);
        },
        {{0, 0}, {0, 0}});
}

TEST_F(TransformerLayers, DeepSeekKeepsOneVectorPerToken) {
  const std::string path = arch_model("deepseek2-moe");
  std::unique_ptr<ModelFiles> files;
  ASSERT_OK_AND_ASSIGN(const auto model, changed(
                                             path, [](FloatModel&) {}, files));
  EXPECT_EQ(model->info().kv_layers, (std::vector<KvLayerShape>(2, {.n_heads_kv = 1, .k_dim = 576, .v_dim = 0})));
}

// Command R+ norms heads, so a file without those weights is refused.
TEST(Transformer, CommandRPlusIsToldByItsLayers) {
  const std::string path = arch_model("command-r-dense");
  std::unique_ptr<ModelFiles> files;
  EXPECT_OK(changed(
      path, [](FloatModel& m) { m.repeat_layer_0("command-r", 63); }, files));
  EXPECT_ERROR(changed(
                   path, [](FloatModel& m) { m.repeat_layer_0("command-r", 64); }, files),
               "tensor blk.0.attn_q_norm.weight [32, 4] is missing");
}

/// The rope of a Grok model with these numbers of its file's keys "rope.scaling.".
nn::RopeConfig grok_rope(const std::string& type, const std::vector<std::pair<std::string, float>>& numbers,
                         const RopeOverrides& overrides = {}) {
  FloatModel m(arch_model("grok-moe"));
  for (const char* key : {"yarn_ext_factor", "yarn_attn_factor", "yarn_beta_fast", "yarn_beta_slow", "attn_factor"})
    m.keys.remove(std::string("grok.rope.scaling.") + key);
  m.keys.set("grok.rope.scaling.type", type);
  m.keys.set("grok.rope.scaling.factor", 4.0f);
  for (const auto& [key, value] : numbers) m.keys.set("grok.rope.scaling." + key, value);
  const auto files = ModelFiles::open(m.write("grok.gguf"));
  EXPECT_OK(files);
  const auto model = create_model(**files, overrides);
  EXPECT_OK(model);
  return (*model)->info().ropes[0].config;
}

TEST(Grok, ReadsTheKeysOfYarn) {
  const nn::RopeConfig absent = grok_rope("yarn", {{"yarn_log_multiplier", 0.5f}});  // a key of others
  EXPECT_EQ(absent.yarn_ext, -1.0f);
  EXPECT_EQ(absent.yarn_beta_fast, 8.0f);
  EXPECT_EQ(absent.yarn_beta_slow, 1.0f);
  EXPECT_EQ(absent.yarn_log_multiplier, 0.0f);
  const nn::RopeConfig given =
      grok_rope("yarn", {{"yarn_ext_factor", 0.5f}, {"yarn_beta_fast", 6.0f}, {"yarn_beta_slow", 2.0f}});
  EXPECT_EQ(given.yarn_ext, 0.5f);
  EXPECT_EQ(given.yarn_beta_fast, 6.0f);
  EXPECT_EQ(given.yarn_beta_slow, 2.0f);
  const nn::RopeConfig overridden =
      grok_rope("yarn", {{"yarn_ext_factor", 0.5f}, {"yarn_beta_fast", 6.0f}, {"yarn_beta_slow", 2.0f}},
                {.yarn_ext = 0.25f, .yarn_beta_fast = 5.0f, .yarn_beta_slow = 3.0f});
  EXPECT_EQ(overridden.yarn_ext, 0.25f);
  EXPECT_EQ(overridden.yarn_beta_fast, 5.0f);
  EXPECT_EQ(overridden.yarn_beta_slow, 3.0f);
}

// llama.cpp has the magnitude of YaRN in place of yarn_attn_factor.
TEST(Grok, YarnsMagnitudeTakesThePlaceOfAKey) {
  const std::vector<std::pair<std::string, float>> both = {{"attn_factor", 1.5f}, {"yarn_attn_factor", 3.0f}};
  const auto with_ext = [&](float ext) {
    auto numbers = both;
    numbers.emplace_back("yarn_ext_factor", ext);
    return numbers;
  };
  EXPECT_EQ(grok_rope("yarn", both).attn_factor, 1.5f);
  EXPECT_EQ(grok_rope("yarn", with_ext(0.0f)).attn_factor, 4.5f);
  EXPECT_EQ(grok_rope("linear", both).attn_factor, 4.5f);
  EXPECT_EQ(grok_rope("linear", with_ext(0.5f)).attn_factor, 1.5f);
  EXPECT_EQ(grok_rope("linear", both, {.attn_factor = 2.0f}).attn_factor, 2.0f);
}

TEST(Transformer, AFourthSectionOfRopeIsNotSupported) {
  const std::string path = arch_model("glm4-dense");
  std::unique_ptr<ModelFiles> files;
  EXPECT_ERROR(changed(
                   path,
                   [](FloatModel& m) {
                     m.keys.set_array("glm4.rope.dimension_sections", std::vector<int32_t>{4, 4, 4, 4});
                   },
                   files),
               "the fourth section begins at pair 12 of 16");
}

TEST(Transformer, TiedOutputIsTheEmbedding) {
  const std::string path = arch_model("qwen2-dense");
  std::unique_ptr<ModelFiles> files;
  EXPECT_OK(changed(
      path, [](FloatModel& m) { m.drop("output.weight"); }, files));
  const std::string untied = arch_model("olmoe-moe");
  EXPECT_ERROR(changed(
                   untied, [](FloatModel& m) { m.drop("output.weight"); }, files),
               "tensor output.weight [128, 256] is missing");
}

TEST(Transformer, GroupsOfExpertsMustBeLargeEnough) {
  const std::string path = arch_model("deepseek2-moe");
  std::unique_ptr<ModelFiles> files;
  const auto with_groups = [&](uint32_t n, uint32_t n_used) {
    return changed(
        path,
        [&](FloatModel& m) {
          m.keys.set("deepseek2.expert_group_count", n);
          m.keys.set("deepseek2.expert_group_used_count", n_used);
        },
        files);
  };
  EXPECT_OK(with_groups(2, 1));
  EXPECT_ERROR(with_groups(4, 1), "4 experts in 4 groups, of which 1 are kept: too few for 2 chosen");
  EXPECT_ERROR(with_groups(3, 2), "4 experts in 3 groups");
  EXPECT_ERROR(with_groups(2, 3), "expert_group_used_count': 3, want 1 to 2");
  EXPECT_ERROR(with_groups(2, 0), "expert_group_used_count': 0, want 1 to 2");
}

}  // namespace
}  // namespace tessera
