// Builds GGUF bytes by hand, valid or not: an independent implementation of the format for the tests of reader and
// writer, and the source of malformed files. Appended bytes are not checked.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "tessera/gguf/reader.h"

namespace tessera::testing {

class RawGguf {
 public:
  RawGguf() = default;
  /// Starts with a header.
  RawGguf(uint64_t n_tensors, uint64_t n_keys, uint32_t version = 3) {
    raw("GGUF").number(version).number(n_tensors).number(n_keys);
  }

  RawGguf& raw(std::string_view text) {
    bytes_.append(text);
    return *this;
  }
  template <class T>
  RawGguf& number(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    return *this;
  }
  /// A length and the text.
  RawGguf& text(std::string_view text) { return number<uint64_t>(text.size()).raw(text); }
  /// A key and the type id of its value, which the caller appends.
  RawGguf& key(std::string_view name, uint32_t type) { return text(name).number(type); }
  template <class T>
  RawGguf& key(std::string_view name, uint32_t type, T value) {
    return key(name, type).number(value);
  }
  RawGguf& array(std::string_view name, uint32_t element_type, uint64_t n) {
    return key(name, 9).number(element_type).number(n);
  }
  RawGguf& tensor(std::string_view name, std::initializer_list<int64_t> extents, uint32_t type, uint64_t offset) {
    text(name).number(static_cast<uint32_t>(extents.size()));
    for (const int64_t extent : extents) number(extent);
    return number(type).number(offset);
  }
  RawGguf& pad(size_t alignment = 32) {
    while (bytes_.size() % alignment != 0) bytes_.push_back('\0');
    return *this;
  }
  /// n bytes of tensor data after padding.
  RawGguf& data(size_t n, size_t alignment = 32) {
    pad(alignment);
    for (size_t i = 0; i < n; ++i) bytes_.push_back(static_cast<char>(i));
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

/// Parses text under the name "f.gguf". The text outlives the result.
inline Result<std::unique_ptr<GgufFile>> parse(std::string_view text) {
  return GgufFile::parse(bytes_of(text), "f.gguf");
}

/// A small valid file with a value of every type, arrays, a nested array and two tensors.
inline std::string small_gguf() {
  RawGguf g(2, 17);
  g.key("general.architecture", 8).text("llama");
  g.key("u8", 0, uint8_t{200}).key("i8", 1, int8_t{-100}).key("u16", 2, uint16_t{60000}).key("i16", 3, int16_t{-30000});
  g.key("u32", 4, uint32_t{4000000000}).key("i32", 5, int32_t{-2000000000}).key("f32", 6, 1.5f);
  g.key("bool", 7, uint8_t{1}).key("u64", 10, uint64_t{1} << 63).key("i64", 11, int64_t{-5}).key("f64", 12, 0.1);
  g.array("ints", 5, 3).number(7).number(-8).number(9);
  g.array("floats", 6, 2).number(0.5f).number(-2.0f);
  g.array("bools", 7, 2).number(uint8_t{1}).number(uint8_t{0});
  g.array("strings", 8, 3).text("one").text("").text("three");
  g.array("nested", 9, 2).number(8u).number(uint64_t{2}).text("a").text("bc").number(5u).number(uint64_t{1}).number(4);
  g.tensor("a.weight", {32, 2}, 2, 0).tensor("b", {3}, 0, 64);
  g.data(36).data(12).pad();
  return g.bytes();
}

/// Reads everything that a parsed file offers, so that a sanitizer detects any access out of bounds. The sum prevents
/// the compiler from removing the reads.
inline uint64_t touch_everything(const GgufFile& file) {
  uint64_t sum = file.version() + file.alignment() + file.data_offset();
  const auto touch = [&](std::span<const std::byte> bytes) {
    for (const std::byte b : bytes) sum += static_cast<uint64_t>(b);
  };
  for (const Metadata::Entry& entry : file.metadata().entries()) {
    sum += to_string(entry.value, entry.value.size()).size();
    if (!entry.value.is_array()) continue;
    for (size_t i = 0; i < entry.value.size(); ++i) {
      const GgufValue element = entry.value[i];
      touch(element.bytes());
      for (size_t j = 0; element.is_array() && j < element.size(); ++j) touch(element[j].bytes());
    }
  }
  for (const GgufTensor& tensor : file.tensors()) touch(file.data(tensor));
  return sum;
}

}  // namespace tessera::testing
