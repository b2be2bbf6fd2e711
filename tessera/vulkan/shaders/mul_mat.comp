#version 460
#extension GL_GOOGLE_include_directive : require
// Products with weights of any format (kFormat), which stay in the file's layout: a workgroup takes kRows rows of a
// matrix and kVariant tokens at a time. Its invocations share out pieces of eight columns, decode each once for all
// tokens, and add up in one tree. An output's operations depend neither on the other tokens nor on kVariant, so its
// bits do not either.
//   x[0]: weights [k, n, n_matrices]; x[1]: rows of x; x[2]: routes or absent
//   u[0]: row groups; u[1]: workgroups that share out the tokens of a matrix; u[2]: n_matrices; u[3]: n_tokens
//   u[4], u[5]: bytes between tokens of x and of y; u[6], u[7]: bytes between matrices' heads of x and of y
//   u[8]: pairs per token where rows of x are the tokens', else 0
#include "step.glsl"
#include "formats.glsl"

const uint kRows = 4, kTokens = kVariant;
shared float parts[kRows * kTokens * kMaxSubgroups];

uint64_t x[kTokens];           // the tokens' rows
float sums[kRows * kTokens];  // this invocation's

void multiply(uint64_t w, uint nb1, uint n_rows) {
  const uint k = step.x[0].ne[0];
  uint64_t rows[kRows];
  for (uint r = 0; r < kRows; ++r) rows[r] = w + uint64_t(min(r, n_rows - 1u)) * nb1;
  [[unroll]] for (uint s = 0; s < kRows * kTokens; ++s) sums[s] = 0.0;
  const uint n_whole = k & ~7u;
  for (uint i = 8u * lane(); i < n_whole; i += 8u * n_lanes()) {
    float v[kRows][8];
    [[unroll]] for (uint r = 0; r < kRows; ++r) decode8(kFormat, rows[r], i, 8u, v[r]);
    [[unroll]] for (uint t = 0; t < kTokens; ++t) {
      Floats from = Floats(x[t] + uint64_t(i) * 4ul);
      [[unroll]] for (uint j = 0; j < 8; ++j) {
        const float a = from.at[j];
        [[unroll]] for (uint r = 0; r < kRows; ++r) sums[r * kTokens + t] = fma(v[r][j], a, sums[r * kTokens + t]);
      }
    }
  }
  // The rest of rows of floats, one column each.
  for (uint i = n_whole + lane(); i < k; i += n_lanes())
    for (uint r = 0; r < kRows; ++r) {
      float v[8];
      decode8(kFormat, rows[r], i, 1u, v);
      for (uint t = 0; t < kTokens; ++t)
        sums[r * kTokens + t] = fma(v[0], Floats(x[t] + uint64_t(i) * 4ul).at[0], sums[r * kTokens + t]);
    }
}

void main() {
  const uint group = group_index();
  if (group >= step.n_groups) return;
  const uint row = group % step.u[0] * kRows, share = group / step.u[0] % step.u[1], matrix = group / step.u[0] / step.u[1];
  const uint n_rows = min(kRows, step.x[0].ne[1] - row);
  const bool has_routes = step.x[2].data != 0ul;
  Ints routes = Ints(step.x[2].data);
  const uint begin = has_routes ? uint(routes.at[matrix]) : 0u, end = has_routes ? uint(routes.at[matrix + 1u]) : step.u[3];
  const uint64_t w = row_of(step.x[0], row, matrix, 0u);
  const uint64_t x_base = step.x[1].data + uint64_t(matrix) * step.u[6], y_base = step.y.data + uint64_t(matrix) * step.u[7];
  for (uint first = begin + share * kTokens; first < end; first += step.u[1] * kTokens) {
    for (uint t = 0; t < kTokens; ++t) {
      const uint token = min(first + t, end - 1u);
      const uint from = step.u[8] == 0u ? token : uint(routes.at[step.u[2] + 1u + token]) / step.u[8];
      x[t] = x_base + uint64_t(from) * step.u[4];
    }
    multiply(w, step.x[0].nb[1], n_rows);
    barrier();
    [[unroll]] for (uint s = 0; s < kRows * kTokens; ++s) {
      const float part = subgroupAdd(sums[s]);
      if (subgroupElect()) parts[s * gl_NumSubgroups + gl_SubgroupID] = part;
    }
    barrier();
    for (uint s = lane(); s < kRows * kTokens; s += n_lanes()) {
      const uint r = s / kTokens, token = first + s % kTokens;
      if (r >= n_rows || token >= end) continue;
      float sum = 0.0;
      for (uint i = 0; i < gl_NumSubgroups; ++i) sum += parts[s * gl_NumSubgroups + i];
      Floats(y_base + uint64_t(token) * step.u[5]).at[row + r] = sum;
    }
  }
}
