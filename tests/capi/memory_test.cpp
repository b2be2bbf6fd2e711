// Plans, budgets and fits of tessera.h.
#include <thread>

#include "tessera/capi/objects.h"
#include "tests/capi/capi_support.h"
#include "tests/support/lora_support.h"

namespace tessera {
namespace {

using namespace testing;

RuntimeHandle create_with_budget(uint64_t bytes) {
  tessera_runtime_options options;
  tessera_runtime_options_init(&options, sizeof options);
  options.n_threads = 1;
  options.memory_budget = bytes;
  tessera_runtime* runtime = nullptr;
  EXPECT_SUCCESS(tessera_runtime_create(&options, &runtime, error));
  return {runtime, tessera_runtime_release};
}

// Without what is used in the mapped file.
uint64_t bytes_of(const std::vector<tessera_memory_part>& parts) {
  uint64_t n = 0;
  for (const tessera_memory_part& part : parts)
    if (!std::string_view(part.buffer).ends_with("-mapped")) n += part.n_bytes;
  return n;
}

std::vector<tessera_memory_part> plan_of(tessera_model* model) {
  std::vector<tessera_memory_part> parts(16);
  uint64_t n = 0;
  EXPECT_SUCCESS(tessera_model_plan(model, parts.data(), parts.size(), &n, error));
  parts.resize(n);
  return parts;
}

std::vector<tessera_memory_part> plan_of(tessera_model* model, const tessera_session_options& options) {
  std::vector<tessera_memory_part> parts(16);
  uint64_t n = 0;
  EXPECT_SUCCESS(tessera_session_plan(model, &options, parts.data(), parts.size(), &n, error));
  parts.resize(n);
  return parts;
}

tessera_session_options with_context(int64_t n_ctx) {
  tessera_session_options options;
  tessera_session_options_init(&options, sizeof options);
  options.n_ctx = n_ctx;
  return options;
}

TEST(CapiMemory, AModelHasAPlanBeforeItIsLoaded) {
  const RuntimeHandle runtime = create_runtime_handle();
  const ModelHandle model = open_story(runtime.get(), false);
  const std::vector<tessera_memory_part> parts = plan_of(model.get());
  ASSERT_EQ(parts.size(), 2u);
  for (const tessera_memory_part& part : parts) EXPECT_EQ(part.kind, TESSERA_MEMORY_WEIGHTS);
  EXPECT_EQ(std::string(parts[0].buffer), "cpu-packed");
  EXPECT_EQ(std::string(parts[1].buffer), "cpu-mapped");
  // It is the part of the model in the plan of a session.
  const std::vector<tessera_memory_part> all = plan_of(model.get(), with_context(256));
  for (size_t i = 0; i < parts.size(); ++i) EXPECT_EQ(parts[i].n_bytes, all[i].n_bytes);
  uint64_t n = 0;
  tessera_memory_part one{};
  EXPECT_STATUS(tessera_model_plan(model.get(), &one, 1, &n, error), TESSERA_LIMIT, "parts: 2 are needed");
  EXPECT_EQ(n, 2u);
  EXPECT_STATUS(tessera_model_plan(nullptr, &one, 1, &n, error), TESSERA_INVALID_ARGUMENT, "model: is NULL");
  EXPECT_STATUS(tessera_model_plan(model.get(), nullptr, 2, &n, error), TESSERA_INVALID_ARGUMENT, "parts: is NULL");
}

TEST(CapiMemory, ARuntimeCountsWhatModelsAndSessionsHave) {
  const RuntimeHandle runtime = create_with_budget(0);
  EXPECT_EQ(tessera_runtime_memory(runtime.get()), 0u);
  EXPECT_EQ(tessera_runtime_memory(nullptr), 0u);
  ModelHandle model = open_story(runtime.get(), false);
  EXPECT_EQ(tessera_runtime_memory(runtime.get()), 0u);
  EXPECT_SUCCESS(tessera_model_load(model.get(), nullptr, nullptr, nullptr, error));
  const uint64_t of_model = bytes_of(plan_of(model.get()));
  EXPECT_EQ(tessera_runtime_memory(runtime.get()), of_model);
  EXPECT_SUCCESS(tessera_model_load(model.get(), nullptr, nullptr, nullptr, error));
  EXPECT_EQ(tessera_runtime_memory(runtime.get()), of_model);
  const tessera_session_options options = with_context(256);
  const uint64_t of_session = bytes_of(plan_of(model.get(), options)) - of_model;
  {
    const SessionHandle first = create_session_handle(model.get(), &options);
    EXPECT_EQ(tessera_runtime_memory(runtime.get()), of_model + of_session);
    SessionHandle second = create_session_handle(model.get(), &options);
    EXPECT_EQ(tessera_runtime_memory(runtime.get()), of_model + 2 * of_session);
    second.reset();
    EXPECT_EQ(tessera_runtime_memory(runtime.get()), of_model + of_session);
  }
  model.reset();
  EXPECT_EQ(tessera_runtime_memory(runtime.get()), 0u);
}

TEST(CapiMemory, NothingGoesBeyondTheBudget) {
  const RuntimeHandle measured = create_with_budget(0);
  const ModelHandle measured_model = open_story(measured.get());
  const tessera_session_options options = with_context(256);
  const uint64_t of_model = bytes_of(plan_of(measured_model.get()));
  const uint64_t of_both = bytes_of(plan_of(measured_model.get(), options));
  const auto text_of = [](const char* name, uint64_t wanted, uint64_t left, uint64_t budget) {
    return std::string(name) + ": takes " + std::to_string(wanted) + " bytes, " + std::to_string(left) +
           " are left of the runtime's budget of " + std::to_string(budget);
  };
  const RuntimeHandle small = create_with_budget(of_model - 1);
  const ModelHandle refused = open_story(small.get(), false);
  EXPECT_STATUS(tessera_model_load(refused.get(), nullptr, nullptr, nullptr, error), TESSERA_OUT_OF_MEMORY,
                text_of("model", of_model, of_model - 1, of_model - 1));
  EXPECT_EQ(tessera_model_is_loaded(refused.get()), 0);
  EXPECT_EQ(tessera_runtime_memory(small.get()), 0u);

  const RuntimeHandle runtime = create_with_budget(of_both);
  const ModelHandle model = open_story(runtime.get(), false);
  const auto stop = [](void*, float) -> int32_t { return 1; };
  EXPECT_STATUS(tessera_model_load(model.get(), stop, nullptr, nullptr, error), TESSERA_CANCELLED, "");
  EXPECT_EQ(tessera_runtime_memory(runtime.get()), 0u);
  EXPECT_SUCCESS(tessera_model_load(model.get(), nullptr, nullptr, nullptr, error));
  tessera_session* session = nullptr;
  const tessera_session_options longer = with_context(512);
  const uint64_t of_longer = bytes_of(plan_of(model.get(), longer)) - of_model;
  EXPECT_STATUS(tessera_session_create(model.get(), &longer, &session, error), TESSERA_OUT_OF_MEMORY,
                text_of("session", of_longer, of_both - of_model, of_both));
  EXPECT_EQ(session, nullptr);
  const SessionHandle fits = create_session_handle(model.get(), &options);
  EXPECT_EQ(tessera_runtime_memory(runtime.get()), of_both);
  EXPECT_STATUS(tessera_session_create(model.get(), &options, &session, error), TESSERA_OUT_OF_MEMORY, " 0 are left");
}

uint64_t bytes_of(const Adapter& adapter) {
  uint64_t n = 0;
  for (const MemoryPart& part : adapter.planned_memory())
    if (!part.buffer.ends_with("-mapped")) n += part.bytes;
  return n;
}

TEST(CapiMemory, AdaptersCountOnce) {
  const RuntimeHandle runtime = create_with_budget(0);
  const ModelHandle model = open_story(runtime.get());
  const uint64_t of_model = tessera_runtime_memory(runtime.get());
  tessera_adapter* opened = nullptr;
  const std::string path = write_lora(story_model(), "budget_lora.gguf", 4, 8, 1);
  EXPECT_SUCCESS(tessera_adapter_open_lora(model.get(), path.c_str(), &opened, error));
  AdapterHandle adapter(opened, tessera_adapter_release);
  EXPECT_EQ(tessera_runtime_memory(runtime.get()), of_model);
  EXPECT_SUCCESS(tessera_adapter_load(opened, error));
  EXPECT_SUCCESS(tessera_adapter_load(opened, error));
  const uint64_t of_adapter = bytes_of(*opened->adapter);
  EXPECT_GT(of_adapter, 0u);
  EXPECT_EQ(tessera_runtime_memory(runtime.get()), of_model + of_adapter);
  tessera_session_options options = with_context(256);
  options.adapters = &opened;
  options.n_adapters = 1;
  const uint64_t of_all = bytes_of(plan_of(model.get(), options));
  {
    const SessionHandle session = create_session_handle(model.get(), &options);
    EXPECT_EQ(tessera_runtime_memory(runtime.get()), of_all);
  }
  EXPECT_EQ(tessera_runtime_memory(runtime.get()), of_model + of_adapter);
  adapter.reset();
  EXPECT_EQ(tessera_runtime_memory(runtime.get()), of_model);

  const RuntimeHandle small = create_with_budget(of_model + of_adapter - 1);
  const ModelHandle other = open_story(small.get());
  EXPECT_SUCCESS(tessera_adapter_open_lora(other.get(), path.c_str(), &opened, error));
  adapter.reset(opened);
  EXPECT_STATUS(tessera_adapter_load(opened, error), TESSERA_OUT_OF_MEMORY, "adapter: takes ");
  EXPECT_EQ(tessera_runtime_memory(small.get()), of_model);
}

TEST(CapiMemory, FilesOfReadersCount) {
  static const std::string file = read_file(story_model(), 1 << 22).value();
  tessera_reader reader;
  tessera_reader_init(&reader, sizeof reader);
  reader.file_size = [](void*) { return static_cast<int64_t>(file.size()); };
  reader.read = [](void*, uint64_t offset, void* buffer, uint64_t n) -> int32_t {
    file.copy(static_cast<char*>(buffer), n, offset);
    return 0;
  };
  tessera_model* opened = nullptr;
  {
    const RuntimeHandle runtime = create_with_budget(file.size());
    EXPECT_SUCCESS(tessera_model_open_reader(runtime.get(), &reader, "a story", nullptr, &opened, error));
    EXPECT_EQ(tessera_runtime_memory(runtime.get()), file.size());
    tessera_model_release(opened);
    EXPECT_EQ(tessera_runtime_memory(runtime.get()), 0u);
  }
  const RuntimeHandle small = create_with_budget(file.size() - 1);
  EXPECT_STATUS(tessera_model_open_reader(small.get(), &reader, "a story", nullptr, &opened, error),
                TESSERA_OUT_OF_MEMORY, "a story: takes ");
}

TEST(CapiMemory, SessionsOfEmbeddingsCount) {
  const RuntimeHandle measured = create_with_budget(0);
  const ModelHandle model = open_story(measured.get());
  const uint64_t of_model = tessera_runtime_memory(measured.get());
  struct Seen {
    tessera_runtime* runtime;
    uint64_t n_bytes = 0;
  } seen{measured.get()};
  const auto visit = [](void* user, uint64_t, const float*, uint64_t) -> int32_t {
    auto& found = *static_cast<Seen*>(user);
    found.n_bytes = tessera_runtime_memory(found.runtime);
    return 0;
  };
  const char* const text = "Once upon a time";
  EXPECT_SUCCESS(tessera_embed(model.get(), &text, nullptr, 1, nullptr, visit, &seen, nullptr, error));
  EXPECT_GT(seen.n_bytes, of_model);
  EXPECT_EQ(tessera_runtime_memory(measured.get()), of_model);
  const RuntimeHandle small = create_with_budget(seen.n_bytes - 1);
  const ModelHandle other = open_story(small.get());
  EXPECT_STATUS(tessera_embed(other.get(), &text, nullptr, 1, nullptr, visit, &seen, nullptr, error),
                TESSERA_OUT_OF_MEMORY, "session: takes ");
}

TEST(CapiMemory, BytesAreTakenByOneOfSeveralThreads) {
  capi::Budget budget(1000);
  std::atomic<int> n_taken{0};
  {
    std::vector<std::thread> threads;
    std::vector<capi::BudgetShare> shares(8);
    for (size_t i = 0; i < shares.size(); ++i)
      threads.emplace_back([&, i] {
        for (int round = 0; round < 2000; ++round) {
          auto share = capi::BudgetShare::take(budget, 300, "share");
          if (!share) continue;
          EXPECT_LE(budget.used(), 900u);
          shares[i] = std::move(*share);
          shares[i] = capi::BudgetShare();
          ++n_taken;
        }
      });
    for (std::thread& thread : threads) thread.join();
  }
  EXPECT_GT(n_taken, 0);
  EXPECT_EQ(budget.used(), 0u);
}

TEST(CapiFit, SettingsShrinkToTheBudget) {
  const RuntimeHandle measured = create_with_budget(0);
  const ModelHandle whole = open_story(measured.get(), false);
  tessera_session_options wanted_session = with_context(256);
  wanted_session.n_ubatch = 128;
  const uint64_t least = bytes_of(plan_of(whole.get(), wanted_session));

  std::vector<std::string> lines;
  tessera_runtime_options wanted;
  tessera_runtime_options_init(&wanted, sizeof wanted);
  wanted.n_threads = 1;
  wanted.memory_budget = least;
  wanted.log_user = &lines;
  wanted.log = [](void* user, int32_t level, const char* text) {
    if (level == TESSERA_LOG_INFO) static_cast<std::vector<std::string>*>(user)->push_back(text);
  };
  tessera_runtime* created = nullptr;
  EXPECT_SUCCESS(tessera_runtime_create(&wanted, &created, error));
  const RuntimeHandle runtime(created, tessera_runtime_release);
  const ModelHandle model = open_story(runtime.get(), false);
  tessera_session_options options = with_context(0);
  EXPECT_SUCCESS(tessera_model_fit(model.get(), &options, nullptr, error));
  EXPECT_EQ(options.n_ctx, 256);
  EXPECT_EQ(options.n_ubatch, 128);
  EXPECT_EQ(lines, std::vector{std::to_string(least) + " bytes are left of the budget: a context of 256 tokens, " +
                               "micro-batches of 128, a f16 cache"});
  // The result can be loaded and created within the budget.
  EXPECT_SUCCESS(tessera_model_load(model.get(), nullptr, nullptr, nullptr, error));
  const SessionHandle session = create_session_handle(model.get(), &options);
  EXPECT_EQ(tessera_session_n_ctx(session.get()), 256);
  EXPECT_LE(tessera_runtime_memory(runtime.get()), least);
  EXPECT_STATUS(tessera_model_fit(model.get(), &options, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "model: it is loaded");
}

// Adapters that were opened before keep their place beside the weights.
TEST(CapiFit, AdaptersOfTheModelArePlacedAgain) {
  const RuntimeHandle runtime = create_with_budget(0);
  const ModelHandle model = open_story(runtime.get(), false);
  std::vector<AdapterHandle> adapters;
  for (const uint64_t seed : {1, 2}) {
    tessera_adapter* opened = nullptr;
    const std::string path = write_lora(story_model(), "fit_lora.gguf", 4, 8, seed);
    EXPECT_SUCCESS(tessera_adapter_open_lora(model.get(), path.c_str(), &opened, error));
    adapters.emplace_back(opened, tessera_adapter_release);
  }
  tessera_session_options options = with_context(128);
  tessera_adapter* const wanted = adapters[0].get();
  options.adapters = &wanted;
  options.n_adapters = 1;
  EXPECT_SUCCESS(tessera_model_fit(model.get(), &options, nullptr, error));
  EXPECT_SUCCESS(tessera_model_load(model.get(), nullptr, nullptr, nullptr, error));
  for (const AdapterHandle& adapter : adapters) EXPECT_SUCCESS(tessera_adapter_load(adapter.get(), error));
  const SessionHandle session = create_session_handle(model.get(), &options);
  tessera_adapter* const other = adapters[1].get();
  options.adapters = &other;
  const SessionHandle second = create_session_handle(model.get(), &options);
  const std::vector<int32_t> tokens = tokens_of(model.get(), "Once upon a time");
  for (tessera_session* one : {session.get(), second.get()})
    EXPECT_SUCCESS(tessera_session_append(one, 0, tokens.data(), tokens.size(), TESSERA_WANTS_OUTPUT, nullptr, error));
}

TEST(CapiFit, SettingsThatFitStay) {
  const RuntimeHandle runtime = create_with_budget(0);
  const ModelHandle model = open_story(runtime.get(), false);
  tessera_session_options options = with_context(0);
  EXPECT_SUCCESS(tessera_model_fit(model.get(), &options, nullptr, error));
  EXPECT_EQ(options.n_ctx, 2048);
  EXPECT_EQ(options.n_ubatch, 512);
  EXPECT_EQ(options.type_k, TESSERA_CACHE_F16);
  options.n_ctx = 700;
  options.n_ubatch = 32;
  options.type_k = TESSERA_CACHE_BF16;
  options.type_v = TESSERA_CACHE_F32;
  EXPECT_SUCCESS(tessera_model_fit(model.get(), &options, nullptr, error));
  EXPECT_EQ(options.n_ctx, 700);
  EXPECT_EQ(options.n_ubatch, 32);
  EXPECT_EQ(options.type_k, TESSERA_CACHE_BF16);
  EXPECT_EQ(options.type_v, TESSERA_CACHE_F32);
}

TEST(CapiFit, NothingFitsInTooLittle) {
  const RuntimeHandle runtime = create_with_budget(1000);
  const ModelHandle model = open_story(runtime.get(), false);
  tessera_session_options options = with_context(0);
  const tessera_session_options before = options;
  EXPECT_STATUS(tessera_model_fit(model.get(), &options, nullptr, error), TESSERA_OUT_OF_MEMORY, "");
  EXPECT_EQ(options.n_ctx, before.n_ctx);
}

TEST(CapiFit, RefusesWrongArguments) {
  const RuntimeHandle runtime = create_with_budget(0);
  const ModelHandle model = open_story(runtime.get(), false);
  tessera_session_options options = with_context(0);
  EXPECT_STATUS(tessera_model_fit(nullptr, &options, nullptr, error), TESSERA_INVALID_ARGUMENT, "model: is NULL");
  EXPECT_STATUS(tessera_model_fit(model.get(), nullptr, nullptr, error), TESSERA_INVALID_ARGUMENT, "session: is NULL");
  tessera_fit_options fit;
  tessera_fit_options_init(&fit, sizeof fit);
  fit.flags = 2;
  EXPECT_STATUS(tessera_model_fit(model.get(), &options, &fit, error), TESSERA_INVALID_ARGUMENT, "flags: 0x2");
  fit.flags = TESSERA_FIT_UBATCH;
  fit.least_ctx = -1;
  EXPECT_STATUS(tessera_model_fit(model.get(), &options, &fit, error), TESSERA_INVALID_ARGUMENT, "least_ctx: -1");
  fit.least_ctx = 256;
  fit.margin_bytes = 1;
  EXPECT_SUCCESS(tessera_model_fit(model.get(), &options, &fit, error));
  fit.size = 2;
  EXPECT_STATUS(tessera_model_fit(model.get(), &options, &fit, error), TESSERA_INVALID_ARGUMENT, "options: size is 2");
  options.type_k = 99;
  EXPECT_STATUS(tessera_model_fit(model.get(), &options, nullptr, error), TESSERA_INVALID_ARGUMENT, "type_k: 99");
}

}  // namespace
}  // namespace tessera
