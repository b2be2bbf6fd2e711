#include "tessera/gguf/value.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "tessera/base/index.h"
#include "tessera/gguf/printable.h"

namespace tessera {

namespace {

struct TypeRow {
  std::string_view name;
  size_t n_bytes;
};

// In order of the ids.
constexpr std::array<TypeRow, 13> kTypes = {{{"u8", 1},
                                             {"i8", 1},
                                             {"u16", 2},
                                             {"i16", 2},
                                             {"u32", 4},
                                             {"i32", 4},
                                             {"f32", 4},
                                             {"bool", 1},
                                             {"string", 0},
                                             {"array", 0},
                                             {"u64", 8},
                                             {"i64", 8},
                                             {"f64", 8}}};
constexpr size_t kStringLengthBytes = sizeof(uint64_t);

std::string type_text(const GgufValue& value) {
  if (!value.is_array()) return std::string(to_string(value.type()));
  return fmt::format("array of {} {}", value.size(), to_string(value.element_type()));
}

// NOLINTNEXTLINE(misc-no-recursion): ends, see GgufValue::as
std::string scalar_text(const GgufValue& value, size_t max_string_bytes) {
  switch (value.type()) {
    case GgufType::u8:
    case GgufType::u16:
    case GgufType::u32:
    case GgufType::u64:
      return fmt::format("{}", value.as<uint64_t>().value_or(0));
    case GgufType::i8:
    case GgufType::i16:
    case GgufType::i32:
    case GgufType::i64:
      return fmt::format("{}", value.as<int64_t>().value_or(0));
    case GgufType::f32:
      return fmt::format("{}", value.as<float>().value_or(0));
    case GgufType::f64:
      return fmt::format("{}", value.as<double>().value_or(0));
    case GgufType::boolean:
      return value.as<bool>().value_or(false) ? "true" : "false";
    case GgufType::string:
      return '"' + printable(value.as<std::string_view>().value_or(""), max_string_bytes) + '"';
    case GgufType::array:
      return type_text(value);
  }
  return {};
}

}  // namespace

std::optional<GgufType> gguf_type_from_id(uint32_t id) {
  if (id >= kTypes.size()) return std::nullopt;
  return static_cast<GgufType>(id);
}

std::string_view to_string(GgufType type) { return kTypes[to_size(type)].name; }

size_t scalar_bytes(GgufType type) { return kTypes[to_size(type)].n_bytes; }

GgufValue GgufValue::scalar(GgufType type, std::span<const std::byte> bytes) { return {type, type, 1, bytes}; }

GgufValue GgufValue::scalars(GgufType element_type, std::span<const std::byte> bytes) {
  return {GgufType::array, element_type, bytes.size() / scalar_bytes(element_type), bytes};
}

GgufValue GgufValue::strings(std::span<const std::byte> bytes, std::span<const uint64_t> starts) {
  GgufValue value(GgufType::array, GgufType::string, starts.size() - 1, bytes);
  value.starts_ = starts.data();
  return value;
}

GgufValue GgufValue::arrays(std::span<const std::byte> bytes, std::span<const GgufValue> elements) {
  GgufValue value(GgufType::array, GgufType::array, elements.size(), bytes);
  value.nested_ = elements.data();
  return value;
}

GgufValue GgufValue::operator[](size_t i) const {
  if (nested_ != nullptr) return nested_[i];
  if (starts_ == nullptr) {
    const size_t n = scalar_bytes(element_type_);
    return scalar(element_type_, bytes_.subspan(i * n, n));
  }
  const uint64_t begin = starts_[i] + kStringLengthBytes;
  return scalar(GgufType::string, bytes_.subspan(begin, starts_[i + 1] - begin));
}

bool GgufValue::is_unsigned() const {
  return type_ == GgufType::u8 || type_ == GgufType::u16 || type_ == GgufType::u32 || type_ == GgufType::u64;
}

bool GgufValue::is_signed() const {
  return type_ == GgufType::i8 || type_ == GgufType::i16 || type_ == GgufType::i32 || type_ == GgufType::i64;
}

uint64_t GgufValue::raw_unsigned() const {
  switch (bytes_.size()) {
    case 1:
      return raw<uint8_t>();
    case 2:
      return raw<uint16_t>();
    case 4:
      return raw<uint32_t>();
    default:
      return raw<uint64_t>();
  }
}

int64_t GgufValue::raw_signed() const {
  switch (bytes_.size()) {
    case 1:
      return raw<int8_t>();
    case 2:
      return raw<int16_t>();
    case 4:
      return raw<int32_t>();
    default:
      return raw<int64_t>();
  }
}

// NOLINTNEXTLINE(misc-no-recursion): ends, see GgufValue::as
std::unexpected<Error> GgufValue::wrong_type(std::string_view wanted) const {
  return fail(ErrorCode::mismatch, "got {} ({}), want {}", to_string(*this, 3, 40), type_text(*this), wanted);
}

// NOLINTNEXTLINE(misc-no-recursion): ends, see GgufValue::as
std::string to_string(const GgufValue& value, size_t max_elements, size_t max_string_bytes) {
  if (!value.is_array()) return scalar_text(value, max_string_bytes);
  const size_t n = std::min(value.size(), max_elements);
  std::string text = "[";
  for (size_t i = 0; i < n; ++i)
    fmt::format_to(std::back_inserter(text), "{}{}", i == 0 ? "" : ", ", scalar_text(value[i], max_string_bytes));
  return text + (n < value.size() ? ", ...]" : "]");
}

}  // namespace tessera
