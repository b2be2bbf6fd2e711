// Graphs in messages. A node names its operation and its parameters. The receiver builds the graph anew, so that every
// shape rule runs on what has arrived, and compares the results with the types and layouts that the sender has.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "tessera/backend/buffer.h"
#include "tessera/graph/node.h"

namespace tessera::mpi {

struct WireSpec {
  uint32_t dtype = 0;  // GGUF id
  std::array<int64_t, kMaxRank> ne{};
  std::array<int64_t, kMaxRank> nb{};
  static auto members(auto& self) { return std::tie(self.dtype, self.ne, self.nb); }
};

WireSpec to_wire(const TensorSpec& spec);
/// Errors: format (an unknown type; a shape, a stride or a size that cannot be).
Result<TensorSpec> from_wire(const WireSpec& spec);

struct WireParam {
  uint32_t name = 0;  // in WireGraph::names, like all names here
  int64_t integer = 0;
  double number = 0;
  static auto members(auto& self) { return std::tie(self.name, self.integer, self.number); }
};

inline constexpr uint32_t kNoBufferType = UINT32_MAX;

struct WireNode {
  uint32_t op = 0;
  uint32_t name = 0;
  WireSpec spec;
  bool is_output = false;
  std::vector<int32_t> sources;
  int32_t alias_of = kNoNode;
  uint64_t alias_offset = 0;
  uint32_t buffer_type = kNoBufferType;  // of a tensor, in the list of the worker's device
  std::vector<WireParam> params;
  static auto members(auto& self) {
    return std::tie(self.op, self.name, self.spec, self.is_output, self.sources, self.alias_of, self.alias_offset,
                    self.buffer_type, self.params);
  }
};

struct WireGraph {
  std::vector<std::string> names;  // each once
  std::vector<WireNode> nodes;
  static auto members(auto& self) { return std::tie(self.names, self.nodes); }
};

/// type_number: the number of a tensor's buffer type, or kNoBufferType.
WireGraph to_wire(const Graph& graph, const std::function<uint32_t(const Tensor&)>& type_number);

/// Builds the graph. Its tensors are added to `tensors`, with buffer types, and must outlive it. Errors: unsupported
/// (an operation or a parameter that is not known here); format and invalid_argument (anything else that is wrong).
Result<Graph> from_wire(const WireGraph& wire, std::span<const BufferType* const> types, std::deque<Tensor>& tensors);

}  // namespace tessera::mpi
