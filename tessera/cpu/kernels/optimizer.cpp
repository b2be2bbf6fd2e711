// Kernels of the optimizers' steps. Each element has one chain of float operations.
#include "tessera/cpu/kernels/optimizer.h"

#include "tessera/cpu/kernels/simd.h"
#include "tessera/cpu/kernels/table.h"
#include "tessera/cpu/kernels/vector_loops.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace {

void momentum(float* m, const float* g, float beta, float scale, int64_t n) {
  const F32x16 b = F32x16::broadcast(beta), s = F32x16::broadcast(scale);
  for_vectors(n, [=](int64_t i, int count) {
    store_up_to(add(mul(b, load_up_to(m + i, count)), mul(s, load_up_to(g + i, count))), m + i, count);
  });
}

void adam(float* m, float* v, const float* g, const AdamNumbers& numbers, int64_t n, float* out) {
  const F32x16 scale = F32x16::broadcast(numbers.gradient_scale), epsilon = F32x16::broadcast(numbers.epsilon);
  const F32x16 beta1 = F32x16::broadcast(numbers.beta1), rest1 = F32x16::broadcast(1.0f - numbers.beta1);
  const F32x16 beta2 = F32x16::broadcast(numbers.beta2), rest2 = F32x16::broadcast(1.0f - numbers.beta2);
  const F32x16 correction1 = F32x16::broadcast(1.0f / numbers.correction1);
  const F32x16 correction2 = F32x16::broadcast(1.0f / numbers.correction2);
  for_vectors(n, [=](int64_t i, int count) {
    const F32x16 d = mul(scale, load_up_to(g + i, count));
    const F32x16 first = add(mul(beta1, load_up_to(m + i, count)), mul(rest1, d));
    const F32x16 second = add(mul(beta2, load_up_to(v + i, count)), mul(rest2, mul(d, d)));
    store_up_to(first, m + i, count);
    store_up_to(second, v + i, count);
    const F32x16 size = add(sqrt(mul(second, correction2)), epsilon);
    store_up_to(div(mul(first, correction1), size), out + i, count);
  });
}

void descend(float* w, const float* direction, float rate, float decay, int64_t n) {
  const F32x16 step = F32x16::broadcast(-rate), keep = F32x16::broadcast(decay);
  for_vectors(n, [=](int64_t i, int count) {
    const F32x16 old = load_up_to(w + i, count);
    store_up_to(fma(step, fma(keep, old, load_up_to(direction + i, count)), old), w + i, count);
  });
}

}  // namespace

const OptimizerKernels kOptimizerKernels = {.momentum = momentum, .adam = adam, .descend = descend};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
