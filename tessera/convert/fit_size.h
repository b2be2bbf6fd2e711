// Chooses the types of a model's tensors for a file of at most a given size: each tensor's error is measured for every
// type of a ladder, then bytes go where they lower the sum of errors the most.
#pragma once

#include <cstdint>

#include "tessera/convert/quantize.h"

namespace tessera::convert {

/// Sets the types in the plan, except of tensors that are kept or whose type a flag names, and the file type to that of
/// most bytes. A tensor's error is sum w (x - value)^2 / sum w x^2 over a sample of its rows, times its elements: with
/// an importance matrix that is the share of its outputs' energy that is lost. The output is never larger than
/// max_bytes. Errors: limit (names the smallest size possible); a value that is not finite; cancelled.
Result<> fit_size(const ModelFiles& files, QuantizePlan& plan, const QuantizeOptions& options, uint64_t max_bytes,
                  const WorkContext& context);

/// A point of a tensor's trade-off.
struct SizePoint {
  DType dtype = DType::f32;
  uint64_t n_bytes = 0;
  double error = 0;
};

/// Of a tensor's points those worth considering, from the fewest bytes on: the lower convex hull, on which each step to
/// the next lowers the error less per byte than the one before.
std::vector<SizePoint> lower_hull(std::vector<SizePoint> points);

/// Steps along the hulls, the steepest first, while the sum of bytes is at most max_bytes: the position reached in
/// each. Every hull holds a point, and the sum of the first ones is within max_bytes.
std::vector<size_t> spend_bytes(std::span<const std::vector<SizePoint>> hulls, uint64_t max_bytes);

}  // namespace tessera::convert
