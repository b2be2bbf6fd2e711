// The best d for given signs is the weighted mean of the magnitudes; ggml's rule is the plain mean.
#include "tessera/quant/formats/q1_0.h"

#include "tessera/quant/formats/faults.h"
#include "tessera/quant/formats/magnitudes.h"
#include "tessera/quant/formats/table.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

constexpr int kElements = BlockQ1_0::kElements;

void store_signs(const float* x, BlockQ1_0& block) {
  for (int j = 0; j < kElements / 8; ++j) {
    int bits = 0;
    for (int i = 0; i < 8; ++i) bits |= (x[8 * j + i] >= 0.0f) << i;
    block.qs[j] = static_cast<uint8_t>(bits);
  }
}

void encode_block(const float* x, const float* weights, int /*n_blocks*/, BlockQ1_0* block) {
  const Magnitudes<kElements> values(x, weights);
  const float mean = fit_above(values, -1.0f).d, d = round_f16(broadcast(mean))[0];
  block->d = f32_to_f16(d <= 2.0f * mean ? d : 0.0f);  // larger: a subnormal, rounded up; zeros are nearer
  store_signs(x, *block);
}

void encode_block_by_rule(const float* x, const float* /*importance*/, int /*n_blocks*/, BlockQ1_0* block) {
  float sum = 0.0f;
  for (int i = 0; i < kElements; ++i) sum += __builtin_fabsf(x[i]);
  block->d = compat_f16(sum / static_cast<float>(kElements));
  store_signs(x, *block);
}

void decode_block(const BlockQ1_0& block, float* out) {
  const float d = f16_to_f32(block.d);
  for (int i = 0; i < kElements; ++i) out[i] = (block.qs[i / 8] >> i % 8) & 1 ? d : -d;
}

}  // namespace

constexpr Format kQ1_0 = {decode_blocks<BlockQ1_0, decode_block>, encode_groups<BlockQ1_0, encode_block, 1>,
                          encode_groups<BlockQ1_0, encode_block_by_rule, 1>, scale_fault<&BlockQ1_0::d>};

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
