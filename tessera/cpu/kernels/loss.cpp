// Kernels of the cross entropy.
#include "tessera/cpu/kernels/loss.h"

#include "tessera/cpu/kernels/simd.h"
#include "tessera/cpu/kernels/table.h"
#include "tessera/cpu/kernels/vector_loops.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace {

// Sums of pieces of the vocabulary are added in double, so that a large vocabulary does not cost precision.
ExpSums exp_sums(const float* x, int64_t n, int64_t target) {
  constexpr int64_t kPiece = 1024;
  ExpSums sums = {max_of(x, n), 0.0, 0.0f};
  const F32x16 offset = F32x16::broadcast(sums.largest);
  for (int64_t begin = 0; begin < n; begin += kPiece) {
    const int64_t end = n - begin < kPiece ? n : begin + kPiece;
    sums.others += static_cast<double>(four_way_sum(end - begin, [&](F32x16 acc, int64_t i, int count) {
      const int64_t at = begin + i;
      F32x16 power = exp(sub(load_up_to(x + at, count), offset));
      if (count < kLanes) power = select_first(count, power, F32x16::zero());
      if (target >= at && target < at + count) {
        float lanes[kLanes];
        power.store(lanes);
        sums.target = lanes[target - at];
        lanes[target - at] = 0.0f;
        power = F32x16::load(lanes);
      }
      return add(acc, power);
    }));
  }
  return sums;
}

void scaled_exp(const float* x, float largest, float factor, int64_t n, float* out) {
  const F32x16 offset = F32x16::broadcast(largest), scale = F32x16::broadcast(factor);
  for_vectors(n, [=](int64_t i, int count) {
    store_up_to(mul(exp(sub(load_up_to(x + i, count), offset)), scale), out + i, count);
  });
}

}  // namespace

const LossKernels kLossKernels = {.exp_sums = exp_sums, .scaled_exp = scaled_exp};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
