// Opening and loading a model: for every amount of free memory, a session that fits or an error. All allocated memory
// is freed.
#include "tessera/engine/loaded_model.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>

#include "tessera/base/file.h"
#include "tests/engine/fit_support.h"
#include "tests/support/lora_support.h"

namespace tessera {
namespace {

using namespace testing;

// Weights that are loaded at low priority leave the niceness of the calling thread as it is, and so that of the threads
// that it creates afterwards.
TEST(OpenModel, LoadsAtLowPriorityOnAThreadOfItsOwn) {
  const auto niceness = [] { return ::getpriority(PRIO_PROCESS, static_cast<id_t>(::gettid())); };
  const int before = niceness();
  for (const Priority priority : {Priority::normal, Priority::low}) {
    ASSERT_OK_AND_ASSIGN(
        LoadedModel model,
        open_model(fake_registry({{}}), {.path = story_model(), .engine = {.threads = {.priority = priority}}}));
    std::vector<int> seen;
    ASSERT_OK(load_session(model, {.n_ctx = 64}, {.progress = [&](float) {
                             seen.push_back(niceness());
                             return true;
                           }}));
    ASSERT_FALSE(seen.empty());
    EXPECT_EQ(seen.back() > before, priority == Priority::low) << seen.back();
    EXPECT_EQ(niceness(), before);
  }
}

// A model in memory equals the model in the file. Errors contain its name.
TEST(OpenModel, TakesAModelFromMemory) {
  ASSERT_OK_AND_ASSIGN(const File file, File::open(story_model()));
  ASSERT_OK_AND_ASSIGN(const auto map, MappedFile::map(file));
  const std::shared_ptr<Registry> registry = fake_registry({{}});
  const EngineOptions engine{.placement = {.devices = {"fake:0"}}};
  ASSERT_OK_AND_ASSIGN(LoadedModel model,
                       open_model(registry, {.path = "of memory", .bytes = map->bytes(), .engine = engine}));
  EXPECT_EQ(model.engine->files().name(), "of memory");
  EXPECT_EQ(model.session, nullptr);
  ASSERT_OK(load_session(model, {.n_ctx = 64}));
  EXPECT_EQ(model.session->n_ctx(), 64);
  EXPECT_ERROR(open_model(registry, {.path = "of memory", .bytes = map->bytes().first(99), .engine = engine}),
               "of memory");
}

TEST(OpenModel, OpensAdaptersAndTheSessionHasThem) {
  const std::shared_ptr<Registry> registry = fake_registry({{}});
  ModelOptions options{.path = story_model(), .engine = {.placement = {.devices = {"fake:0"}}}};
  options.adapters.loras = {{.path = write_lora(options.path, "loaded.gguf", 4, 8, 1), .scale = 0.5f}};
  ASSERT_OK_AND_ASSIGN(LoadedModel model, open_model(registry, options));
  EXPECT_FALSE(model.adapters.at(0).adapter->is_loaded());
  ASSERT_OK(load_session(model, {.n_ctx = 64}));
  EXPECT_TRUE(model.adapters.at(0).adapter->is_loaded());
  ASSERT_EQ(model.session->options().adapters.size(), 1u);
  EXPECT_EQ(model.session->options().adapters[0].scale, 0.5f);
  options.adapters.loras = {{.path = "none.gguf"}};
  EXPECT_ERROR(open_model(registry, options), "none.gguf");
}

TEST(LoadSession, CreatesASessionForEmbeddingsBesideTheFirst) {
  ASSERT_OK_AND_ASSIGN(Opened opened, open_with(story_model(), uint64_t{1} << 40));
  LoadedModel& model = opened.model;
  model.fit.embeddings = EmbeddingUse{.pooling = nn::Pooling::mean};
  const SessionOptions asked{.n_ctx = 256, .n_ubatch = 32};
  ASSERT_OK(load_session(model, asked));
  ASSERT_NE(model.embeddings, nullptr);
  EXPECT_TRUE(model.embeddings->options().embeddings);
  EXPECT_EQ(model.embeddings->n_ctx(), 256);
  ASSERT_OK_AND_ASSIGN(const MemoryReport plan, plan_sessions(*model.engine, model.session->options(), model.fit));
  EXPECT_EQ(plan.total(), model.allocated_memory().total());
  EXPECT_EQ(opened.device->used_bytes(), plan.bytes_of("fake:0"));
  EXPECT_GT(plan.total(), model.session->allocated_memory().total());
}

TEST(LoadSession, StopsWhereProgressSaysSo) {
  ASSERT_OK_AND_ASSIGN(Opened opened, open_with(story_model(), uint64_t{1} << 40));
  const auto stopped = load_session(opened.model, {.n_ctx = 64}, {.progress = [](float) { return false; }});
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code(), ErrorCode::cancelled);
  EXPECT_EQ(opened.model.session, nullptr);
}

// Returns the limits of a device's memory at which one allocation after another fails while a session with all layers
// on the device is created. As the flags allow no other placement, each failure is an error, and all memory is freed.
std::vector<uint64_t> limits_of_allocations(const std::string& path, const SessionOptions& asked) {
  std::vector<uint64_t> limits;
  for (uint64_t limit = 0;;) {
    Opened opened = open_with(path, limit, {.n_gpu_layers = kAllLayers}).value();
    opened.device->tell(uint64_t{1} << 40);
    const auto loaded = load_session(opened.model, asked);
    if (loaded) return limits;
    EXPECT_EQ(loaded.error().code(), ErrorCode::out_of_memory);
    const std::string& message = loaded.error().message();
    EXPECT_EQ(message.find('\n'), std::string::npos);
    opened.model.engine = nullptr;
    EXPECT_EQ(opened.device->used_bytes(), 0u);
    unsigned long long wanted = 0, taken = 0;
    if (std::sscanf(message.c_str(), "fake:0: %llu bytes wanted, %llu", &wanted, &taken) != 2) {
      ADD_FAILURE() << message;
      return limits;
    }
    limits.push_back(limit);
    limit = wanted + taken;  // enough for this allocation, so the next one fails
  }
}

TEST(LoadSession, AnyAllocationMayFail) {
  const std::string path = story_model();
  EXPECT_EQ(limits_of_allocations(path, {.n_ctx = 256, .n_ubatch = 32}).size(), 3u);  // weights, cache, values
}

// With every amount of memory, reported correctly or not, the created session has the planned memory.
TEST(LoadSession, AtEveryLimitThereIsASessionThatFits) {
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
        ASSERT_OK_AND_ASSIGN(Opened opened, open_with(path, limit));
        if (!is_told) opened.device->tell(full * 2);
        std::vector<std::string> told;
        ASSERT_OK(
            load_session(opened.model, asked, {.on_choice = [&](std::string_view line) { told.emplace_back(line); }}));
        Session* session = opened.model.session.get();
        EXPECT_LE(opened.device->used_bytes(), limit);
        EXPECT_EQ(opened.device->used_bytes(), session->allocated_memory().bytes_of("fake:0"));
        ASSERT_OK_AND_ASSIGN(const MemoryReport plan, Session::plan(*opened.model.engine, session->options()));
        EXPECT_EQ(plan.total(), session->allocated_memory().total());
        const int64_t n = opened.model.engine->placement().n_offloaded();
        if (is_told) {
          EXPECT_LE(n, last_offloaded);
          last_offloaded = n;
        }
        EXPECT_EQ(told.empty(), limit >= full);
        ASSERT_OK_AND_ASSIGN(const auto rows, logits_of(*session, token_ids(*opened.model.engine, 1)));
        if (expected.empty()) expected = rows;
        EXPECT_TRUE(same_bits(rows, expected));
      }
    EXPECT_EQ(last_offloaded, 0);
  }
}

// Both devices have rows of each layer, so moving a layer to the CPU frees memory on both.
TEST(LoadSession, TakesLayersWhoseRowsAreOnSeveralDevices) {
  const std::string path = story_model();
  const SessionOptions asked{.n_ctx = 256, .n_ubatch = 16, .threads = {.n_threads = 1}};
  const uint64_t full = full_bytes(path, asked);
  std::vector<float> expected;
  for (const uint64_t share : {8, 4, 3, 2, 1}) {  // eighths: the main device has more than its rows
    SCOPED_TRACE(share);
    const std::shared_ptr<Registry> registry =
        fake_registry({{.limit_bytes = full * share / 8}, {.name = "fake:1", .limit_bytes = full * share / 8}});
    const PlacementOptions placement{.devices = {"fake:0", "fake:1"}, .split = SplitMode::row, .shares = {1, 1}};
    ASSERT_OK_AND_ASSIGN(
        LoadedModel model,
        open_model(registry, {.path = path, .engine = {.placement = placement}, .fit = {.margin_bytes = 0}}));
    ASSERT_OK(load_session(model, asked));
    for (const char* name : {"fake:0", "fake:1"}) {
      const auto& device = static_cast<const FakeDevice&>(**registry->find(name));
      EXPECT_LE(device.used_bytes(), full * share / 8);
      EXPECT_EQ(device.used_bytes(), model.session->allocated_memory().bytes_of(name));
    }
    EXPECT_EQ(model.engine->placement().n_offloaded() == 6, share == 8);
    ASSERT_OK_AND_ASSIGN(const auto rows, logits_of(*model.session, token_ids(*model.engine, 1)));
    if (expected.empty()) expected = rows;
    EXPECT_TRUE(same_bits(rows, expected));
  }
}

}  // namespace
}  // namespace tessera
