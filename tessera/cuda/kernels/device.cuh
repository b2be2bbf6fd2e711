// Shared by all kernels: the parameters of a step, access to memory by address, and the instructions of the device.
// Everything that differs between the device and its emulation on the CPU (tests/cuda/emulator) is in this file and in
// the header of the emulation, so a kernel is the same source for both.
#pragma once

#include <cfloat>
#include <cmath>
#include <cstddef>
#include <cstdint>

#ifdef TESSERA_CUDA_EMULATED
#include TESSERA_CUDA_EMULATED  // the header of an emulation
#endif

namespace tessera::cuda {

// gpu/step.h declares the same structs.
struct Operand {
  uint64_t data;  // 0: absent
  uint32_t ne[4];
  uint32_t nb[4];  // bytes
};
struct Params {
  Operand y;
  Operand x[10];
  uint64_t tables;  // the codebooks
  uint64_t extra;   // additional words of this step
  uint64_t fault;
  uint64_t scratch;  // shared by the two dispatches of a node
  uint32_t id;
  uint32_t n_groups;
  uint32_t u[12];
  uint32_t variant, format, format2;  // only the kernels of this backend receive these; formats are values of DType
  uint32_t first_block;               // of this step in the launch
};

/// Independent steps of one kernel, launched together: their blocks are one after the other. Few tokens give each step
/// little work, and a launch takes longer than that.
constexpr uint32_t kBatchSteps = 3;
struct Batch {
  Params steps[kBatchSteps];  // first_block of those that are not used is the largest number
};

/// Small writes to memory, in order. They travel as the argument of their kernel (cuda/kernels.h declares the same).
constexpr uint32_t kMostWrites = 16, kMostWrittenBytes = 2048;
struct Writes {
  struct Range {
    uint64_t to;
    uint32_t begin, n_bytes;  // in `bytes`
  };
  uint32_t n, n_bytes;
  Range ranges[kMostWrites];
  unsigned char bytes[kMostWrittenBytes];
};

/// The numbers of the weight formats, as in DType.
enum : uint32_t {
#define TESSERA_FORMAT(name, symbol, text, id, elements, bytes) kFormat_##name = id,
#include "tessera/tensor/dtype.def"
};
/// The elements and bytes of a block of each format.
#define TESSERA_FORMAT(name, symbol, text, id, elements, bytes) \
  constexpr uint32_t kElements_##name = elements, kBytes_##name = bytes;
#include "tessera/tensor/dtype.def"

/// Results of a kernel's checks of its data, as in gpu/step.h.
enum : uint32_t {
  kFaultRow = 1,
  kFaultCell,
  kFaultSequence,
  kFaultPosition,
  kFaultBlock,
  kFaultExpert,
  kFaultToken,
  kFaultState
};

#ifdef TESSERA_CUDA_EMULATED

#define TESSERA_KERNEL_OF(Argument, argument, name, ...)                                                \
  static void body_##name(const ::tessera::cuda::Argument& argument);                                   \
  static const ::tessera::cuda::emulated::Register registered_##name(                                   \
      "tessera_" #name, sizeof(::tessera::cuda::Argument),                                              \
      [](const void* params) { body_##name(*static_cast<const ::tessera::cuda::Argument*>(params)); }); \
  static void body_##name(const ::tessera::cuda::Argument& argument)
#define TESSERA_BATCH_KERNEL(name, n_threads)                                                             \
  static void body_##name(const ::tessera::cuda::Params& step);                                           \
  static const ::tessera::cuda::emulated::Register registered_##name(                                     \
      "tessera_" #name, sizeof(::tessera::cuda::Batch), [](const void* params) {                          \
        body_##name(::tessera::cuda::step_of_block(*static_cast<const ::tessera::cuda::Batch*>(params))); \
      });                                                                                                 \
  static void body_##name(const ::tessera::cuda::Params& step)

#else

/// Defines the kernel `name` and its argument. The last parameters are the most threads of a block and, optionally, the
/// blocks that have to fit a multiprocessor. The symbol has a prefix because the device's library has functions like
/// norm().
#define TESSERA_KERNEL_OF(Argument, argument, name, ...)    \
  extern "C" __global__ void __launch_bounds__(__VA_ARGS__) \
      tessera_##name(const __grid_constant__ ::tessera::cuda::Argument argument)
/// The same for a kernel whose launches may be batches of steps.
#define TESSERA_BATCH_KERNEL(name, n_threads)                                \
  __device__ inline void body_##name(const ::tessera::cuda::Params& step);   \
  extern "C" __global__ void __launch_bounds__(n_threads)                    \
      tessera_##name(const __grid_constant__ ::tessera::cuda::Batch batch) { \
    body_##name(::tessera::cuda::step_of_block(batch));                      \
  }                                                                          \
  __device__ inline void body_##name(const ::tessera::cuda::Params& step)

struct alignas(16) Word4 {
  uint32_t x, y, z, w;
};
struct alignas(8) Word2 {
  uint32_t x, y;
};

__device__ inline uint32_t lane() { return threadIdx.x; }
__device__ inline uint32_t n_lanes() { return blockDim.x; }
__device__ inline uint32_t block_index() { return blockIdx.x; }

/// All threads of the block, or of the warp, wait for each other and see each other's writes.
__device__ inline void sync_group() { __syncthreads(); }
__device__ inline void sync_warp() { __syncwarp(); }

/// Orders the accesses of memory before it, of this thread and of those it has waited for at a barrier, before the
/// later ones, as all blocks see them.
__device__ inline void fence() { __threadfence(); }
/// The same for the host.
__device__ inline void fence_for_host() { __threadfence_system(); }

/// The kernel's dynamic shared memory, aligned to 128 bytes.
__device__ inline unsigned char* dynamic_shared() {
  extern __shared__ __align__(128) unsigned char tessera_dynamic_shared[];
  return tessera_dynamic_shared;
}

/// Waits until the kernels before this one have finished; until then this one may read only weights. Every kernel
/// calls it before it reads or writes anything else.
__device__ inline void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/// Lets the next kernel start while this one still runs. Kernels with little work call it before they wait, so that the
/// product after them can request its weights; products call it afterwards, so that no more than that is ahead.
__device__ inline void allow_next() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

__device__ inline float shuffle_xor(float v, uint32_t mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
__device__ inline uint32_t shuffle_xor(uint32_t v, uint32_t mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
__device__ inline float shuffle(float v, uint32_t from) { return __shfl_sync(0xffffffffu, v, from); }
__device__ inline uint32_t shuffle(uint32_t v, uint32_t from) { return __shfl_sync(0xffffffffu, v, from); }

/// The value of lane `from` of the four lanes 4 g to 4 g + 3 that this one belongs to.
__device__ inline uint32_t shuffle_four(uint32_t v, uint32_t from) { return __shfl_sync(0xffffffffu, v, from, 4); }

/// The lanes of the warp that have the same value, as bits.
__device__ inline uint32_t match(uint32_t v) { return __match_any_sync(0xffffffffu, v); }
/// The lanes of the warp for which it is true, as bits.
__device__ inline uint32_t ballot(bool is_true) { return __ballot_sync(0xffffffffu, is_true); }

__device__ inline uint32_t bits_of(float v) { return __float_as_uint(v); }
__device__ inline float float_of(uint32_t v) { return __uint_as_float(v); }
__device__ inline uint32_t count_bits(uint32_t v) { return __popc(v); }

__device__ inline uint32_t compare_and_swap(uint32_t* at, uint32_t expected, uint32_t wanted) {
  return atomicCAS(at, expected, wanted);
}
__device__ inline uint32_t atomic_or(uint32_t* at, uint32_t v) { return atomicOr(at, v); }
__device__ inline uint32_t atomic_and(uint32_t* at, uint32_t v) { return atomicAnd(at, v); }
__device__ inline uint32_t atomic_add(uint32_t* at, uint32_t v) { return atomicAdd(at, v); }

/// Bytes of b and a (a lowest) selected by the nibbles of `selector`, lowest first.
__device__ inline uint32_t select_bytes(uint32_t a, uint32_t b, uint32_t selector) {
  return __byte_perm(a, b, selector);
}
/// (v & mask) | bits, as one instruction: the compiler makes two of it when both constants are immediate.
__device__ inline uint32_t and_or(uint32_t v, uint32_t mask, uint32_t bits) {
  uint32_t r;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(r) : "r"(v), "r"(mask), "r"(bits));
  return r;
}
/// The upper word of (high : low) << shift, shift < 32.
__device__ inline uint32_t funnel_right(uint32_t low, uint32_t high, uint32_t shift) {
  return __funnelshift_r(low, high, shift);
}

/// Reads weights, which no kernel writes, without keeping them in the first-level cache.
__device__ inline Word4 load_weights16(const void* from) {
  Word4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from));
  return v;
}
__device__ inline Word2 load_weights8(const void* from) {
  Word2 v;
  asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(from));
  return v;
}
__device__ inline uint32_t load_weights4(const void* from) {
  uint32_t v;
  asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(v) : "l"(from));
  return v;
}

/// An address in shared memory, for asynchronous copies.
using SharedAddress = uint32_t;
__device__ inline SharedAddress shared_address(const void* in_shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(in_shared));
}

/// Copies 16 bytes from global to shared memory asynchronously; zeros instead if not `is_valid`.
__device__ inline void copy_async16(SharedAddress to, const void* from, bool is_valid = true) {
  const uint32_t n = is_valid ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(n) : "memory");
}
__device__ inline void copy_async16(void* to_shared, const void* from, bool is_valid = true) {
  copy_async16(shared_address(to_shared), from, is_valid);
}
/// Eight bytes, at multiples of eight.
__device__ inline void copy_async8(SharedAddress to, const void* from, bool is_valid) {
  const uint32_t n = is_valid ? 8 : 0;
  asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(to), "l"(from), "r"(n) : "memory");
}
/// Ends a group of copies. wait_copies<N> waits until all but the last N groups of this thread have arrived.
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ inline void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

/// Requests weights for the second-level cache. from: at a multiple of 16; n_bytes: likewise.
__device__ inline void prefetch_weights(uint64_t from, uint32_t n_bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(n_bytes) : "memory");
#endif
}

/// Two f16 in a word: `low` in the lower half. Rounded to nearest even.
__device__ inline uint32_t pack_halves(float low, float high) {
  uint32_t v;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
  return v;
}
__device__ inline uint32_t pack_bf16(float low, float high) {
  uint32_t v;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(v) : "f"(high), "f"(low));
  return v;
}
/// The value rounded to 11 bits, as the matrix units take it.
__device__ inline uint32_t tf32_of(float v) {
  uint32_t bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(v));
  return bits;
}
__device__ inline float low_half(uint32_t v) {
  float f;
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, l; }" : "=f"(f) : "r"(v));
  return f;
}
__device__ inline float high_half(uint32_t v) {
  float f;
  asm("{ .reg .b16 l, h; mov.b32 {l, h}, %1; cvt.f32.f16 %0, h; }" : "=f"(f) : "r"(v));
  return f;
}
/// Arithmetic on two f16 at a time, each rounded once.
__device__ inline uint32_t sub_halves(uint32_t a, uint32_t b) {
  uint32_t v;
  asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
  return v;
}
__device__ inline uint32_t mul_halves(uint32_t a, uint32_t b) {
  uint32_t v;
  asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
  return v;
}
__device__ inline uint32_t fma_halves(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t v;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(v) : "r"(a), "r"(b), "r"(c));
  return v;
}

/// The same with the low (kHalf = 0) or the high half (1) of b and c in place of both.
template <uint32_t kHalf>
__device__ inline uint32_t mul_by_half(uint32_t a, uint32_t b) {
  uint32_t v;
  asm("{ .reg .b16 h<2>; .reg .b32 s; mov.b32 {h0, h1}, %2; mov.b32 s, {h%3, h%3}; mul.rn.f16x2 %0, %1, s; }"
      : "=r"(v)
      : "r"(a), "r"(b), "n"(kHalf));
  return v;
}
template <uint32_t kHalf>
__device__ inline uint32_t fma_by_half(uint32_t a, uint32_t b, uint32_t c) {
  uint32_t v;
  asm("{ .reg .b16 h<2>, i<2>; .reg .b32 s, t; mov.b32 {h0, h1}, %2; mov.b32 {i0, i1}, %3;\n"
      "mov.b32 s, {h%4, h%4}; mov.b32 t, {i%4, i%4}; fma.rn.f16x2 %0, %1, s, t; }"
      : "=r"(v)
      : "r"(a), "r"(b), "r"(c), "n"(kHalf));
  return v;
}

/// 2^v with a relative error of at most 2^-22; exact for 0, and 0 below the smallest normal result.
__device__ inline float exp2_of(float v) {
  float f;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(f) : "f"(v));
  return f;
}

/// Loads four 8 x 8 matrices of f16 from shared memory, transposed: lane 8 m + r passes the address of row r of matrix
/// m (16 bytes, aligned), and lane 4 g + t receives elements g of rows 2 t and 2 t + 1 of each matrix.
__device__ inline void load_transposed(uint32_t (&v)[4], const void* row) {
  const uint32_t from = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v[0]), "=r"(v[1]), "=r"(v[2]), "=r"(v[3])
               : "r"(from)
               : "memory");
}

/// c += a * b on a warp: a is 16 x 16, b 16 x 8, c 16 x 8. Lane 4 g + t holds of a the pairs of columns (2 t, 2 t + 1)
/// of rows g (a[0]) and g + 8 (a[1]), and the pairs (2 t + 8, 2 t + 9) of both rows (a[2], a[3]); of b the same pairs
/// of rows in column g (b[0], b[1]); of c the columns (2 t, 2 t + 1) of rows g (c[0], c[1]) and g + 8 (c[2], c[3]).
__device__ inline void multiply_f16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ inline void multiply_bf16(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
/// The same with a 16 x 8 and b 8 x 8 of tf32: a[0], a[1] are column t of rows g and g + 8, a[2], a[3] column t + 4;
/// b0, b1 are rows t and t + 4 of column g.
__device__ inline void multiply_tf32(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Products of a warpgroup (four warps) with both operands in shared memory: compute capability 9.0 alone. An operand
// has rows of 64 halves from a multiple of 1024 bytes on; piece p (16 bytes) of row r is at 128 r + 16 (p ^ r % 8).
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define TESSERA_HAS_WIDE 1
/// Makes this thread's writes to shared memory, and the copies it has waited for, visible to the matrix units. A
/// barrier follows.
__device__ inline void publish_to_matrix_units() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
/// Around products: begin_wide() before the first that uses registers written by other instructions; commit_wide() ends
/// a group; wait_wide() waits until all groups but the last are complete, and finish_wide(c) for all. Until then
/// nothing may read c.
__device__ inline void begin_wide() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_wide() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ inline void wait_wide() { asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory"); }
template <uint32_t kCount>
__device__ inline void finish_wide(float (&c)[kCount]) {
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
  for (uint32_t i = 0; i < kCount; ++i) asm volatile("" : "+f"(c[i])::"memory");  // the compiler reads c after this
}
__device__ inline uint64_t operand_descriptor(SharedAddress at) {
  // Address and distance of groups of eight rows, in units of 16 bytes; the layout above.
  return uint64_t{(at & 0x3ffff) >> 4} | uint64_t{1} << 16 | uint64_t{1024 >> 4} << 32 | uint64_t{1} << 62;
}
/// c = a * b (adds: + c) for columns 16 k to 16 k + 15: a has 64 rows, b as many as c has columns (64 or 128). Warp w
/// of the four and lane 4 g + t hold rows 16 w + g (c[4 j], c[4 j + 1]) and 16 w + g + 8 (c[4 j + 2], c[4 j + 3]) of
/// columns 8 j + 2 t and 8 j + 2 t + 1.
__device__ inline void multiply_wide(float (&c)[32], SharedAddress a, SharedAddress b, uint32_t k, bool adds) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %34, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
      "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, p, 1, 1, "
      "0, 0; }"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]),
        "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]),
        "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]),
        "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31])
      : "l"(operand_descriptor(a + 32 * k)), "l"(operand_descriptor(b + 32 * k)), "r"(adds ? 1 : 0));
}
__device__ inline void multiply_wide(float (&c)[64], SharedAddress a, SharedAddress b, uint32_t k, bool adds) {
  asm volatile(
      "{ .reg .pred p; setp.ne.b32 p, %66, 0;\n"
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, "
      "%13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, "
      "%35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, "
      "%57, %58, %59, %60, %61, %62, %63}, %64, %65, p, 1, 1, 0, 0; }"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]), "+f"(c[4]), "+f"(c[5]), "+f"(c[6]), "+f"(c[7]), "+f"(c[8]),
        "+f"(c[9]), "+f"(c[10]), "+f"(c[11]), "+f"(c[12]), "+f"(c[13]), "+f"(c[14]), "+f"(c[15]), "+f"(c[16]),
        "+f"(c[17]), "+f"(c[18]), "+f"(c[19]), "+f"(c[20]), "+f"(c[21]), "+f"(c[22]), "+f"(c[23]), "+f"(c[24]),
        "+f"(c[25]), "+f"(c[26]), "+f"(c[27]), "+f"(c[28]), "+f"(c[29]), "+f"(c[30]), "+f"(c[31]), "+f"(c[32]),
        "+f"(c[33]), "+f"(c[34]), "+f"(c[35]), "+f"(c[36]), "+f"(c[37]), "+f"(c[38]), "+f"(c[39]), "+f"(c[40]),
        "+f"(c[41]), "+f"(c[42]), "+f"(c[43]), "+f"(c[44]), "+f"(c[45]), "+f"(c[46]), "+f"(c[47]), "+f"(c[48]),
        "+f"(c[49]), "+f"(c[50]), "+f"(c[51]), "+f"(c[52]), "+f"(c[53]), "+f"(c[54]), "+f"(c[55]), "+f"(c[56]),
        "+f"(c[57]), "+f"(c[58]), "+f"(c[59]), "+f"(c[60]), "+f"(c[61]), "+f"(c[62]), "+f"(c[63])
      : "l"(operand_descriptor(a + 32 * k)), "l"(operand_descriptor(b + 32 * k)), "r"(adds ? 1 : 0));
}
#endif

#endif

// ---- From here on the same for both.

/// Most kernels have the parameters of a step as their argument.
#define TESSERA_KERNEL(name, ...) TESSERA_KERNEL_OF(Params, step, name, __VA_ARGS__)

/// The index of this block among those of its step.
__device__ inline uint32_t group_of(const Params& step) { return block_index() - step.first_block; }
__device__ inline const Params& step_of_block(const Batch& batch) {
  uint32_t i = 0;
  while (i + 1 < kBatchSteps && block_index() >= batch.steps[i + 1].first_block) ++i;
  return batch.steps[i];
}

__device__ inline float infinity() { return float_of(0x7f800000u); }

/// Memory at an address.
template <class T>
__device__ inline T* at(uint64_t address) {
  return reinterpret_cast<T*>(address);
}
__device__ inline uint32_t* words(uint64_t address) { return at<uint32_t>(address); }
__device__ inline int32_t* ints(uint64_t address) { return at<int32_t>(address); }
__device__ inline float* floats(uint64_t address) { return at<float>(address); }

__device__ inline uint32_t min_of(uint32_t a, uint32_t b) { return a < b ? a : b; }
__device__ inline uint32_t max_of(uint32_t a, uint32_t b) { return a > b ? a : b; }

/// The address of row (i1, i2, i3).
__device__ inline uint64_t row_of(const Operand& o, uint32_t i1, uint32_t i2, uint32_t i3) {
  return o.data + uint64_t{i1} * o.nb[1] + uint64_t{i2} * o.nb[2] + uint64_t{i3} * o.nb[3];
}
/// The address of the i-th row in row-major order.
__device__ inline uint64_t nth_row(const Operand& o, uint32_t i) {
  return row_of(o, i % o.ne[1], i / o.ne[1] % o.ne[2], i / o.ne[1] / o.ne[2]);
}

/// The memory at Params::fault. Devices behind a bus have no atomic operations on the host's memory, so the first
/// report is chosen in device memory.
struct FaultLock {
  uint32_t is_taken, reserved;
  uint64_t words;  // address of FaultWords (gpu/step_list.h) in the host's memory
};

/// Records that `value` is not in [0, limit). The first report is kept and fails the run.
__device__ inline void report(const Params& step, uint32_t what, int32_t value, uint32_t limit) {
  FaultLock* lock = at<FaultLock>(step.fault);
  if (compare_and_swap(&lock->is_taken, 0u, 1u) != 0u) return;
  uint32_t* fault = words(lock->words);
  fault[1] = what;
  fault[2] = static_cast<uint32_t>(value);
  fault[3] = limit;
  fence_for_host();
  fault[0] = step.id + 1;
}

/// Reductions over a warp, as a tree: each lane receives the result.
__device__ inline float sum_over_warp(float v) {
  for (uint32_t mask = 16; mask > 0; mask /= 2) v += shuffle_xor(v, mask);
  return v;
}
__device__ inline float max_over_warp(float v) {
  for (uint32_t mask = 16; mask > 0; mask /= 2) v = fmaxf(v, shuffle_xor(v, mask));
  return v;
}

constexpr uint32_t kWarp = 32;

/// Reductions over a block of whole warps, at most 32; each thread receives the result. `room`: 32 floats of shared
/// memory, which may be reused after the next sync_group().
__device__ inline float sum_over_group(float v, float* room) {
  const float part = sum_over_warp(v);
  sync_group();
  if (lane() % kWarp == 0) room[lane() / kWarp] = part;
  sync_group();
  float sum = 0;
  for (uint32_t i = 0; i < n_lanes() / kWarp; ++i) sum += room[i];
  return sum;
}
__device__ inline float max_over_group(float v, float* room) {
  const float part = max_over_warp(v);
  sync_group();
  if (lane() % kWarp == 0) room[lane() / kWarp] = part;
  sync_group();
  float highest = room[0];
  for (uint32_t i = 1; i < n_lanes() / kWarp; ++i) highest = fmaxf(highest, room[i]);
  return highest;
}

}  // namespace tessera::cuda
