// A graph on a GPU is a list of steps. A step is one dispatch of a shader (of vulkan) or kernel (of cuda) with the
// addresses, extents and strides of its operands. vulkan/shaders/step.glsl and cuda/kernels/device.cuh declare the same
// structs. Most operations are prepared here for both backends; products and attention have preparations of their own
// in each backend.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/base/index.h"
#include "tessera/graph/node.h"

namespace tessera::gpu {

/// The programs of both backends: vulkan/shaders/<name>.comp, and the kernels <name> of cuda/kernels.
enum class Shader : uint8_t {
#define TESSERA_SHADER(name) name,
#define TESSERA_VULKAN_SHADER(name) name,
#define TESSERA_CUDA_KERNEL(name) name,
#include "tessera/gpu/shaders.def"
};

/// Results of a shader's checks of its data. The shaders define the same numbers.
enum class Fault : uint32_t { none, row, cell, sequence, position, block, expert, token, state };

struct OperandParams {
  uint64_t data = 0;  // 0: absent
  std::array<uint32_t, kMaxRank> ne{};
  std::array<uint32_t, kMaxRank> nb{};
};

/// Largest number of operands of a node that has a kernel.
inline constexpr size_t kMaxOperands = 10;

struct StepParams {
  OperandParams y;
  std::array<OperandParams, kMaxOperands> x;
  uint64_t tables = 0;
  uint64_t extra = 0;
  uint64_t fault = 0;
  uint64_t scratch = 0;
  uint32_t id = 0;
  uint32_t n_groups = 0;
  std::array<uint32_t, 12> u{};
};
static_assert(sizeof(OperandParams) == 40 && sizeof(StepParams) == 528, "as in shaders/step.glsl");

struct Step {
  const Node* node = nullptr;
  Shader shader{};
  uint32_t variant = 1;
  DType format = DType::f32, format2 = DType::f32;
  // Only cuda reads these three.
  uint32_t n_threads = 0;     // of a block; 0: the default
  uint32_t shared_bytes = 0;  // dynamic shared memory of a block
  bool is_by_format = false;  // the kernel's name ends with that of the format
  StepParams params;
  std::vector<uint32_t> extra;  // words that params.extra will point to
};

/// Cooperative matrices of a Vulkan device.
struct Matrices {
  uint32_t n_lanes = 0;      // invocations of a subgroup, which share a matrix; 0: no matrices
  bool is_emulated = false;  // the invocations compute without matrix units
};

/// The input of OpKernel::prepare for one node.
struct StepContext {
  const Graph& graph;
  const Node& node;
  std::span<const Tensor> tensors;
  uint32_t n_lanes;          // invocations of a workgroup of the shaders that both backends have
  Matrices matrices = {};    // vulkan
  bool is_precise = false;   // cuda: activations keep the precision of f32
  int64_t shared_bytes = 0;  // most shared memory of a block; vulkan: 0 if a block of 256 invocations is too large
  bool has_wide = false;     // cuda: matrix units that read both operands from shared memory

  const TensorSpec& spec(size_t source) const { return graph[node.sources[source]].spec; }
  bool has(size_t source) const { return source < node.n_sources && node.sources[source] != kNoNode; }
  const Tensor& tensor(size_t source) const { return tensors[to_size(node.sources[source])]; }
  const Shape& shape() const { return node.spec.shape(); }
};

/// Operations that each backend prepares in its own way.
enum class OwnKernel : uint8_t { none, product, attention };

/// The implementation of one operation on the device, defined in ops/ and listed in ops/table.cpp.
struct OpKernel {
  /// If not none, the backend's kernel of this kind takes the place of this one.
  OwnKernel own = OwnKernel::none;
  /// Whether the operation supports these operands; null: always.
  bool (*supports)(const Graph& graph, const Node& node) = nullptr;
  /// Chooses shader, variant, formats, u and n_groups (0: no work). Operands are already set.
  Result<> (*prepare)(const StepContext& context, Step& step) = nullptr;
  /// Bytes of device memory that the first of a node's two dispatches passes to the second; 0 or null: one dispatch.
  size_t (*scratch_bytes)(const StepContext& context) = nullptr;
  /// Prepares the second dispatch, which has the same operands.
  Result<> (*prepare_merge)(const StepContext& context, Step& step) = nullptr;
};

/// Each is defined in ops/<family>.cpp, for the rows of graph/ops.def that name this device.
namespace op_kernels {
#define TESSERA_OP(name, family, parameters, devices) extern const OpKernel name;
#include "tessera/graph/ops.def"
}  // namespace op_kernels

/// A backend's additions to the kernels of this folder.
struct OwnKernels {
  const OpKernel* product;    // mul_mat, mul_mat_heads, mul_mat_experts
  const OpKernel* attention;  // paged_attention
};

/// Returns the kernel of an operation; null for leaves, views and unsupported operations.
const OpKernel* kernel_of(Op op, const OwnKernels& own);

/// Device::supports() and supports_kv() of both backends.
bool supports(const Graph& graph, NodeId id, const OwnKernels& own);
bool supports_kv(DType dtype, int64_t dim);

/// Elements of a head that the kernels of attention have room for.
inline constexpr int64_t kMaxHeadDim = 1024;

}  // namespace tessera::gpu
