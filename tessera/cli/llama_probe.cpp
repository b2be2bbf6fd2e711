#include "tessera/cli/llama_probe.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <new>

#include "tessera/cli/llama_search.h"
#include "tessera/text/utf8.h"

namespace tessera::cli {

namespace {

constexpr size_t kProbeBytes = 4096;
constexpr std::array<unsigned char, 2> kPoison = {0xaa, 0x55};  // a byte that keeps both was not written

// The result of a function that returns a struct of unknown size. As the type is not trivial, the function gets the
// address of the result and writes as many bytes as its own struct has. What is behind them stays.
struct Filled {
  ~Filled() {}  // NOLINT(modernize-use-equals-default): a default would be trivial
  std::array<unsigned char, kProbeBytes> bytes;
};
using DefaultsFunction = Filled (*)();
using VersionFunction = const char* (*)();

enum class ProbeStage : uint8_t { begun, not_loaded, no_function, done };

// Memory of both processes. After a crash it may have any content.
struct ProbeMemory {
  ProbeStage stage = ProbeStage::begun;
  std::array<char, 1024> reason{};
  std::array<char, 64> version{};
  std::array<std::array<unsigned char, kProbeBytes>, kPoison.size()> model{};
  std::array<std::array<unsigned char, kProbeBytes>, kPoison.size()> context{};
};

class SharedProbe {
 public:
  static Result<SharedProbe> create() {
    void* const at = ::mmap(nullptr, sizeof(ProbeMemory), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) return fail(ErrorCode::io, "no memory for a process: {}", std::strerror(errno));
    return SharedProbe(new (at) ProbeMemory);
  }
  SharedProbe(SharedProbe&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)) {}
  SharedProbe& operator=(SharedProbe&&) = delete;
  ~SharedProbe() {
    if (memory_ != nullptr) ::munmap(memory_, sizeof(ProbeMemory));
  }
  ProbeMemory& operator*() const { return *memory_; }

 private:
  explicit SharedProbe(ProbeMemory* memory) : memory_(memory) {}
  ProbeMemory* memory_;
};

template <size_t n>
void copy_text(const char* from, std::array<char, n>& to) {
  if (from != nullptr) std::strncpy(to.data(), from, n - 1);
}

template <size_t n>
std::string text_of(const std::array<char, n>& from) {
  return text::to_valid_utf8(std::string_view(from.data(), ::strnlen(from.data(), n)));
}

// ---- In the process of the library

void call_defaults(void* function, std::array<std::array<unsigned char, kProbeBytes>, kPoison.size()>& to) {
  for (size_t i = 0; i < kPoison.size(); ++i) {
    to[i].fill(kPoison[i]);
    new (to[i].data()) Filled(reinterpret_cast<DefaultsFunction>(function)());
  }
}

// A library whose search path has not its own folder finds the ggml beside it once that is loaded.
void* load_llama_library(const std::string& path) {
  void* library = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (library != nullptr) return library;
  for (const std::string& ggml : ggml_libraries_beside(path)) ::dlopen(ggml.c_str(), RTLD_LAZY | RTLD_GLOBAL);
  return ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
}

void probe_into(const std::string& path, ProbeMemory& to) {
  void* const library = load_llama_library(path);
  if (library == nullptr) {
    copy_text(::dlerror(), to.reason);
    to.stage = ProbeStage::not_loaded;
    return;
  }
  void* const model = ::dlsym(library, "llama_model_default_params");
  void* const context = ::dlsym(library, "llama_context_default_params");
  if (model == nullptr || context == nullptr) {
    to.stage = ProbeStage::no_function;
    return;
  }
  call_defaults(model, to.model);
  call_defaults(context, to.context);
  void* const version = ::dlsym(library, "llama_version");
  if (version != nullptr) copy_text(reinterpret_cast<VersionFunction>(version)(), to.version);
  to.stage = ProbeStage::done;
}

[[noreturn]] void run_probe(const std::string& path, int limit_ms, ProbeMemory& to) {
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  for (const int signal : {SIGSEGV, SIGABRT, SIGILL, SIGFPE, SIGBUS, SIGINT, SIGTERM, SIGALRM})
    std::signal(signal, SIG_DFL);
  const itimerval limit{{0, 0}, {limit_ms / 1000, limit_ms % 1000 * 1000}};
  ::setitimer(ITIMER_REAL, &limit, nullptr);
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, stream);
  probe_into(path, to);
  ::_exit(0);
}

// ---- In this process

std::vector<std::byte> written_bytes(const std::array<std::array<unsigned char, kProbeBytes>, kPoison.size()>& from) {
  const auto is_written = [&](size_t i) { return from[0][i] != kPoison[0] || from[1][i] != kPoison[1]; };
  size_t end = kProbeBytes;
  while (end > 0 && !is_written(end - 1)) --end;
  std::vector<std::byte> bytes(end);
  for (size_t i = 0; i < end; ++i) bytes[i] = std::byte{is_written(i) ? from[0][i] : uint8_t{0}};
  return bytes;
}

Result<int> wait_for_process(pid_t process) {
  int status = 0;
  while (::waitpid(process, &status, 0) < 0)
    if (errno != EINTR) return fail(ErrorCode::io, "its process cannot be waited for: {}", std::strerror(errno));
  return status;
}

Result<LlamaDefaults> read_probe(const ProbeMemory& memory, int status, int limit_ms) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
    return fail(ErrorCode::limit, "takes more than {} ms to load and to tell its defaults", limit_ms);
  if (WIFSIGNALED(status))
    return fail(ErrorCode::format, "crashes when it is asked for its defaults: {}", ::strsignal(WTERMSIG(status)));
  switch (memory.stage) {
    case ProbeStage::begun:
      return fail(ErrorCode::format, "ends the process when it is asked for its defaults");
    case ProbeStage::not_loaded:
      return fail(ErrorCode::format, "cannot be loaded: {}", text_of(memory.reason));
    case ProbeStage::no_function:
      return fail(ErrorCode::format, "is no libllama: it has no llama_model_default_params, or none for contexts");
    case ProbeStage::done:
      break;
  }
  return LlamaDefaults{written_bytes(memory.model), written_bytes(memory.context), text_of(memory.version)};
}

}  // namespace

Result<LlamaDefaults> probe_llama_library(const std::string& path, int limit_ms) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);  // a bare name would be searched for
  const auto probe = [&]() -> Result<LlamaDefaults> {
    TESSERA_ASSIGN(const SharedProbe memory, SharedProbe::create());
    const pid_t process = ::fork();
    if (process < 0) return fail(ErrorCode::io, "no process for it: {}", std::strerror(errno));
    if (process == 0) run_probe(absolute.string(), limit_ms, *memory);
    TESSERA_ASSIGN(const int status, wait_for_process(process));
    return read_probe(*memory, status, limit_ms);
  };
  Result<LlamaDefaults> defaults = probe();
  if (!defaults) return forward_error(defaults, path);
  return defaults;
}

}  // namespace tessera::cli
