// The table of kernels by operation.
#include <algorithm>
#include <limits>

#include "tessera/base/index.h"
#include "tessera/gpu/step.h"

namespace tessera::gpu {

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

bool fits_words(const TensorSpec& spec) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  for (int i = 0; i < kMaxRank; ++i)
    if (spec.shape()[i] > kMost || spec.layout.nb[to_size(i)] > 2 * kMost) {
      const bool steps = spec.shape()[i] > 1;  // the stride of an extent of 1 is unused
      if (spec.shape()[i] > kMost || steps) return false;
    }
  return spec.shape().n_rows() <= kMost;
}

// Whether the extents and strides of a node and its operands fit the integers of the kernels.
bool fits_words(const Graph& graph, NodeId id) {
  const auto fits_here = [&](NodeId source) { return source == kNoNode || fits_words(graph[source].spec); };
  return fits_words(graph[id].spec) && std::ranges::all_of(graph[id].inputs(), fits_here);
}

}  // namespace

bool supports(const Graph& graph, NodeId id, const OwnKernels& own) {
  const Node& node = graph[id];
  if (!node.is_work()) return true;
  const OpKernel* kernel = kernel_of(node.op, own);
  return kernel != nullptr && fits_words(graph, id) && (kernel->supports == nullptr || kernel->supports(graph, node));
}

bool supports_kv(DType dtype, int64_t dim) {
  return dim >= 1 && dim <= kMaxHeadDim && info(dtype).is_kv_format && row_bytes(dtype, dim).has_value();
}

const OpKernel* kernel_of(Op op, const OwnKernels& own) {
  const OpKernel* kernel = kKernels[to_size(op)];
  if (kernel == nullptr) return nullptr;
  switch (kernel->own) {
    case OwnKernel::product:
      return own.product;
    case OwnKernel::attention:
      return own.attention;
    case OwnKernel::none:
      return kernel;
  }
  return nullptr;
}

}  // namespace tessera::gpu
