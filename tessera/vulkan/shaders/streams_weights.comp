#version 460
#extension GL_GOOGLE_include_directive : require
// stream_weights: one workgroup per token. The weights of old streams in new ones are a matrix in shared memory: element
// new + n * old. Each step reads one copy of it and writes the other, so one barrier per step is enough.
//   x: products, biases, scales; u[0]: streams; u[1]: iterations; u[2]: eps as bits
#include "step.glsl"
#include "math.glsl"

const uint kMostElements = 256;  // of 16 streams

shared float copies[2u * kMostElements];

// The same for all invocations.
uint n;      // streams
float eps;
uint from;   // the first element of the copy to read

/// Product i with the scale and bias of its part of the weights.
float product(uint i, uint token, uint part) {
  const float m = Floats(row_of(step.x[0], token, 0u, 0u)).at[i];
  return fma(m, Floats(step.x[2].data).at[part], Floats(step.x[1].data).at[i]);
}

/// The copy that is written becomes the one that is read.
void finish_step() {
  from = kMostElements - from;
  sync_group();
}
void write(uint e, float v) { copies[kMostElements - from + e] = v; }

/// The sum of the elements with the same new stream as e, or else of those with the same old one.
float sum_of(uint e, bool is_over_old) {
  const uint first = from + (is_over_old ? e % n : e - e % n), stride = is_over_old ? n : 1u;
  float sum = copies[first];
  for (uint i = 1; i < n; ++i) sum += copies[first + i * stride];
  return sum;
}

void divide_by_sums(bool is_over_old) {
  for (uint e = lane(); e < n * n; e += n_lanes()) write(e, copies[from + e] / (sum_of(e, is_over_old) + eps));
  finish_step();
}

/// A softmax over the new streams, plus eps.
void begin_matrix(uint token) {
  for (uint e = lane(); e < n * n; e += n_lanes()) write(e, product(2u * n + e, token, 2u));
  finish_step();
  for (uint e = lane(); e < n * n; e += n_lanes()) {
    const uint first = from + e - e % n;
    float highest = copies[first];
    for (uint i = 1; i < n; ++i) highest = max(highest, copies[first + i]);
    write(e, exp(copies[from + e] - highest));
  }
  finish_step();
  for (uint e = lane(); e < n * n; e += n_lanes()) write(e, copies[from + e] / sum_of(e, false) + eps);
  finish_step();
}

void main() {
  const uint token = group_index();
  if (token >= step.n_groups) return;
  n = step.u[0];
  eps = uintBitsToFloat(step.u[2]);
  from = 0u;
  Floats y = Floats(row_of(step.y, token, 0u, 0u));
  for (uint i = lane(); i < n; i += n_lanes()) y.at[i] = sigmoid_of(product(i, token, 0u)) + eps;
  if (step.y.ne[0] == n) return;
  for (uint i = n + lane(); i < 2u * n; i += n_lanes()) y.at[i] = 2.0 * sigmoid_of(product(i, token, 1u));
  begin_matrix(token);
  divide_by_sums(true);
  for (uint i = 1; i < step.u[1]; ++i) {
    divide_by_sums(false);
    divide_by_sums(true);
  }
  for (uint e = lane(); e < n * n; e += n_lanes()) y.at[2u * n + e] = copies[from + e];
}
