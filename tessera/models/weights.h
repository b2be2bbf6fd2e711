// The weights of a model. An architecture lists each weight by name and shape, and the table checks the model file
// against this list. The table stores the first error, and finish() returns it. Code that lists weights checks nothing.
#pragma once

#include <deque>
#include <optional>
#include <string>

#include "tessera/gguf/split.h"
#include "tessera/gguf/weight_name.h"
#include "tessera/graph/node.h"

namespace tessera {

/// A weight of a model. Its address is stable: `name` has views into tensor.name.
struct Weight {
  Weight(Tensor what, Op used_by, const ModelFiles::Tensor* from)
      : tensor(std::move(what)), use(used_by), source(from), name(parse_weight_name(tensor.name)) {
    if (name.layer) tensor.layer = static_cast<int>(*name.layer);
  }
  Weight(const Weight&) = delete;
  Weight& operator=(const Weight&) = delete;

  Tensor tensor;
  Op use;                            // the operation that reads it, which decides its memory
  const ModelFiles::Tensor* source;  // null in a blueprint
  WeightName name;
  std::vector<Tensor> row_parts{};  // of a weight with rows in several memories: tensor.row_parts
};

class WeightTable {
 public:
  explicit WeightTable(const ModelFiles& files) : files_(files) {}

  /// A tensor that must exist with this shape. Null after an error. A blueprint gets each of these tensors, as f32.
  const Tensor* need(const std::string& name, const Shape& shape, Op use);
  /// The same for matrices [n_in, n_out, n] that a file may also have as one matrix [n_in, n_out * n].
  const Tensor* need_stacked(const std::string& name, const Shape& shape, Op use);
  /// A tensor that may be absent: null then.
  const Tensor* maybe(const std::string& name, const Shape& shape, Op use);
  /// Records that mul_mat also reads this listed tensor, such as an embedding that serves as the output layer too.
  void also_multiplies(const Tensor* tensor);

  /// A listed tensor by name; null: none was listed.
  const Tensor* find_listed(std::string_view name) const;

  const ModelFiles& files() const { return files_; }
  /// True if the model file has a tensor of this name. For a blueprint: true if this optional tensor will be created.
  bool has(const std::string& name) const { return files_.find_tensor(name) != nullptr || files_.wants(name); }
  /// Records an error that the architecture found in the weights.
  void fail_with(Error error);

  /// The weights, in the order in which the architecture listed them. Their addresses are stable.
  std::deque<Weight>& weights() { return weights_; }
  const std::deque<Weight>& weights() const { return weights_; }

  /// Returns the first error: not_found (a tensor that must exist), mismatch (a tensor of another shape), an error of
  /// contiguous_layout(), or an error given to fail_with().
  Result<> finish() const;

 private:
  const Tensor* add(const std::string& name, const Shape& shape, Op use, const ModelFiles::Tensor* source);

  const ModelFiles& files_;
  std::deque<Weight> weights_;
  std::optional<Error> error_;
};

}  // namespace tessera
