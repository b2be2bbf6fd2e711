// A reader for untrusted bytes. Every read first checks that enough bytes are left. A failed read does not move the
// reader, and its error names the offset at which the input ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>

#include "tessera/base/index.h"
#include "tessera/base/result.h"

namespace tessera {

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t offset() const { return offset_; }
  size_t remaining() const { return bytes_.size() - offset_; }

  /// The next sizeof(T) bytes as a little-endian T (the host is little-endian; see base/cpu_info.h).
  template <class T>
  requires std::is_arithmetic_v<T> Result<T> read() {
    TESSERA_ASSIGN(const std::span<const std::byte> raw, take(sizeof(T)));
    T value;
    std::memcpy(&value, raw.data(), sizeof(T));
    return value;
  }

  /// The next n bytes, borrowed from the input.
  Result<std::span<const std::byte>> take(uint64_t n) {
    if (n > remaining())
      return fail(ErrorCode::format, "truncated: {} bytes wanted at byte {}, {} left", n, offset_, remaining());
    const auto part = bytes_.subspan(offset_, to_size(n));
    offset_ += to_size(n);
    return part;
  }

 private:
  std::span<const std::byte> bytes_;
  size_t offset_ = 0;
};

}  // namespace tessera
