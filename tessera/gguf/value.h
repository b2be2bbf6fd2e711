// A metadata value of a GGUF file, of one of 13 types. Values borrow their bytes from the file, so a vocabulary is not
// copied. The decoder has checked every length, and access never reads a length from the file again. Even a file that
// is overwritten while it is mapped cannot cause a read out of bounds.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/base/result.h"

namespace tessera {

/// The type of a value. The enum value is its id in the file.
enum class GgufType : uint8_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

/// The type with this id, if there is one.
std::optional<GgufType> gguf_type_from_id(uint32_t id);

/// "u8", "i8", ..., "f32", "bool", "string", "array", "u64", "i64", "f64".
std::string_view to_string(GgufType type);

/// Bytes of a scalar of this type; 0 for strings and arrays.
size_t scalar_bytes(GgufType type);

/// The C++ types to which values convert and from which they are written.
template <class T>
concept GgufScalar =
    std::same_as<T, bool> || std::same_as<T, uint8_t> || std::same_as<T, int8_t> || std::same_as<T, uint16_t> ||
    std::same_as<T, int16_t> || std::same_as<T, uint32_t> || std::same_as<T, int32_t> || std::same_as<T, uint64_t> ||
    std::same_as<T, int64_t> || std::same_as<T, float> || std::same_as<T, double> || std::same_as<T, std::string_view>;

/// The GGUF type in which a C++ type is written.
template <GgufScalar T>
constexpr GgufType gguf_type_of() {
  if constexpr (std::same_as<T, bool>) return GgufType::boolean;
  if constexpr (std::same_as<T, uint8_t>) return GgufType::u8;
  if constexpr (std::same_as<T, int8_t>) return GgufType::i8;
  if constexpr (std::same_as<T, uint16_t>) return GgufType::u16;
  if constexpr (std::same_as<T, int16_t>) return GgufType::i16;
  if constexpr (std::same_as<T, uint32_t>) return GgufType::u32;
  if constexpr (std::same_as<T, int32_t>) return GgufType::i32;
  if constexpr (std::same_as<T, uint64_t>) return GgufType::u64;
  if constexpr (std::same_as<T, int64_t>) return GgufType::i64;
  if constexpr (std::same_as<T, float>) return GgufType::f32;
  if constexpr (std::same_as<T, double>) return GgufType::f64;
  if constexpr (std::same_as<T, std::string_view>) return GgufType::string;
}

class GgufValue {
 public:
  /// A scalar of scalar_bytes(type) little-endian bytes, or a string of the given bytes.
  static GgufValue scalar(GgufType type, std::span<const std::byte> bytes);
  /// An array of scalars without gaps.
  static GgufValue scalars(GgufType element_type, std::span<const std::byte> bytes);
  /// An array of strings in the encoding of the file. String i is in [starts[i] + 8, starts[i + 1]). starts must
  /// outlive the value.
  static GgufValue strings(std::span<const std::byte> bytes, std::span<const uint64_t> starts);
  /// An array of arrays. elements must outlive the value.
  static GgufValue arrays(std::span<const std::byte> bytes, std::span<const GgufValue> elements);

  GgufType type() const { return type_; }
  bool is_array() const { return type_ == GgufType::array; }

  /// The type of an array's elements, or the type of a scalar.
  GgufType element_type() const { return element_type_; }
  /// Number of elements of an array; 1 otherwise.
  size_t size() const { return n_elements_; }
  /// Element i < size() of an array, in constant time.
  GgufValue operator[](size_t i) const;

  /// The bytes of a string or scalar, or an array's elements in the encoding of the file.
  std::span<const std::byte> bytes() const { return bytes_; }

  /// Converts the value to T. An integer of any width converts to any integer type that can represent it. f32 and f64
  /// convert to both floating types. Nothing else converts. Errors: mismatch (another type), limit (an integer out of
  /// T's range).
  template <GgufScalar T>
  Result<T> as() const;

  /// Converts an array to a vector. Conversion and errors of every element are those of as().
  template <GgufScalar T>
  Result<std::vector<T>> as_vector() const;

 private:
  GgufValue(GgufType type, GgufType element_type, size_t n_elements, std::span<const std::byte> bytes)
      : bytes_(bytes), n_elements_(n_elements), type_(type), element_type_(element_type) {}

  template <class T>
  T raw() const {
    T value;
    std::memcpy(&value, bytes_.data(), sizeof(T));
    return value;
  }
  bool is_unsigned() const;
  bool is_signed() const;
  uint64_t raw_unsigned() const;
  int64_t raw_signed() const;
  std::unexpected<Error> wrong_type(std::string_view wanted) const;

  std::span<const std::byte> bytes_;
  size_t n_elements_;
  const uint64_t* starts_ = nullptr;   // n_elements_ + 1 offsets into bytes_, in an array of strings
  const GgufValue* nested_ = nullptr;  // n_elements_ values, in an array of arrays
  GgufType type_;
  GgufType element_type_;
};

/// Formats the value on one line: numbers, true and false, quoted and escaped strings, and at most max_elements of an
/// array. Inner arrays are shown as their type and size.
std::string to_string(const GgufValue& value, size_t max_elements = 8, size_t max_string_bytes = 120);

// The recursion ends, because only the error message reads a value, and it does so with the value's own type.
template <GgufScalar T>
Result<T> GgufValue::as() const {  // NOLINT(misc-no-recursion)
  constexpr std::string_view kNoFit = "{} {} does not fit {}";
  if constexpr (std::same_as<T, bool>) {
    if (type_ == GgufType::boolean) return raw<uint8_t>() != 0;
    return wrong_type("bool");
  } else if constexpr (std::integral<T>) {
    const std::string_view name = to_string(gguf_type_of<T>());
    if (is_unsigned() && std::in_range<T>(raw_unsigned())) return static_cast<T>(raw_unsigned());
    if (is_signed() && std::in_range<T>(raw_signed())) return static_cast<T>(raw_signed());
    if (is_unsigned()) return fail(ErrorCode::limit, kNoFit, to_string(type_), raw_unsigned(), name);
    if (is_signed()) return fail(ErrorCode::limit, kNoFit, to_string(type_), raw_signed(), name);
    return wrong_type(name);
  } else if constexpr (std::floating_point<T>) {
    if (type_ == GgufType::f32) return static_cast<T>(raw<float>());
    if (type_ == GgufType::f64) return static_cast<T>(raw<double>());
    return wrong_type(to_string(gguf_type_of<T>()));
  } else {
    if (type_ != GgufType::string) return wrong_type("string");
    return std::string_view(reinterpret_cast<const char*>(bytes_.data()), bytes_.size());
  }
}

template <GgufScalar T>
Result<std::vector<T>> GgufValue::as_vector() const {
  if (!is_array()) return wrong_type("array");
  std::vector<T> values;
  values.reserve(n_elements_);
  for (size_t i = 0; i < n_elements_; ++i) {
    Result<T> element = (*this)[i].as<T>();
    if (!element) return forward_error(element, "element " + std::to_string(i));
    values.push_back(*element);
  }
  return values;
}

}  // namespace tessera
