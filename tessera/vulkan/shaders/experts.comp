#version 460
#extension GL_GOOGLE_include_directive : require
// The operations of a mixture of experts except products (graph/ops/experts.h defines the layout of routes). Variants:
//   0 top_k           one invocation per token. u[0]: k; u[1]: divisor of ids
//   1 top_groups      one invocation per token. u[0]: groups; u[1]: groups to keep
//   2 expert_weights  one invocation per token. u[0]: 1 to normalize; u[1]: the scale as bits
//   3 expert_routes   one invocation: a counting sort. u[0]: experts
//   4 expert_rows     one workgroup per row in routed order
//   5 expert_sum      one workgroup per token. u[0]: experts
//   6 expert_spread   one workgroup per token. u[0]: experts
#include "step.glsl"

const uint kFaultExpert = 6;
const uint kMaxGroups = 512;
const float kMinWeightSum = 6.103515625e-5;

// NaN is lower than any number.
bool is_higher(float a, float b) { return !isnan(a) && (isnan(b) || a > b); }

/// Ids are visited in ascending order, so an equal score is inserted after earlier ones.
void top_k(uint token) {
  Floats scores = Floats(row_of(step.x[0], token, 0u, 0u));
  Ints ids = Ints(row_of(step.y, token, 0u, 0u));
  const uint k = step.u[0];
  for (uint id = 0; id < step.x[0].ne[0]; ++id) {
    uint place = min(id, k);
    if (place == k) {
      if (!is_higher(scores.at[id], scores.at[ids.at[k - 1u]])) continue;
      place = k - 1u;
    }
    for (; place > 0u && is_higher(scores.at[id], scores.at[ids.at[place - 1u]]); --place)
      ids.at[place] = ids.at[place - 1u];
    ids.at[place] = int(id);
  }
  for (uint i = 0; i < k && step.u[1] != 1u; ++i) ids.at[i] /= int(step.u[1]);
}

/// Returns the sum of the two highest scores, or the score if there is only one.
float best_two(Floats scores, uint begin, uint n) {
  float first = -kInfinity, second = -kInfinity;
  for (uint i = begin; i < begin + n; ++i) {
    if (is_higher(scores.at[i], first)) {
      second = first;
      first = scores.at[i];
    } else if (is_higher(scores.at[i], second)) {
      second = scores.at[i];
    }
  }
  return n == 1u ? first : first + second;
}

/// Keeps a group if fewer than u[1] groups are better. Better groups have a higher sum, or an equal sum and a lower
/// index.
void top_groups(uint token) {
  Floats scores = Floats(row_of(step.x[0], token, 0u, 0u)), y = Floats(row_of(step.y, token, 0u, 0u));
  const uint n_groups = step.u[0], size = step.y.ne[0] / n_groups;
  float sums[kMaxGroups];
  for (uint g = 0; g < n_groups; ++g) sums[g] = best_two(scores, g * size, size);
  for (uint g = 0; g < n_groups; ++g) {
    uint n_better = 0u;
    for (uint other = 0; other < n_groups; ++other)
      if (is_higher(sums[other], sums[g]) || (other < g && !is_higher(sums[g], sums[other]))) ++n_better;
    for (uint i = g * size; i < (g + 1u) * size; ++i) y.at[i] = n_better < step.u[1] ? scores.at[i] : -kInfinity;
  }
}

void expert_weights(uint token) {
  Floats scores = Floats(row_of(step.x[0], token, 0u, 0u)), y = Floats(row_of(step.y, token, 0u, 0u));
  Ints ids = Ints(row_of(step.x[1], token, 0u, 0u));
  const uint n = step.x[0].ne[0], n_used = step.y.ne[0];
  float sum = 0.0;
  for (uint slot = 0; slot < n_used; ++slot) {
    const int id = ids.at[slot];
    const bool exists = id >= 0 && uint(id) < n;
    if (!exists) report(kFaultExpert, id, n);
    const float weight = exists ? scores.at[id] : 0.0;
    y.at[slot] = weight;
    sum += weight;
  }
  const float divisor = step.u[0] != 0u ? sum < kMinWeightSum ? kMinWeightSum : sum : 1.0;
  for (uint slot = 0; slot < n_used; ++slot) y.at[slot] = y.at[slot] / divisor * uintBitsToFloat(step.u[1]);
}

/// Returns the expert of a pair. An invalid id fails the run and is replaced by 0, so that readers of the routes need
/// no checks.
uint expert_of(Ints ids, uint pair) {
  const int id = ids.at[pair];
  if (id >= 0 && uint(id) < step.u[0]) return uint(id);
  report(kFaultExpert, id, step.u[0]);
  return 0u;
}

void expert_routes() {
  const uint n_experts = step.u[0], n_pairs = step.x[0].ne[0] * step.x[0].ne[1];
  Ints ids = Ints(step.x[0].data), begins = Ints(step.y.data);
  const uint pairs = n_experts + 1u, rows = pairs + n_pairs;  // offsets of the two tables
  for (uint e = 0; e <= n_experts; ++e) begins.at[e] = 0;
  for (uint pair = 0; pair < n_pairs; ++pair) begins.at[expert_of(ids, pair)] += 1;
  int end = 0;
  for (uint e = 0; e <= n_experts; ++e) {
    end += begins.at[e];
    begins.at[e] = end;
  }
  // Filling backwards from each expert's end turns the ends into begins.
  for (uint pair = n_pairs; pair > 0u;) {
    --pair;
    const uint expert = expert_of(ids, pair);
    const int row = begins.at[expert] - 1;
    begins.at[expert] = row;
    begins.at[pairs + uint(row)] = int(pair);
    begins.at[rows + pair] = row;
  }
}

void expert_rows(uint row) {
  Ints begins = Ints(step.x[1].data);
  // Find the last expert that begins at or before the row.
  uint low = 0u, high = step.x[0].ne[1] - 1u;
  while (low < high) {
    const uint middle = (low + high + 1u) / 2u;
    if (begins.at[middle] <= int(row))
      low = middle;
    else
      high = middle - 1u;
  }
  Words from = Words(row_of(step.x[0], low, 0u, 0u)), y = Words(row_of(step.y, row, 0u, 0u));
  for (uint i = lane(); i < step.y.ne[0]; i += n_lanes()) y.at[i] = from.at[i];
}

void expert_sum(uint token) {
  const uint n_used = step.x[1].ne[0], n_pairs = n_used * step.x[1].ne[1];
  Floats weights = Floats(row_of(step.x[1], token, 0u, 0u)), y = Floats(row_of(step.y, token, 0u, 0u));
  Ints rows = Ints(step.x[2].data + uint64_t(step.u[0] + 1u + n_pairs + token * n_used) * 4ul);
  for (uint i = lane(); i < step.y.ne[0]; i += n_lanes()) {
    float sum = 0.0;
    for (uint slot = 0; slot < n_used; ++slot)
      sum = fma(weights.at[slot], Floats(row_of(step.x[0], uint(rows.at[slot]), 0u, 0u)).at[i], sum);
    y.at[i] = sum;
  }
}

void expert_spread(uint token) {
  const uint n_used = step.x[1].ne[0], n_pairs = n_used * step.x[1].ne[1];
  Floats x = Floats(row_of(step.x[0], token, 0u, 0u)), weights = Floats(row_of(step.x[1], token, 0u, 0u));
  Ints rows = Ints(step.x[2].data + uint64_t(step.u[0] + 1u + n_pairs + token * n_used) * 4ul);
  for (uint slot = 0; slot < n_used; ++slot) {
    Floats y = Floats(row_of(step.y, uint(rows.at[slot]), 0u, 0u));
    for (uint i = lane(); i < step.y.ne[0]; i += n_lanes()) y.at[i] = weights.at[slot] * x.at[i];
  }
}

void main() {
  const uint group = group_index(), invocation = group * n_lanes() + lane();
  switch (kVariant) {
    case 0u:
      if (invocation < step.y.ne[1]) top_k(invocation);
      break;
    case 1u:
      if (invocation < step.y.ne[1]) top_groups(invocation);
      break;
    case 2u:
      if (invocation < step.y.ne[1]) expert_weights(invocation);
      break;
    case 3u:
      if (invocation == 0u) expert_routes();
      break;
    case 4u:
      if (group < step.n_groups) expert_rows(group);
      break;
    case 5u:
      if (group < step.n_groups) expert_sum(group);
      break;
    default:
      if (group < step.n_groups) expert_spread(group);
  }
}
