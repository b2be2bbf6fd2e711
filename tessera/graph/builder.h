// Builds a graph node by node. Errors stick: a bad operand records the operation, its name and the shapes; from then
// on every call returns a poisoned Value, and finish() returns the first error. So a model is written as plain
// formulas.
//
// Shapes are innermost first: x [n_embd, n_tokens]. Values are f32 unless said otherwise.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/graph/adapters.h"
#include "tessera/graph/node.h"

namespace tessera {

class GraphBuilder : public ShapeOps,
                     public RowOps,
                     public ElementwiseOps,
                     public NormOps,
                     public MatmulOps,
                     public RopeOps,
                     public KvOps,
                     public AttentionOps,
                     public SelfAttentionOps,
                     public RecurrentOps,
                     public ExpertOps,
                     public LossOps,
                     public OptimizerOps {
 public:
  // --- leaves; the operations are inherited, a family a base

  /// A contiguous value that the caller fills before each run.
  Value input(std::string_view name, DType dtype, const Shape& shape);
  /// A tensor with memory of its own (weight, cache). `tensor` must outlive the graph; its buffer may come later.
  Value tensor(const Tensor& tensor);

  // --- names, results

  /// Names a value for dumps and error messages; returns it.
  Value name(Value x, std::string_view name);
  /// Keeps x's bytes until the run is over, so that the caller can read them.
  Value output(Value x, std::string_view name);
  /// From now on each mul_mat with a tensor leaf (weights named W) also gives an output "W.in_sum2": sum_squares of its
  /// x, what an importance matrix is collected from.
  void observe_products() { observes_products_ = true; }
  /// From now on products with, and rows of, the tensor leaves that these adapters know get their terms, in this order.
  void adapt(std::vector<ActiveAdapter> adapters) { adapters_ = std::move(adapters); }
  /// x [n_embd, t], the output of a layer, with the vectors that adapters add to it.
  Value adapt_layer(Value x, int64_t layer);

  // --- for passes that extend the graph

  /// The graph so far. References into it are good until the next node.
  const Graph& graph() const { return graph_; }
  Value at(NodeId id) const { return Value(id); }
  /// The operation of a node once more, on other operands of the same types and shapes.
  Value add_copy(NodeId id, std::span<const Value> sources);
  /// A node of a finished graph, unchanged; its operands are nodes of this graph.
  NodeId append(Node node);
  /// Type and layout of a value; an empty spec for an absent or poisoned one.
  TensorSpec spec(Value x) const;

  /// From now on calls add nothing and return absent values: the rest of the model is not wanted.
  void stop() { is_stopped_ = true; }
  /// Records an error of the model itself ("block_count is 0").
  void fail_with(Error error);
  /// The graph, or the first error.
  Result<Graph> finish() &&;

  // --- for the families of operations in ops/

  /// A node, if its shape rule accepts the operands; else a poisoned value.
  Value add_node(Op op, std::initializer_list<Value> sources, const OpParams& params);
  /// The same for an operation whose result is its first operand, changed in place.
  Value add_in_place(Op op, std::initializer_list<Value> sources, const OpParams& params);
  /// A view of a value. The caller has checked its bounds.
  Value add_alias(Value of, const TensorSpec& spec, size_t offset);
  /// True after an error or stop().
  bool adds_nothing() const { return error_.has_value() || is_stopped_; }
  /// Adds the output that observe_products() asks for, if weights are a tensor leaf.
  void observe_product(Value weights, Value x);
  std::span<const ActiveAdapter> adapters() const { return adapters_; }
  /// The term that an adapter adds to a product with these weights, or to rows of this table; null: none.
  const LowRank* find_term(const std::unordered_map<const Tensor*, LowRank>& terms, Value weights) const;
  /// An adapter's scales for n rows: one for each token, or one for each token whose output is wanted.
  Value scales_of(const ActiveAdapter& adapter, int64_t n);

 private:
  Graph graph_;
  std::optional<Error> error_;
  std::vector<ActiveAdapter> adapters_;
  bool observes_products_ = false;
  bool is_stopped_ = false;
};

/// The builder that a family of operations is a part of.
template <class Family>
GraphBuilder& builder_of(Family& family) {
  return static_cast<GraphBuilder&>(family);
}

/// GraphBuilder::add_node and add_in_place for a family.
template <class Family>
Value add_op(Family& family, Op op, std::initializer_list<Value> sources, const OpParams& params = {}) {
  return builder_of(family).add_node(op, sources, params);
}
template <class Family>
Value add_op_in_place(Family& family, Op op, std::initializer_list<Value> sources, const OpParams& params = {}) {
  return builder_of(family).add_in_place(op, sources, params);
}

}  // namespace tessera
