// A graph is a list of nodes in execution order; a node is an operation on earlier nodes. Backends read it,
// passes rewrite it, the scheduler plans its memory.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "tessera/graph/ops/add_scaled.h"
#include "tessera/graph/ops/attention.h"
#include "tessera/graph/ops/clamp.h"
#include "tessera/graph/ops/experts.h"
#include "tessera/graph/ops/kv.h"
#include "tessera/graph/ops/layer_norm.h"
#include "tessera/graph/ops/optimizer.h"
#include "tessera/graph/ops/recurrent.h"
#include "tessera/graph/ops/reshaping.h"
#include "tessera/graph/ops/rms_norm.h"
#include "tessera/graph/ops/rope.h"
#include "tessera/graph/ops/scale.h"
#include "tessera/graph/ops/soft_cap.h"
#include "tessera/graph/ops/temperature.h"
#include "tessera/tensor/tensor.h"

namespace tessera {

enum class Op : uint8_t {
#define TESSERA_OP(enumerator, name, gradient) enumerator,
#include "tessera/graph/ops.def"
#undef TESSERA_OP
};

using OpParams =
    std::variant<std::monostate, ScaleParams, SoftCapParams, ClampParams, RmsNormParams, LayerNormParams, KvParams,
                 RopeTableParams, RopeParams, AttentionParams, TopKParams, ExpertWeightsParams, TopGroupsParams,
                 TemperatureParams, ExpertRoutesParams, ExpertProductParams, L2NormParams, DeltaNetParams,
                 AddScaledParams, ShapeParams, PlaceParams, ScatterRowsParams, DescendParams>;

/// Type and layout of a value: what a shape rule sees of its operands and gives as its result.
struct TensorSpec {
  DType dtype = DType::f32;
  Layout layout;

  const Shape& shape() const { return layout.shape; }
};

using NodeId = int32_t;
inline constexpr NodeId kNoNode = -1;
inline constexpr size_t kMaxSources = 9;

struct Node {
  Op op = Op::input;
  TensorSpec spec;
  std::array<NodeId, kMaxSources> sources{};  // the first n_sources; kNoNode for an absent optional operand
  uint8_t n_sources = 0;
  bool is_output = false;
  NodeId alias_of = kNoNode;       // this node's bytes are bytes of that node's (views, in-place stores)
  size_t alias_offset = 0;         // bytes from that node's first byte
  const Tensor* tensor = nullptr;  // Op::tensor: where the bytes are
  OpParams params{};
  std::string name{};

  std::span<const NodeId> inputs() const { return {sources.data(), n_sources}; }
  bool is_leaf() const { return op == Op::input || op == Op::tensor; }
  /// Whether something is computed here: neither a leaf nor a view.
  bool is_work() const { return !is_leaf() && op != Op::view; }
};

class Graph {
 public:
  std::span<const Node> nodes() const { return nodes_; }
  const Node& operator[](NodeId id) const { return nodes_[static_cast<size_t>(id)]; }
  NodeId size() const { return static_cast<NodeId>(nodes_.size()); }

  /// The node whose bytes this node's are: itself unless it is an alias (of an alias ...).
  NodeId storage(NodeId id) const {
    while ((*this)[id].alias_of != kNoNode) id = (*this)[id].alias_of;
    return id;
  }
  /// Bytes from the first byte of storage(id) to this node's first byte.
  size_t storage_offset(NodeId id) const {
    size_t offset = 0;
    for (; (*this)[id].alias_of != kNoNode; id = (*this)[id].alias_of) offset += (*this)[id].alias_offset;
    return offset;
  }

 private:
  friend class GraphBuilder;
  std::vector<Node> nodes_;
};

}  // namespace tessera
