// The parameters of a training session with their tensors: values, gradients and moments. All are in the device's
// default memory, which is planned first and then allocated. Used by Trainer.
#pragma once

#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/backend/tensor_memory.h"
#include "tessera/base/cancel.h"
#include "tessera/train/optimizer.h"

namespace tessera::train {

// The moments of a weight have its name with these endings.
constexpr std::string_view kMoment1Ending = ".moment1", kMoment2Ending = ".moment2";

struct Parameter {
  Tensor* weight = nullptr;  // read by the graph: f32, or bf16 with its f32 values in `exact`
  Tensor exact{};            // only for a bf16 weight
  Tensor gradient{}, moment1{}, moment2{};
  Rule rule = Rule::adam;
  bool decays = true;

  const std::string& name() const { return weight->name; }
  const Shape& shape() const { return weight->shape(); }
  bool is_rounded() const { return weight->dtype == DType::bf16; }
  /// The learned values in f32.
  const Tensor& values() const { return is_rounded() ? exact : *weight; }
};

/// The bytes of a training session's tensors.
struct ParameterBytes {
  size_t weights = 0;  // learned or not
  size_t gradients = 0;
  size_t moments = 0;  // including the f32 values of bf16 weights
};

class Parameters {
 public:
  /// Adds a learned weight of type f32 or bf16, which outlives this. Call before plan(). Errors: limit (sizes).
  Result<> add(Tensor& weight, Rule rule, bool decays);
  /// Adds a weight that training does not change.
  void add_frozen(Tensor& weight) { frozen_.push_back(&weight); }

  /// Assigns every tensor its buffer and offset. Errors: limit (sizes).
  Result<> plan(const BufferType& type);
  ParameterBytes bytes() const;
  /// Allocates the planned buffers. Errors: out_of_memory.
  Result<> allocate();

  std::deque<Parameter>& all() { return parameters_; }
  const std::deque<Parameter>& all() const { return parameters_; }
  int64_t n_elements() const;

  Result<> clear_gradients() { return gradients_.clear(std::byte{0}); }
  /// The square root of the sum of all gradients' squares, which are summed in double in one order.
  Result<double> gradient_norm();

  /// Sets the learned values, and their rounded copy if the graph reads bf16.
  static Result<> set_values(Parameter& parameter, std::span<const float> values);
  static Result<std::vector<float>> get_values(const Tensor& tensor);

 private:
  std::deque<Parameter> parameters_;  // a deque keeps addresses stable: graphs point to the tensors
  std::vector<Tensor*> frozen_;
  TensorMemory weights_, gradients_, moments_;
  std::vector<float> chunk_;
};

}  // namespace tessera::train
