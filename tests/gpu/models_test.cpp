// Whole models on the device: the greedy text of the story model equals the CPU's, and the logits of small models of
// many architectures agree with the reference program.
#include "tessera/engine/session.h"
#include "tests/gpu/gpu_support.h"
#include "tests/support/arch_files.h"
#include "tests/support/deepseek4_model.h"
#include "tests/support/engine_support.h"
#include "tests/support/spec_model.h"
#include "tests/support/tiny_models.h"

namespace tessera {
namespace {

using namespace testing;

Result<std::shared_ptr<Engine>> load_on_gpu(const std::string& path, bool maps_memory = true) {
  TESSERA_ASSIGN(std::shared_ptr<Engine> engine,
                 Engine::open(gpu_registry(maps_memory), path, {.placement = {.devices = {kGpuName}}}));
  TESSERA_TRY(engine->load({}));
  return engine;
}

Result<std::vector<int32_t>> greedy_ids_of(const std::shared_ptr<Engine>& engine, DType type) {
  TESSERA_ASSIGN(const auto session,
                 Session::create(engine, {.n_ctx = 256, .n_ubatch = 32, .type_k = type, .type_v = type}));
  return greedy_ids(*session, text_ids(*engine, "Once upon a time"), is_emulated() ? 12 : 60);
}

using GpuModels = GpuTest;

TEST_F(GpuModels, GreedyTextOfTheStoryModelIsTheCpus) {
  const std::string path = story_model();
  ASSERT_OK_AND_ASSIGN(const auto cpu, load_engine(path));
  for (const DType type : {DType::f32, DType::f16}) {
    ASSERT_OK_AND_ASSIGN(const auto expected, greedy_ids_of(cpu, type));
    for (const bool maps_memory : {true, false}) {
      ASSERT_OK_AND_ASSIGN(const auto engine, load_on_gpu(path, maps_memory));
      ASSERT_OK_AND_ASSIGN(const auto got, greedy_ids_of(engine, type));
      EXPECT_EQ(got, expected) << maps_memory;
    }
  }
}

// --- models whose queries choose their keys

void add_dense_block(tiny::TinyModel& m, const std::string& blk, const std::string& suffix, int64_t n_ff) {
  m.add(blk + "ffn_gate" + suffix + ".weight", {tiny::kWidth, n_ff});
  m.add(blk + "ffn_up" + suffix + ".weight", {tiny::kWidth, n_ff});
  m.add(blk + "ffn_down" + suffix + ".weight", {n_ff, tiny::kWidth});
}

// DeepSeek V3.2: all heads attend to the 5 best keys.
tiny::TinyModel deepseek_model() {
  constexpr int64_t kLayers = 2, kHeads = 4, kRot = 4, kNope = 6, kLatent = 10, kLatentQ = 9, kValue = 5, kFf = 20;
  tiny::TinyModel m("deepseek32", kLayers);
  const std::pair<const char*, int64_t> keys[] = {{"attention.head_count", kHeads},
                                                  {"attention.head_count_kv", 1},
                                                  {"attention.key_length", kLatent + kRot},
                                                  {"attention.value_length", kLatent},
                                                  {"rope.dimension_count", kRot},
                                                  {"feed_forward_length", kFf},
                                                  {"expert_count", 4},
                                                  {"expert_used_count", 2},
                                                  {"expert_feed_forward_length", 10},
                                                  {"leading_dense_block_count", kLayers},
                                                  {"expert_gating_func", 2},
                                                  {"expert_shared_count", 1},
                                                  {"attention.kv_lora_rank", kLatent},
                                                  {"attention.q_lora_rank", kLatentQ},
                                                  {"attention.key_length_mla", kNope + kRot},
                                                  {"attention.value_length_mla", kValue},
                                                  {"attention.indexer.head_count", 3},
                                                  {"attention.indexer.key_length", 8},
                                                  {"attention.indexer.top_k", 5}};
  for (const auto& [name, value] : keys) m.key(name, value);
  for (int64_t il = 0; il < kLayers; ++il) {
    const std::string blk = fmt::format("blk.{}.", il);
    for (const char* norm : {"attn_norm", "ffn_norm"}) m.norm(blk + norm, {tiny::kWidth});
    m.norm(blk + "attn_kv_a_norm", {kLatent});
    m.norm(blk + "attn_q_a_norm", {kLatentQ});
    m.norm(blk + "indexer.k_norm", {8});
    m.add(blk + "indexer.k_norm.bias", {8});
    m.add(blk + "indexer.attn_k.weight", {tiny::kWidth, 8});
    m.add(blk + "indexer.attn_q_b.weight", {kLatentQ, 3 * 8});
    m.add(blk + "indexer.proj.weight", {tiny::kWidth, 3});
    m.add(blk + "attn_kv_a_mqa.weight", {tiny::kWidth, kLatent + kRot});
    m.add(blk + "attn_q_a.weight", {tiny::kWidth, kLatentQ});
    m.add(blk + "attn_q_b.weight", {kLatentQ, kHeads * (kNope + kRot)});
    m.add(blk + "attn_k_b.weight", {kNope, kLatent, kHeads});
    m.add(blk + "attn_v_b.weight", {kLatent, kValue, kHeads});
    m.add(blk + "attn_output.weight", {kHeads * kValue, tiny::kWidth});
    add_dense_block(m, blk, "", kFf);
  }
  m.norm("output_norm", {tiny::kWidth});
  return m;
}

// DeepSeek V4: layers that choose among entries of 4 tokens, and one without entries, whose experts a table chooses.
tiny::TinyModel deepseek4_model() { return deepseek4::random_model({.ratios = {0, 4, 4}, .n_hashed = 1}); }

// MiniMax M3: in the second layer, each KV head chooses 3 blocks of 3 tokens, one of them the query's own.
tiny::TinyModel minimax_model() {
  constexpr int64_t kHeads = 4, kHeadsKv = 2, kDim = 8, kFf = 20, kExperts = 4, kFfExperts = 10;
  tiny::TinyModel m("minimax-m3", 2);
  const std::pair<const char*, int64_t> keys[] = {{"attention.head_count", kHeads},
                                                  {"attention.head_count_kv", kHeadsKv},
                                                  {"attention.key_length", kDim},
                                                  {"attention.value_length", kDim},
                                                  {"rope.dimension_count", 4},
                                                  {"feed_forward_length", kFf},
                                                  {"expert_count", kExperts},
                                                  {"expert_used_count", 2},
                                                  {"expert_feed_forward_length", kFfExperts},
                                                  {"leading_dense_block_count", 1},
                                                  {"expert_gating_func", 2},
                                                  {"expert_shared_count", 1},
                                                  {"attention.indexer.head_count", kHeadsKv},
                                                  {"attention.indexer.key_length", 8},
                                                  {"attention.indexer.top_k", 3},
                                                  {"attention.indexer.block_size", 3},
                                                  {"attention.indexer.local_blocks", 1}};
  for (const auto& [name, value] : keys) m.key(name, value);
  m.key("expert_weights_norm", true);
  for (int64_t il = 0; il < 2; ++il) {
    const std::string blk = fmt::format("blk.{}.", il);
    for (const char* norm : {"attn_norm", "ffn_norm"}) m.norm(blk + norm, {tiny::kWidth});
    for (const char* norm : {"attn_q_norm", "attn_k_norm"}) m.norm(blk + norm, {kDim});
    m.add(blk + "attn_q.weight", {tiny::kWidth, kHeads * kDim});
    for (const char* name : {"attn_k", "attn_v"}) m.add(blk + name + ".weight", {tiny::kWidth, kHeadsKv * kDim});
    m.add(blk + "attn_output.weight", {kHeads * kDim, tiny::kWidth});
  }
  add_dense_block(m, "blk.0.", "", kFf);
  add_dense_block(m, "blk.1.", "_shexp", kFfExperts);
  m.add("blk.1.ffn_gate_inp.weight", {tiny::kWidth, kExperts});
  m.add("blk.1.exp_probs_b.bias", {kExperts}, 0.5f);
  for (const char* name : {"ffn_gate_exps", "ffn_up_exps"})
    m.add(std::string("blk.1.") + name + ".weight", {tiny::kWidth, kFfExperts, kExperts});
  m.add("blk.1.ffn_down_exps.weight", {kFfExperts, tiny::kWidth, kExperts});
  for (const char* norm : {"indexer.k_norm", "indexer.q_norm"}) m.norm(std::string("blk.1.") + norm, {8});
  m.add("blk.1.indexer.k_proj.weight", {tiny::kWidth, 8});
  m.add("blk.1.indexer.q_proj.weight", {tiny::kWidth, kHeadsKv * 8});
  m.norm("output_norm", {tiny::kWidth});
  return m;
}

TEST_F(GpuModels, QueriesChooseTheKeysThatTheyChooseOnTheCpu) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < 40; ++i) tokens.push_back(i * 7 % static_cast<int32_t>(tiny::kVocab));
  for (const auto make : {deepseek_model, deepseek4_model, minimax_model}) {
    tiny::TinyModel m = make();
    const std::string path = m.write("chooses_on_gpu.gguf");
    const auto run = [&](const std::shared_ptr<Engine>& engine, int64_t n_ubatch) -> Result<std::vector<float>> {
      TESSERA_ASSIGN(const auto session, Session::create(engine, {.n_ctx = 128,
                                                                  .n_ubatch = n_ubatch,
                                                                  .n_outputs = std::ssize(tokens),
                                                                  .type_k = DType::f32,
                                                                  .type_v = DType::f32}));
      return logits_of(*session, tokens);
    };
    ASSERT_OK_AND_ASSIGN(const auto cpu, load_engine(path));
    ASSERT_OK_AND_ASSIGN(const auto gpu, load_on_gpu(path));
    ASSERT_OK_AND_ASSIGN(const auto expected, run(cpu, 64));
    ASSERT_OK_AND_ASSIGN(const auto prefill, run(gpu, 64));
    ASSERT_OK_AND_ASSIGN(const auto by_threes, run(gpu, 3));
    EXPECT_LE(relative_error(prefill, expected), 1e-9) << m.architecture();  // another key would change 1e-3
    EXPECT_TRUE(same_bits(by_threes, prefill)) << m.architecture();
  }
}

class GpuArchs : public GpuTest, public ::testing::WithParamInterface<const char*> {};

INSTANTIATE_TEST_SUITE_P(Models, GpuArchs, ::testing::ValuesIn(kArchFiles), arch_file_name);

// The CPU emulates a GPU slowly: a few models, with each kind of layer, stand for all.
bool is_left_out(std::string_view name) {
  constexpr std::string_view kEmulated[] = {"llama-dense", "deepseek2-moe", "gpt-oss-moe",
                                            "lfm2-dense",  "mamba-dense",   "qwen3-dense"};
  return is_emulated() && std::ranges::find(kEmulated, name) == std::end(kEmulated);
}

TEST_P(GpuArchs, LogitsAreTheReferences) {
  const std::string name = GetParam();
  if (is_left_out(name)) GTEST_SKIP() << "on an emulated device only a few models run";
  const auto [tokens, expected] = arch_logits(name);
  ASSERT_FALSE(expected.empty());
  ASSERT_OK_AND_ASSIGN(const auto engine, load_on_gpu(arch_model(name)));
  const auto n_tokens = static_cast<int64_t>(tokens.size());
  const auto open = [&](int64_t n_ubatch) {
    return Session::create(
        engine,
        {.n_ctx = 128, .n_ubatch = n_ubatch, .n_outputs = n_tokens, .type_k = DType::f32, .type_v = DType::f32});
  };
  ASSERT_OK_AND_ASSIGN(const auto session, open(64));
  ASSERT_OK_AND_ASSIGN(const auto prefill, logits_of(*session, tokens));
  ASSERT_EQ(prefill.size(), expected.size());
  // The bound for the CPU is 1e-10. The reference program uses an f16 table for GELU, and f32 angles for exaone4.
  const double error = relative_error(prefill, expected);
  EXPECT_LE(error, 1e-6) << name;
  RecordProperty("nmse", fmt::format("{:.1e}", error));

  if (!engine->model().info().is_causal) return;  // a micro-batch then holds a whole text
  ASSERT_OK_AND_ASSIGN(const auto single, open(3));
  ASSERT_OK_AND_ASSIGN(const auto by_threes, logits_of(*single, tokens));
  EXPECT_TRUE(same_bits(by_threes, prefill));
}

}  // namespace
}  // namespace tessera
