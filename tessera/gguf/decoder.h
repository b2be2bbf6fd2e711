// Reads the elementary items of a GGUF file from untrusted bytes. Every length and count is compared with its limit and
// with the bytes left before it is used. Errors have the form "offset N: WHAT, got X, limit Y". If the input ends too
// early, the form is "offset N: WHAT: truncated at byte SIZE: ...".
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tessera/base/bytes.h"
#include "tessera/base/index.h"
#include "tessera/gguf/value.h"

namespace tessera {

static_assert(std::endian::native == std::endian::little, "values are read and written as they lie in memory");

/// Memory besides the file to which array values point: offsets of strings, and values of inner arrays. It must live as
/// long as the values, and may be moved.
struct GgufArrayStorage {
  std::vector<std::vector<uint64_t>> starts;
  std::vector<std::vector<GgufValue>> nested;
  size_t n_nested_arrays = 0;
};

class GgufDecoder {
 public:
  explicit GgufDecoder(std::span<const std::byte> bytes) : bytes_(bytes), in_(bytes) {}

  size_t offset() const { return in_.offset(); }

  /// Offset in the input of a text that string() returned.
  size_t offset_of(std::string_view text) const {
    return to_size(reinterpret_cast<const std::byte*>(text.data()) - bytes_.data());
  }

  template <class T>
  requires std::is_arithmetic_v<T> Result<T> number(std::string_view what) {
    if (in_.remaining() < sizeof(T)) return truncated(what, sizeof(T));
    return in_.read<T>();
  }

  /// Reads a u64 count of items of at least min_item_bytes (> 0) each. The count must not exceed `limit`, nor the
  /// number of items that fit into the bytes left.
  Result<uint64_t> count(std::string_view what, uint64_t min_item_bytes, uint64_t limit);

  /// Reads a string of at most max_bytes, borrowed from the input.
  Result<std::string_view> string(std::string_view what, uint64_t max_bytes);

  /// Reads a type id and the value that follows it. Arrays may be nested; their depth is bounded, and an explicit stack
  /// replaces recursion.
  Result<GgufValue> value(std::string_view what, GgufArrayStorage& storage);

 private:
  struct OpenArray;
  Result<GgufType> type(std::string_view what);
  Result<std::span<const std::byte>> take(std::string_view what, uint64_t n);
  Result<GgufValue> scalar(GgufType type, std::string_view what);
  Result<GgufValue> array(std::string_view what, GgufArrayStorage& storage);
  Result<OpenArray> open_array(std::string_view what);
  Result<GgufValue> read_flat(OpenArray& open, std::string_view what, GgufArrayStorage& storage);
  std::span<const std::byte> since(size_t begin) const { return bytes_.subspan(begin, offset() - begin); }
  Result<> check_bools(std::span<const std::byte> bytes, std::string_view what);
  std::unexpected<Error> truncated(std::string_view what, uint64_t n_wanted) const;

  std::span<const std::byte> bytes_;
  ByteReader in_;
};

}  // namespace tessera
