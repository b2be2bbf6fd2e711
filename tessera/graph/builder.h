// Builds a graph node by node. Errors stick. A bad operand records an error with the operation, its name and the
// shapes. Every later call returns a poisoned Value, and finish() returns the first error. A model can therefore be
// written as plain formulas.
//
// Shapes are innermost first: x [n_embd, n_tokens]. Values are f32 unless stated otherwise.
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
                     public StreamOps,
                     public RecurrentOps,
                     public ExpertOps,
                     public LossOps,
                     public OptimizerOps {
 public:
  // --- leaves; operations are inherited, one base class per family

  /// A contiguous value that the caller fills before each run.
  Value input(std::string_view name, DType dtype, const Shape& shape);
  /// A tensor with memory of its own (weight, cache). `tensor` must outlive the graph; its buffer may be set later.
  Value tensor(const Tensor& tensor);

  // --- names, results

  /// Names a value for dumps and error messages; returns it.
  Value name(Value x, std::string_view name);
  /// Keeps x's bytes until the end of the run, so that the caller can read them.
  Value output(Value x, std::string_view name);
  /// After this call, each mul_mat with a tensor leaf (weights named W) also produces an output "W.in_sum2":
  /// sum_squares of its x, the input of an importance matrix.
  void observe_products() { observes_products_ = true; }
  /// After this call, products with tensor leaves and rows of them get the terms of these adapters, in this order.
  void adapt(std::vector<ActiveAdapter> adapters) { adapters_ = std::move(adapters); }
  /// Adds the vectors of adapters to x [n_embd, t], the output of a layer.
  Value adapt_layer(Value x, int64_t layer);

  // --- for passes that extend the graph

  /// The graph so far. References into it are valid until a node is added.
  const Graph& graph() const { return graph_; }
  Value at(NodeId id) const { return Value(id); }
  /// Adds the operation of a node again, with other operands of the same types and shapes.
  Value add_copy(NodeId id, std::span<const Value> sources);
  /// Appends a node of a finished graph unchanged. Its operands must be nodes of this graph.
  NodeId append(Node node);
  /// Type and layout of a value. Empty for an absent or poisoned value.
  TensorSpec spec(Value x) const;

  /// After this call, no nodes are added and absent values are returned, because the rest of the model is not needed.
  void stop() { is_stopped_ = true; }
  /// Records an error of the model itself ("block_count is 0").
  void fail_with(Error error);
  /// Returns the graph, or the first error.
  Result<Graph> finish() &&;

  // --- for the families of operations in ops/

  /// Adds a node. Returns a poisoned value if its shape rule refuses the operands.
  Value add_node(Op op, std::initializer_list<Value> sources, const OpParams& params);
  /// The same for an operation that changes its first operand in place and returns it.
  Value add_in_place(Op op, std::initializer_list<Value> sources, const OpParams& params);
  /// Adds a view of a value. The caller has checked its bounds.
  Value add_alias(Value of, const TensorSpec& spec, size_t offset);
  /// True after an error or stop().
  bool adds_nothing() const { return error_.has_value() || is_stopped_; }
  /// Adds the output requested by observe_products(), if weights are a tensor leaf.
  void observe_product(Value weights, Value x);
  std::span<const ActiveAdapter> adapters() const { return adapters_; }
  /// The term of an adapter for a product with these weights or for rows of this table; null if there is none.
  const LowRank* find_term(const std::unordered_map<const Tensor*, LowRank>& terms, Value weights) const;
  /// An adapter's scales for n rows: one per token, or one per output token.
  Value scales_of(const ActiveAdapter& adapter, int64_t n);

 private:
  Graph graph_;
  std::optional<Error> error_;
  std::vector<ActiveAdapter> adapters_;
  bool observes_products_ = false;
  bool is_stopped_ = false;
};

/// The builder of which a family of operations is a part.
template <class Family>
GraphBuilder& builder_of(Family& family) {
  return static_cast<GraphBuilder&>(family);
}

/// GraphBuilder::add_node and add_in_place, callable from a family.
template <class Family>
Value add_op(Family& family, Op op, std::initializer_list<Value> sources, const OpParams& params = {}) {
  return builder_of(family).add_node(op, sources, params);
}
template <class Family>
Value add_op_in_place(Family& family, Op op, std::initializer_list<Value> sources, const OpParams& params = {}) {
  return builder_of(family).add_in_place(op, sources, params);
}

}  // namespace tessera
