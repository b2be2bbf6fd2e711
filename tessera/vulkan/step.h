// A compiled graph is a list of steps. A step is one dispatch of a shader with the addresses, extents and strides of
// its operands. shaders/step.glsl declares the same structs.
#pragma once

#include <array>
#include <span>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/base/index.h"
#include "tessera/graph/node.h"

namespace tessera::vulkan {

enum class Shader : uint8_t {
#define TESSERA_SHADER(name) name,
#include "tessera/vulkan/shaders.def"
#undef TESSERA_SHADER
};

/// Results of a shader's checks of its data. The shaders define the same numbers.
enum class Fault : uint32_t { none, row, cell, sequence, position, block, expert, token, state };

struct OperandParams {
  uint64_t data = 0;  // 0: absent
  std::array<uint32_t, kMaxRank> ne{};
  std::array<uint32_t, kMaxRank> nb{};
};

/// Largest number of operands of a node that has a kernel.
inline constexpr size_t kMaxOperands = 9;

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
static_assert(sizeof(OperandParams) == 40 && sizeof(StepParams) == 488, "as in shaders/step.glsl");

struct Step {
  const Node* node = nullptr;
  Shader shader{};
  uint32_t variant = 1;
  DType format = DType::f32, format2 = DType::f32;
  StepParams params;
  std::vector<uint32_t> extra;  // words that params.extra will point to
};

/// The input of OpKernel::prepare for one node.
struct StepContext {
  const Graph& graph;
  const Node& node;
  std::span<const Tensor> tensors;
  uint32_t n_lanes;
  bool cooperates = false;  // cooperative matrices are enabled and available

  const TensorSpec& spec(size_t source) const { return graph[node.sources[source]].spec; }
  bool has(size_t source) const { return source < node.n_sources && node.sources[source] != kNoNode; }
  const Tensor& tensor(size_t source) const { return tensors[to_size(node.sources[source])]; }
  const Shape& shape() const { return node.spec.shape(); }
};

/// The implementation of one operation on the device, defined in ops/ and listed in ops/table.cpp.
struct OpKernel {
  /// Whether the operation supports these operands; null: always.
  bool (*supports)(const Graph& graph, const Node& node) = nullptr;
  /// Chooses shader, variant, formats, u and n_groups (0: no work). Operands are already set.
  Result<> (*prepare)(const StepContext& context, Step& step);
  /// Bytes of device memory that the first of a node's two dispatches passes to the second; 0 or null: one dispatch.
  size_t (*scratch_bytes)(const Graph& graph, const Node& node) = nullptr;
  /// Prepares the second dispatch, which has the same operands.
  Result<> (*prepare_merge)(const StepContext& context, Step& step) = nullptr;
};

/// Each is defined in ops/<family>.cpp, for the rows of graph/ops.def that name this device.
namespace op_kernels {
#define TESSERA_OP(name, family, parameters, devices) extern const OpKernel name;
#include "tessera/graph/ops.def"
}  // namespace op_kernels

/// Returns the kernel of an operation; null for leaves, views and unsupported operations.
const OpKernel* kernel_of(Op op);

/// Elements of a head that attention.comp has room for.
inline constexpr int64_t kMaxHeadDim = 1024;

}  // namespace tessera::vulkan
