// What a runtime of tessera.h shares: one pool of threads, the memory of the program, plugins; and its environment.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <thread>

#include "tests/capi/capi_support.h"
#include "tests/capi/files_support.h"

namespace tessera {
namespace {

using namespace testing;

RuntimeHandle create_with(const tessera_runtime_options& options) {
  tessera_runtime* runtime = nullptr;
  EXPECT_SUCCESS(tessera_runtime_create(&options, &runtime, error));
  return {runtime, tessera_runtime_release};
}

size_t n_threads_of_process() { return names_in("/proc/self/task").size(); }

std::vector<float> append(tessera_session* session, const std::vector<int32_t>& tokens) {
  EXPECT_SUCCESS(
      tessera_session_append(session, 0, tokens.data(), tokens.size(), TESSERA_WANTS_OUTPUT, nullptr, error));
  uint64_t n = 0;
  const float* row = tessera_session_output(session, 0, &n);
  return {row, row + n};
}

TEST(CapiRuntimeThreads, AreSharedByAllSessionsOfAllModels) {
  const size_t n_before = n_threads_of_process();
  {
    const RuntimeHandle runtime = create_runtime_handle(3);
    const ModelHandle first = open_story(runtime.get()), second = open_story(runtime.get());
    EXPECT_EQ(n_threads_of_process(), n_before);  // those of loading have ended
    std::vector<SessionHandle> sessions;
    for (int i = 0; i < 3; ++i) {
      sessions.push_back(create_session_handle(first.get()));
      sessions.push_back(create_session_handle(second.get()));
    }
    EXPECT_EQ(n_threads_of_process(), n_before + 2);  // the caller of a session is its first thread
    const std::vector<int32_t> tokens = tokens_of(first.get(), "Once upon a time");
    const std::vector<float> wanted = append(sessions[0].get(), tokens);
    std::vector<std::vector<float>> rows(sessions.size());
    std::vector<std::thread> callers;
    for (size_t i = 1; i < sessions.size(); ++i)
      callers.emplace_back([&, i] { rows[i] = append(sessions[i].get(), tokens); });
    for (std::thread& caller : callers) caller.join();
    for (size_t i = 1; i < rows.size(); ++i) EXPECT_EQ(rows[i], wanted) << i;
  }
  EXPECT_EQ(n_threads_of_process(), n_before);
}

TEST(CapiRuntimeThreads, MayBeFewerForASession) {
  const RuntimeHandle runtime = create_runtime_handle(4);
  const ModelHandle model = open_story(runtime.get());
  const std::vector<int32_t> tokens = tokens_of(model.get(), "Once upon a time");
  tessera_session_options options;
  tessera_session_options_init(&options, sizeof options);
  std::vector<float> wanted;
  for (options.n_threads = 1; options.n_threads <= 4; ++options.n_threads) {
    const SessionHandle session = create_session_handle(model.get(), &options);
    const std::vector<float> row = append(session.get(), tokens);
    if (options.n_threads == 1) wanted = row;
    EXPECT_EQ(row, wanted);
  }
  tessera_session* session = nullptr;
  EXPECT_STATUS(tessera_session_create(model.get(), &options, &session, error), TESSERA_INVALID_ARGUMENT,
                "n_threads: 5, want 0 to those of the runtime, 4");
}

// A program's memory: what it has given, by use.
struct ProgramMemory {
  std::mutex mutex;
  std::map<void*, std::pair<uint64_t, int32_t>> given;
  std::map<int32_t, uint64_t> bytes;  // given now, by use
  uint64_t limit = UINT64_MAX;        // of all uses

  static void* allocate(void* user, uint64_t n_bytes, uint64_t alignment, int32_t use) {
    auto& of = *static_cast<ProgramMemory*>(user);
    const std::lock_guard lock(of.mutex);
    if (of.total() + n_bytes > of.limit) return nullptr;
    void* memory = std::aligned_alloc(alignment, (n_bytes + alignment - 1) / alignment * alignment);
    of.given[memory] = {n_bytes, use};
    of.bytes[use] += n_bytes;
    return memory;
  }
  static void free(void* user, void* memory, uint64_t n_bytes, int32_t use) {
    auto& of = *static_cast<ProgramMemory*>(user);
    const std::lock_guard lock(of.mutex);
    EXPECT_EQ(of.given.at(memory), std::pair(n_bytes, use));
    of.given.erase(memory);
    of.bytes[use] -= n_bytes;
    std::free(memory);
  }
  uint64_t total() const {
    uint64_t n = 0;
    for (const auto& [use, count] : bytes) n += count;
    return n;
  }
  tessera_runtime_options options() {
    tessera_runtime_options options;
    tessera_runtime_options_init(&options, sizeof options);
    options.n_threads = 2;
    options.allocate = allocate;
    options.free = free;
    options.memory_user = this;
    return options;
  }
};

TEST(CapiAllocator, GivesWhatThePlanHasForTheCpu) {
  ProgramMemory memory;
  std::vector<float> row;
  {
    const RuntimeHandle runtime = create_with(memory.options());
    const ModelHandle model = open_story(runtime.get(), false);
    tessera_session_options options;
    tessera_session_options_init(&options, sizeof options);
    options.n_ctx = 300;
    std::vector<tessera_memory_part> parts(32);
    uint64_t n = 0;
    EXPECT_SUCCESS(tessera_session_plan(model.get(), &options, parts.data(), parts.size(), &n, error));
    parts.resize(n);
    EXPECT_EQ(memory.total(), 0u);
    EXPECT_SUCCESS(tessera_model_load(model.get(), nullptr, nullptr, nullptr, error));
    const SessionHandle session = create_session_handle(model.get(), &options);
    for (const int32_t use : {TESSERA_MEMORY_WEIGHTS, TESSERA_MEMORY_CACHE, TESSERA_MEMORY_COMPUTE}) {
      uint64_t planned = 0;
      for (const tessera_memory_part& part : parts) {
        const std::string buffer = part.buffer;
        if (part.kind == use && (buffer == "cpu" || buffer == "cpu-packed")) planned += part.n_bytes;
      }
      EXPECT_GT(planned, 0u) << use;
      EXPECT_EQ(memory.bytes[use], planned) << use;
    }
    EXPECT_EQ(memory.bytes[TESSERA_MEMORY_OTHER], 0u);
    row = append(session.get(), tokens_of(model.get(), "Once upon a time"));
  }
  EXPECT_TRUE(memory.given.empty());
  const RuntimeHandle runtime = create_runtime_handle();
  const ModelHandle model = open_story(runtime.get());
  EXPECT_EQ(row, append(create_session_handle(model.get()).get(), tokens_of(model.get(), "Once upon a time")));
}

TEST(CapiAllocator, MayRefuse) {
  ProgramMemory memory;
  const RuntimeHandle runtime = create_with(memory.options());
  memory.limit = 100;
  const ModelHandle model = open_story(runtime.get(), false);
  EXPECT_STATUS(tessera_model_load(model.get(), nullptr, nullptr, nullptr, error), TESSERA_OUT_OF_MEMORY,
                "cpu-packed: the program's allocator refuses ");
  memory.limit = UINT64_MAX;
  EXPECT_SUCCESS(tessera_model_load(model.get(), nullptr, nullptr, nullptr, error));
  const uint64_t of_model = memory.total();
  memory.limit = of_model + 100;
  tessera_session* session = nullptr;
  EXPECT_STATUS(tessera_session_create(model.get(), nullptr, &session, error), TESSERA_OUT_OF_MEMORY,
                "cpu: the program's allocator refuses ");
  EXPECT_EQ(memory.total(), of_model);
  EXPECT_EQ(tessera_runtime_memory(runtime.get()), of_model);
}

TEST(CapiAllocator, HasBothFunctionsOrNone) {
  ProgramMemory memory;
  for (const bool has_allocate : {false, true}) {
    tessera_runtime_options options = memory.options();
    if (has_allocate)
      options.free = nullptr;
    else
      options.allocate = nullptr;
    tessera_runtime* runtime = nullptr;
    EXPECT_STATUS(tessera_runtime_create(&options, &runtime, error), TESSERA_INVALID_ARGUMENT,
                  "allocate, free: one of them is NULL, want both or none");
  }
}

// What a runtime says of plugins that are no libraries.
std::string notes_of(const char* plugins, uint32_t flags) {
  tessera_runtime_options options;
  tessera_runtime_options_init(&options, sizeof options);
  options.plugins = plugins;
  options.flags = flags;
  const RuntimeHandle runtime = create_with(options);
  std::vector<char> notes(1 << 16);
  EXPECT_SUCCESS(tessera_runtime_find_devices(runtime.get(), notes.data(), notes.size(), nullptr, error));
  return notes.data();
}

TEST(CapiRuntimeEnvironment, CountsOnlyIfTheProgramSaysSo) {
  ::setenv("TESSERA_BACKENDS", "/of/the/environment.so", 1);
  for (const char* plugins : {static_cast<const char*>(nullptr), "/of/the/options.so:/and/another.so"})
    for (const uint32_t flags : {uint32_t{0}, uint32_t{TESSERA_RUNTIME_USE_ENVIRONMENT}}) {
      const std::string notes = notes_of(plugins, flags);
      const auto has = [&](const char* path) { return notes.find(path) != std::string::npos; };
      EXPECT_EQ(has("/of/the/environment.so"), flags != 0) << notes;
      EXPECT_EQ(has("/of/the/options.so"), plugins != nullptr) << notes;
      EXPECT_EQ(has("/and/another.so"), plugins != nullptr) << notes;
    }
  ::unsetenv("TESSERA_BACKENDS");
}

// A child of a process that uses the library has none of its threads. It uses a runtime of its own.
TEST(CapiRuntimeFork, AChildUsesARuntimeOfItsOwn) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "the thread sanitizer ends a child of several threads that starts threads";
#endif
  const RuntimeHandle runtime = create_runtime_handle(2);
  const ModelHandle model = open_story(runtime.get());
  const SessionHandle session = create_session_handle(model.get());
  const std::vector<int32_t> tokens = tokens_of(model.get(), "Once upon a time");
  const std::vector<float> wanted = append(session.get(), tokens);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(600);  // a child that waits for a thread of its parent would wait forever
    const RuntimeHandle own = create_runtime_handle(2);
    const ModelHandle own_model = open_story(own.get());
    const bool is_same = append(create_session_handle(own_model.get()).get(), tokens) == wanted;
    ::_exit(is_same && !::testing::Test::HasFailure() ? 0 : 1);
  }
  ASSERT_GT(child, 0);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_SUCCESS(tessera_session_clear(session.get(), error));
  EXPECT_EQ(append(session.get(), tokens), wanted);
}

}  // namespace
}  // namespace tessera
