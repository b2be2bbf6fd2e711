// Blocks are copied in and out: rows in a file have no alignment.
#include "tessera/quant/formats/q4_0.h"

#include "tessera/quant/formats/half.h"
#include "tessera/quant/formats/table.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

constexpr int kElements = BlockQ4_0::kElements;

/// min(15, trunc(v + 8.5)); what is not in the range of codes (a NaN, an overflow of the scale) becomes its
/// nearest end.
uint8_t code_of(float v) {
  const float shifted = v + 8.5f;
  if (!(shifted >= 0.0f)) return 0;
  return shifted >= 15.0f ? uint8_t{15} : static_cast<uint8_t>(shifted);
}

void encode_row(const float* x, const float* /*importance*/, int64_t n, void* to) {
  auto* row = static_cast<uint8_t*>(to);
  for (int64_t b = 0; b < n / kElements; ++b, x += kElements, row += sizeof(BlockQ4_0)) {
    float extreme = 0.0f;
    for (int i = 0; i < kElements; ++i)
      if (__builtin_fabsf(x[i]) > __builtin_fabsf(extreme)) extreme = x[i];
    const float d = extreme / -8.0f;
    const float inverse = d != 0.0f ? 1.0f / d : 0.0f;

    BlockQ4_0 block;
    block.d = f32_to_f16(d);
    for (int j = 0; j < 16; ++j) {
      const int low = code_of(x[j] * inverse), high = code_of(x[j + 16] * inverse);
      block.qs[j] = static_cast<uint8_t>(low | high << 4);
    }
    memcpy(row, &block, sizeof block);
  }
}

void decode_row(const void* from, int64_t n, float* out) {
  const auto* row = static_cast<const uint8_t*>(from);
  for (int64_t b = 0; b < n / kElements; ++b, row += sizeof(BlockQ4_0), out += kElements) {
    BlockQ4_0 block;
    memcpy(&block, row, sizeof block);
    const float d = f16_to_f32(block.d);
    for (int j = 0; j < 16; ++j) {
      out[j] = d * static_cast<float>((block.qs[j] & 15) - 8);
      out[j + 16] = d * static_cast<float>((block.qs[j] >> 4) - 8);
    }
  }
}

}  // namespace

constexpr Format kQ4_0 = {decode_row, encode_row, encode_row};

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
