// What kernels/device.cuh takes from the compiler for CUDA, for kernels that run on the CPU: threads are fibers that
// take turns, and an instruction of a warp exchanges its operands through memory. Results differ from the device's by
// rounding only. Included by device.cuh.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __restrict__ __restrict
#define __shared__ static  // one block runs at a time
#define __align__(n) alignas(n)

namespace tessera::cuda {

struct alignas(16) Word4 {
  uint32_t x, y, z, w;
};
struct alignas(8) Word2 {
  uint32_t x, y;
};

namespace emulated {

/// Registers a kernel by name before main().
struct Register {
  Register(const char* name, size_t params_bytes, void (*run)(const void* params));
};

using KernelFunction = void (*)(const void*);
struct Kernel {
  KernelFunction run = nullptr;
  size_t params_bytes = 0;
};
/// run is null if there is none.
Kernel find_kernel(const std::string& name);

/// Runs all blocks of a kernel, one after the other. May be called from any thread.
void launch(KernelFunction kernel, const void* params, uint32_t n_blocks, uint32_t n_threads, uint32_t shared_bytes);

// Of the running thread.
uint32_t thread();
uint32_t n_threads();
uint32_t block();
unsigned char* shared();
void sync_block();
void sync_warp();

constexpr size_t kWarpSize = 32, kMostWords = 8;
/// Publishes words of this thread to its warp and returns those of all its threads; valid until the next call.
const std::array<std::array<uint32_t, kMostWords>, kWarpSize>& exchange(const uint32_t* words, size_t n);

inline float half_to_float(uint32_t h) {
  const auto bits = static_cast<uint16_t>(h);
  _Float16 v;
  std::memcpy(&v, &bits, 2);
  return static_cast<float>(v);
}
inline uint32_t half_bits(double v) {
  const auto h = static_cast<_Float16>(v);
  uint16_t bits;
  std::memcpy(&bits, &h, 2);
  return bits;
}
inline float bf16_to_float(uint32_t h) { return std::bit_cast<float>(h << 16); }
inline uint32_t bf16_bits(float v) {
  const auto bits = std::bit_cast<uint32_t>(v);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return bits >> 16 | 0x40u;
  return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

/// A sum of products of f16. Like the device's, it does not depend on the order of the products: they are summed
/// exactly, in units of 2^-48.
class HalfProducts {
 public:
  void add(uint32_t a, uint32_t b) {
    if ((a & 0x7c00u) == 0x7c00u || (b & 0x7c00u) == 0x7c00u)
      special_ += half_to_float(a) * half_to_float(b);
    else
      sum_ += static_cast<Wide>(units(a)) * units(b);
  }
  float plus(float c) const { return static_cast<float>(c + static_cast<double>(sum_) * 0x1p-48) + special_; }

 private:
  __extension__ using Wide = __int128;
  static int64_t units(uint32_t h) {
    const int64_t exponent = h >> 10 & 31u, fraction = h & 1023u;
    const int64_t magnitude = exponent == 0 ? fraction : (1024 + fraction) << (exponent - 1);
    return (h & 0x8000u) != 0 ? -magnitude : magnitude;
  }

  Wide sum_ = 0;
  float special_ = 0;  // of infinities and NaN
};

/// c += a * b of the warp, of f16.
inline void multiply_halves(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  const uint32_t mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
  const auto& all = exchange(mine, 6);
  const uint32_t lane = thread() % kWarpSize, g = lane / 4, t = lane % 4;
  for (uint32_t r = 0; r < 2; ++r)
    for (uint32_t n = 0; n < 2; ++n) {
      HalfProducts products;
      for (uint32_t half = 0; half < 2; ++half)
        for (uint32_t from = 0; from < 4; ++from) {
          const uint32_t x = all[4 * g + from][r + 2 * half], y = all[4 * (2 * t + n) + from][4 + half];
          products.add(x & 0xffffu, y & 0xffffu);
          products.add(x >> 16, y >> 16);
        }
      c[2 * r + n] = products.plus(c[2 * r + n]);
    }
  sync_warp();
}

/// The same for other types: k is the depth of the product; element(word, i) converts part i of a word.
template <size_t kPerWord, class Element>
void multiply(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, Element element) {
  const uint32_t mine[6] = {a[0], a[1], a[2], a[3], b0, b1};
  const auto& all = exchange(mine, 6);
  const uint32_t lane = thread() % kWarpSize, g = lane / 4, t = lane % 4;
  for (uint32_t r = 0; r < 2; ++r)
    for (uint32_t n = 0; n < 2; ++n) {
      float sum = c[2 * r + n];
      for (uint32_t half = 0; half < 2; ++half)
        for (uint32_t from = 0; from < 4; ++from)
          for (size_t i = 0; i < kPerWord; ++i)
            sum += element(all[4 * g + from][r + 2 * half], i) * element(all[4 * (2 * t + n) + from][4 + half], i);
      c[2 * r + n] = sum;
    }
  sync_warp();
}

}  // namespace emulated

inline uint32_t lane() { return emulated::thread(); }
inline uint32_t n_lanes() { return emulated::n_threads(); }
inline uint32_t block_index() { return emulated::block(); }
inline void sync_group() { emulated::sync_block(); }
inline void sync_warp() { emulated::sync_warp(); }
inline unsigned char* dynamic_shared() { return emulated::shared(); }
inline void fence() {}
inline void fence_for_host() {}
inline void wait_for_previous() {}
inline void allow_next() {}

inline uint32_t bits_of(float v) { return std::bit_cast<uint32_t>(v); }
inline float float_of(uint32_t v) { return std::bit_cast<float>(v); }
inline uint32_t count_bits(uint32_t v) { return static_cast<uint32_t>(std::popcount(v)); }

inline uint32_t shuffle(uint32_t v, uint32_t from) {
  const uint32_t got = emulated::exchange(&v, 1)[from % 32][0];
  emulated::sync_warp();
  return got;
}
inline uint32_t shuffle_xor(uint32_t v, uint32_t mask) { return shuffle(v, (lane() ^ mask) % 32); }
inline float shuffle(float v, uint32_t from) { return float_of(shuffle(bits_of(v), from)); }
inline float shuffle_xor(float v, uint32_t mask) { return float_of(shuffle_xor(bits_of(v), mask)); }
inline uint32_t shuffle_four(uint32_t v, uint32_t from) { return shuffle(v, lane() / 4 * 4 % 32 + from); }
inline uint32_t match(uint32_t v) {
  const auto& all = emulated::exchange(&v, 1);
  uint32_t lanes = 0;
  for (uint32_t i = 0; i < emulated::kWarpSize; ++i) lanes |= all[i][0] == v ? 1u << i : 0u;
  emulated::sync_warp();
  return lanes;
}
inline uint32_t ballot(bool is_true) {
  const uint32_t same = match(is_true ? 1 : 0);
  return is_true ? same : ~same;
}

inline uint32_t compare_and_swap(uint32_t* at, uint32_t expected, uint32_t wanted) {
  const uint32_t before = *at;
  if (before == expected) *at = wanted;
  return before;
}
inline uint32_t atomic_or(uint32_t* at, uint32_t v) { return std::exchange(*at, *at | v); }
inline uint32_t atomic_and(uint32_t* at, uint32_t v) { return std::exchange(*at, *at & v); }
inline uint32_t atomic_add(uint32_t* at, uint32_t v) { return std::exchange(*at, *at + v); }

inline uint32_t select_bytes(uint32_t a, uint32_t b, uint32_t selector) {
  const uint64_t both = uint64_t{b} << 32 | a;
  uint32_t v = 0;
  for (uint32_t i = 0; i < 4; ++i) v |= static_cast<uint32_t>(both >> 8 * (selector >> 4 * i & 7u) & 255u) << 8 * i;
  return v;
}
inline uint32_t and_or(uint32_t v, uint32_t mask, uint32_t bits) { return (v & mask) | bits; }
inline uint32_t funnel_right(uint32_t low, uint32_t high, uint32_t shift) {
  return static_cast<uint32_t>((uint64_t{high} << 32 | low) >> (shift & 31u));
}

template <class T>
T load_unaligned_checked(const void* from) {
  T v;
  if (reinterpret_cast<uintptr_t>(from) % alignof(T) != 0) __builtin_trap();  // the device would fault
  std::memcpy(&v, from, sizeof(T));
  return v;
}
inline Word4 load_weights16(const void* from) { return load_unaligned_checked<Word4>(from); }
inline Word2 load_weights8(const void* from) { return load_unaligned_checked<Word2>(from); }
inline uint32_t load_weights4(const void* from) { return load_unaligned_checked<uint32_t>(from); }

/// Reads the ends of the range, which shows ranges outside of memory.
inline void prefetch_weights(uint64_t from, uint32_t n_bytes) {
  if (from % 16 != 0 || n_bytes % 16 != 0 || n_bytes == 0) __builtin_trap();  // the device would fault
  const auto* bytes = reinterpret_cast<const volatile unsigned char*>(from);
  static_cast<void>(bytes[0] + bytes[n_bytes - 1]);
}

inline void copy_async16(void* to_shared, const void* from, bool is_valid = true) {
  const Word4 v = is_valid ? load_unaligned_checked<Word4>(from) : Word4{};
  if (reinterpret_cast<uintptr_t>(to_shared) % 16 != 0) __builtin_trap();
  std::memcpy(to_shared, &v, 16);
}
using SharedAddress = uint64_t;
inline SharedAddress shared_address(const void* in_shared) { return reinterpret_cast<uint64_t>(in_shared); }
inline void copy_async16(SharedAddress to, const void* from, bool is_valid = true) {
  copy_async16(reinterpret_cast<void*>(to), from, is_valid);
}
inline void copy_async8(SharedAddress to, const void* from, bool is_valid) {
  const Word2 v = is_valid ? load_unaligned_checked<Word2>(from) : Word2{};
  if (to % 8 != 0) __builtin_trap();
  std::memcpy(reinterpret_cast<void*>(to), &v, 8);
}
inline void commit_copies() {}
template <int kPending>
void wait_copies() {}

inline uint32_t pack_halves(float low, float high) {
  return emulated::half_bits(low) | emulated::half_bits(high) << 16;
}
inline uint32_t pack_bf16(float low, float high) { return emulated::bf16_bits(low) | emulated::bf16_bits(high) << 16; }
inline uint32_t tf32_of(float v) { return std::isfinite(v) ? (bits_of(v) + 0x1000u) & ~0x1fffu : bits_of(v); }
inline float low_half(uint32_t v) { return emulated::half_to_float(v & 0xffffu); }
inline float high_half(uint32_t v) { return emulated::half_to_float(v >> 16); }
template <class Of>
uint32_t each_half(Of of) {
  return emulated::half_bits(of(low_half)) | emulated::half_bits(of(high_half)) << 16;
}
inline uint32_t sub_halves(uint32_t a, uint32_t b) {
  return each_half([&](auto part) { return double{part(a)} - double{part(b)}; });
}
inline uint32_t mul_halves(uint32_t a, uint32_t b) {
  return each_half([&](auto part) { return double{part(a)} * double{part(b)}; });
}
inline uint32_t fma_halves(uint32_t a, uint32_t b, uint32_t c) {
  return each_half([&](auto part) { return double{part(a)} * double{part(b)} + double{part(c)}; });
}
template <uint32_t kHalf>
uint32_t twice_half(uint32_t v) {
  const uint32_t half = v >> 16 * kHalf & 0xffffu;
  return half | half << 16;
}
template <uint32_t kHalf>
uint32_t mul_by_half(uint32_t a, uint32_t b) {
  return mul_halves(a, twice_half<kHalf>(b));
}
template <uint32_t kHalf>
uint32_t fma_by_half(uint32_t a, uint32_t b, uint32_t c) {
  return fma_halves(a, twice_half<kHalf>(b), twice_half<kHalf>(c));
}

inline float exp2_of(float v) {
  const float f = std::exp2(v);
  return f < 0x1p-126f ? 0.0f : f;
}

inline void load_transposed(uint32_t (&v)[4], const void* row) {
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0) __builtin_trap();
  uint32_t mine[4];
  std::memcpy(mine, row, sizeof(mine));
  const auto& all = emulated::exchange(mine, 4);
  const uint32_t column = lane() % 32 / 4, first = 2 * (lane() % 4);
  for (uint32_t m = 0; m < 4; ++m) {
    const auto element = [&](uint32_t r) { return all[8 * m + r][column / 2] >> 16 * (column % 2) & 0xffffu; };
    v[m] = element(first) | element(first + 1) << 16;
  }
  emulated::sync_warp();
}

inline void multiply_f16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulated::multiply_halves(c, a, b0, b1);
}
inline void multiply_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulated::multiply<2>(c, a, b0, b1,
                        [](uint32_t word, size_t i) { return emulated::bf16_to_float(word >> 16 * i & 0xffffu); });
}
inline void multiply_tf32(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  emulated::multiply<1>(c, a, b0, b1, [](uint32_t word, size_t) { return float_of(word & ~0x1fffu); });
}

#define TESSERA_HAS_WIDE 1
inline void publish_to_matrix_units() {}
inline void begin_wide() {}
inline void commit_wide() {}
inline void wait_wide() {}
template <uint32_t kCount>
void finish_wide(float (&)[kCount]) {}
/// Operands are in shared memory, so each thread computes its part by itself.
template <uint32_t kCount>
void multiply_wide(float (&c)[kCount], SharedAddress a, SharedAddress b, uint32_t k, bool adds) {
  if ((a | b) % 1024 != 0) __builtin_trap();
  const auto element = [k](SharedAddress operand, uint32_t row, uint32_t i) {
    const uint32_t piece = 2 * k + i / 8;
    uint16_t half;
    std::memcpy(&half, reinterpret_cast<const void*>(operand + 128 * row + 16 * (piece ^ row % 8) + 2 * (i % 8)), 2);
    return uint32_t{half};
  };
  const uint32_t g = lane() % 32 / 4, t = lane() % 4, first_row = lane() / 32 % 4 * 16 + g;
  for (uint32_t n = 0; n < kCount; ++n) {
    const uint32_t row = first_row + n % 4 / 2 * 8, column = n / 4 * 8 + 2 * t + n % 2;
    emulated::HalfProducts products;
    for (uint32_t i = 0; i < 16; ++i) products.add(element(a, row, i), element(b, column, i));
    c[n] = products.plus(adds ? c[n] : 0.0f);
  }
}

}  // namespace tessera::cuda
