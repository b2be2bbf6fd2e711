// Format::first_fault by the scale fields of blocks: a block whose scales are finite has finite values. Only these
// fields are read, so that the memory's speed is the limit.
#pragma once

#include <stdint.h>
#include <string.h>

#include "tessera/quant/format.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

inline constexpr char kScaleFault[] = "scale is not finite", kMinimumFault[] = "minimum is not finite",
                      kSumFault[] = "sum is not finite", kValueFault[] = "value is not finite";

/// Whether these are the bits of an infinity or a NaN: all bits of the exponent are set, in nothing else.
inline bool is_f16_fault(uint16_t bits) { return (bits & 0x7c00u) == 0x7c00u; }
inline bool is_bf16_fault(uint16_t bits) { return (bits & 0x7f80u) == 0x7f80u; }
inline bool is_f32_fault(uint32_t bits) { return (bits & 0x7f800000u) == 0x7f800000u; }
inline bool is_f64_fault(uint64_t bits) { return (bits & 0x7ff0000000000000u) == 0x7ff0000000000000u; }

/// The i-th of `blocks`, which have no alignment in a file.
template <typename Block>
Block block_at(const void* blocks, int64_t i) {
  Block block;
  memcpy(&block, static_cast<const char*>(blocks) + i * static_cast<int64_t>(sizeof block), sizeof block);
  return block;
}

/// A member of the i-th block, such as &BlockQ4_0::d: a copy of the whole block would be read from memory.
template <typename Block, typename Member>
Member field_at(const void* blocks, int64_t i, Member Block::*member) {
  const Block example = {};
  const auto offset = reinterpret_cast<const char*>(&(example.*member)) - reinterpret_cast<const char*>(&example);
  Member value;
  memcpy(&value, static_cast<const char*>(blocks) + i * static_cast<int64_t>(sizeof(Block)) + offset, sizeof value);
  return value;
}

/// The first i < n for which is_fault(i), or -1. Pieces are searched without a branch per item: several times faster,
/// and faults are rare.
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

/// Of blocks with an f16 scale.
template <auto kScale>
BlockFault scale_fault(const void* blocks, int64_t n) {
  return {first_where(n, [=](int64_t i) { return is_f16_fault(field_at(blocks, i, kScale)); }), kScaleFault};
}

/// Of blocks with an f16 scale and a second f16 number, whose fault has this name.
template <auto kScale, auto kSecond, const char* kSecondFault = kMinimumFault>
BlockFault scale_and_min_fault(const void* blocks, int64_t n) {
  const int64_t bad = first_where(n, [=](int64_t i) {
    return is_f16_fault(field_at(blocks, i, kScale)) | is_f16_fault(field_at(blocks, i, kSecond));
  });
  if (bad < 0) return {-1, nullptr};
  return {bad, is_f16_fault(field_at(blocks, bad, kScale)) ? kScaleFault : kSecondFault};
}

/// Of plain numbers.
template <typename Bits, bool (*kIsFault)(Bits)>
BlockFault value_fault(const void* elements, int64_t n) {
  return {first_where(n, [=](int64_t i) { return kIsFault(block_at<Bits>(elements, i)); }), kValueFault};
}

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
