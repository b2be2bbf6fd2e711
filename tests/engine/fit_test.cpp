// --fit: whatever a device has free, a plan that fits or an error with both numbers; and what is planned is allocated.
#include "tessera/engine/fit.h"

#include <fmt/format.h>

#include <cstdio>

#include "tests/support/engine_support.h"
#include "tests/support/fake_device.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;

struct Opened {
  std::shared_ptr<Registry> registry;
  std::shared_ptr<Engine> engine;
  FakeDevice* device = nullptr;
};

Result<Opened> open_with(const std::string& path, uint64_t limit_bytes, PlacementOptions placement = {}) {
  Opened opened;
  opened.registry = fake_registry({{.limit_bytes = limit_bytes}});
  opened.device = static_cast<FakeDevice*>(opened.registry->devices().front().get());
  placement.devices = {"fake:0"};
  TESSERA_ASSIGN(opened.engine, Engine::open(*opened.registry, path, {.placement = placement}));
  return opened;
}

Result<std::unique_ptr<Session>> load(const std::shared_ptr<Engine>& engine, const SessionOptions& options) {
  TESSERA_TRY(engine->load({}));
  return Session::create(engine, options);
}

// The bytes on the device with all layers there.
uint64_t full_bytes(const std::string& path, const SessionOptions& options) {
  const auto opened = open_with(path, uint64_t{1} << 40).value();
  return Session::plan(*opened.engine, options).value().bytes_of("fake:0");
}

TEST(Fit, LeavesWhatFitsAsItWasAsked) {
  const std::string path = story_model();
  ASSERT_OK_AND_ASSIGN(const Opened opened, open_with(path, uint64_t{1} << 40));
  ASSERT_OK_AND_ASSIGN(const Fitted fitted, fit(*opened.engine, {}, {}, {.fits_context = true, .fits_ubatch = true}));
  EXPECT_EQ(fitted.choice, "");
  EXPECT_EQ(fitted.session.n_ctx, 2048);
  EXPECT_EQ(opened.engine->placement().n_offloaded(), 6);
}

TEST(Fit, ShortensTheContextFirst) {
  const std::string path = story_model();
  const uint64_t limit = full_bytes(path, {.n_ctx = 1024});
  ASSERT_OK_AND_ASSIGN(const Opened opened, open_with(path, limit));
  const FitOptions options{.margin_bytes = 0, .least_ctx = 512, .fits_context = true};
  ASSERT_OK_AND_ASSIGN(const Fitted fitted, fit(*opened.engine, {}, {}, options));
  EXPECT_EQ(fitted.session.n_ctx, 1024);
  EXPECT_EQ(opened.engine->placement().n_offloaded(), 6);
  EXPECT_EQ(fitted.choice, fmt::format("fit: -c 1024 (of 2048): fake:0 has {} bytes free, {} were wanted", limit,
                                       full_bytes(path, {.n_ctx = 2048})));
}

TEST(Fit, TakesLayersFromTheDeviceNext) {
  const std::string path = story_model();
  const SessionOptions asked{.n_ctx = 512, .n_ubatch = 1};  // weights and cache are most of what it takes
  const uint64_t full = full_bytes(path, asked);
  ASSERT_OK_AND_ASSIGN(const Opened opened, open_with(path, full - 1));
  ASSERT_OK_AND_ASSIGN(const Fitted fitted, fit(*opened.engine, {}, asked, {.margin_bytes = 0}));
  EXPECT_EQ(opened.engine->placement().n_offloaded(), 5);
  EXPECT_NE(fitted.choice.find("fit: -ngl 5 (of 6): fake:0 has "), std::string::npos) << fitted.choice;
  // The margin stays free.
  ASSERT_OK_AND_ASSIGN(const Opened wide, open_with(path, full + 999));
  ASSERT_OK(fit(*wide.engine, {}, asked, {.margin_bytes = 1000}));
  EXPECT_EQ(wide.engine->placement().n_offloaded(), 5);
}

TEST(Fit, TakesExpertsBeforeLayers) {
  const std::string path = arch_model("llama-moe");
  const SessionOptions asked{.n_ctx = 128, .n_ubatch = 16};
  ASSERT_OK_AND_ASSIGN(const Opened opened, open_with(path, full_bytes(path, asked) - 1));
  ASSERT_OK_AND_ASSIGN(const Fitted fitted, fit(*opened.engine, {}, asked, {.margin_bytes = 0}));
  EXPECT_EQ(opened.engine->placement_options().n_cpu_expert_layers, 1);
  EXPECT_EQ(opened.engine->placement().n_offloaded(), opened.engine->placement().n_entries());
  EXPECT_NE(fitted.choice.find("-ncmoe 1"), std::string::npos) << fitted.choice;
}

TEST(Fit, ChangesNothingThatTheUserSet) {
  const std::string path = story_model();
  const SessionOptions asked{.n_ctx = 512};
  ASSERT_OK_AND_ASSIGN(const Opened opened, open_with(path, 100'000, {.n_gpu_layers = 3}));
  const auto fitted = fit(*opened.engine, {}, asked, {.margin_bytes = 0});
  EXPECT_ERROR(fitted, "100000 available on fake:0");
  EXPECT_EQ(fitted.error().code(), ErrorCode::out_of_memory);
  ASSERT_OK_AND_ASSIGN(const Opened off, open_with(path, 100'000));
  EXPECT_ERROR(fit(*off.engine, {}, asked, {.is_on = false}), "100000 available on fake:0");
}

// A device's limits at which one allocation after another fails, on the way to a session with all layers there: where
// nothing may change, each is an error at once, and all memory is given back.
std::vector<uint64_t> limits_of_allocations(const std::string& path, const SessionOptions& asked) {
  std::vector<uint64_t> limits;
  for (uint64_t limit = 0;;) {
    Opened opened = open_with(path, limit, {.n_gpu_layers = kAllLayers}).value();
    opened.device->tell(uint64_t{1} << 40);
    const auto session = load_fitted(
        *opened.engine, {}, asked, {.margin_bytes = 0},
        [&](const SessionOptions& options) { return load(opened.engine, options); }, [](const std::string&) {});
    if (session) return limits;
    EXPECT_EQ(session.error().code(), ErrorCode::out_of_memory);
    const std::string& message = session.error().message();
    EXPECT_EQ(message.find('\n'), std::string::npos);
    opened.engine = nullptr;
    EXPECT_EQ(opened.device->used_bytes(), 0u);
    unsigned long long wanted = 0, taken = 0;
    if (std::sscanf(message.c_str(), "fake:0: %llu bytes wanted, %llu", &wanted, &taken) != 2) {
      ADD_FAILURE() << message;
      return limits;
    }
    limits.push_back(limit);
    limit = wanted + taken;  // enough for this one: the next fails
  }
}

TEST(Fit, AnyAllocationMayFail) {
  const std::string path = story_model();
  EXPECT_EQ(limits_of_allocations(path, {.n_ctx = 256, .n_ubatch = 32}).size(), 3u);  // weights, cache, values
}

// With every amount of memory, told truly or not, a session comes about that has what was planned.
TEST(Fit, AtEveryLimitThereIsASessionThatFits) {
  for (const std::string model : {"story", "llama-moe"}) {
    if (!testing::runs_all_cases() && model == "story") continue;
    const std::string path = named_model(model);
    const SessionOptions asked{.n_ctx = 256, .n_ubatch = 32, .threads = {.n_threads = 1}};
    const uint64_t full = full_bytes(path, asked);
    std::vector<uint64_t> limits = limits_of_allocations(path, asked);
    const uint64_t step = full / testing::all_or_few(16, 4);
    for (uint64_t limit = full + 1000; limit > 0; limit = limit > step ? limit - step : 0) limits.push_back(limit);
    std::ranges::sort(limits, std::ranges::greater());
    std::vector<float> expected;
    int64_t last_offloaded = INT64_MAX;
    for (const bool is_told : {true, false})
      for (const uint64_t limit : limits) {
        SCOPED_TRACE(fmt::format("{}, {} bytes, told {}", model, limit, is_told));
        ASSERT_OK_AND_ASSIGN(const Opened opened, open_with(path, limit));
        if (!is_told) opened.device->tell(full * 2);
        std::vector<std::string> told;
        ASSERT_OK_AND_ASSIGN(const auto session,
                             load_fitted(
                                 *opened.engine, {}, asked, {.margin_bytes = 0},
                                 [&](const SessionOptions& options) { return load(opened.engine, options); },
                                 [&](const std::string& line) { told.push_back(line); }));
        EXPECT_LE(opened.device->used_bytes(), limit);
        EXPECT_EQ(opened.device->used_bytes(), session->allocated_memory().bytes_of("fake:0"));
        ASSERT_OK_AND_ASSIGN(const MemoryReport plan, Session::plan(*opened.engine, session->options()));
        EXPECT_EQ(plan.total(), session->allocated_memory().total());
        const int64_t n = opened.engine->placement().n_offloaded();
        if (is_told) {
          EXPECT_LE(n, last_offloaded);
          last_offloaded = n;
        }
        EXPECT_EQ(told.empty(), limit >= full);
        ASSERT_OK_AND_ASSIGN(const auto rows, logits_of(*session, token_ids(*opened.engine, 1)));
        if (expected.empty()) expected = rows;
        EXPECT_TRUE(same_bits(rows, expected));
      }
    EXPECT_EQ(last_offloaded, 0);
  }
}

// Rows of each layer lie on both devices: taking a layer makes room on each.
TEST(Fit, TakesLayersWhoseRowsAreOnSeveralDevices) {
  const std::string path = story_model();
  const SessionOptions asked{.n_ctx = 256, .n_ubatch = 16, .threads = {.n_threads = 1}};
  const uint64_t full = full_bytes(path, asked);
  std::vector<float> expected;
  for (const uint64_t share : {8, 4, 3, 2, 1}) {  // of eight: the main device holds more than its rows
    SCOPED_TRACE(share);
    const auto registry =
        fake_registry({{.limit_bytes = full * share / 8}, {.name = "fake:1", .limit_bytes = full * share / 8}});
    const PlacementOptions placement{.devices = {"fake:0", "fake:1"}, .split = SplitMode::row, .shares = {1, 1}};
    ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Engine> engine, Engine::open(*registry, path, {.placement = placement}));
    ASSERT_OK_AND_ASSIGN(const auto session, load_fitted(
                                                 *engine, {}, asked, {.margin_bytes = 0},
                                                 [&](const SessionOptions& options) { return load(engine, options); },
                                                 [](const std::string&) {}));
    for (const char* name : {"fake:0", "fake:1"}) {
      const auto& device = static_cast<const FakeDevice&>(**registry->find(name));
      EXPECT_LE(device.used_bytes(), full * share / 8);
      EXPECT_EQ(device.used_bytes(), session->allocated_memory().bytes_of(name));
    }
    EXPECT_EQ(engine->placement().n_offloaded() == 6, share == 8);
    ASSERT_OK_AND_ASSIGN(const auto rows, logits_of(*session, token_ids(*engine, 1)));
    if (expected.empty()) expected = rows;
    EXPECT_TRUE(same_bits(rows, expected));
  }
}

}  // namespace
}  // namespace tessera
