// Node ids of a graph, and values under construction.
#pragma once

#include <cstdint>
#include <span>

#include "tessera/tensor/tensor.h"

namespace tessera {

using NodeId = int32_t;
inline constexpr NodeId kNoNode = -1;

/// Operands of an operation; null where an optional operand is absent.
using Operands = std::span<const TensorSpec* const>;

/// A node under construction. A default-constructed value is an absent optional operand, or poisoned.
class Value {
 public:
  Value() = default;
  NodeId id() const { return id_; }
  bool present() const { return id_ != kNoNode; }

 private:
  friend class GraphBuilder;
  explicit Value(NodeId id) : id_(id) {}
  NodeId id_ = kNoNode;
};

}  // namespace tessera
