// A whole model on the devices of the example backend, alone and together with the CPU.
#include <algorithm>

#include "tests/backend/plugin_support.h"
#include "tests/support/engine_support.h"

namespace tessera {
namespace {

using namespace testing;

struct Told {
  std::vector<int32_t> ids;
  std::string devices;  // of the slices of a decode step
};

Result<Told> tell(const Registry& registry, const std::string& path, const PlacementOptions& placement, DType cache) {
  TESSERA_ASSIGN(const std::shared_ptr<Engine> engine, Engine::open(registry, path, {.placement = placement}));
  TESSERA_TRY(engine->load({}));
  Told told;
  TESSERA_ASSIGN(const auto session,
                 Session::create(engine, {.n_ctx = 128, .n_ubatch = 32, .type_k = cache, .type_v = cache}));
  TESSERA_ASSIGN(told.ids, greedy_ids(*session, text_ids(*engine, "Once upon a time"), 30));
  TESSERA_ASSIGN(const Schedule schedule, session->step_schedule(1, 1));
  for (const Slice& slice : schedule.slices)
    told.devices.append(told.devices.empty() ? "" : " ")
        .append(engine->devices()[static_cast<size_t>(slice.device)]->name());
  return told;
}

TEST(ExampleModel, GreedyTextOfTheStoryModelIsTheCpusHoweverItIsShared) {
  const std::string path = story_model();
  Registry registry;
  registry.add(cpu::create_device("").value());
  registry.set_finder([] { return find_plugins_at({example_plugins_dir()}); });
  ASSERT_OK_AND_ASSIGN(const Told cpu, tell(registry, path, {}, DType::f32));
  const auto expect_shared = [&](const std::vector<std::string>& devices, int64_t n_layers, const std::string& slices) {
    ASSERT_OK_AND_ASSIGN(const Told got,
                         tell(registry, path, {.devices = devices, .n_gpu_layers = n_layers}, DType::f32));
    EXPECT_EQ(got.ids, cpu.ids) << slices;
    EXPECT_EQ(got.devices, slices);
  };
  expect_shared({"example:1"}, kAllLayers, "cpu example:1");  // the CPU looks up the embedding
  expect_shared({"example:1"}, 3, "cpu example:1");
  expect_shared({"example:1", "example:0"}, kAllLayers, "cpu example:1 example:0");
  expect_shared({"example:0"}, kAllLayers, "cpu example:0");
  expect_shared({"example:0"}, 3, "cpu example:0");
  // The example has no f16 caches, so the CPU stores them and computes attention.
  ASSERT_OK_AND_ASSIGN(const Told in_f16, tell(registry, path, {}, DType::f16));
  ASSERT_OK_AND_ASSIGN(const Told got,
                       tell(registry, path, {.devices = {"example:1"}, .offload_caches = false}, DType::f16));
  EXPECT_EQ(got.ids, in_f16.ids);
  EXPECT_EQ(got.devices,  // for five layers: the embedding, then the nodes before and after each attention
            "cpu example:1 cpu example:1 cpu example:1 cpu example:1 cpu example:1 cpu example:1");
}

}  // namespace
}  // namespace tessera
