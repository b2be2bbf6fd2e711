// The graph's definition of an operation. Each operation defines one OpDef in ops/<family>.cpp, beside its shape rule.
#pragma once

#include <cstdint>

#include "tessera/graph/gradient.h"
#include "tessera/graph/op_info.h"

namespace tessera {

/// The number of operands. The first `min` must be present, the others may be absent.
struct OperandCount {
  consteval OperandCount(size_t n) : min(n), max(n) {}
  consteval OperandCount(size_t least, size_t most) : min(least), max(most) {}
  size_t min;
  size_t max;
};

/// A set of operands by number.
class OperandSet {
 public:
  constexpr bool contains(size_t i) const { return (bits_ >> i & 1u) != 0; }

 private:
  template <class... Index>
  friend consteval OperandSet operands(Index... indices);
  explicit consteval OperandSet(uint32_t bits) : bits_(bits) {}
  uint32_t bits_;
};

template <class... Index>
consteval OperandSet operands(Index... indices) {
  return OperandSet((0u | ... | (1u << indices)));
}
inline constexpr OperandSet kNoOperand = operands();

/// A member of OpDef without a default, so that an operation that omits it does not compile.
template <class Function>
class Rule {
 public:
  constexpr Rule(Function function) : function_(function) {}
  constexpr operator Function() const { return function_; }

 private:
  Function function_;
};

struct OpDef {
  OperandCount n_operands;
  /// Returns type and layout of the result, or an error that explains why the operands are refused. Total: accepts any
  /// operands and parameters.
  Rule<Result<TensorSpec> (*)(Operands, const OpParams&)> infer;
  /// Adds the gradients of the operands to the graph (gradient.h). kForwardOnly: the operation must not occur between a
  /// parameter and a loss. gradient_of_constant: no operand gets a gradient.
  Rule<void (*)(Gradient&)> gradient;
  Rule<Cost (*)(const Graph&, const Node&)> cost;
  /// Operands whose memory the result may reuse, because each element or row is read before it is written.
  OperandSet in_place;
  /// Operands whose bytes the operation changes: a cache, a state, a parameter.
  OperandSet writes;
};

/// The zero gradient, for a result that is a step function of its operands, or whose operands are not floats.
void gradient_of_constant(Gradient& g);
inline constexpr void (*kForwardOnly)(Gradient&) = nullptr;

/// Converts a rule to OpDef::infer. The rule is infer(operands, const Params&), or infer(operands) without parameters.
template <auto kRule>
struct ShapeRule;
template <Result<TensorSpec> (*kRule)(Operands)>
struct ShapeRule<kRule> {
  static Result<TensorSpec> infer(Operands x, const OpParams&) { return kRule(x); }
};
template <class Params, Result<TensorSpec> (*kRule)(Operands, const Params&)>
struct ShapeRule<kRule> {
  static Result<TensorSpec> infer(Operands x, const OpParams& params) {
    const auto* own = std::get_if<Params>(&params);
    if (own == nullptr) return fail(ErrorCode::internal, "parameters of another op");
    return kRule(x, *own);
  }
};
template <auto kRule>
inline constexpr auto shape_rule = ShapeRule<kRule>::infer;

// Costs that several operations share.

/// Each operand is read once and the result is written once.
Cost cost_of_memory(const Graph& graph, const Node& node);
/// The same, with a multiply-add for each element of the first operand.
Cost cost_of_each_element(const Graph& graph, const Node& node);
/// Reads only as many rows as the result has.
Cost cost_of_copied_rows(const Graph& graph, const Node& node);
/// The size in bytes of the result, and of operand i (0 if it is absent).
int64_t result_bytes(const Node& node);
int64_t operand_bytes(const Graph& graph, const Node& node, size_t i);

// Checks that several shape rules share.

/// Fails unless the operand is f32 with contiguous rows.
Result<> require_f32_rows(const TensorSpec& spec, std::string_view what);
/// Fails unless the operand is a contiguous i32 vector of length n (n < 0: of any length).
Result<> require_i32_vector(const TensorSpec& spec, std::string_view what, int64_t n);
/// Fails unless the operand is a contiguous i32 matrix.
Result<> require_i32_matrix(const TensorSpec& spec, std::string_view what);
namespace op_defs {

#define TESSERA_OP(name, family, parameters, devices) extern const OpDef name;
#include "tessera/graph/ops.def"

}  // namespace op_defs

}  // namespace tessera
