#include "tessera/graph/builder.h"

#include <fmt/format.h>

#include <limits>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/graph/op_info.h"

namespace tessera {

namespace {

constexpr size_t kMaxNodes = 1u << 20;  // far above any model; bounds the graph of a hostile block_count

}  // namespace

Value GraphBuilder::input(std::string_view name, DType dtype, const Shape& shape) {
  if (adds_nothing()) return {};
  auto spec = contiguous(dtype, shape);
  if (!spec) {
    error_ = std::move(spec).error().within(fmt::format("input {}", name));
    return {};
  }
  Node node{.op = Op::input, .spec = *spec};
  node.name = name;
  graph_.nodes_.push_back(std::move(node));
  return Value(graph_.size() - 1);
}

Value GraphBuilder::tensor(const Tensor& tensor) {
  if (adds_nothing()) return {};
  Node node{.op = Op::tensor, .spec = {tensor.dtype, tensor.layout}};
  node.tensor = &tensor;
  node.name = tensor.name;
  graph_.nodes_.push_back(std::move(node));
  return Value(graph_.size() - 1);
}

Value GraphBuilder::add_node(Op op, std::initializer_list<Value> sources, const OpParams& params) {
  if (adds_nothing()) return {};
  Node node{.op = op, .spec = {}};
  node.params = params;
  std::array<const TensorSpec*, kMaxSources> operands{};
  for (const Value source : sources) {
    operands[node.n_sources] = source.present() ? &graph_[source.id_].spec : nullptr;
    node.sources[node.n_sources++] = source.id_;
  }
  const Operands view(operands.data(), node.n_sources);
  auto spec = graph_.nodes_.size() < kMaxNodes
                  ? infer(op, view, params)
                  : Result<TensorSpec>(fail(ErrorCode::limit, "more than {} nodes", kMaxNodes));
  if (!spec) {
    error_ = std::move(spec).error().within(describe(graph_, op, node.inputs()));
    return {};
  }
  node.spec = *spec;
  graph_.nodes_.push_back(std::move(node));
  return Value(graph_.size() - 1);
}

Value GraphBuilder::add_in_place(Op op, std::initializer_list<Value> sources, const OpParams& params) {
  const Value value = add_node(op, sources, params);
  if (value.present()) graph_.nodes_.back().alias_of = sources.begin()->id_;
  return value;
}

Value GraphBuilder::add_copy(NodeId id, std::span<const Value> sources) {
  if (adds_nothing()) return {};
  Node node = graph_[id];
  for (size_t i = 0; i < sources.size(); ++i) node.sources[i] = sources[i].id_;
  if (node.alias_of != kNoNode) node.alias_of = node.sources[0];
  node.is_output = false;
  graph_.nodes_.push_back(std::move(node));
  return Value(graph_.size() - 1);
}

Value GraphBuilder::add_alias(Value of, const TensorSpec& spec, size_t offset) {
  Node node{.op = Op::view, .spec = spec};
  node.sources[node.n_sources++] = of.id_;
  node.alias_of = of.id_;
  node.alias_offset = offset;
  graph_.nodes_.push_back(std::move(node));
  return Value(graph_.size() - 1);
}

NodeId GraphBuilder::append(Node node) {
  graph_.nodes_.push_back(std::move(node));
  return graph_.size() - 1;
}

void GraphBuilder::observe_product(Value weights, Value x) {
  if (!observes_products_ || graph_[weights.id_].op != Op::tensor) return;
  const std::string name = graph_[weights.id_].tensor->name + std::string(kObservedSuffix);
  output(sum_squares(x), name);
}

const LowRank* GraphBuilder::find_term(const std::unordered_map<const Tensor*, LowRank>& terms, Value weights) const {
  if (adds_nothing() || !weights.present() || graph_[weights.id_].op != Op::tensor) return nullptr;
  const auto found = terms.find(graph_[weights.id_].tensor);
  return found == terms.end() ? nullptr : &found->second;
}

// If there are as many outputs as tokens, the outputs are all tokens in order, so both kinds of scales agree.
Value GraphBuilder::scales_of(const ActiveAdapter& adapter, int64_t n) {
  for (const Value scales : {adapter.scales, adapter.wanted_scales})
    if (scales.present() && spec(scales).shape()[1] == n) return scales;
  if (!adds_nothing())
    fail_with(Error(ErrorCode::unsupported, fmt::format("an adapter's term for {} rows that are not tokens", n)));
  return {};
}

Value GraphBuilder::adapt_layer(Value x, int64_t layer) {
  for (const ActiveAdapter& adapter : adapters_) {
    const std::vector<const Tensor*>& layers = adapter.terms->layers;
    const auto i = to_size(layer);
    if (adds_nothing() || !x.present() || i >= layers.size() || layers[i] == nullptr) continue;
    x = add_scaled(x, tensor(*layers[i]), scales_of(adapter, spec(x).shape()[1]));
  }
  return x;
}

Value GraphBuilder::name(Value x, std::string_view name) {
  if (!error_ && x.present()) graph_.nodes_[to_size(x.id_)].name = name;
  return x;
}

Value GraphBuilder::output(Value x, std::string_view name) {
  if (adds_nothing() || !x.present()) return {};
  this->name(x, name);
  graph_.nodes_[to_size(x.id_)].is_output = true;
  return x;
}

TensorSpec GraphBuilder::spec(Value x) const { return x.present() ? graph_[x.id_].spec : TensorSpec{}; }

void GraphBuilder::fail_with(Error error) {
  if (!error_) error_ = std::move(error);
}

Result<Graph> GraphBuilder::finish() && {
  if (error_) return std::unexpected<Error>(std::move(*error_));
  return std::move(graph_);
}

}  // namespace tessera
