// Scores of cached keys for choose_keys: dot products with one token per lane, as in attention. Every dot product is
// one fma chain over elements, and every sum of heads is one fma chain over rows, both ascending. So the bits of a
// score do not depend on the rows and tokens that are computed with it.
#include "tessera/cpu/kernels/attention_tiles.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace {

/// Adds the scores s [n][64] of rows `first` on to the sums that they belong to.
void add_weighted(const KeyScoresTask& task, int first, int n, const float* s) {
  const F32x16 zero = F32x16::zero();
  for (int r = 0; r < n; ++r) {
    const int row = first + r;
    const bool begins_sum = row % task.n_summed == 0;
    const F32x16 weight = F32x16::broadcast(task.weights[row]);
    float* const out = task.out + row / task.n_summed * task.out_stride;
    for (int t = 0; t < kTilesPerBlock; ++t) {
      if (tile_mask(task.tokens, t) == 0) continue;
      const F32x16 earlier = begins_sum ? zero : F32x16::load(out + t * kTileTokens);
      const F32x16 score = max(F32x16::load(s + r * kBlockTokens + t * kTileTokens), zero);
      fma(weight, score, earlier).store(out + t * kTileTokens);
    }
  }
}

void copy_scores(const KeyScoresTask& task, int first, int n, const float* s) {
  for (int r = 0; r < n; ++r)
    for (int t = 0; t < kTilesPerBlock; ++t)
      if (tile_mask(task.tokens, t) != 0)
        F32x16::load(s + r * kBlockTokens + t * kTileTokens)
            .store(task.out + (first + r) * task.out_stride + t * kTileTokens);
}

}  // namespace

void key_scores(const KeyScoresTask& task, int k_dtype, void* scratch) {
  const KeyKernels* kernels = kKeyKernels.of_dtype[k_dtype];
  const char* block = static_cast<const char*>(task.block);
  const int n_groups = (task.n_rows + kMaxTileRows - 1) / kMaxTileRows;
  // As in attention: for up to two groups it is faster to convert the stored block in registers.
  if (n_groups > 2 && k_dtype != static_cast<int>(DType::f32)) {
    kernels->convert(block, 0, task.tokens, task.dim, static_cast<float*>(scratch));
    block = static_cast<const char*>(scratch);
    kernels = &kKeys<RowF32>;
  }
  for (int g = 0; g < n_groups; ++g) {
    const int first = task.n_rows * g / n_groups, n = task.n_rows * (g + 1) / n_groups - first;
    alignas(64) float s[kMaxTileRows * kBlockTokens];
    kernels->scores[n - 1](task.q + first, block, 0, task.tokens, task.dim, s);
    if (task.weights != nullptr)
      add_weighted(task, first, n, s);
    else
      copy_scores(task, first, n, s);
  }
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
