// f32, f16, bf16: rows of plain floats, rounded to nearest even. A NaN stays a NaN, and overflow gives infinity.
#include "tessera/quant/formats/faults.h"
#include "tessera/quant/formats/half.h"
#include "tessera/quant/formats/table.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

template <uint16_t (*kEncode)(float)>
void encode_row(const float* x, const float* /*weights*/, int64_t n, void* row) {
  auto* out = static_cast<uint8_t*>(row);
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t half = kEncode(x[i]);
    memcpy(out + 2 * i, &half, 2);
  }
}

template <float (*kDecode)(uint16_t)>
void decode_row(const void* row, int64_t n, float* out) {
  const auto* in = static_cast<const uint8_t*>(row);
  for (int64_t i = 0; i < n; ++i) {
    uint16_t half;
    memcpy(&half, in + 2 * i, 2);
    out[i] = kDecode(half);
  }
}

void copy_in(const float* x, const float* /*weights*/, int64_t n, void* row) {
  memcpy(row, x, static_cast<size_t>(n) * sizeof(float));
}
void copy_out(const void* row, int64_t n, float* out) { memcpy(out, row, static_cast<size_t>(n) * sizeof(float)); }

}  // namespace

constexpr Format kF32 = {copy_out, copy_in, copy_in, value_fault<uint32_t, is_f32_fault>};
constexpr Format kF16 = {decode_row<f16_to_f32>, encode_row<f32_to_f16>, encode_row<f32_to_f16>,
                         value_fault<uint16_t, is_f16_fault>};
constexpr Format kBF16 = {decode_row<bf16_to_f32>, encode_row<f32_to_bf16>, encode_row<f32_to_bf16>,
                          value_fault<uint16_t, is_bf16_fault>};

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
