// A graph is a list of nodes in execution order. A node is an operation on earlier nodes. Backends read the graph,
// passes rewrite it, and the scheduler plans its memory.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "tessera/base/index.h"
#include "tessera/graph/ops/attention.h"
#include "tessera/graph/ops/elementwise.h"
#include "tessera/graph/ops/experts.h"
#include "tessera/graph/ops/kv.h"
#include "tessera/graph/ops/loss.h"
#include "tessera/graph/ops/matmul.h"
#include "tessera/graph/ops/norm.h"
#include "tessera/graph/ops/optimizer.h"
#include "tessera/graph/ops/recurrent.h"
#include "tessera/graph/ops/rope.h"
#include "tessera/graph/ops/rows.h"
#include "tessera/graph/ops/self_attention.h"
#include "tessera/graph/ops/shape.h"
#include "tessera/graph/ops/streams.h"
#include "tessera/graph/params.h"
#include "tessera/graph/value.h"

namespace tessera {

enum class Op : uint8_t {
#define TESSERA_OP(name, family, parameters, devices) name,
#include "tessera/graph/ops.def"
};

namespace detail {

template <class... Ts>
struct TypeList {};

template <class List, class... Ts>
struct Unique;
template <class... Us>
struct Unique<TypeList<Us...>> {
  using Variant = std::variant<Us...>;
};
template <class... Us, class T, class... Ts>
struct Unique<TypeList<Us...>, T, Ts...>
    : std::conditional_t<(std::is_same_v<T, Us> || ...), Unique<TypeList<Us...>, Ts...>,
                         Unique<TypeList<Us..., T>, Ts...>> {};

}  // namespace detail

/// The parameters of some operation. The variant contains each parameter type of ops.def once.
using OpParams = detail::Unique<detail::TypeList<NoParams>
#define TESSERA_OP(name, family, parameters, devices) , parameters
#include "tessera/graph/ops.def"
                                >::Variant;

inline constexpr size_t kMaxSources = 10;

struct Node {
  Op op = Op::input;
  TensorSpec spec;
  std::array<NodeId, kMaxSources> sources{};  // the first n_sources are used; kNoNode for an absent optional operand
  uint8_t n_sources = 0;
  bool is_output = false;
  NodeId alias_of = kNoNode;       // node whose memory contains this node's bytes (views, in-place stores)
  size_t alias_offset = 0;         // in bytes, from the first byte of alias_of
  const Tensor* tensor = nullptr;  // Op::tensor: the tensor with the bytes
  OpParams params{};
  std::string name{};

  std::span<const NodeId> inputs() const { return {sources.data(), n_sources}; }
  bool is_leaf() const { return op == Op::input || op == Op::tensor; }
  /// True if the node computes something, that is, if it is neither a leaf nor a view.
  bool is_work() const { return !is_leaf() && op != Op::view; }
};

class Graph {
 public:
  std::span<const Node> nodes() const { return nodes_; }
  const Node& operator[](NodeId id) const { return nodes_[to_size(id)]; }
  NodeId size() const { return static_cast<NodeId>(nodes_.size()); }

  /// The node that owns the memory of this node: the node itself unless it is an alias (of an alias ...).
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
