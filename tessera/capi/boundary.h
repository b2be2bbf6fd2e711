// The border between C and C++: results become statuses, exceptions end here, and structs of any size are read.
#pragma once

#include <algorithm>
#include <cstring>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/tessera.h"

namespace tessera::capi {

/// Fills an error of the caller, which may be NULL, and returns its status. `text` is cut at its room.
tessera_status report(tessera_status status, std::string_view text, tessera_error* error) noexcept;
tessera_status report(const Error& error, tessera_error* out) noexcept;
tessera_status status_of(ErrorCode code);

/// Runs a function that returns a Result<>. No exception leaves.
template <class Function>
tessera_status guarded(tessera_error* error, Function&& function) noexcept {
  try {
    const Result<> result = std::forward<Function>(function)();
    return result ? report(TESSERA_OK, "", error) : report(result.error(), error);
  } catch (const std::bad_alloc&) {
    return report(TESSERA_OUT_OF_MEMORY, "out of memory", error);
  } catch (...) {
    return report(TESSERA_INTERNAL, "an exception in the library", error);
  }
}

/// The same for functions without an error: returns `failed` instead of throwing.
template <class T, class Function>
T guarded_value(T failed, Function&& function) noexcept {
  try {
    return std::forward<Function>(function)();
  } catch (...) {
    return failed;
  }
}

inline constexpr size_t kMaxStructBytes = 1 << 16;

/// Refuses NULL. Error: invalid_argument.
template <class Pointer>
Result<> require_pointer(Pointer pointer, std::string_view name) {
  if (pointer != nullptr) return {};
  return fail(ErrorCode::invalid_argument, "{}: is NULL", name);
}

/// Refuses sizes that no version of a struct has, such as those of memory that was not set. Error: invalid_argument.
Result<> require_size(uint64_t size, std::string_view name);

/// Copies as much of `value` as a caller's struct of `size` bytes has, zeros the rest, and sets its size. Does nothing
/// for NULL or a size that require_size() refuses.
template <class T>
void write_sized(T* to, size_t size, T value) {
  if (to == nullptr || size < sizeof(value.size) || size > kMaxStructBytes) return;
  std::memset(static_cast<void*>(to), 0, size);
  value.size = static_cast<uint32_t>(size);
  std::memcpy(static_cast<void*>(to), &value, std::min(size, sizeof(T)));
}

/// Reads a struct of a caller. Members beyond its size, and all of NULL, are those of `defaults`.
/// Errors: invalid_argument (a size that no version has); unsupported (a member that this version does not know is not
/// 0).
template <class T>
Result<T> read_sized(const T* from, const T& defaults, std::string_view name) {
  if (from == nullptr) return defaults;
  const uint32_t size = from->size;
  TESSERA_TRY(require_size(size, name));
  T value = defaults;
  std::memcpy(static_cast<void*>(&value), from, std::min<size_t>(size, sizeof(T)));
  if (size <= sizeof(T)) return value;
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (size_t i = sizeof(T); i < size; ++i)
    if (bytes[i] != 0)
      return fail(ErrorCode::unsupported, "{}: a member after byte {} is set, which version {} does not have", name,
                  sizeof(T), tessera_version_text());
  return value;
}

/// Writes items to an array of a caller. Error: limit (the array has too little room; nothing is written but *needed).
template <class T>
Result<> write_items(std::span<const T> items, T* to, uint64_t room, uint64_t* needed, std::string_view name) {
  if (needed != nullptr) *needed = items.size();
  if (items.size() > room) return fail(ErrorCode::limit, "{}: {} are needed, room is for {}", name, items.size(), room);
  if (items.empty()) return {};
  TESSERA_TRY(require_pointer(to, name));
  std::memcpy(to, items.data(), items.size_bytes());
  return {};
}

/// Copies a text into an array, cut at its room, with a NUL at its end.
void copy_text(std::string_view text, std::span<char> to) noexcept;

/// Writes a text with a NUL at its end to a buffer of a caller. *needed gets the bytes with the NUL. Errors: those of
/// write_items().
Result<> write_text(std::string_view text, char* to, uint64_t room, uint64_t* needed);

/// Refuses flags that this version does not have. Error: invalid_argument.
Result<> require_flags(uint32_t flags, uint32_t known);

/// The names of a list with separators. Empty names are left out.
std::vector<std::string> split_names(std::string_view text, char separator);

/// A text of a caller; length -1: up to its NUL. Errors: invalid_argument (NULL, or another negative length).
Result<std::string_view> read_text(const char* text, int64_t length, std::string_view name);

/// An array of a caller. Errors: invalid_argument (NULL with a count; more than 2^31 items).
template <class T>
Result<std::span<const T>> read_items(const T* items, uint64_t count, std::string_view name) {
  constexpr uint64_t kMaxItems = uint64_t{1} << 31;
  if (count > kMaxItems) return fail(ErrorCode::invalid_argument, "{}: {} items, limit {}", name, count, kMaxItems);
  if (count > 0) TESSERA_TRY(require_pointer(items, name));
  return std::span<const T>(items, static_cast<size_t>(count));
}

}  // namespace tessera::capi
