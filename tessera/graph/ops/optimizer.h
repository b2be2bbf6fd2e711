// Steps of an optimizer. They write tensors of their own (parameters, moments, sums of gradients) in place.
#pragma once

#include <cstddef>

namespace tessera {

/// The numbers of a step, an f32 vector that the caller fills before each run.
enum class Hyper : size_t {
  gradient_scale,  // gradients are multiplied by it first: their mean, clipped
  learning_rate,
  weight_decay,  // of parameters that decay, times the learning rate (Loshchilov and Hutter 2019)
  beta1,         // momentum; of adam the first moment's
  beta2,
  epsilon,
  correction1,  // 1 - beta1^step, 1 - beta2^step
  correction2,
};
inline constexpr size_t kHyperEntries = 8;

struct DescendParams {
  bool decays = true;
};

}  // namespace tessera
