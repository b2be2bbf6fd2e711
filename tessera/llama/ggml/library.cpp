// ggml.h: the library, its clock and its log.
#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "tessera/llama/boundary.h"
#include "tessera/llama/ggml/api.h"

using namespace tessera;
using namespace tessera::llama;

namespace {

constexpr size_t kMaxAbortText = 1024;

struct StatusName {
  int32_t status;
  const char* name;
};
constexpr std::array<StatusName, 4> kStatusNames = {
    {{-2, "out of memory"}, {-1, "failed"}, {0, "success"}, {1, "aborted"}}};

}  // namespace

const char* tessera_ggml_version() { return "0.25.1-tessera"; }
const char* tessera_ggml_commit() { return "unknown"; }

const char* tessera_ggml_status_to_string(int32_t status) {
  for (const StatusName& one : kStatusNames)
    if (one.status == status) return one.name;
  return "unknown status";
}

void tessera_ggml_time_init() {}
int64_t tessera_ggml_time_us() { return tessera_llama_time_us(); }
int64_t tessera_ggml_time_ms() { return tessera_llama_time_us() / 1000; }

// Both libraries have one log, as llama_log_set() of the original sets that of ggml too.
void tessera_ggml_log_get(ggml_log_callback* log_callback, void** user_data) {
  tessera_llama_log_get(log_callback, user_data);
}
void tessera_ggml_log_set(ggml_log_callback log_callback, void* user_data) {
  tessera_llama_log_set(log_callback, user_data);
}

void tessera_ggml_numa_init(int32_t numa) { tessera_llama_numa_init(numa); }
bool tessera_ggml_is_numa() { return false; }

// A program calls this to end itself where its own assertion failed, and has no code behind the call.
void tessera_ggml_abort(const char* file, int line, const char* format, ...) {
  std::array<char, kMaxAbortText> text{};
  va_list arguments;
  va_start(arguments, format);
  if (format != nullptr) std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  guarded("ggml_abort", [&]() -> Result<> {
    return fail(ErrorCode::internal, "{}:{}: {}", file == nullptr ? "?" : file, line, text.data());
  });
  std::abort();
}
