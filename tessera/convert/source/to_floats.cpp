#include "tessera/convert/source/to_floats.h"

#include <cstdint>
#include <cstring>

#include "tessera/base/half.h"
#include "tessera/convert/source/float8.h"
#include "tessera/quant/formats.h"

namespace tessera::convert {

namespace {

template <class Stored, class Convert>
void convert_all(std::span<const std::byte> from, std::span<float> values, Convert convert) {
  for (size_t i = 0; i < values.size(); ++i) {
    Stored stored;
    std::memcpy(&stored, from.data() + i * sizeof stored, sizeof stored);
    values[i] = convert(stored);
  }
}

template <class Stored>
void cast_all(std::span<const std::byte> from, std::span<float> values) {
  convert_all<Stored>(from, values, [](Stored stored) { return static_cast<float>(stored); });
}

}  // namespace

void to_floats(ElementType type, std::span<const std::byte> from, std::span<float> values) {
  if (const auto block = block_format(type))
    return quant::find_format(*block)->dequantize_row(from.data(), std::ssize(values), values.data());
  switch (type) {
    case ElementType::f64:
      return cast_all<double>(from, values);
    case ElementType::f32:
      return cast_all<float>(from, values);
    case ElementType::f16:
      return convert_all<uint16_t>(from, values, f16_to_f32);
    case ElementType::bf16:
      return convert_all<uint16_t>(from, values, bf16_to_f32);
    case ElementType::f8_e4m3:
      return convert_all<uint8_t>(from, values, f8_e4m3_to_f32);
    case ElementType::f8_e5m2:
      return convert_all<uint8_t>(from, values, f8_e5m2_to_f32);
    case ElementType::f8_e8m0:
      return convert_all<uint8_t>(from, values, f8_e8m0_to_f32);
    case ElementType::i64:
      return cast_all<int64_t>(from, values);
    case ElementType::i32:
      return cast_all<int32_t>(from, values);
    case ElementType::i16:
      return cast_all<int16_t>(from, values);
    case ElementType::i8:
      return cast_all<int8_t>(from, values);
    case ElementType::u8:
      return cast_all<uint8_t>(from, values);
    case ElementType::boolean:
      return convert_all<uint8_t>(from, values, [](uint8_t stored) { return stored != 0 ? 1.0f : 0.0f; });
    default:
      return;  // blocks, handled above
  }
}

}  // namespace tessera::convert
