// Two sets of weights, tensor by tensor: how far the values of the second are from those of the first.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/convert/quantize.h"
#include "tessera/convert/weight_set.h"

namespace tessera::convert {

struct WeightDifference {
  std::string name{};
  std::string first_type{}, second_type{};  // "": only the other set has the tensor
  std::vector<int64_t> first_shape{}, second_shape{};
  bool is_compared = false;  // both have the tensor, in the same shape
  int64_t n_values = 0, n_different = 0;
  double nmse = 0;     // sum of squared differences over the sum of squares of the first; infinity if only that is 0
  double largest = 0;  // difference of two values; infinity where only one of them is finite

  bool is_equal() const { return is_compared && n_different == 0; }
};

/// Tensors in the order of the first set, then those that only the second has. Two NaNs are equal. The result does not
/// depend on the number of threads. Errors: cancelled.
Result<std::vector<WeightDifference>> compare_weights(const WeightSet& first, const WeightSet& second,
                                                      const WorkContext& context);

}  // namespace tessera::convert
