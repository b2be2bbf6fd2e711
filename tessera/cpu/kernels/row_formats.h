// Rows of numbers in the layout of GGUF files, for the kernels. Each dtype has a struct that reads 16 elements as
// floats and encodes a row of floats. Used only by kernel sources: rows.cpp, kv.cpp, attention.cpp.
//
// Decoding is exact, and encoding gives the same bytes on every instruction set, because no operation here rounds twice
// on one set and once on another.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "tessera/cpu/kernels/simd.h"
#include "tessera/cpu/kernels/table.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

// Each struct has
//   kBlock                     elements per block; rows hold whole blocks
//   kElementBytes              bytes of an element (if kBlock is 1)
//   bytes(n)                   bytes of n elements
//   load(row, e)               elements e to e+15 as floats; e is a multiple of 16
//   load_partial(row, e, n)    the first n of them, the others 0 (if kBlock is 1)
//   encode(x, n, row)          encodes n floats as a row
//   for_each_field(f)          calls f(offset, bytes, kind) for each part of a block that is contiguous in a K tile (if
//                              kBlock is not 1)

enum class FieldKind { plain, fifth_bits };

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

/// 1 / d; 0 if that is not finite. Such small values become 0 in the format, and infinities remain in d.
inline float finite_reciprocal(float d) {
  const float inverse = 1.0f / d;
  return __builtin_fabsf(inverse) <= 3.402823466e+38f ? inverse : 0.0f;
}

/// Blocks of 32: f16 d, int8 q[32]; value d * q, exact in f32 (11 + 8 bits).
struct RowQ8_0 {
  static constexpr int kBlock = 32;
  static constexpr size_t kCodesAt = 2;
  static constexpr size_t kBlockBytes = kCodesAt + kBlock;
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

  template <class Field>
  static void for_each_field(Field field) {
    field(size_t{0}, size_t{2}, FieldKind::plain);
    for (size_t i = 0; i < kBlock; ++i) field(kCodesAt + i, size_t{1}, FieldKind::plain);
  }

 private:
  static void encode_block(const float* x, char* block) {
    const float amax = reduce_max(max(abs(F32x16::load(x)), abs(F32x16::load(x + kLanes))));
    const float d = amax / 127.0f;
    const float inverse = finite_reciprocal(d);
    int8_t q[kBlock];
    for (int i = 0; i < kBlock; ++i) {
      float v = x[i] * inverse;
      v = v > -127.0f ? v : -127.0f;  // only for a NaN, and values beyond an amax that a NaN hid
      v = v < 127.0f ? v : 127.0f;
      const auto whole = static_cast<int32_t>(v);
      const float rest = v - static_cast<float>(whole);  // exact; halves round away from zero
      q[i] = static_cast<int8_t>(whole + (rest >= 0.5f ? 1 : 0) - (rest <= -0.5f ? 1 : 0));
    }
    const uint16_t stored = f16_bits(d);
    memcpy(block, &stored, 2);
    memcpy(block + 2, q, kBlock);
  }
};

// Formats of four or five bits ----------------------------------------------------

/// Blocks of 32. Fields: f16 d; f16 m if kHasMin; a u32 with the fifth bit of element i in bit i, if kHasFifthBit; 16
/// bytes with elements 0-15 in the low and 16-31 in the high nibbles. Value d * level(code) + m, rounded once (the
/// product is exact). Row adds
///   level(code)             levels of the low four bits of codes
///   level_of_5_bits(code)   levels of five bits, if kHasFifthBit
///   encode_block(x, block)  encodes 32 floats as a block
template <class Row, bool kMin, bool kFifthBit>
struct NibbleRow {
  static constexpr bool kHasMin = kMin, kHasFifthBit = kFifthBit;
  static constexpr int kBlock = 32;
  static constexpr size_t kMinAt = 2, kFifthBitsAt = kHasMin ? 4 : 2, kCodesAt = kFifthBitsAt + (kHasFifthBit ? 4 : 0);
  static constexpr size_t kBlockBytes = kCodesAt + kBlock / 2;
  static constexpr size_t bytes(int64_t n) { return static_cast<size_t>(n / kBlock) * kBlockBytes; }

  static F32x16 load(const void* row, int64_t e) {
    const char* block = static_cast<const char*>(row) + bytes(e);
    const bool is_second = e % kBlock != 0;
    const I32x16 codes = shift_right(I32x16::load_u8(block + kCodesAt), is_second ? 4 : 0);
    F32x16 level;
    if constexpr (kHasFifthBit) {
      const uint16_t fifth_bits = read_u16(block + kFifthBitsAt + (is_second ? 2 : 0));
      level = add_where(fifth_bits, Row::level(codes), F32x16::broadcast(16.0f));
    } else {
      level = Row::level(codes);
    }
    const F32x16 d = F32x16::broadcast(f16_value(read_u16(block)));
    if constexpr (kHasMin) return fma(level, d, F32x16::broadcast(f16_value(read_u16(block + kMinAt))));
    return mul(level, d);
  }

  static void encode(const float* x, int64_t n, void* row) {
    auto* block = static_cast<char*>(row);
    for (int64_t i = 0; i + kBlock <= n; i += kBlock, block += kBlockBytes) Row::encode_block(x + i, block);
  }

  template <class Field>
  static void for_each_field(Field field) {
    field(size_t{0}, size_t{2}, FieldKind::plain);
    if constexpr (kHasMin) field(kMinAt, size_t{2}, FieldKind::plain);
    if constexpr (kHasFifthBit) field(kFifthBitsAt, size_t{4}, FieldKind::fifth_bits);
    for (size_t i = 0; i < 4; ++i) field(kCodesAt + 4 * i, size_t{4}, FieldKind::plain);
  }

 protected:
  static void store_scale(float d, char* block) { write_f16(d, block); }
  static void store_min(float m, char* block) { write_f16(m, block + kMinAt); }
  /// Stores the codes of elements 0-15 and 16-31, given as floats, truncated.
  static void store_codes(F32x16 first, F32x16 second, char* block) {
    alignas(16) uint8_t low[kLanes], high[kLanes];
    store_u8(first, low);
    store_u8(second, high);
    for (int i = 0; i < kLanes; ++i) block[kCodesAt + i] = static_cast<char>((low[i] & 15) | (high[i] << 4));
    if constexpr (kHasFifthBit) {
      const F32x16 limit = F32x16::broadcast(16.0f);
      const uint16_t fifth_bits[2] = {at_least(first, limit), at_least(second, limit)};
      memcpy(block + kFifthBitsAt, fifth_bits, sizeof fifth_bits);
    }
  }

 private:
  static uint16_t read_u16(const char* p) {
    uint16_t word;
    memcpy(&word, p, 2);
    return word;
  }
  static void write_f16(float f, char* p) {
    const uint16_t word = f == f ? f16_bits(f) : uint16_t{0x7e00};  // instruction sets give different NaNs
    memcpy(p, &word, 2);
  }
};

inline float inverse_or_zero(float d) { return d != 0.0f ? 1.0f / d : 0.0f; }

/// v clamped to low..high; a NaN gives low.
inline F32x16 clamp(F32x16 v, float low, float high) {
  return min(max(v, F32x16::broadcast(low)), F32x16::broadcast(high));
}

/// The first of 32 floats for which v0 (first 16 elements) or v1 (others) is at least the limit; x[0] if there is none.
inline float first_at_least(F32x16 v0, F32x16 v1, float limit, const float* x) {
  const F32x16 limits = F32x16::broadcast(limit);
  const uint32_t found = static_cast<uint32_t>(at_least(v0, limits)) | static_cast<uint32_t>(at_least(v1, limits))
                                                                           << 16;
  return found == 0 ? x[0] : x[__builtin_ctz(found)];
}

/// The first of the largest magnitudes in 32 floats, with its sign; NaNs are ignored.
inline float extreme_of_32(const float* x) {
  const F32x16 zero = F32x16::zero();
  const F32x16 a = max(abs(F32x16::load(x)), zero), b = max(abs(F32x16::load(x + kLanes)), zero);
  const float largest = reduce_max(max(a, b));
  return largest == 0.0f ? 0.0f : first_at_least(a, b, largest, x);
}

/// The smallest and the largest of 32 floats; on ties (zeros) the first. Both are NaN if x[0] is; other NaNs are
/// ignored.
struct FloatRange {
  float low, high;
};
inline FloatRange range_of_32(const float* x) {
  if (x[0] != x[0]) return {x[0], x[0]};
  const F32x16 first = F32x16::broadcast(x[0]), zero = F32x16::zero();
  const F32x16 a = max(F32x16::load(x), first), b = max(F32x16::load(x + kLanes), first);
  const F32x16 c = sub(zero, min(F32x16::load(x), first)), d = sub(zero, min(F32x16::load(x + kLanes), first));
  return {first_at_least(c, d, reduce_max(max(c, d)), x), first_at_least(a, b, reduce_max(max(a, b)), x)};
}

/// Levels are the codes minus kOffset, which is half the number of codes if there is no minimum. Encodes by ggml's
/// rules without an imatrix.
template <class Row, int kBits, bool kMin>
struct IntegerRow : NibbleRow<Row, kMin, kBits == 5> {
  using Base = NibbleRow<Row, kMin, kBits == 5>;
  static constexpr int kOffset = kMin ? 0 : 1 << (kBits - 1);
  static constexpr float kTop = (1 << kBits) - 1;

  static F32x16 level(I32x16 code) { return integer_of_4_bits<kOffset>(code); }
  static F32x16 level_of_5_bits(I32x16 code) { return integer_of_5_bits<kOffset>(code); }

  static void encode_block(const float* x, char* block) {
    if constexpr (kMin) {
      const FloatRange range = range_of_32(x);
      const float d = (range.high - range.low) / kTop;
      Base::store_scale(d, block);
      Base::store_min(range.low, block);
      store_scaled(x, range.low, inverse_or_zero(d), 0.5f, block);
    } else {
      const float d = extreme_of_32(x) / -static_cast<float>(kOffset);
      Base::store_scale(d, block);
      store_scaled(x, 0.0f, inverse_or_zero(d), static_cast<float>(kOffset) + 0.5f, block);
    }
  }

 private:
  static void store_scaled(const float* x, float origin, float inverse, float shift, char* block) {
    const auto code = [&](const float* p) {
      const F32x16 scaled = mul(sub(F32x16::load(p), F32x16::broadcast(origin)), F32x16::broadcast(inverse));
      return clamp(add(scaled, F32x16::broadcast(shift)), 0.0f, kTop);
    };
    Base::store_codes(code(x), code(x + kLanes), block);
  }
};

struct RowQ4_0 : IntegerRow<RowQ4_0, 4, false> {};
struct RowQ4_1 : IntegerRow<RowQ4_1, 4, true> {};
struct RowQ5_0 : IntegerRow<RowQ5_0, 5, false> {};
struct RowQ5_1 : IntegerRow<RowQ5_1, 5, true> {};

/// Levels are a table. The encoder is for the KV cache, where a search per token would be too slow. The value of
/// largest magnitude becomes the level -127, the others become the nearest levels, and then d is fitted by least
/// squares.
struct RowIQ4_NL : NibbleRow<RowIQ4_NL, false, false> {
  alignas(64) static constexpr float kLevels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                                    1,    13,   25,  38,  53,  69,  89,  113};

  static F32x16 level(I32x16 code) { return lookup(kLevels, code); }

  static void encode_block(const float* x, char* block) {
    const float d = extreme_of_32(x) / kLevels[0];
    const Half first = nearest(x, inverse_or_zero(d)), second = nearest(x + kLanes, inverse_or_zero(d));
    const float product = reduce_add(add(mul(first.scaled, first.level), mul(second.scaled, second.level)));
    const float square = reduce_add(add(mul(first.level, first.level), mul(second.level, second.level)));
    store_scale(d * (product / square), block);  // no level is 0
    store_codes(first.code, second.code, block);
  }

 private:
  struct Half {
    F32x16 scaled, level, code;
  };
  static Half nearest(const float* x, float inverse) {
    Half half = {clamp(mul(F32x16::load(x), F32x16::broadcast(inverse)), kLevels[0], -kLevels[0]),
                 F32x16::broadcast(kLevels[0]), F32x16::zero()};
    for (int i = 0; i < 15; ++i) {
      const F32x16 middle = F32x16::broadcast(0.5f * (kLevels[i] + kLevels[i + 1]));
      const F32x16 step = F32x16::broadcast(kLevels[i + 1] - kLevels[i]);
      half.level = add_where_at_least(half.scaled, middle, half.level, step);
      half.code = add_where_at_least(half.scaled, middle, half.code, F32x16::broadcast(1.0f));
    }
    return half;
  }
};

// By GGUF type id -------------------------------------------------------------------

/// A table of Entry::of<Row>() for each row format.
template <class Entry>
constexpr auto make_row_table() {
  ByDType<decltype(Entry::template of<RowF32>())> table;
#define TESSERA_KV_FORMAT(name, symbol, text, id, n_elements, n_bytes) \
  table.of_dtype[id] = Entry::template of<Row##symbol>();              \
  static_assert(Row##symbol::kBlock == n_elements && Row##symbol::bytes(n_elements) == n_bytes);
#include "tessera/tensor/dtype.def"
  return table;
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
