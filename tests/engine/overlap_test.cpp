// Overlapped micro-batches on several devices.
#include <functional>
#include <ostream>

#include "tests/support/engine_support.h"
#include "tests/support/fake_device.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;

struct Model {
  std::string name;
  std::function<bool(const Graph&, NodeId)> lacks{};  // operations that the second device does not support
};

class Overlap : public ::testing::TestWithParam<Model> {
 protected:
  void SetUp() override {
    const std::string path = named_model(GetParam().name);
    registry_ = fake_registry({{}, {.name = "fake:1", .lacks = GetParam().lacks}});
    ASSERT_OK_AND_ASSIGN(
        engine_, Engine::open(*registry_, path, {.placement = {.devices = {"fake:0", "fake:1"}, .shares = {1, 1}}}));
    ASSERT_OK(engine_->load({}));
  }

  Result<std::unique_ptr<Session>> session(int64_t n_ubatch) {
    return Session::create(engine_, {.n_ctx = 640, .n_ubatch = n_ubatch, .n_outputs = 600});
  }

  std::shared_ptr<Registry> registry_;
  std::shared_ptr<Engine> engine_;
};

void PrintTo(const Model& model, std::ostream* to) { *to << model.name; }

bool is_attention(const Graph& graph, NodeId id) { return graph[id].op == Op::paged_attention; }

// Models without windows, with windows of 16 whose cells are reused within a batch, and with caches that are copied
// before they are read.
INSTANTIATE_TEST_SUITE_P(
    Models, Overlap, ::testing::Values(Model{"story"}, Model{"gemma3-dense"}, Model{"gemma3-dense", is_attention}),
    [](const auto& instance) {
      return std::string(instance.index == 0 ? "plain" : instance.index == 1 ? "windows" : "windows_copied");
    });

TEST_P(Overlap, GivesTheBitsOfOneMicroBatchAndOfAnyNumber) {
  for (const int64_t n_ubatch : {1, 7, 64, 200, 599}) {
    if (!testing::runs_all_cases() && n_ubatch > 64) continue;
    const int64_t n_tokens = std::min(n_ubatch * testing::all_or_few(200, 5), int64_t{600});
    const std::vector<int32_t> tokens = token_ids(*engine_, n_tokens);
    ASSERT_OK_AND_ASSIGN(const auto whole, session(600));
    ASSERT_OK(whole->decode(all_logits(tokens)));
    ASSERT_OK_AND_ASSIGN(const auto parts, session(n_ubatch));
    for (int run = 0; run < testing::all_or_few(3, 2); ++run) {
      ASSERT_OK(parts->decode(all_logits(tokens)));
      EXPECT_TRUE(same_bits(all_rows(*parts), all_rows(*whole))) << n_ubatch << " tokens, run " << run;
      ASSERT_OK(parts->clear());
    }
  }
}

TEST_P(Overlap, AnErrorOnTheWayLeavesTheSessionAsItWas) {
  const std::vector<int32_t> tokens = token_ids(*engine_, 200);
  const auto begin = [&]() -> Result<std::unique_ptr<Session>> {
    TESSERA_ASSIGN(auto begun, session(16));
    TESSERA_TRY(begun->decode(Batch::prompt(std::span(tokens).first(40), 0, 0)));
    return begun;
  };
  ASSERT_OK_AND_ASSIGN(auto parts, begin());
  for (int run = 0; run < 20; ++run) {
    CancelToken cancel;
    std::thread canceller([&, run] {
      std::this_thread::sleep_for(std::chrono::microseconds(200 * run));
      cancel.cancel();
    });
    const auto done = parts->decode(Batch::prompt(std::span(tokens).subspan(40), 40, 0), &cancel);
    canceller.join();
    if (done) {  // windows do not allow a rollback
      ASSERT_OK_AND_ASSIGN(parts, begin());
    }
    ASSERT_EQ(parts->max_position(0), 39) << "run " << run;
  }
  ASSERT_OK(parts->decode(Batch::prompt(std::span(tokens).subspan(40), 40, 0)));
  ASSERT_OK_AND_ASSIGN(const auto whole, session(200));
  ASSERT_OK(whole->decode(Batch::prompt(tokens, 0, 0)));
  EXPECT_TRUE(same_bits(all_rows(*parts), all_rows(*whole)));
}

// Each pipeline slot has values of its own.
TEST_P(Overlap, TakesTheComputeMemoryThatThePlanSays) {
  const SessionOptions options{.n_ctx = 256, .n_ubatch = 32, .n_outputs = 1};
  ASSERT_OK_AND_ASSIGN(const MemoryReport plan, Session::plan(*engine_, options));
  ASSERT_OK_AND_ASSIGN(const auto made, Session::create(engine_, options));
  EXPECT_EQ(plan.total(), made->allocated_memory().total());
  SessionOptions observed = options;  // one slot: each micro-batch is observed
  observed.observer = [](std::string_view, std::span<const float>, int64_t) {};
  ASSERT_OK_AND_ASSIGN(const MemoryReport one, Session::plan(*engine_, observed));
  EXPECT_GT(plan.bytes(MemoryPart::Kind::compute), one.bytes(MemoryPart::Kind::compute));
}

}  // namespace
}  // namespace tessera
