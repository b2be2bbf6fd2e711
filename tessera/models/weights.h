// The weights of a model: what the architecture asks for by name and shape, matched against what the file has.
// Errors stick, so an architecture lists its weights plainly and asks once at the end.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "tessera/gguf/split.h"
#include "tessera/graph/node.h"

namespace tessera {

struct Weight {
  Tensor tensor;
  Op use = Op::mul_mat;                        // what it is an operand of: decides which memory suits it
  const ModelFiles::Tensor* source = nullptr;  // null in a blueprint
  std::vector<Tensor> row_parts{};             // where its rows lie in several memories: tensor.row_parts
};

class WeightTable {
 public:
  explicit WeightTable(const ModelFiles& files) : files_(files) {}

  /// A tensor that must exist with this shape. Null after an error. In a blueprint every tensor that is needed is
  /// listed, as f32.
  const Tensor* need(const std::string& name, const Shape& shape, Op use);
  /// A tensor that may be absent: null then.
  const Tensor* maybe(const std::string& name, const Shape& shape, Op use);
  /// A tensor that was asked for is used by mul_mat too (an embedding that is also the output layer).
  void also_multiplies(const Tensor* tensor);

  /// Whether the file has a tensor of this name, or a blueprint is to have it.
  bool has(const std::string& name) const { return files_.find_tensor(name) != nullptr || files_.wants(name); }
  /// An error of the architecture's own about what it lists.
  void fail_with(Error error);

  /// All weights asked for, in that order; addresses are stable.
  std::deque<Weight>& weights() { return weights_; }
  const std::deque<Weight>& weights() const { return weights_; }

  /// The first error: not_found, or mismatch (another shape).
  Result<> finish() const;

 private:
  const Tensor* add(const std::string& name, const Shape& shape, Op use, const ModelFiles::Tensor* source);

  const ModelFiles& files_;
  std::deque<Weight> weights_;
  std::optional<Error> error_;
};

}  // namespace tessera
