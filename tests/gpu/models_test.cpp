// Whole models on the device: the greedy text of the story model equals the CPU's, and the logits of small models of
// many architectures agree with the reference program.
#include "tessera/engine/session.h"
#include "tests/gpu/gpu_support.h"
#include "tests/support/arch_files.h"
#include "tests/support/engine_support.h"
#include "tests/support/spec_model.h"

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
