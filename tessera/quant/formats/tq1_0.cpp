// A byte holds five trits as a base-3 number n, the first trit most significant. It stores n / 243 in units of 1 / 256,
// rounded up, so that multiplying by 3 moves the next trit to the top.
#include "tessera/quant/formats/tq1_0.h"

#include "tessera/quant/formats/faults.h"
#include "tessera/quant/formats/table.h"
#include "tessera/quant/formats/ternary.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

/// A run of bytes. Byte m holds the trits first + m, first + m + n_bytes, ...
struct Run {
  int n_bytes, n_trits, first;
};
constexpr Run kRuns[] = {{32, 5, 0}, {16, 5, 160}, {4, 4, 240}};  // the last is qh
static_assert(offsetof(BlockTQ1_0, qh) == 48);

/// Calls f(byte, element of its first trit, run) for all bytes of qs and qh.
template <typename F>
[[gnu::always_inline]] inline void for_each_byte(F f) {
  int byte = 0;
  for (const Run& run : kRuns)
    for (int m = 0; m < run.n_bytes; ++m) f(byte++, run.first + m, run);
}

void pack(const TernaryBlock& values, BlockTQ1_0& block) {
  uint8_t bytes[52];
  for_each_byte([&](int byte, int element, const Run& run) {
    int number = 0;
    for (int n = 0; n < 5; ++n) number = 3 * number + (n < run.n_trits ? values.trits[element + n * run.n_bytes] : 0);
    bytes[byte] = static_cast<uint8_t>((number * 256 + 242) / 243);
  });
  memcpy(block.qs, bytes, 48);
  memcpy(block.qh, bytes + 48, 4);
  block.d = values.d;
}

void encode_block(const float* x, const float* weights, int /*n_blocks*/, BlockTQ1_0* block) {
  pack(search_ternary(x, weights), *block);
}
void encode_block_by_rule(const float* x, const float* /*importance*/, int /*n_blocks*/, BlockTQ1_0* block) {
  pack(compat_ternary(x), *block);
}

void decode_block(const BlockTQ1_0& block, float* out) {
  const float d = f16_to_f32(block.d);
  uint8_t bytes[52];
  memcpy(bytes, block.qs, 48);
  memcpy(bytes + 48, block.qh, 4);
  for_each_byte([&](int byte, int element, const Run& run) {
    int fraction = bytes[byte];
    for (int n = 0; n < run.n_trits; ++n) {
      const int tripled = 3 * fraction;
      out[element + n * run.n_bytes] = d * static_cast<float>((tripled >> 8) - 1);
      fraction = tripled & 255;
    }
  });
}

}  // namespace

constexpr Format kTQ1_0 = {decode_blocks<BlockTQ1_0, decode_block>, encode_groups<BlockTQ1_0, encode_block, 1>,
                           encode_groups<BlockTQ1_0, encode_block_by_rule, 1>, scale_fault<&BlockTQ1_0::d>};

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
