// The device's kernel of each operation.
#include <algorithm>

#include "tessera/vulkan/step.h"

namespace tessera::vulkan {

namespace {

constexpr const OpKernel* kKernels[] = {
#define TESSERA_KERNEL_none(name) nullptr,
#define TESSERA_KERNEL_cpu(name) nullptr,
#define TESSERA_KERNEL_all(name) &op_kernels::name,
#define TESSERA_OP(name, family, parameters, devices) TESSERA_KERNEL_##devices(name)
#include "tessera/graph/ops.def"
#undef TESSERA_KERNEL_none
#undef TESSERA_KERNEL_cpu
#undef TESSERA_KERNEL_all
};

}  // namespace

const OpKernel* kernel_of(Op op) { return kKernels[static_cast<size_t>(op)]; }

bool has_decoder(DType dtype) {
  constexpr DType kWithout[] = {DType::q8_1, DType::q8_k, DType::i8, DType::i16, DType::i32, DType::i64, DType::f64};
  return std::ranges::find(kWithout, dtype) == std::end(kWithout);
}

bool is_kv_format(DType dtype) {
  constexpr DType kAll[] = {DType::f32,  DType::f16,  DType::bf16, DType::q8_0,  DType::q4_0,
                            DType::q4_1, DType::q5_0, DType::q5_1, DType::iq4_nl};
  return std::ranges::find(kAll, dtype) != std::end(kAll);
}

}  // namespace tessera::vulkan
