#version 460
#extension GL_GOOGLE_include_directive : require
// Operations on whole rows, one workgroup per row. Each invocation sums its elements in the order of the row.
//   u[0]: eps as bits
#include "step.glsl"

// Variants: NormOp in ops/norm.cpp.
const uint kRmsNorm = 0, kLayerNorm = 1, kL2Norm = 2, kSoftMax = 3;  // and row_sum

void rms_norm(Floats x, Floats y, uint n) {
  float squares = 0.0;
  for (uint i = lane(); i < n; i += n_lanes()) squares = fma(x.at[i], x.at[i], squares);
  const float mean = sum_over_group(squares) / float(n), factor = 1.0 / sqrt(mean + uintBitsToFloat(step.u[0]));
  const bool has_weight = step.x[1].data != 0ul;
  Floats weight = Floats(step.x[1].data);
  for (uint i = lane(); i < n; i += n_lanes())
    y.at[i] = has_weight ? x.at[i] * factor * weight.at[i] : x.at[i] * factor;
}

void layer_norm(Floats x, Floats y, uint n) {
  float sum = 0.0, squares = 0.0;
  for (uint i = lane(); i < n; i += n_lanes()) sum += x.at[i];
  const float mean = sum_over_group(sum) / float(n);
  for (uint i = lane(); i < n; i += n_lanes()) {
    const float difference = x.at[i] - mean;
    squares = fma(difference, difference, squares);
  }
  const float factor = 1.0 / sqrt(sum_over_group(squares) / float(n) + uintBitsToFloat(step.u[0]));
  const bool has_weight = step.x[1].data != 0ul, has_bias = step.x[2].data != 0ul;
  Floats weight = Floats(step.x[1].data), bias = Floats(step.x[2].data);
  for (uint i = lane(); i < n; i += n_lanes()) {
    float v = (x.at[i] - mean) * factor;
    if (has_weight) v *= weight.at[i];
    if (has_bias) v += bias.at[i];
    y.at[i] = v;
  }
}

void l2_norm(Floats x, Floats y, uint n) {
  float squares = 0.0;
  for (uint i = lane(); i < n; i += n_lanes()) squares = fma(x.at[i], x.at[i], squares);
  const float norm = sqrt(sum_over_group(squares)), eps = uintBitsToFloat(step.u[0]);
  const float factor = 1.0 / (norm < eps ? eps : norm);
  for (uint i = lane(); i < n; i += n_lanes()) y.at[i] = x.at[i] * factor;
}

void soft_max(Floats x, Floats y, uint n) {
  float highest = -kInfinity;
  for (uint i = lane(); i < n; i += n_lanes()) highest = max(highest, x.at[i]);
  highest = max_over_group(highest);
  if (highest == -kInfinity) {  // all elements are masked
    for (uint i = lane(); i < n; i += n_lanes()) y.at[i] = isnan(x.at[i]) ? x.at[i] : 0.0;
    return;
  }
  float sum = 0.0;
  for (uint i = lane(); i < n; i += n_lanes()) {
    const float v = exp(x.at[i] - highest);
    y.at[i] = v;
    sum += v;
  }
  sum = sum_over_group(sum);
  for (uint i = lane(); i < n; i += n_lanes()) y.at[i] = y.at[i] / sum;
}

void row_sum(Floats x, Floats y, uint n) {
  float sum = 0.0;
  for (uint i = lane(); i < n; i += n_lanes()) sum += x.at[i];
  sum = sum_over_group(sum);
  if (lane() == 0u) y.at[0] = sum;
}

void main() {
  const uint row = group_index();
  if (row >= step.n_groups) return;
  Floats x = Floats(nth_row(step.x[0], row)), y = Floats(nth_row(step.y, row));
  const uint n = step.x[0].ne[0];
  switch (kVariant) {
    case kRmsNorm:
      rms_norm(x, y, n);
      break;
    case kLayerNorm:
      layer_norm(x, y, n);
      break;
    case kL2Norm:
      l2_norm(x, y, n);
      break;
    case kSoftMax:
      soft_max(x, y, n);
      break;
    default:
      row_sum(x, y, n);
  }
}
