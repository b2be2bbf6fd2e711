// Implementations of Format::first_fault that check the scale fields of blocks: a block with finite scales has finite
// values. Only these fields are read, so that memory bandwidth is the limit.
#pragma once

#include <stdint.h>
#include <string.h>

#include "tessera/quant/format.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

inline constexpr char kScaleFault[] = "scale is not finite", kMinimumFault[] = "minimum is not finite",
                      kSumFault[] = "sum is not finite", kValueFault[] = "value is not finite";

/// Whether these are the bits of an infinity or a NaN, the only values with all bits of the exponent set.
inline bool is_f16_fault(uint16_t bits) { return (bits & 0x7c00u) == 0x7c00u; }
inline bool is_bf16_fault(uint16_t bits) { return (bits & 0x7f80u) == 0x7f80u; }
inline bool is_f32_fault(uint32_t bits) { return (bits & 0x7f800000u) == 0x7f800000u; }
inline bool is_f64_fault(uint64_t bits) { return (bits & 0x7ff0000000000000u) == 0x7ff0000000000000u; }

/// Block i of `blocks`, which are not aligned in a file.
template <typename Block>
Block block_at(const void* blocks, int64_t i) {
  Block block;
  memcpy(&block, static_cast<const char*>(blocks) + i * static_cast<int64_t>(sizeof block), sizeof block);
  return block;
}

/// A member of block i, such as &BlockQ4_0::d. A copy of the whole block would read all of it from memory.
template <typename Block, typename Member>
Member field_at(const void* blocks, int64_t i, Member Block::*member) {
  const Block example = {};
  const auto offset = reinterpret_cast<const char*>(&(example.*member)) - reinterpret_cast<const char*>(&example);
  Member value;
  memcpy(&value, static_cast<const char*>(blocks) + i * static_cast<int64_t>(sizeof(Block)) + offset, sizeof value);
  return value;
}

/// The first i < n for which is_fault(i), or -1. Pieces are searched without a branch per item, which is several times
/// faster, because faults are rare.
template <typename IsFault>
int64_t first_where(int64_t n, IsFault is_fault) {
  constexpr int64_t kPiece = 1024;
  for (int64_t begin = 0; begin < n; begin += kPiece) {
    const int64_t end = n - begin < kPiece ? n : begin + kPiece;
    bool any = false;
    for (int64_t i = begin; i < end; ++i) any |= is_fault(i);
    if (!any) continue;
    while (!is_fault(begin)) ++begin;
    return begin;
  }
  return -1;
}

/// first_fault for blocks with an f16 scale.
template <auto kScale>
BlockFault scale_fault(const void* blocks, int64_t n) {
  return {first_where(n, [=](int64_t i) { return is_f16_fault(field_at(blocks, i, kScale)); }), kScaleFault};
}

/// first_fault for blocks with an f16 scale and a second f16 number, whose fault is named kSecondFault.
template <auto kScale, auto kSecond, const char* kSecondFault = kMinimumFault>
BlockFault scale_and_min_fault(const void* blocks, int64_t n) {
  const int64_t bad = first_where(n, [=](int64_t i) {
    return is_f16_fault(field_at(blocks, i, kScale)) | is_f16_fault(field_at(blocks, i, kSecond));
  });
  if (bad < 0) return {-1, nullptr};
  return {bad, is_f16_fault(field_at(blocks, bad, kScale)) ? kScaleFault : kSecondFault};
}

/// first_fault for plain numbers.
template <typename Bits, bool (*kIsFault)(Bits)>
BlockFault value_fault(const void* elements, int64_t n) {
  return {first_where(n, [=](int64_t i) { return kIsFault(block_at<Bits>(elements, i)); }), kValueFault};
}

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
