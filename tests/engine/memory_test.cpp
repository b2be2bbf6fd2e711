// The plan equals the allocated memory, byte for byte and buffer by buffer.
#include <gtest/gtest.h>

#include "tests/support/arch_files.h"
#include "tests/support/engine_support.h"
#include "tests/support/head_model.h"

namespace tessera {
namespace {

using namespace testing;

void expect_equal(const MemoryReport& plan, const MemoryReport& allocated, const std::string& what) {
  ASSERT_EQ(plan.parts.size(), allocated.parts.size()) << what;
  for (size_t i = 0; i < plan.parts.size(); ++i) {
    EXPECT_EQ(plan.parts[i].kind, allocated.parts[i].kind) << what;
    EXPECT_EQ(plan.parts[i].device, allocated.parts[i].device) << what;
    EXPECT_EQ(plan.parts[i].buffer, allocated.parts[i].buffer) << what;
    EXPECT_EQ(plan.parts[i].bytes, allocated.parts[i].bytes) << what << ": " << plan.parts[i].buffer;
  }
}

TEST(MemoryReport, ThePlanIsWhatIsAllocated) {
  for (const char* model : {"story", "llama-dense"}) {
    const std::string path = named_model(model);
    for (const bool pack : {true, false})
      for (const LoadMode load : {LoadMode::mmap, LoadMode::read}) {
        ASSERT_OK_AND_ASSIGN(const auto registry, create_registry(""));
        ASSERT_OK_AND_ASSIGN(const auto engine, Engine::open(*registry, path, {.load = load, .pack_weights = pack}));
        for (const SessionOptions& options :
             {SessionOptions{}, SessionOptions{.n_ctx = 64, .n_ubatch = 1},
              SessionOptions{
                  .n_ctx = 1000, .n_ubatch = 64, .n_sequences = 5, .n_outputs = 64, .threads = {.n_threads = 3}},
              SessionOptions{.n_ctx = 100, .n_ubatch = 33, .type_k = DType::f32, .type_v = DType::bf16}}) {
          ASSERT_OK_AND_ASSIGN(const MemoryReport plan, Session::plan(*engine, options));
          ASSERT_OK(engine->load({}));
          ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, options));
          expect_equal(plan, session->allocated_memory(),
                       std::string(model) + " n_ctx " + std::to_string(options.n_ctx));
          // Decoding allocates nothing more.
          ASSERT_OK(session->decode(Batch::prompt(token_ids(*engine, 40), 0, 0)));
          ASSERT_OK(session->shift(0, 0, 40, 3));
          expect_equal(plan, session->allocated_memory(), "after decoding");
        }
      }
  }
}

TEST(MemoryReport, AQuantizedCacheTakesItsBlocks) {
  const std::string path = arch_model("llama-dense");
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path));
  const auto cache_bytes = [&](DType k, DType v) -> Result<size_t> {
    TESSERA_ASSIGN(const auto report, Session::plan(*engine, {.n_ctx = 4096, .type_k = k, .type_v = v}));
    return report.bytes(MemoryPart::Kind::cache);
  };
  // The cache also contains tables, whose size does not depend on the type.
  ASSERT_OK_AND_ASSIGN(const size_t f32, cache_bytes(DType::f32, DType::f32));
  ASSERT_OK_AND_ASSIGN(const size_t f16, cache_bytes(DType::f16, DType::f16));
  const size_t n_elements = (f32 - f16) / 2, tables = f32 - 4 * n_elements;
  ASSERT_OK_AND_ASSIGN(const size_t mixed, cache_bytes(DType::q4_0, DType::q5_1));
  EXPECT_EQ(mixed - tables, n_elements / 2 / 32 * (18 + 24));
  ASSERT_OK_AND_ASSIGN(const size_t other, cache_bytes(DType::q5_0, DType::iq4_nl));
  EXPECT_EQ(other - tables, n_elements / 2 / 32 * (22 + 18));
}

TEST(MemoryReport, SumsByKind) {
  const MemoryReport report{{{MemoryPart::Kind::weights, "cpu", "a", 3},
                             {MemoryPart::Kind::weights, "cpu", "b", 4},
                             {MemoryPart::Kind::cache, "cpu", "a", 5}}};
  EXPECT_EQ(report.bytes(MemoryPart::Kind::weights), 7u);
  EXPECT_EQ(report.bytes(MemoryPart::Kind::compute), 0u);
  EXPECT_EQ(report.total(), 12u);
}

TEST(WantMemory, RefusesWhatTheDeviceHasNot) {
  const std::string path = story_model();
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path));
  MemoryReport report{{{MemoryPart::Kind::weights, "cpu", "cpu-mapped", size_t{1} << 60}}};
  EXPECT_OK(require_memory(*engine, report));  // mapped pages of a file can be evicted
  report.parts.push_back({MemoryPart::Kind::cache, "cpu", "cpu", size_t{1} << 60});
  const auto wanted = require_memory(*engine, report);
  EXPECT_ERROR(wanted, "1152921504606846976 bytes needed");
  EXPECT_EQ(wanted.error().code(), ErrorCode::out_of_memory);
}

// The plan of a smaller step may be larger than that of the largest one, and then takes the latter's places.
TEST(MemoryReport, StepsOfEverySizeFitInThePlan) {
  std::vector<std::string> paths;
  for (const char* name : kArchFiles) paths.push_back(arch_model(name));
  for (const char* name : kHeadModels) paths.push_back(headless_model(name));
  for (const std::string& path : paths) {
    SCOPED_TRACE(path);
    ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(path));
    if (!engine->model().info().has_logits) continue;
    const auto tokens = token_ids(*engine, 16);
    for (const int64_t n_outputs : {1, 5}) {
      ASSERT_OK_AND_ASSIGN(const auto session,
                           Session::create(engine, {.n_ctx = 64, .n_ubatch = 16, .n_outputs = n_outputs}));
      for (size_t n = 1; n <= tokens.size(); ++n)
        for (size_t wanted = 0; wanted <= std::min(n, static_cast<size_t>(n_outputs)); ++wanted) {
          Batch batch;
          for (size_t i = 0; i < n; ++i)
            batch.add({.token = tokens[i], .position = static_cast<int32_t>(i), .wants_logits = i + wanted >= n});
          ASSERT_OK(session->clear());
          const auto done = session->decode(batch);
          ASSERT_TRUE(done.has_value()) << n << " tokens, " << wanted << " outputs: " << done.error().message();
        }
    }
  }
}

TEST(EngineLoad, MayBeStoppedAndStartedAgain) {
  const std::string path = story_model();
  ASSERT_OK_AND_ASSIGN(const auto registry, create_registry(""));
  ASSERT_OK_AND_ASSIGN(const auto engine, Engine::open(*registry, path, {}));
  const auto stopped = engine->load([](float) { return false; });
  EXPECT_ERROR(stopped, "stopped");
  EXPECT_EQ(stopped.error().code(), ErrorCode::cancelled);
  EXPECT_FALSE(engine->is_loaded());
  std::vector<float> shares;
  ASSERT_OK(engine->load([&](float share) {
    shares.push_back(share);
    return true;
  }));
  EXPECT_EQ(shares.back(), 1.0f);
  EXPECT_TRUE(std::ranges::is_sorted(shares));
  ASSERT_OK_AND_ASSIGN(const MemoryReport plan, Session::plan(*engine, {}));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, {}));
  expect_equal(plan, session->allocated_memory(), "loaded at the second attempt");
}

}  // namespace
}  // namespace tessera
