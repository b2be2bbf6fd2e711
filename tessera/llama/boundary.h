// The border between programs of llama.h and C++: failures become one line of the log and the documented value, and
// exceptions end here.
#pragma once

#include <cstdint>
#include <new>
#include <span>
#include <string_view>
#include <utility>

#include "tessera/base/result.h"
#include "tessera/llama/api.h"

namespace tessera::llama {

/// Levels of ggml_log_callback.
enum class LogLevel : int { debug = 1, info = 2, warning = 3, error = 4 };

/// Passes a line to the callback of the program, or to stderr without one. Never throws.
void log_line(LogLevel level, std::string_view function, std::string_view text) noexcept;

/// Runs a function that returns a Result<T>. After an error, logs "function: message" and returns `failed`.
template <class T, class Function>
T guarded(const char* function, T failed, Function&& body) noexcept {
  try {
    Result<T> result = std::forward<Function>(body)();
    if (result) return std::move(*result);
    log_line(LogLevel::error, function, result.error().message());
  } catch (const std::bad_alloc&) {
    log_line(LogLevel::error, function, "out of memory");
  } catch (...) {
    log_line(LogLevel::error, function, "an exception in the library");
  }
  return failed;
}

/// The same for functions without a result.
template <class Function>
void guarded(const char* function, Function&& body) noexcept {
  guarded(function, false, [&]() -> Result<bool> {
    TESSERA_TRY(std::forward<Function>(body)());
    return true;
  });
}

/// A text of a program. Error: invalid_argument (NULL).
Result<std::string_view> read_text(const char* text, std::string_view name);

/// An array of a program. Errors: invalid_argument (NULL with a count; more than 2^31 items).
template <class T>
Result<std::span<T>> read_items(T* items, uint64_t count, std::string_view name) {
  constexpr uint64_t kMaxItems = uint64_t{1} << 31;
  if (count > kMaxItems) return fail(ErrorCode::invalid_argument, "{}: {} items, limit {}", name, count, kMaxItems);
  if (items == nullptr && count > 0) return fail(ErrorCode::invalid_argument, "{}: is NULL", name);
  return std::span<T>(items, static_cast<size_t>(count));
}

/// Writes a text as snprintf() does: cut at the room, with a NUL at its end. Returns its whole length.
int32_t write_text(std::string_view text, char* to, size_t room);

}  // namespace tessera::llama
