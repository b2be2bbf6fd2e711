// The library, runtimes and cancel objects of tessera.h.
#include <cstddef>
#include <cstring>
#include <thread>

#include "tessera/base/cpu_info.h"
#include "tessera/capi/objects.h"
#include "tests/capi/capi_support.h"

namespace tessera {
namespace {

using namespace testing;

TEST(CapiLibrary, HasAVersionAndNamesOfStatuses) {
  EXPECT_EQ(tessera_version(), static_cast<uint32_t>(TESSERA_VERSION));
  EXPECT_EQ(std::string(tessera_version_text()), "1.0.0");
  EXPECT_EQ(tessera_version(), 1'000'000u);
  EXPECT_TRUE(std::string(tessera_build_info()).starts_with("tessera "));
  const char* const names[] = {"success",       "invalid argument", "not found",     "I/O error",
                               "bad format",    "limit exceeded",   "unsupported",   "mismatch",
                               "out of memory", "cancelled",        "internal error"};
  for (int32_t status = 0; status < 11; ++status) EXPECT_EQ(std::string(tessera_status_name(status)), names[status]);
  for (const int32_t other : {-1, 11, INT32_MAX}) EXPECT_EQ(std::string(tessera_status_name(other)), "unknown status");
}

TEST(CapiLibrary, OptionsOfOtherSizesAreReadAndWritten) {
  struct Longer {
    tessera_runtime_options options;
    uint64_t of_later_version;
  };
  Longer longer;
  std::memset(&longer, 0xff, sizeof longer);
  tessera_runtime_options_init(&longer.options, sizeof longer);
  EXPECT_EQ(longer.options.size, sizeof longer);
  EXPECT_EQ(longer.options.n_threads, 0);
  EXPECT_EQ(longer.of_later_version, 0u);
  tessera_runtime* runtime = nullptr;
  EXPECT_SUCCESS(tessera_runtime_create(&longer.options, &runtime, error));
  tessera_runtime_release(runtime);
  longer.of_later_version = uint64_t{1} << 63;
  EXPECT_STATUS(tessera_runtime_create(&longer.options, &runtime, error), TESSERA_UNSUPPORTED,
                "options: a member after byte 88 is set, which version 1.0.0 does not have");
  // A program of an earlier version has fewer members; the memory behind them is its own.
  tessera_runtime_options shorter;
  std::memset(&shorter, 0xff, sizeof shorter);
  tessera_runtime_options_init(&shorter, offsetof(tessera_runtime_options, isa));
  EXPECT_EQ(shorter.n_threads, 0);
  EXPECT_NE(shorter.isa, nullptr);
  EXPECT_SUCCESS(tessera_runtime_create(&shorter, &runtime, error));
  tessera_runtime_release(runtime);
  for (const uint32_t size : {0u, 3u, (1u << 16) + 1}) {
    shorter.size = size;
    EXPECT_STATUS(tessera_runtime_create(&shorter, &runtime, error), TESSERA_INVALID_ARGUMENT, "options: size is ");
  }
  tessera_runtime_options_init(nullptr, 4);
}

TEST(CapiLibrary, ErrorsFitTheirRoom) {
  tessera_error error = TESSERA_ERROR_INIT;
  EXPECT_EQ(tessera_runtime_create(nullptr, nullptr, &error), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(error.text), "runtime: is NULL");
  EXPECT_EQ(tessera_runtime_create(nullptr, nullptr, nullptr), TESSERA_INVALID_ARGUMENT);
  // A success clears the text.
  tessera_runtime* runtime = nullptr;
  EXPECT_EQ(tessera_runtime_create(nullptr, &runtime, &error), TESSERA_OK);
  EXPECT_EQ(std::string(error.text), "");
  EXPECT_EQ(error.status, TESSERA_OK);
  // Less room, and none.
  std::memset(error.text, 'x', sizeof error.text);
  error.size = offsetof(tessera_error, text) + 5;
  EXPECT_EQ(tessera_runtime_create(nullptr, nullptr, &error), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(std::string(error.text), "runt");
  EXPECT_EQ(error.text[5], 'x');
  error.size = offsetof(tessera_error, text);
  error.status = 77;
  EXPECT_EQ(tessera_runtime_create(nullptr, nullptr, &error), TESSERA_INVALID_ARGUMENT);
  EXPECT_EQ(error.status, 77);
  // A long text is cut before a character, not within it.
  error = TESSERA_ERROR_INIT;
  tessera_model* model = nullptr;
  std::string path;
  while (path.size() < 1000) path += "\u00e4";
  EXPECT_EQ(tessera_model_open(runtime, path.c_str(), nullptr, &model, &error), TESSERA_IO);
  const std::string text = error.text;
  EXPECT_GE(text.size(), 500u);
  EXPECT_TRUE(text.ends_with("\u00e4")) << text;
  tessera_runtime_release(runtime);
}

TEST(CapiRuntime, ListsDevices) {
  const RuntimeHandle runtime = create_runtime_handle();
  const int64_t n = tessera_runtime_device_count(runtime.get());
  ASSERT_GE(n, 1);
  bool has_cpu = false;
  for (int64_t i = 0; i < n; ++i) {
    tessera_device_info info{};
    info.size = sizeof info;
    EXPECT_SUCCESS(tessera_runtime_device_info(runtime.get(), i, &info, error));
    if (std::string(info.name) != "cpu") continue;
    has_cpu = true;
    EXPECT_EQ(info.kind, TESSERA_DEVICE_CPU);
    EXPECT_NE(std::string(info.description), "");
    EXPECT_GT(info.total_bytes, 0u);
    EXPECT_LE(info.free_bytes, info.total_bytes);
  }
  EXPECT_TRUE(has_cpu);
  tessera_device_info info{};
  info.size = sizeof info;
  for (const int64_t index : {int64_t{-1}, n})
    EXPECT_STATUS(tessera_runtime_device_info(runtime.get(), index, &info, error), TESSERA_INVALID_ARGUMENT, "index: ");
  EXPECT_STATUS(tessera_runtime_device_info(runtime.get(), 0, nullptr, error), TESSERA_INVALID_ARGUMENT,
                "info: is NULL");
  EXPECT_STATUS(tessera_runtime_device_info(nullptr, 0, &info, error), TESSERA_INVALID_ARGUMENT, "runtime: is NULL");
  EXPECT_EQ(tessera_runtime_device_count(nullptr), 0);
}

TEST(CapiRuntime, LogsToTheFunctionOfTheProgram) {
  std::vector<std::string> lines;
  tessera_runtime_options options;
  tessera_runtime_options_init(&options, sizeof options);
  options.log = [](void* user, int32_t level, const char* text) {
    static_cast<std::vector<std::string>*>(user)->push_back(std::to_string(level) + text);
  };
  options.log_user = &lines;
  tessera_runtime* runtime = nullptr;
  EXPECT_SUCCESS(tessera_runtime_create(&options, &runtime, error));
  runtime->log(TESSERA_LOG_WARNING, "a line");
  EXPECT_EQ(lines, std::vector<std::string>{"2a line"});
  tessera_runtime_release(runtime);
  EXPECT_SUCCESS(tessera_runtime_create(nullptr, &runtime, error));
  runtime->log(TESSERA_LOG_WARNING, "nobody hears this");
  tessera_runtime_release(runtime);
}

TEST(CapiRuntime, InfosNeedTheirSize) {
  const RuntimeHandle runtime = create_runtime_handle();
  tessera_device_info info{};
  EXPECT_STATUS(tessera_runtime_device_info(runtime.get(), 0, &info, error), TESSERA_INVALID_ARGUMENT,
                "info: size is 0: set it to the size of the struct");
}

TEST(CapiRuntime, RefusesWrongOptions) {
  tessera_runtime_options options;
  tessera_runtime_options_init(&options, sizeof options);
  tessera_runtime* runtime = nullptr;
  for (const int32_t n : {-1, 513}) {
    options.n_threads = n;
    EXPECT_STATUS(tessera_runtime_create(&options, &runtime, error), TESSERA_INVALID_ARGUMENT,
                  "n_threads: " + std::to_string(n) + ", want 0 to 512");
  }
  options.n_threads = 1;
  for (const int32_t priority : {-1, 5}) {
    options.thread_priority = priority;
    EXPECT_STATUS(tessera_runtime_create(&options, &runtime, error), TESSERA_INVALID_ARGUMENT,
                  "thread_priority: " + std::to_string(priority) + ", want a TESSERA_PRIORITY_, 0 to 4");
  }
  options.thread_priority = TESSERA_PRIORITY_NORMAL;
  options.flags = 4;
  EXPECT_STATUS(tessera_runtime_create(&options, &runtime, error), TESSERA_INVALID_ARGUMENT,
                "flags: 0x4, known are 0x3");
  options.flags = 0;
  options.thread_cpus = "all";
  EXPECT_STATUS(tessera_runtime_create(&options, &runtime, error), TESSERA_INVALID_ARGUMENT, "thread_cpus: ");
  options.thread_cpus = nullptr;
  options.isa = "none";
  EXPECT_STATUS(tessera_runtime_create(&options, &runtime, error), TESSERA_UNSUPPORTED, "none");
  EXPECT_EQ(runtime, nullptr);
}

TEST(CapiRuntime, ThreadsHaveTheOptionsOfTheProgram) {
  tessera_runtime_options options;
  tessera_runtime_options_init(&options, sizeof options);
  const int cpu = thread_affinity().cpus().back();
  const std::string cpus = std::to_string(cpu);
  options.n_threads = 3;
  options.thread_cpus = cpus.c_str();
  options.flags = TESSERA_RUNTIME_PIN_THREADS;
  constexpr Priority kWanted[] = {Priority::normal, Priority::low, Priority::medium, Priority::high,
                                  Priority::realtime};
  for (int32_t priority = 0; priority < 5; ++priority) {
    options.thread_priority = priority;
    tessera_runtime* runtime = nullptr;
    EXPECT_SUCCESS(tessera_runtime_create(&options, &runtime, error));
    EXPECT_EQ(runtime->thread_options.priority, kWanted[priority]);
    EXPECT_EQ(runtime->thread_options.n_threads, 3);
    EXPECT_EQ(runtime->thread_options.affinity, Affinity::strict);
    EXPECT_EQ(runtime->thread_options.cpus.cpus(), std::vector<int>{cpu});
    tessera_runtime_release(runtime);
  }
  tessera_runtime* runtime = nullptr;
  EXPECT_SUCCESS(tessera_runtime_create(nullptr, &runtime, error));
  EXPECT_EQ(runtime->thread_options.n_threads, default_thread_count());
  EXPECT_EQ(runtime->thread_options.affinity, Affinity::shared);
  EXPECT_TRUE(runtime->thread_options.cpus.empty());
  tessera_runtime_release(runtime);
}

TEST(CapiRuntime, SaysWhyADeviceCannotBeUsed) {
  const RuntimeHandle runtime = create_runtime_handle();
  std::vector<char> notes(1 << 16, 'x');
  uint64_t n = 0;
  EXPECT_SUCCESS(tessera_runtime_find_devices(runtime.get(), notes.data(), notes.size(), &n, error));
  std::string wanted;
  for (const std::string& note : runtime->registry->notes()) wanted += wanted.empty() ? note : "\n" + note;
  EXPECT_EQ(std::string(notes.data()), wanted);
  EXPECT_EQ(n, wanted.size() + 1);
  EXPECT_STATUS(tessera_runtime_find_devices(runtime.get(), notes.data(), n - 1, &n, error), TESSERA_LIMIT, "buffer: ");
  EXPECT_STATUS(tessera_runtime_find_devices(nullptr, notes.data(), 9, &n, error), TESSERA_INVALID_ARGUMENT,
                "runtime: is NULL");
}

TEST(CapiHandles, OtherHandlesAreRefused) {
  const RuntimeHandle runtime = create_runtime_handle();
  tessera_cancel* cancel = nullptr;
  EXPECT_SUCCESS(tessera_cancel_create(&cancel, error));
  tessera_model* model = nullptr;
  EXPECT_STATUS(tessera_model_open(reinterpret_cast<tessera_runtime*>(cancel), "x", nullptr, &model, error),
                TESSERA_INVALID_ARGUMENT, "runtime: is a handle of another kind");
  tessera_cancel_release(cancel);
  EXPECT_STATUS(tessera_cancel_create(nullptr, error), TESSERA_INVALID_ARGUMENT, "cancel: is NULL");
  // NULL is nothing to release or retain.
  tessera_runtime_release(nullptr);
  tessera_model_release(nullptr);
  tessera_session_release(nullptr);
  tessera_sampler_release(nullptr);
  tessera_generation_release(nullptr);
  tessera_cancel_release(nullptr);
  EXPECT_EQ(tessera_runtime_retain(nullptr), nullptr);
  EXPECT_EQ(tessera_model_retain(nullptr), nullptr);
  EXPECT_EQ(tessera_session_retain(nullptr), nullptr);
  EXPECT_EQ(tessera_sampler_retain(nullptr), nullptr);
  EXPECT_EQ(tessera_cancel_retain(nullptr), nullptr);
}

TEST(CapiHandles, ReferencesKeepObjects) {
  tessera_runtime* runtime = create_runtime_handle().release();
  EXPECT_EQ(tessera_runtime_retain(runtime), runtime);
  tessera_runtime_release(runtime);
  // In any order: each keeps what it needs.
  tessera_model* model = open_story(runtime).release();
  tessera_runtime_release(runtime);
  tessera_session* session = create_session_handle(model).release();
  tessera_sampler* sampler = create_greedy(model).release();
  tessera_generation* generation = nullptr;
  EXPECT_SUCCESS(tessera_generation_create(session, sampler, 0, nullptr, &generation, error));
  const std::vector<int32_t> prompt = tokens_of(model, "Once");
  tessera_model_release(model);
  tessera_session_release(session);
  tessera_sampler_release(sampler);
  EXPECT_SUCCESS(tessera_generation_start(generation, prompt.data(), prompt.size(), nullptr, error));
  tessera_generated next{};
  EXPECT_SUCCESS(tessera_generation_next(generation, &next, nullptr, error));
  EXPECT_GE(next.token, 0);
  tessera_generation_release(generation);
}

TEST(CapiCancel, IsSetByAnyThreadAndReset) {
  tessera_cancel* cancel = nullptr;
  EXPECT_SUCCESS(tessera_cancel_create(&cancel, error));
  EXPECT_EQ(tessera_cancel_is_set(cancel), 0);
  std::thread([&] { tessera_cancel_set(cancel); }).join();
  EXPECT_EQ(tessera_cancel_is_set(cancel), 1);
  tessera_cancel_reset(cancel);
  EXPECT_EQ(tessera_cancel_is_set(cancel), 0);
  tessera_cancel_set(nullptr);
  tessera_cancel_reset(nullptr);
  EXPECT_EQ(tessera_cancel_is_set(nullptr), 0);
  tessera_cancel_release(cancel);
}

}  // namespace
}  // namespace tessera
