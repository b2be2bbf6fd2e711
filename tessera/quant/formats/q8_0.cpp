// Blocks are copied in and out: rows in a file have no alignment.
#include "tessera/quant/formats/q8_0.h"

#include "tessera/quant/formats/half.h"
#include "tessera/quant/formats/table.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

constexpr int kElements = BlockQ8_0::kElements;

/// v rounded half away from zero; what is not in the range of codes becomes its nearest end, a NaN 0.
int8_t code_of(float v) {
  if (v != v) return 0;
  const float rounded = __builtin_roundf(v);
  if (rounded <= -127.0f) return -127;
  return rounded >= 127.0f ? int8_t{127} : static_cast<int8_t>(rounded);
}

void encode_row(const float* x, const float* /*importance*/, int64_t n, void* to) {
  auto* row = static_cast<uint8_t*>(to);
  for (int64_t b = 0; b < n / kElements; ++b, x += kElements, row += sizeof(BlockQ8_0)) {
    float largest = 0.0f;
    for (int i = 0; i < kElements; ++i) largest = __builtin_fmaxf(largest, __builtin_fabsf(x[i]));
    const float d = largest / 127.0f;
    const float inverse = d != 0.0f ? 1.0f / d : 0.0f;

    BlockQ8_0 block;
    block.d = f32_to_f16(d);
    for (int i = 0; i < kElements; ++i) block.qs[i] = code_of(x[i] * inverse);
    memcpy(row, &block, sizeof block);
  }
}

void decode_row(const void* from, int64_t n, float* out) {
  const auto* row = static_cast<const uint8_t*>(from);
  for (int64_t b = 0; b < n / kElements; ++b, row += sizeof(BlockQ8_0), out += kElements) {
    BlockQ8_0 block;
    memcpy(&block, row, sizeof block);
    const float d = f16_to_f32(block.d);
    for (int i = 0; i < kElements; ++i) out[i] = d * static_cast<float>(block.qs[i]);
  }
}

}  // namespace

constexpr Format kQ8_0 = {decode_row, encode_row, encode_row};

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
