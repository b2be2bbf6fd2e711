// Rows of numbers as a GGUF file holds them, for the kernels: one struct per dtype, each reading 16 elements
// as floats and encoding a row of floats. Seen by kernel sources only: convert.cpp, kv_format.cpp,
// attention.cpp.
//
// Decoding is exact and encoding gives the same bytes in every instruction set: no operation here rounds
// twice in one set and once in another.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tessera/cpu/kernels/simd.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

// Each struct has
//   kBlock                     elements per block; rows hold whole blocks
//   kElementBytes              bytes of an element (where kBlock is 1)
//   bytes(n)                   bytes of n elements
//   load(row, e)               elements e to e+15 as floats; e is a multiple of 16
//   load_partial(row, e, n)    the first n of them, the others 0 (where kBlock is 1)
//   encode(x, n, row)          n floats as a row

struct RowF32 {
  static constexpr int kBlock = 1;
  static constexpr size_t kElementBytes = 4;
  static constexpr size_t bytes(int64_t n) { return static_cast<size_t>(n) * kElementBytes; }
  static F32x16 load(const void* row, int64_t e) { return F32x16::load(static_cast<const float*>(row) + e); }
  static F32x16 load_partial(const void* row, int64_t e, int n) {
    return F32x16::load_partial(static_cast<const float*>(row) + e, n);
  }
  static void encode(const float* x, int64_t n, void* row) {
    if (n > 0) memmove(row, x, bytes(n));
  }
};

struct RowF16 {
  static constexpr int kBlock = 1;
  static constexpr size_t kElementBytes = 2;
  static constexpr size_t bytes(int64_t n) { return static_cast<size_t>(n) * kElementBytes; }
  static F32x16 load(const void* row, int64_t e) { return F32x16::load_f16(static_cast<const uint16_t*>(row) + e); }
  static F32x16 load_partial(const void* row, int64_t e, int n) {
    return F32x16::load_f16_partial(static_cast<const uint16_t*>(row) + e, n);
  }
  static void encode(const float* x, int64_t n, void* row) {
    auto* out = static_cast<uint16_t*>(row);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) F32x16::load(x + i).store_f16(out + i);
    const int rest = static_cast<int>(n - i);
    if (rest > 0) F32x16::load_partial(x + i, rest).store_f16_partial(out + i, rest);
  }
};

struct RowBF16 {
  static constexpr int kBlock = 1;
  static constexpr size_t kElementBytes = 2;
  static constexpr size_t bytes(int64_t n) { return static_cast<size_t>(n) * kElementBytes; }
  static F32x16 load(const void* row, int64_t e) { return F32x16::load_bf16(static_cast<const uint16_t*>(row) + e); }
  static F32x16 load_partial(const void* row, int64_t e, int n) {
    return F32x16::load_bf16_partial(static_cast<const uint16_t*>(row) + e, n);
  }
  static void encode(const float* x, int64_t n, void* row) {
    auto* out = static_cast<uint16_t*>(row);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) F32x16::load(x + i).store_bf16(out + i);
    const int rest = static_cast<int>(n - i);
    if (rest > 0) F32x16::load_partial(x + i, rest).store_bf16_partial(out + i, rest);
  }
};

/// 1/d, or 0 where that is no finite number: values so small are 0 in the format, and infinities stay with d.
inline float finite_reciprocal(float d) {
  const float inverse = 1.0f / d;
  return __builtin_fabsf(inverse) <= 3.402823466e+38f ? inverse : 0.0f;
}

/// Blocks of 32: f16 d, int8 q[32]; value d * q, exact in f32 (11 + 8 bits).
struct RowQ8_0 {
  static constexpr int kBlock = 32;
  static constexpr size_t kBlockBytes = 34;
  static constexpr size_t bytes(int64_t n) { return static_cast<size_t>(n / kBlock) * kBlockBytes; }

  static F32x16 load(const void* row, int64_t e) {
    const char* block = static_cast<const char*>(row) + bytes(e);
    uint16_t d;
    memcpy(&d, block, 2);
    const auto* q = reinterpret_cast<const int8_t*>(block + 2 + e % kBlock);
    return mul(F32x16::load_i8(q), F32x16::broadcast(f16_value(d)));
  }

  static void encode(const float* x, int64_t n, void* row) {
    auto* block = static_cast<char*>(row);
    for (int64_t i = 0; i + kBlock <= n; i += kBlock, block += kBlockBytes) encode_block(x + i, block);
  }

 private:
  static void encode_block(const float* x, char* block) {
    const float amax = reduce_max(max(abs(F32x16::load(x)), abs(F32x16::load(x + kLanes))));
    const float d = amax / 127.0f;
    const float inverse = finite_reciprocal(d);
    int8_t q[kBlock];
    for (int i = 0; i < kBlock; ++i) {
      float v = x[i] * inverse;
      v = v > -127.0f ? v : -127.0f;  // changes no finite block: a NaN, and what amax lost beside it, has no integer
      v = v < 127.0f ? v : 127.0f;
      const auto whole = static_cast<int32_t>(v);
      const float rest = v - static_cast<float>(whole);  // exact; half-way cases go away from zero
      q[i] = static_cast<int8_t>(whole + (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0));
    }
    const uint16_t stored = f16_bits(d);
    memcpy(block, &stored, 2);
    memcpy(block + 2, q, kBlock);
  }
};

/// Blocks of 32: f16 d, 16 bytes whose low nibbles are elements 0-15 and high nibbles 16-31; value d *
/// (nibble - 8).
struct RowQ4_0 {
  static constexpr int kBlock = 32;
  static constexpr size_t kBlockBytes = 18;
  static constexpr size_t bytes(int64_t n) { return static_cast<size_t>(n / kBlock) * kBlockBytes; }

  static F32x16 load(const void* row, int64_t e) {
    const char* block = static_cast<const char*>(row) + bytes(e);
    uint16_t d;
    memcpy(&d, block, 2);
    const int shift = e % kBlock == 0 ? 0 : 4;
    uint8_t packed[kLanes];
    memcpy(packed, block + 2, sizeof packed);
    int8_t q[kLanes];
    for (int i = 0; i < kLanes; ++i) q[i] = static_cast<int8_t>(((packed[i] >> shift) & 15) - 8);
    return mul(F32x16::load_i8(q), F32x16::broadcast(f16_value(d)));
  }

  static void encode(const float* x, int64_t n, void* row) {
    auto* block = static_cast<char*>(row);
    for (int64_t i = 0; i + kBlock <= n; i += kBlock, block += kBlockBytes) encode_block(x + i, block);
  }

 private:
  static void encode_block(const float* x, char* block) {
    float extreme = 0.0f;  // the first value of the largest magnitude, which becomes code 0 (-8)
    for (int i = 0; i < kBlock; ++i) {
      if (__builtin_fabsf(x[i]) > __builtin_fabsf(extreme)) extreme = x[i];
    }
    const float d = extreme / -8.0f;
    const float inverse = finite_reciprocal(d);
    uint8_t q[kBlock];
    for (int i = 0; i < kBlock; ++i) {
      const float scaled = x[i] * inverse;
      const auto code = static_cast<int32_t>((scaled == scaled ? scaled : 0.0f) + 8.5f);
      q[i] = static_cast<uint8_t>(code < 15 ? code : 15);
    }
    const uint16_t stored = f16_bits(d);
    memcpy(block, &stored, 2);
    for (int i = 0; i < kLanes; ++i) block[2 + i] = static_cast<char>(q[i] | (q[i + kLanes] << 4));
  }
};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
