#include "tessera/capi/boundary.h"

#include <algorithm>
#include <cstddef>
#include <ranges>

namespace tessera::capi {

tessera_status status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
      return TESSERA_INVALID_ARGUMENT;
    case ErrorCode::not_found:
      return TESSERA_NOT_FOUND;
    case ErrorCode::io:
      return TESSERA_IO;
    case ErrorCode::format:
      return TESSERA_FORMAT;
    case ErrorCode::limit:
      return TESSERA_LIMIT;
    case ErrorCode::unsupported:
      return TESSERA_UNSUPPORTED;
    case ErrorCode::mismatch:
      return TESSERA_MISMATCH;
    case ErrorCode::out_of_memory:
      return TESSERA_OUT_OF_MEMORY;
    case ErrorCode::cancelled:
      return TESSERA_CANCELLED;
    case ErrorCode::internal:
      break;
  }
  return TESSERA_INTERNAL;
}

tessera_status report(tessera_status status, std::string_view text, tessera_error* error) noexcept {
  constexpr size_t kTextAt = offsetof(tessera_error, text);
  if (error == nullptr || error->size <= kTextAt) return status;
  error->status = status;
  copy_text(text, std::span(error->text).first(std::min<size_t>(error->size, sizeof(tessera_error)) - kTextAt));
  return status;
}

Result<> require_size(uint64_t size, std::string_view name) {
  if (size >= sizeof(uint32_t) && size <= kMaxStructBytes) return {};
  return fail(ErrorCode::invalid_argument, "{}: size is {}: set it to the size of the struct", name, size);
}

void copy_text(std::string_view text, std::span<char> to) noexcept {
  size_t n = std::min(text.size(), to.size() - 1);
  // A character that does not fit is left out as a whole.
  while (n > 0 && n < text.size() && (static_cast<unsigned char>(text[n]) & 0xc0) == 0x80) --n;
  std::copy_n(text.data(), n, to.data());
  to[n] = '\0';
}

tessera_status report(const Error& error, tessera_error* out) noexcept {
  return report(status_of(error.code()), error.message(), out);
}

Result<> write_text(std::string_view text, char* to, uint64_t room, uint64_t* needed) {
  const uint64_t n = text.size() + 1;
  if (needed != nullptr) *needed = n;
  if (n > room) return fail(ErrorCode::limit, "buffer: {} bytes are needed, room is for {}", n, room);
  TESSERA_TRY(require_pointer(to, "buffer"));
  std::copy_n(text.data(), text.size(), to);
  to[text.size()] = '\0';
  return {};
}

Result<> require_flags(uint32_t flags, uint32_t known) {
  if ((flags & ~known) == 0) return {};
  return fail(ErrorCode::invalid_argument, "flags: {:#x}, known are {:#x}", flags, known);
}

std::vector<std::string> split_names(std::string_view text, char separator) {
  std::vector<std::string> names;
  for (const auto part : std::views::split(text, separator))
    if (!part.empty()) names.emplace_back(part.begin(), part.end());
  return names;
}

Result<std::string_view> read_text(const char* text, int64_t length, std::string_view name) {
  if (length != 0) TESSERA_TRY(require_pointer(text, name));
  if (length < -1) return fail(ErrorCode::invalid_argument, "{}: length {}, want -1 or more", name, length);
  if (length == 0) return std::string_view();
  return length < 0 ? std::string_view(text) : std::string_view(text, static_cast<size_t>(length));
}

}  // namespace tessera::capi
