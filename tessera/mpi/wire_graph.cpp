#include "tessera/mpi/wire_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "tessera/base/checked.h"
#include "tessera/graph/builder.h"
#include "tessera/graph/op_info.h"
#include "tessera/mpi/op_params.h"

namespace tessera::mpi {

namespace {

constexpr Op kAllOps[] = {
#define TESSERA_OP(name, family, parameters, devices) Op::name,
#include "tessera/graph/ops.def"
};

Result<Op> op_of_name(std::string_view name) {
  const auto found = std::ranges::find(kAllOps, name, [](Op op) { return info(op).name; });
  // Only a scheduler's graph has copies: a backend gets them as inputs.
  if (found == std::end(kAllOps) || *found == Op::copy)
    return fail(ErrorCode::unsupported, "no operation named {}", name);
  return *found;
}

class NameTable {
 public:
  explicit NameTable(std::vector<std::string>& names) : names_(names) {}

  uint32_t number(std::string_view name) {
    const auto [found, is_new] = numbers_.try_emplace(std::string(name), static_cast<uint32_t>(names_.size()));
    if (is_new) names_.emplace_back(name);
    return found->second;
  }

 private:
  std::vector<std::string>& names_;
  std::unordered_map<std::string, uint32_t> numbers_;
};

// Builds the nodes of a message one after another.
class GraphReader {
 public:
  GraphReader(const WireGraph& wire, std::span<const BufferType* const> types, std::deque<Tensor>& tensors)
      : wire_(wire), types_(types), tensors_(tensors) {}

  Result<Graph> read() && {
    for (size_t i = 0; i < wire_.nodes.size(); ++i)
      if (auto added = add(wire_.nodes[i]); !added) return forward_error(added, fmt::format("node {}", i));
    return std::move(builder_).finish();
  }

 private:
  Result<std::string_view> name(uint32_t number) const {
    if (number >= wire_.names.size())
      return fail(ErrorCode::format, "name {}, want one of {}", number, wire_.names.size());
    return wire_.names[number];
  }

  // The node without what depends on its operation.
  Result<Node> common(const WireNode& wire) const {
    TESSERA_ASSIGN(const std::string_view op, name(wire.op));
    TESSERA_ASSIGN(const std::string_view own_name, name(wire.name));
    Node node;
    TESSERA_ASSIGN(node.op, op_of_name(op));
    TESSERA_ASSIGN(node.spec, from_wire(wire.spec));
    node.name = own_name;
    node.is_output = wire.is_output;
    if (wire.sources.size() > kMaxSources)
      return fail(ErrorCode::format, "{} operands, limit {}", wire.sources.size(), kMaxSources);
    for (const int32_t source : wire.sources) {
      if (source < kNoNode || source >= builder_.graph().size())
        return fail(ErrorCode::format, "operand {} is not an earlier node", source);
      node.sources[node.n_sources++] = source;
    }
    const bool is_tensor = node.op == Op::tensor;
    if (node.is_leaf() && (node.n_sources != 0 || !wire.params.empty()))
      return fail(ErrorCode::format, "a leaf with operands or parameters");
    if (is_tensor ? wire.buffer_type >= types_.size() : wire.buffer_type != kNoBufferType)
      return fail(ErrorCode::format, "memory {}, want one of {} for a tensor", wire.buffer_type, types_.size());
    const bool may_alias = !node.is_leaf() && node.n_sources > 0 && node.sources[0] != kNoNode;
    if (wire.alias_of != kNoNode && (!may_alias || wire.alias_of != node.sources[0]))
      return fail(ErrorCode::format, "it shares the memory of node {}, which is not its first operand", wire.alias_of);
    return node;
  }

  Result<> add(const WireNode& wire) {
    TESSERA_ASSIGN(Node node, common(wire));
    if (node.op == Op::view) return add_view(wire, node);
    if (node.op == Op::tensor) {
      tensors_.push_back({node.spec, node.name, types_[wire.buffer_type]});
      node.tensor = &tensors_.back();
    } else if (!node.is_leaf()) {
      TESSERA_TRY(check_work(wire, node));
    }
    builder_.append(std::move(node));
    return {};
  }

  Result<> add_view(const WireNode& wire, const Node& node) {
    if (node.n_sources != 1 || wire.alias_of == kNoNode || !wire.params.empty())
      return fail(ErrorCode::format, "a view wants one operand, whose memory it shares, and no parameters");
    const Value of = builder_.at(wire.alias_of);
    if (builder_.spec(of).dtype != node.spec.dtype) return fail(ErrorCode::format, "a view of another type");
    const Value view = builder_.view(of, node.spec.layout, wire.alias_offset);
    if (!view.present()) return std::unexpected(std::move(builder_).finish().error());
    node.is_output ? builder_.output(view, node.name) : builder_.name(view, node.name);
    return {};
  }

  Result<> check_work(const WireNode& wire, Node& node) const {
    std::vector<NamedParam> params;
    for (const WireParam& param : wire.params) {
      TESSERA_ASSIGN(const std::string_view name, this->name(param.name));
      params.push_back({name, param.integer, param.number});
    }
    TESSERA_ASSIGN(node.params, read_params(node.op, node.spec.dtype, params));
    std::array<const TensorSpec*, kMaxSources> operands{};
    for (size_t i = 0; i < node.n_sources; ++i)
      if (node.sources[i] != kNoNode) operands[i] = &builder_.graph()[node.sources[i]].spec;
    auto result = infer(node.op, {operands.data(), node.n_sources}, node.params);
    if (!result) return forward_error(result, describe(builder_.graph(), node.op, node.inputs()));
    if (result->dtype != node.spec.dtype || result->layout != node.spec.layout)
      return fail(ErrorCode::mismatch, "{}: {} {} here, {} {} at the sender", info(node.op).name,
                  info(result->dtype).name, to_string(result->shape()), info(node.spec.dtype).name,
                  to_string(node.spec.shape()));
    if (wire.alias_of != kNoNode && (!writes_operand(node, 0) || wire.alias_offset != 0))
      return fail(ErrorCode::format, "{} does not change its first operand", info(node.op).name);
    node.alias_of = wire.alias_of;
    return {};
  }

  const WireGraph& wire_;
  std::span<const BufferType* const> types_;
  std::deque<Tensor>& tensors_;
  GraphBuilder builder_;
};

}  // namespace

WireSpec to_wire(const TensorSpec& spec) {
  return {.dtype = static_cast<uint32_t>(spec.dtype), .ne = spec.layout.shape.ne, .nb = spec.layout.nb};
}

Result<TensorSpec> from_wire(const WireSpec& wire) {
  TESSERA_ASSIGN(const DType dtype, dtype_from_gguf_id(wire.dtype));
  TensorSpec spec{dtype, {}};
  spec.layout.shape.ne = wire.ne;
  spec.layout.nb = wire.nb;
  TESSERA_TRY(nbytes(dtype, spec.shape()));
  TESSERA_ASSIGN(const size_t row, row_bytes(dtype, wire.ne[0]));
  // No sum of strides overflows, so that span_bytes() of the layout is right.
  auto reach = checked_cast<int64_t>(row);
  for (size_t i = 0; i < wire.ne.size() && reach; ++i) {
    if (wire.nb[i] < 0) return fail(ErrorCode::format, "stride {} of dimension {}", wire.nb[i], i);
    const auto step = checked_mul(wire.nb[i], std::max<int64_t>(wire.ne[i], 1));
    reach = step ? checked_add(*reach, *step) : std::nullopt;
  }
  if (!reach) return fail(ErrorCode::format, "strides of {} reach too far", to_string(spec.shape()));
  return spec;
}

WireGraph to_wire(const Graph& graph, const std::function<uint32_t(const Tensor&)>& type_number) {
  WireGraph wire;
  NameTable names(wire.names);
  for (const Node& node : graph.nodes()) {
    WireNode& out = wire.nodes.emplace_back();
    out.op = names.number(info(node.op).name);
    out.name = names.number(node.name);
    out.spec = to_wire(node.spec);
    out.is_output = node.is_output;
    out.sources.assign(node.inputs().begin(), node.inputs().end());
    out.alias_of = node.alias_of;
    out.alias_offset = node.alias_offset;
    if (node.op == Op::tensor) out.buffer_type = type_number(*node.tensor);
    const ParamList params = list_params(node.params);
    for (const Param& param : params.all())
      out.params.push_back({names.number(param.name), param.integer, param.number});
  }
  return wire;
}

Result<Graph> from_wire(const WireGraph& wire, std::span<const BufferType* const> types, std::deque<Tensor>& tensors) {
  return GraphReader(wire, types, tensors).read();
}

}  // namespace tessera::mpi
