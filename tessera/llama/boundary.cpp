#include "tessera/llama/boundary.h"

#include <algorithm>
#include <cstdio>
#include <limits>
#include <mutex>
#include <string>

namespace tessera::llama {
namespace {

// The log of programs that have none.
void write_to_stderr(int level, const char* text, void* /*user*/) {
  if (level > static_cast<int>(LogLevel::debug)) std::fputs(text, stderr);
}

// A global: llama.h has one log for a process. The layer has one more, the devices of ggml-backend.h.
struct LogTarget {
  std::mutex mutex;
  ggml_log_callback callback = write_to_stderr;
  void* user = nullptr;
};

LogTarget& log_target() {
  static LogTarget target;
  return target;
}

}  // namespace

// The callback runs without the lock, because it may log or replace itself.
void log_line(LogLevel level, std::string_view function, std::string_view text) noexcept try {
  std::string line(function);
  if (!line.empty()) line += ": ";
  line += text;
  line += '\n';
  LogTarget& target = log_target();
  std::unique_lock lock(target.mutex);
  const ggml_log_callback callback = target.callback;
  void* const user = target.user;
  lock.unlock();
  callback(static_cast<int>(level), line.c_str(), user);
} catch (...) {
  // The line is lost: there is no memory for it.
  return;
}

Result<std::string_view> read_text(const char* text, std::string_view name) {
  if (text == nullptr) return fail(ErrorCode::invalid_argument, "{}: is NULL", name);
  return std::string_view(text);
}

int32_t write_text(std::string_view text, char* to, size_t room) {
  if (to != nullptr && room > 0) {
    const size_t n = std::min(text.size(), room - 1);
    std::copy_n(text.data(), n, to);
    to[n] = '\0';
  }
  constexpr size_t kMax = std::numeric_limits<int32_t>::max();
  return static_cast<int32_t>(std::min(text.size(), kMax));
}

}  // namespace tessera::llama

using namespace tessera::llama;

void tessera_llama_log_set(ggml_log_callback log_callback, void* user_data) {
  LogTarget& target = log_target();
  const std::lock_guard lock(target.mutex);
  target.callback = log_callback == nullptr ? write_to_stderr : log_callback;
  target.user = user_data;
}

void tessera_llama_log_get(ggml_log_callback* log_callback, void** user_data) {
  LogTarget& target = log_target();
  const std::lock_guard lock(target.mutex);
  if (log_callback != nullptr) *log_callback = target.callback;
  if (user_data != nullptr) *user_data = target.user;
}
