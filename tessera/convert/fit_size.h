// Chooses the types of a model's tensors for a file of at most a given size. It measures each tensor's error for every
// type of a ladder, then spends bytes where they reduce the sum of errors the most.
#pragma once

#include <cstdint>

#include "tessera/convert/quantize.h"

namespace tessera::convert {

/// Sets the types in the plan, except for tensors that are kept or whose type is set by a flag. Sets the file type to
/// the type with the most bytes. A tensor's error is sum w (x - value)^2 / sum w x^2 over a sample of its rows, times
/// its number of elements. With an importance matrix it is the lost share of the energy of its outputs. The output is
/// never larger than max_bytes. Errors: limit (names the smallest possible size); a value that is not finite;
/// cancelled.
Result<> fit_size(const ModelFiles& files, QuantizePlan& plan, const QuantizeOptions& options, uint64_t max_bytes,
                  const WorkContext& context);

/// The bytes of a file with so many bits for each value of a model.
uint64_t bytes_of_bits(double bits_per_value, const ModelFiles& files);

/// A point of a tensor's trade-off.
struct SizePoint {
  DType dtype = DType::f32;
  uint64_t n_bytes = 0;
  double error = 0;
};

/// Returns the useful points of a tensor in ascending order of bytes: the lower convex hull. On it, each step to the
/// next point reduces the error by less per byte than the previous step.
std::vector<SizePoint> lower_hull(std::vector<SizePoint> points);

/// Takes steps along the hulls, the steepest first, while the sum of bytes is at most max_bytes. Returns the position
/// reached in each hull. Every hull must contain a point, and the sum of their first points must be within max_bytes.
std::vector<size_t> spend_bytes(std::span<const std::vector<SizePoint>> hulls, uint64_t max_bytes);

}  // namespace tessera::convert
