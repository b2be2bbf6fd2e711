#include "tessera/quant/validate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace tessera::quant {

namespace {

constexpr std::string_view kScale = "scale is not finite";
constexpr std::string_view kMinimum = "minimum is not finite";
constexpr std::string_view kSum = "sum is not finite";
constexpr std::string_view kValue = "value is not finite";

// The bits of each type's exponent: all set in infinities and NaNs, and in nothing else.
constexpr uint16_t kF16Exponent = 0x7c00, kBf16Exponent = 0x7f80;
constexpr uint32_t kF32Exponent = 0x7f800000;
constexpr uint64_t kF64Exponent = 0x7ff0000000000000;

template <class Bits>
bool has_all(const std::byte* at, Bits mask) {
  Bits bits;
  std::memcpy(&bits, at, sizeof(Bits));
  return (bits & mask) == mask;
}

// The least i < n for which is_bad(i). Pieces are searched without a branch per item: several times faster, and bad
// items are rare.
template <class Predicate>
std::optional<size_t> first_where(size_t n, Predicate is_bad) {
  constexpr size_t kPiece = 1024;
  for (size_t begin = 0; begin < n; begin += kPiece) {
    const size_t end = std::min(n, begin + kPiece);
    bool any = false;
    for (size_t i = begin; i < end; ++i) any |= is_bad(i);
    if (!any) continue;
    while (!is_bad(begin)) ++begin;
    return begin;
  }
  return std::nullopt;
}

using Blocks = std::span<const std::byte>;
using Found = std::optional<BlockFault>;

Found fault_at(std::optional<size_t> block, std::string_view what) {
  if (!block) return std::nullopt;
  return BlockFault{.block = static_cast<int64_t>(*block), .what = what};
}

template <class Bits>
Found elements(Blocks blocks, Bits exponent) {
  const std::byte* data = blocks.data();
  const size_t n = blocks.size() / sizeof(Bits);
  return fault_at(first_where(n, [=](size_t i) { return has_all(data + i * sizeof(Bits), exponent); }), kValue);
}

// One floating-point scale at a fixed place of blocks of kBytes.
template <size_t kBytes, size_t kAt, class Bits = uint16_t>
Found scale(Blocks blocks, Bits exponent = kF16Exponent) {
  static_assert(kAt + sizeof(Bits) <= kBytes);
  const std::byte* data = blocks.data();
  const size_t n = blocks.size() / kBytes;
  return fault_at(first_where(n, [=](size_t i) { return has_all(data + i * kBytes + kAt, exponent); }), kScale);
}

// Two f16 numbers side by side, the scale first.
template <size_t kBytes, size_t kAt>
Found scale_and(Blocks blocks, std::string_view second) {
  const std::byte* data = blocks.data();
  const auto block = first_where(blocks.size() / kBytes, [=](size_t i) {
    const std::byte* at = data + i * kBytes + kAt;
    return has_all(at, kF16Exponent) | has_all(at + 2, kF16Exponent);
  });
  if (!block) return std::nullopt;
  return fault_at(block, has_all(data + *block * kBytes + kAt, kF16Exponent) ? kScale : second);
}

// IQ1_M: the top nibbles of four words, the lowest nibble first, are an f16; its exponent is bits 10 to 14.
Found iq1_m(Blocks blocks) {
  constexpr size_t kBytes = 56, kWords = 48;
  const std::byte* data = blocks.data();
  return fault_at(first_where(blocks.size() / kBytes,
                              [=](size_t i) {
                                const std::byte* words = data + i * kBytes + kWords;
                                return has_all<uint16_t>(words + 4, 0xc000) & has_all<uint16_t>(words + 6, 0x7000);
                              }),
                  kScale);
}

// MXFP4: values are 2^(e - 128) * {0, 1, 2, 3, 4, 6, 8, 12}, so the largest exponents overflow with the larger codes.
bool is_mxfp4_block_infinite(const std::byte* block) {
  constexpr std::array<float, 8> kMagnitudes = {0, 1, 2, 3, 4, 6, 8, 12};
  constexpr size_t kCodeBytes = 16;
  const int exponent = std::to_integer<int>(block[0]) - 128;
  for (size_t i = 1; i <= kCodeBytes; ++i) {
    const auto codes = std::to_integer<size_t>(block[i]);
    const float larger = std::max(kMagnitudes[codes & 7], kMagnitudes[(codes >> 4) & 7]);
    if (!std::isfinite(std::ldexp(larger, exponent))) return true;
  }
  return false;
}

Found mxfp4(Blocks blocks) {
  constexpr size_t kBytes = 17;
  constexpr int kNan = 255, kLargestSafe = 252;
  const std::byte* data = blocks.data();
  const auto exponent_of = [=](size_t i) { return std::to_integer<int>(data[i * kBytes]); };
  const auto block = first_where(blocks.size() / kBytes, [=](size_t i) {
    const int exponent = exponent_of(i);
    return exponent > kLargestSafe && (exponent == kNan || is_mxfp4_block_infinite(data + i * kBytes));
  });
  if (!block) return std::nullopt;
  return fault_at(block, exponent_of(*block) == kNan ? kScale : kValue);
}

}  // namespace

std::optional<BlockFault> first_fault(DType dtype, std::span<const std::byte> blocks) {
  switch (dtype) {
    case DType::f32:
      return elements(blocks, kF32Exponent);
    case DType::f16:
      return elements(blocks, kF16Exponent);
    case DType::bf16:
      return elements(blocks, kBf16Exponent);
    case DType::f64:
      return elements(blocks, kF64Exponent);
    case DType::q4_0:
    case DType::iq4_nl:
    case DType::q1_0:
    case DType::q2_0:
      return scale<18, 0>(blocks);
    case DType::q4_1:
      return scale_and<20, 0>(blocks, kMinimum);
    case DType::q5_0:
      return scale<22, 0>(blocks);
    case DType::q5_1:
      return scale_and<24, 0>(blocks, kMinimum);
    case DType::q8_0:
      return scale<34, 0>(blocks);
    case DType::q8_1:
      return scale_and<36, 0>(blocks, kSum);
    case DType::q2_k:
      return scale_and<84, 80>(blocks, kMinimum);
    case DType::q3_k:
      return scale<110, 108>(blocks);
    case DType::q4_k:
      return scale_and<144, 0>(blocks, kMinimum);
    case DType::q5_k:
      return scale_and<176, 0>(blocks, kMinimum);
    case DType::q6_k:
      return scale<210, 208>(blocks);
    case DType::q8_k:
      return scale<292, 0>(blocks, kF32Exponent);
    case DType::iq2_xxs:
      return scale<66, 0>(blocks);
    case DType::iq2_xs:
      return scale<74, 0>(blocks);
    case DType::iq2_s:
      return scale<82, 0>(blocks);
    case DType::iq3_xxs:
      return scale<98, 0>(blocks);
    case DType::iq3_s:
      return scale<110, 0>(blocks);
    case DType::iq1_s:
      return scale<50, 0>(blocks);
    case DType::iq1_m:
      return iq1_m(blocks);
    case DType::iq4_xs:
      return scale<136, 0>(blocks);
    case DType::tq1_0:
      return scale<54, 52>(blocks);
    case DType::tq2_0:
      return scale<66, 64>(blocks);
    case DType::mxfp4:
      return mxfp4(blocks);
    case DType::nvfp4:  // every byte is a finite scale
    case DType::i8:
    case DType::i16:
    case DType::i32:
    case DType::i64:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace tessera::quant
