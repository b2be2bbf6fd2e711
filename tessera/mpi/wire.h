// The bytes of messages: numbers, texts, lists and structs, one after another, little-endian. A struct lists its
// members once, in members(), for both directions. Reading trusts nothing: a count or a length is compared with the
// bytes that are left before anything of that size is made.
#pragma once

#include <array>
#include <concepts>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "tessera/base/bytes.h"

namespace tessera::mpi {

/// Bytes of a message, borrowed: from the sender until the message is encoded, or from the received message.
using Payload = std::span<const std::byte>;

/// The largest enumerator of an enum that messages contain. Specialized beside the messages.
template <class T>
inline constexpr T kLastOf = T{};

namespace detail {

template <class T>
inline constexpr bool kIsVector = false;
template <class T>
inline constexpr bool kIsVector<std::vector<T>> = true;

template <class T>
inline constexpr bool kIsArray = false;
template <class T, size_t n>
inline constexpr bool kIsArray<std::array<T, n>> = true;

}  // namespace detail

class WireWriter {
 public:
  explicit WireWriter(std::vector<std::byte>& bytes) : bytes_(bytes) {}

  template <class T>
  void write(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      write(static_cast<std::underlying_type_t<T>>(value));
    } else if constexpr (std::is_same_v<T, bool>) {
      write(static_cast<uint8_t>(value));
    } else if constexpr (std::is_arithmetic_v<T>) {
      append(std::as_bytes(std::span(&value, 1)));
    } else if constexpr (std::is_same_v<T, std::string>) {
      write_counted(std::as_bytes(std::span(value)));
    } else if constexpr (std::is_same_v<T, Payload>) {
      write_counted(value);
    } else if constexpr (detail::kIsArray<T>) {
      for (const auto& element : value) write(element);
    } else if constexpr (detail::kIsVector<T>) {
      write(uint64_t{value.size()});
      for (const auto& element : value) write(element);
    } else {
      std::apply([&](const auto&... members) { (write(members), ...); }, T::members(value));
    }
  }

 private:
  void append(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void write_counted(std::span<const std::byte> bytes) {
    write(uint64_t{bytes.size()});
    append(bytes);
  }

  std::vector<std::byte>& bytes_;
};

class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> bytes) : reader_(bytes) {}

  template <class T>
  Result<> read(T& value) {
    if constexpr (std::is_enum_v<T>) {
      std::underlying_type_t<T> number{};
      TESSERA_TRY(read(number));
      if (number > static_cast<std::underlying_type_t<T>>(kLastOf<T>))
        return fail(ErrorCode::format, "choice {} at byte {}, want at most {}", static_cast<uint64_t>(number), offset(),
                    static_cast<uint64_t>(kLastOf<T>));
      value = static_cast<T>(number);
    } else if constexpr (std::is_same_v<T, bool>) {
      uint8_t number = 0;
      TESSERA_TRY(read(number));
      if (number > 1) return fail(ErrorCode::format, "flag {} at byte {}, want 0 or 1", number, offset());
      value = number == 1;
    } else if constexpr (std::is_arithmetic_v<T>) {
      TESSERA_ASSIGN(value, reader_.read<T>());
    } else if constexpr (std::is_same_v<T, std::string>) {
      Payload bytes;
      TESSERA_TRY(read(bytes));
      value.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    } else if constexpr (std::is_same_v<T, Payload>) {
      TESSERA_ASSIGN(const auto n, reader_.read<uint64_t>());
      TESSERA_ASSIGN(value, reader_.take(n));
    } else if constexpr (detail::kIsArray<T>) {
      for (auto& element : value) TESSERA_TRY(read(element));
    } else if constexpr (detail::kIsVector<T>) {
      TESSERA_ASSIGN(const auto n, reader_.read<uint64_t>());
      // An element takes at least a byte. Memory grows with the elements that are read, not with the number.
      if (n > reader_.remaining())
        return fail(ErrorCode::format, "{} entries before byte {}, {} bytes are left", n, offset(),
                    reader_.remaining());
      value.clear();
      for (uint64_t i = 0; i < n; ++i) TESSERA_TRY(read(value.emplace_back()));
    } else {
      return std::apply([&](auto&... members) { return read_all(members...); }, T::members(value));
    }
    return {};
  }

  /// Fails if bytes are left.
  Result<> end() const {
    if (reader_.remaining() == 0) return {};
    return fail(ErrorCode::format, "{} bytes too many at byte {}", reader_.remaining(), offset());
  }
  size_t offset() const { return reader_.offset(); }

 private:
  Result<> read_all() { return {}; }
  template <class First, class... Rest>
  Result<> read_all(First& first, Rest&... rest) {
    TESSERA_TRY(read(first));
    return read_all(rest...);
  }

  ByteReader reader_;
};

}  // namespace tessera::mpi
