// A model divided between the CPU and a GPU: the logits agree with the CPU's within 1e-4 for every division.
#include "tests/gpu/gpu_support.h"
#include "tests/support/engine_support.h"

namespace tessera {
namespace {

using namespace testing;

using GpuSplit = GpuTest;

TEST_F(GpuSplit, LogitsAreTheCpusAtEverySplit) {
  const std::string path = story_model();
  Registry registry;
  for (auto& device : new_gpu_devices(true, nullptr)) registry.add(std::move(device));
  registry.add(cpu::create_device("").value());
  const auto logits_with = [&](const PlacementOptions& placement) -> Result<std::vector<float>> {
    TESSERA_ASSIGN(const std::shared_ptr<Engine> engine, Engine::open(registry, path, {.placement = placement}));
    TESSERA_TRY(engine->load({}));
    TESSERA_ASSIGN(const auto session, Session::create(engine, {.n_ctx = 128, .n_ubatch = 33, .n_outputs = 70}));
    TESSERA_TRY(session->decode(all_logits(token_ids(*engine, 69))));
    std::vector<float> rows = all_rows(*session);
    TESSERA_TRY(session->decode(all_logits(token_ids(*engine, 1), 69)));  // a single token
    rows.insert(rows.end(), session->logits(0).begin(), session->logits(0).end());
    return rows;
  };
  ASSERT_OK_AND_ASSIGN(const auto expected, logits_with({}));
  const std::vector<std::string> devices = {kGpuName};
  for (const PlacementOptions& placement :
       {PlacementOptions{.devices = devices, .n_gpu_layers = 1},
        PlacementOptions{.devices = devices, .n_gpu_layers = 3}, PlacementOptions{.devices = devices},
        PlacementOptions{.devices = devices, .offload_caches = false},
        PlacementOptions{.devices = devices, .rules = {{"ffn_down", "cpu"}}}}) {
    ASSERT_OK_AND_ASSIGN(const auto rows, logits_with(placement));
    ASSERT_EQ(rows.size(), expected.size());
    EXPECT_LE(relative_error(rows, expected), 1e-4);
  }
}

}  // namespace
}  // namespace tessera
