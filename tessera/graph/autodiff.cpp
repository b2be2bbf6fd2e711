#include "tessera/graph/autodiff.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "tessera/base/index.h"
#include "tessera/graph/gradient.h"
#include "tessera/graph/op_def.h"

namespace tessera {

class BackwardPass {
 public:
  BackwardPass(GraphBuilder& b, NodeId last, std::span<const Tensor* const> parameters, const GradientSink& sink,
               const GradientOptions& options)
      : b_(b), sink_(sink), gradients_(to_size(last) + 1) {
    for (const Value checkpoint : options.checkpoints)
      if (checkpoint.present() && checkpoint.id() < last) checkpoints_.push_back(checkpoint.id());
    mark_dependent(last, {parameters.begin(), parameters.end()});
  }

  void run(NodeId last, Value dy) {
    gradients_[to_size(last)] = dy;
    for (NodeId id = last; id >= 0; --id) {
      if (std::ranges::binary_search(checkpoints_, id)) copies_.clear();
      const Value gradient = std::exchange(gradients_[to_size(id)], Value());
      if (!gradient.present()) continue;
      const Node& node = b_.graph()[id];
      if (node.op == Op::tensor) {
        sink_(*node.tensor, gradient);
        continue;
      }
      Gradient g(b_, *this, id, gradient);
      if (info(node.op).def->gradient == nullptr) return g.fail_with(ErrorCode::unsupported, "there is none");
      info(node.op).def->gradient(g);
    }
  }

  bool is_dependent(NodeId id) const { return id != kNoNode && is_dependent_[to_size(id)]; }

  void add(NodeId id, Value d) {
    Value& sum = gradients_[to_size(id)];
    sum = sum.present() ? b_.add(sum, d) : d;
  }

  /// The value of a node of the forward pass: the node itself if it stays, else a copy that is computed now.
  Value value(NodeId id) {
    if (id == kNoNode) return {};
    std::vector<NodeId> open{id};  // not recursive: a chain may be as long as the graph
    while (!open.empty()) {
      const NodeId top = open.back();
      const size_t before = open.size();
      if (!is_known(top))
        for (const NodeId source : b_.graph()[top].inputs())
          if (source != kNoNode && !is_known(source)) open.push_back(source);
      if (open.size() > before) continue;
      if (!is_known(top)) copy(top);
      open.pop_back();
    }
    return known(id);
  }

 private:
  void mark_dependent(NodeId last, const std::unordered_set<const Tensor*>& parameters) {
    for (NodeId id = 0; id <= last; ++id) {
      const Node& node = b_.graph()[id];
      const bool is_parameter = node.op == Op::tensor && parameters.contains(node.tensor);
      const bool follows = !node.is_leaf() && info(node.op).def->gradient != gradient_of_constant &&
                           std::ranges::any_of(node.inputs(), [&](NodeId source) { return is_dependent(source); });
      is_dependent_.push_back(is_parameter || follows);
    }
  }

  // True for leaves, checkpoints, nodes after the last checkpoint, and nodes that depend on no parameter (tables of
  // positions, which all layers read).
  bool stays(NodeId id) const {
    return checkpoints_.empty() || id > checkpoints_.back() || b_.graph()[id].is_leaf() || !is_dependent(id) ||
           std::ranges::binary_search(checkpoints_, id);
  }
  bool is_known(NodeId id) const { return stays(id) || copies_.contains(id); }
  Value known(NodeId id) const { return stays(id) ? b_.at(id) : copies_.at(id); }

  void copy(NodeId id) {
    std::array<Value, kMaxSources> sources;
    const Node& node = b_.graph()[id];
    for (size_t i = 0; i < node.n_sources; ++i)
      if (node.sources[i] != kNoNode) sources[i] = known(node.sources[i]);
    copies_[id] = b_.add_copy(id, {sources.data(), node.n_sources});
  }

  GraphBuilder& b_;
  const GradientSink& sink_;
  std::vector<NodeId> checkpoints_;  // ascending
  std::vector<Value> gradients_;     // by node, until the node has been processed
  std::vector<bool> is_dependent_;   // by node: true if it depends on a parameter
  std::unordered_map<NodeId, Value> copies_;
};

Gradient::Gradient(GraphBuilder& builder, BackwardPass& pass, NodeId id, Value dy)
    : b(builder), pass_(pass), id_(id), node_(builder.graph()[id]), dy_(dy) {}

Value Gradient::in(size_t i) { return pass_.value(node_.sources[i]); }
Value Gradient::out() { return pass_.value(id_); }
TensorSpec Gradient::spec(size_t i) const { return b.graph()[node_.sources[i]].spec; }
ExpertRoutes Gradient::routes(size_t i) {
  const Node& made = b.graph()[node_.sources[i]];
  const int64_t n_experts = std::get<ExpertRoutesParams>(made.params).n_experts;
  const int64_t n_tokens = b.graph()[made.sources[0]].spec.shape()[1];
  return {in(i), n_experts, n_tokens};
}

bool Gradient::wants(size_t i) const { return i < node_.n_sources && pass_.is_dependent(node_.sources[i]); }

void Gradient::give(size_t i, Value d) {
  if (!wants(i) || !d.present()) return;
  const TensorSpec got = b.spec(d);
  if (got.dtype != DType::f32 || got.shape() != spec(i).shape() || !is_contiguous(got.dtype, got.layout))
    return fail_with(ErrorCode::internal, fmt::format("operand {} is {}, its gradient {}", i,
                                                      to_string(spec(i).shape()), to_string(got.shape())));
  pass_.add(node_.sources[i], d);
}

void Gradient::fail_with(ErrorCode code, std::string_view why) {
  b.fail_with(Error(code, fmt::format("gradient of {}: {}", describe(b.graph(), id_), why)));
}

void gradient_of_constant(Gradient&) {}

void add_gradients(GraphBuilder& b, Value y, Value dy, std::span<const Tensor* const> parameters,
                   const GradientSink& sink, const GradientOptions& options) {
  if (!y.present() || !dy.present()) return;
  if (b.spec(dy).shape() != b.spec(y).shape() || b.spec(dy).dtype != DType::f32)
    return b.fail_with(
        Error(ErrorCode::invalid_argument,
              fmt::format("the gradient of {} is {}", to_string(b.spec(y).shape()), to_string(b.spec(dy).shape()))));
  BackwardPass(b, y.id(), parameters, sink, options).run(y.id(), dy);
}

}  // namespace tessera
