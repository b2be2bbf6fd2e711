// Numbers and texts of a binary file, one after another, within its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "tessera/base/result.h"

namespace tessera::convert {

class NumberReader {
 public:
  explicit NumberReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t position() const { return position_; }
  uint64_t n_left() const { return bytes_.size() - position_; }

  /// Error of all readers: format (the file ends before).
  Result<> skip(uint64_t n_bytes) {
    if (n_bytes > n_left())
      return fail(ErrorCode::format, "{} bytes at byte {}, {} left", n_bytes, position_, n_left());
    position_ += n_bytes;
    return {};
  }

  /// A number in the order of bytes of the machine, the lowest first.
  template <class T>
  Result<T> number() {
    const uint64_t begin = position_;
    TESSERA_TRY(skip(sizeof(T)));
    T number;
    std::memcpy(&number, bytes_.data() + begin, sizeof number);
    return number;
  }

  Result<std::string> text(uint64_t n_bytes) {
    const uint64_t begin = position_;
    TESSERA_TRY(skip(n_bytes));
    return std::string(reinterpret_cast<const char*>(bytes_.data()) + begin, static_cast<size_t>(n_bytes));
  }

 private:
  std::span<const std::byte> bytes_;
  uint64_t position_ = 0;
};

}  // namespace tessera::convert
