// Micro-batches that are computed on several devices at the same time.
#include "tests/support/engine_support.h"
#include "tests/support/fake_device.h"

namespace tessera {
namespace {

using namespace testing;

class Overlap : public ::testing::Test {
 protected:
  void SetUp() override {
    TESSERA_SHARED_OR_SKIP(path, "models/stories260K.gguf");
    registry_ = fake_registry({{}, {.name = "fake:1"}});
    ASSERT_OK_AND_ASSIGN(
        engine_, Engine::open(*registry_, path, {.placement = {.devices = {"fake:0", "fake:1"}, .shares = {1, 1}}}));
    ASSERT_OK(engine_->load({}));
  }

  Result<std::unique_ptr<Session>> session(int64_t n_ubatch) {
    return Session::create(engine_, {.n_ctx = 256, .n_ubatch = n_ubatch, .n_outputs = 200});
  }

  std::shared_ptr<Registry> registry_;
  std::shared_ptr<Engine> engine_;
};

TEST_F(Overlap, GivesTheBitsOfOneMicroBatchAndOfAnyNumber) {
  const std::vector<int32_t> tokens = token_ids(*engine_, 200);
  ASSERT_OK_AND_ASSIGN(const auto whole, session(200));
  ASSERT_OK(whole->decode(all_logits(tokens)));
  for (const int64_t n_ubatch : {1, 7, 64, 199}) {
    ASSERT_OK_AND_ASSIGN(const auto parts, session(n_ubatch));
    for (int run = 0; run < 3; ++run) {
      ASSERT_OK(parts->decode(all_logits(tokens)));
      EXPECT_TRUE(same_bits(all_rows(*parts), all_rows(*whole))) << n_ubatch << " tokens, run " << run;
      ASSERT_OK(parts->clear());
    }
  }
}

TEST_F(Overlap, AnErrorOnTheWayLeavesTheSessionAsItWas) {
  const std::vector<int32_t> tokens = token_ids(*engine_, 200);
  ASSERT_OK_AND_ASSIGN(const auto parts, session(16));
  ASSERT_OK(parts->decode(Batch::prompt(std::span(tokens).first(40), 0, 0)));
  for (int run = 0; run < 20; ++run) {
    CancelToken cancel;
    std::thread canceller([&, run] {
      std::this_thread::sleep_for(std::chrono::microseconds(200 * run));
      cancel.cancel();
    });
    const auto done = parts->decode(Batch::prompt(std::span(tokens).subspan(40), 40, 0), &cancel);
    canceller.join();
    if (done) ASSERT_OK(parts->remove(0, 40, 256));
    ASSERT_EQ(parts->max_position(0), 39) << "run " << run;
  }
  ASSERT_OK(parts->decode(Batch::prompt(std::span(tokens).subspan(40), 40, 0)));
  ASSERT_OK_AND_ASSIGN(const auto whole, session(200));
  ASSERT_OK(whole->decode(Batch::prompt(tokens, 0, 0)));
  EXPECT_TRUE(same_bits(all_rows(*parts), all_rows(*whole)));
}

// Each lane has values of its own.
TEST_F(Overlap, TakesTheComputeMemoryThatThePlanSays) {
  const SessionOptions options{.n_ctx = 256, .n_ubatch = 32, .n_outputs = 1};
  ASSERT_OK_AND_ASSIGN(const MemoryReport plan, Session::plan(*engine_, options));
  ASSERT_OK_AND_ASSIGN(const auto made, Session::create(engine_, options));
  EXPECT_EQ(plan.total(), made->allocated_memory().total());
  SessionOptions observed = options;  // one lane: each micro-batch is looked at
  observed.observer = [](std::string_view, std::span<const float>, int64_t) {};
  ASSERT_OK_AND_ASSIGN(const MemoryReport one, Session::plan(*engine_, observed));
  EXPECT_GT(plan.bytes(MemoryPart::Kind::compute), one.bytes(MemoryPart::Kind::compute));
}

}  // namespace
}  // namespace tessera
