#include "tessera/quant/formats/q6_k.h"

#include "tessera/quant/formats/faults.h"
#include "tessera/quant/formats/half.h"
#include "tessera/quant/formats/k_compat.h"
#include "tessera/quant/formats/k_search.h"
#include "tessera/quant/formats/table.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

constexpr int kSubElements = 16;
constexpr float kLow = -32.0f, kScaleLow = -128.0f;

using SubBlocks = Lanes<kSubElements>;

// Measured on Gaussian values: 0.90 of the error of ggml's search, 150 M weights/s on a core of Zen 5; 28 offsets: 0.2
// % less error; offsets from -2 on: 3 % more.
constexpr Offsets kOffsets = {-8.0f, 0.5f, 19};
constexpr RefineSteps kSteps = {3, 1};

void search(SubBlocks& lanes, Coded<kSubElements>& coded) {
  refine_symmetric(lanes, fit_symmetric(lanes, kLow, kOffsets), kLow, kScaleLow, kSteps, coded);
}

void compat_without_importance(SubBlocks& lanes, Coded<kSubElements>& coded) {
  for (int i = 0; i < kSubElements; ++i) lanes.w[i] = lanes.x[i] * lanes.x[i];
  compat_code_by_largest(lanes, compat_symmetric(lanes, -kLow), kLow, kScaleLow, coded);
}

void compat_with_importance(SubBlocks& lanes, Coded<kSubElements>& coded) {
  compat_code_by_largest(lanes, compat_symmetric(lanes, -kLow), kLow, kScaleLow, coded);
}

BlockQ6_K pack(const SuperCodes& codes) {
  BlockQ6_K block;
  memset(&block, 0, sizeof block);
  block.d = codes.d;
  if (codes.d == 0) return block;
  for (int b = 0; b < 16; ++b) block.scales[b] = static_cast<int8_t>(codes.ls[b]);
  for (int g = 0; g < 8; ++g) {
    uint8_t *ql = block.ql + 64 * (g / 4) + 32 * (g % 2), *qh = block.qh + 32 * (g / 4);
    for (int l = 0; l < 32; ++l) {
      const int q = (codes.codes[32 * g + l] + 32) & 63;
      ql[l] = static_cast<uint8_t>(ql[l] | (q & 15) << g / 2 % 2 * 4);
      qh[l] = static_cast<uint8_t>(qh[l] | q >> 4 << 2 * (g % 4));
    }
  }
  return block;
}

void encode_row(const float* x, const float* weights, int64_t n, void* to) {
  encode_supers(x, weights, n, to, search, pack);
}

void encode_row_compat(const float* x, const float* importance, int64_t n, void* to) {
  encode_supers(x, importance, n, to, importance == nullptr ? compat_without_importance : compat_with_importance, pack);
}

void decode_row(const void* from, int64_t n, float* out) {
  const auto* row = static_cast<const uint8_t*>(from);
  for (int64_t b = 0; b < n / kSuperElements; ++b, row += sizeof(BlockQ6_K), out += kSuperElements) {
    BlockQ6_K block;
    memcpy(&block, row, sizeof block);
    const float d = f16_to_f32(block.d);
    for (int b = 0; b < 16; ++b) {
      const float a = d * static_cast<float>(block.scales[b]);
      const int half = b / 8, g = b / 2 % 4, at = 16 * (b % 2);
      const uint8_t *ql = block.ql + 64 * half + 32 * (g % 2) + at, *qh = block.qh + 32 * half + at;
      const int low_shift = g / 2 * 4, high_shift = 2 * g;
      for (int l = 0; l < 16; ++l) {
        const int code = ((ql[l] >> low_shift) & 15) | ((qh[l] >> high_shift) & 3) << 4;
        out[16 * b + l] = a * static_cast<float>(code - 32);
      }
    }
  }
}

}  // namespace

constexpr Format kQ6_K = {decode_row, encode_row, encode_row_compat, scale_fault<&BlockQ6_K::d>};

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
