// Models on several devices have the same bits as on one device, for every placement of layers, weights and caches.
#include <fmt/format.h>

#include "tests/support/engine_support.h"
#include "tests/support/fake_device.h"
#include "tests/support/lora_support.h"
#include "tests/support/spec_model.h"
#include "tests/support/tiny_t5.h"

namespace tessera {
namespace {

using namespace testing;

constexpr int64_t kDeviceTokens = 70;  // two blocks of the cache

Result<std::shared_ptr<Engine>> open_on(const std::shared_ptr<Registry>& registry, const std::string& path,
                                        const PlacementOptions& placement) {
  TESSERA_ASSIGN(std::shared_ptr<Engine> engine, Engine::open(*registry, path, {.placement = placement}));
  return std::shared_ptr<Engine>(engine.get(), [owner = engine, keep = registry](Engine*) mutable {
    owner.reset();
    keep.reset();
  });
}

Result<std::shared_ptr<Engine>> load_on(const std::shared_ptr<Registry>& registry, const std::string& path,
                                        const PlacementOptions& placement) {
  TESSERA_ASSIGN(auto engine, open_on(registry, path, placement));
  TESSERA_TRY(engine->load({}));
  return engine;
}

SessionOptions options_of(int n_threads = 1) {
  return {.n_ctx = 2 * 128,
          .n_ubatch = 33,
          .n_sequences = 2,
          .n_outputs = 2 * kDeviceTokens,
          .threads = {.n_threads = n_threads}};
}

// Returns the logits of all kinds of steps of a session, one after another.
Result<std::vector<float>> logits_of_a_life(const std::shared_ptr<Engine>& engine) {
  TESSERA_ASSIGN(const auto session, Session::create(engine, options_of()));
  std::vector<float> rows;
  const auto keep_rows = [&](const Session& from) {
    const std::vector<float> more = all_rows(from);
    rows.insert(rows.end(), more.begin(), more.end());
  };
  const std::vector<int32_t> tokens = token_ids(*engine, kDeviceTokens), others = token_ids(*engine, kDeviceTokens, 5);
  TESSERA_TRY(session->decode(all_logits(tokens)));  // a prefill of three micro-batches
  keep_rows(*session);
  Batch both;  // two sequences token by token
  for (int32_t p = 0; p < 20; ++p)
    both.add({.token = others[static_cast<size_t>(p)], .position = p, .sequence = 1, .wants_logits = true});
  both.add({.token = 3, .position = kDeviceTokens, .sequence = 0, .wants_logits = true});
  TESSERA_TRY(session->decode(both));
  keep_rows(*session);
  TESSERA_TRY(session->decode(Batch::prompt(std::span(others).subspan(20, 1), 20, 1)));
  keep_rows(*session);
  TESSERA_ASSIGN(const auto state, session->save_state(0));
  TESSERA_ASSIGN(const auto fresh, Session::create(engine, options_of(2)));
  TESSERA_TRY(fresh->restore_state(1, state));
  TESSERA_TRY(fresh->decode(Batch::prompt(std::span(others).first(1), kDeviceTokens + 1, 1)));
  keep_rows(*fresh);
  TESSERA_TRY(fresh->shift(1, 0, kDeviceTokens + 2, 5));
  TESSERA_TRY(fresh->copy(1, 0, 0, kDeviceTokens + 7));
  TESSERA_TRY(fresh->decode(Batch::prompt(std::span(others).first(1), kDeviceTokens + 7, 0)));
  keep_rows(*fresh);
  return rows;
}

void expect_planned_is_allocated(const std::shared_ptr<Engine>& engine) {
  ASSERT_OK_AND_ASSIGN(const MemoryReport plan, Session::plan(*engine, options_of()));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, options_of()));
  const MemoryReport allocated = session->allocated_memory();
  ASSERT_EQ(plan.parts.size(), allocated.parts.size());
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    EXPECT_EQ(plan.parts[i].device, allocated.parts[i].device);
    EXPECT_EQ(plan.parts[i].buffer, allocated.parts[i].buffer);
    EXPECT_EQ(plan.parts[i].bytes, allocated.parts[i].bytes) << plan.parts[i].buffer;
  }
  for (const Device* device : engine->devices()) {
    const auto* fake = dynamic_cast<const FakeDevice*>(device);
    if (fake != nullptr) {
      EXPECT_EQ(fake->used_bytes(), plan.bytes_of(fake->name()));
    }
  }
}

class SeveralDevices : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!runs_all_cases() && GetParam() == std::string_view("story")) GTEST_SKIP() << "the others have all it has";
    path_ = named_model(GetParam());
    ASSERT_OK_AND_ASSIGN(const auto engine, load_on(fake_registry({}), path_, {}));
    n_layers_ = engine->model().info().n_layers;
    ASSERT_OK_AND_ASSIGN(expected_, logits_of_a_life(engine));
  }

  void expect_same(const std::shared_ptr<Registry>& registry, const PlacementOptions& placement,
                   const std::string& what) {
    ASSERT_OK_AND_ASSIGN(const auto engine, load_on(registry, path_, placement));
    ASSERT_OK_AND_ASSIGN(const auto rows, logits_of_a_life(engine));
    EXPECT_TRUE(same_bits(rows, expected_)) << what;
    expect_planned_is_allocated(engine);
  }

  std::string path_;
  int64_t n_layers_ = 0;
  std::vector<float> expected_;
};

// A dense model, one with windows and one table for input and output, one with recurrent layers, one with experts.
INSTANTIATE_TEST_SUITE_P(Models, SeveralDevices, ::testing::Values("story", "gemma3-dense", "lfm2-dense", "llama-moe"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST_P(SeveralDevices, GiveTheSameBitsForASplitAtEveryLayer) {
  for (int64_t n = 0; n <= n_layers_ + 1; n += testing::all_or_few(1, 2))
    expect_same(fake_registry({{}}), {.devices = {"fake:0"}, .n_gpu_layers = n}, fmt::format("{} layers", n));
}

TEST_P(SeveralDevices, GiveTheSameBitsWhereverThingsLie) {
  const auto three = [] { return fake_registry({{}, {.name = "fake:1"}}); };
  const std::vector<std::string> names = {"fake:0", "fake:1"};
  expect_same(three(), {.devices = names}, "two devices");
  expect_same(three(), {.devices = {"fake:1", "fake:0"}, .shares = {3, 1}}, "three to one");
  expect_same(three(), {.devices = names, .split = SplitMode::none, .main_device = 1}, "the second alone");
  expect_same(three(), {.devices = names, .offload_caches = false}, "caches on the CPU");
  expect_same(three(), {.devices = names, .n_cpu_expert_layers = 1}, "experts of one layer on the CPU");
  expect_same(three(), {.devices = names, .rules = {{"ffn_down", "cpu"}, {"attn_q", "FAKE:1"}}}, "rules");
  expect_same(three(), {.devices = names, .rules = {{"blk.*[02468]\\.", "fake:1"}, {"", "cpu"}}}, "a zebra");
}

TEST_P(SeveralDevices, GiveTheSameBitsWithRowsOnEach) {
  const auto fakes = [] { return fake_registry({{}, {.name = "fake:1"}, {.name = "fake:2"}}); };
  const std::vector<std::string> two = {"fake:0", "fake:1"}, three = {"fake:0", "fake:1", "fake:2"};
  const auto split = [](std::vector<std::string> devices, std::vector<float> shares = {1, 1, 1}) {
    shares.resize(devices.size());
    return PlacementOptions{.devices = std::move(devices), .split = SplitMode::row, .shares = std::move(shares)};
  };
  expect_same(fakes(), split(two), "two devices");
  expect_same(fakes(), split(three, {1, 3, 2}), "three devices");
  PlacementOptions options = split(three, {0, 1, 1});
  expect_same(fakes(), options, "no rows on the main device");
  options = split(two);
  options.main_device = 1;
  options.n_gpu_layers = n_layers_ / 2 + 1;
  expect_same(fakes(), options, "half of the layers");
  options.offload_caches = false;
  options.rules = {{"ffn_down", "fake:0"}};
  expect_same(fakes(), options, "caches on the CPU and a rule");
}

// Weights that a device cannot multiply stay on the CPU. Other operations that it cannot run are computed on the CPU.
TEST_P(SeveralDevices, GiveTheSameBitsWhereADeviceLacksOperations) {
  for (const Op lacking : {Op::mul_mat, Op::rms_norm, Op::paged_attention, Op::kv_store, Op::rope, Op::add}) {
    if (!runs_all_cases() && lacking != Op::paged_attention && lacking != Op::add) continue;
    const auto lacks = [=](const Graph& graph, NodeId id) { return graph[id].op == lacking; };
    if (lacking == Op::paged_attention || lacking == Op::kv_store) {
      const PlacementOptions placement{.devices = {"fake:0"}, .offload_caches = false};
      expect_same(fake_registry({{.lacks = lacks}}), placement, "without attention");
    } else {
      expect_same(fake_registry({{.lacks = lacks}}), {.devices = {"fake:0"}}, fmt::format("op {}", int(lacking)));
    }
  }
}

// Derivation for the story model of 5 layers. The CPU computes RoPE tables and rows of token_embd, or a GPU that has
// all layers does. Copies between the devices: the RoPE table, x, positions, and other values first read on the other
// device. Between layers, x is the sum that ends a layer, and the device computes it from copies of the two operands.
TEST(StepSchedule, HasTheSlicesAndCopiesDerivedByHand) {
  const std::string path = story_model();
  struct Case {
    PlacementOptions placement;
    size_t n_slices, n_copies;
  };
  const Case cases[] = {
      // Everything on the device.
      {{.devices = {"fake:0"}}, 1, 0},
      // All but token_embd: the CPU, then the device: RoPE table, x, positions.
      {{.devices = {"fake:0"}, .rules = {{"token_embd", "cpu"}}}, 2, 3},
      // Layers 3 and 4 and the output on the device: RoPE table, residual and product, positions, sequences, cells.
      {{.devices = {"fake:0"}, .n_gpu_layers = 3}, 2, 6},
      // Attention on the CPU: per layer, q, k and v to the CPU and the result back; at first the positions.
      {{.devices = {"fake:0"}, .offload_caches = false}, 1 + 2 * 5, 1 + 4 * 5},
      // Only the output on the device: residual and product.
      {{.devices = {"fake:0"}, .n_gpu_layers = 1}, 2, 2},
      {{}, 1, 0},
      // Rows on two devices. Slices: the nodes before the first products. Each layer has four groups (q,
      // k and v; the output of attention; gate and up; down) of three slices: products on the other device, products on
      // the main device, and the nodes after them. Copies: per layer, four times x to the other device and seven
      // products back. The output has the same copies.
      {{.devices = {"fake:0", "fake:1"}, .split = SplitMode::row, .shares = {1, 1}}, 1 + 21 * 3, 5 * (4 + 7) + 2},
  };
  for (const Case& c : cases) {
    ASSERT_OK_AND_ASSIGN(const auto engine, open_on(fake_registry({{}, {.name = "fake:1"}}), path, c.placement));
    ASSERT_OK_AND_ASSIGN(const auto session, Session::plan_session(*engine, {.n_ctx = 128}));
    for (const int64_t n_tokens : {1, 7}) {
      ASSERT_OK_AND_ASSIGN(const Schedule schedule, session->step_schedule(n_tokens, 1));
      EXPECT_EQ(schedule.slices.size(), c.n_slices);
      EXPECT_EQ(schedule.n_copies(), c.n_copies);
    }
  }
}

// LoRA terms are on the device of their weights, control vectors on the device of their layers.
TEST(SeveralDevicesWithAdapters, GiveTheSameBits) {
  const std::string path = story_model();
  ASSERT_OK_AND_ASSIGN(const auto files, GgufFile::open(path));
  AdapterFile lora = AdapterFile::lora("llama", 8);
  for (const GgufTensor& tensor : files->tensors())
    if (tensor.shape[1] > 1 && !std::string_view(tensor.name).starts_with("token")) lora.add_pair(tensor, 4, 0.5f);
  const std::string lora_path = lora.write("several.gguf");
  AdapterFile control = AdapterFile::control_vector();
  for (int il = 1; il < 5; ++il) control.add_random(fmt::format("direction.{}", il), {64}, 0.5f);
  const std::string control_path = control.write("several_control.gguf");
  std::vector<float> expected;
  for (const int64_t n : {0, 1, 3, 6}) {
    ASSERT_OK_AND_ASSIGN(const auto engine,
                         load_on(fake_registry({{}}), path, {.devices = {"fake:0"}, .n_gpu_layers = n}));
    ASSERT_OK_AND_ASSIGN(const auto a, Adapter::open_lora(*engine, lora_path));
    ASSERT_OK_AND_ASSIGN(const auto b, Adapter::open_control_vector(*engine, control_path, {}));
    SessionOptions options = options_of();
    options.adapters = {{a, 1.0f}, {b, 0.5f}};
    ASSERT_OK_AND_ASSIGN(const MemoryReport plan, Session::plan(*engine, options));
    ASSERT_OK(a->load());
    ASSERT_OK(b->load());
    ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, options));
    EXPECT_EQ(plan.bytes_of("fake:0"), session->allocated_memory().bytes_of("fake:0"));
    ASSERT_OK_AND_ASSIGN(const auto rows, logits_of(*session, token_ids(*engine, 20)));
    if (expected.empty()) expected = rows;
    EXPECT_TRUE(same_bits(rows, expected)) << n;
    ASSERT_OK_AND_ASSIGN(const Schedule schedule, session->step_schedule(7, 1));
    EXPECT_LE(schedule.slices.size(), 2u);
  }
}

// An encoder-decoder model, whose prompts have a cache of their own.
TEST(SeveralDevicesWithAnEncoder, GiveTheSameBits) {
  const std::string path = TinyT5("t5").write("several_t5.gguf");
  std::vector<float> expected;
  for (const int64_t n : {0, 1, 2, 3, 4}) {
    ASSERT_OK_AND_ASSIGN(const auto engine,
                         load_on(fake_registry({{}}), path, {.devices = {"fake:0"}, .n_gpu_layers = n}));
    ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, options_of()));
    ASSERT_OK(session->encode(0, TinyT5::letters("hello")));
    ASSERT_OK_AND_ASSIGN(const auto rows, logits_of(*session, std::vector<int32_t>{3, 5, 6, 7}));
    if (expected.empty()) expected = rows;
    EXPECT_TRUE(same_bits(rows, expected)) << n;
  }
}

}  // namespace
}  // namespace tessera
