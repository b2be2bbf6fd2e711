// The types that are not formats of weights. Files may still contain tensors of these types, which `tessera verify`
// checks. Integers have no faults.
#include "tessera/quant/formats/faults.h"
#include "tessera/quant/formats/table.h"
#include "tessera/tensor/dtype_rows.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

/// 32 activations, value = d * code, and their sum.
struct BlockQ8_1 {
  uint16_t d, s;  // f16
  int8_t qs[32];
};
static_assert(sizeof(BlockQ8_1) == block_size(DType::q8_1).bytes);

/// 256 activations, value = d * code, and sums of 16 codes.
struct BlockQ8_K {
  uint32_t d;  // f32
  int8_t qs[256];
  int16_t sums[16];
};
static_assert(sizeof(BlockQ8_K) == block_size(DType::q8_k).bytes);

BlockFault q8_k_fault(const void* blocks, int64_t n) {
  return {first_where(n, [=](int64_t i) { return is_f32_fault(field_at(blocks, i, &BlockQ8_K::d)); }), kScaleFault};
}

}  // namespace

constexpr Format kQ8_1 = {nullptr, nullptr, nullptr, scale_and_min_fault<&BlockQ8_1::d, &BlockQ8_1::s, kSumFault>};
constexpr Format kQ8_K = {nullptr, nullptr, nullptr, q8_k_fault};
constexpr Format kF64 = {nullptr, nullptr, nullptr, value_fault<uint64_t, is_f64_fault>};
constexpr Format kI8 = {}, kI16 = {}, kI32 = {}, kI64 = {};

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
