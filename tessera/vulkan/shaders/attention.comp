#version 460
#extension GL_GOOGLE_include_directive : require
// Attention over the paged cache: a workgroup takes a token's query head, walks through the blocks of its sequence in
// order and keeps a running maximum, sum and mean of V (Milakov and Gimelshein 2018; Dao et al. 2022). Which keys are
// in a block depends on positions alone, so bits do not depend on what else the cache holds.
//   x: q, K (kFormat), V (kFormat2) or absent, positions, slots, blocks, valid, sinks or absent, bias or absent
//   u[0], u[1]: the bits of scale and soft cap; u[2]: causal; u[3]: window or 0; u[4]: where V begins in K
//   u[5]: 1 if there are slopes; extra: slopes by head if so, then buckets by distance -128 to 128 if there is a bias
#include "step.glsl"
#include "formats.glsl"
#include "math.glsl"

const uint kFaultSequence = 3, kFaultPosition = 4, kFaultBlock = 5;
const uint kBlockTokens = 64, kMaxDim = 1024;
const int kReach = 128;

shared float query[kMaxDim], mean[kMaxDim], scores[kBlockTokens];

float element_at(uint format, uint64_t row, uint i) {
  if (format == 0u) return Floats(row).at[i];
  const uint bits = half_at(row + uint64_t(i) * 2ul);
  return format == 1u ? float_of_half(bits) : uintBitsToFloat(bits << 16u);
}

float product(uint64_t key, uint dim) {
  float sum = 0.0;
  for (uint i = 0; i < dim; i += 8u) {
    float v[8];
    const uint count = min(8u, dim - i);
    decode8(kFormat, key, i, count, v);
    for (uint j = 0; j < count; ++j) sum = fma(v[j], query[i + j], sum);
  }
  return sum;
}

float score_of(float s, uint head, int distance) {
  s *= uintBitsToFloat(step.u[0]);
  const float cap = uintBitsToFloat(step.u[1]);
  if (cap != 0.0) s = cap * tanh_of(s / cap);
  const uint n_slopes = step.u[5] != 0u ? step.x[0].ne[1] : 0u;
  if (n_slopes != 0u) s -= Floats(step.extra).at[head] * float(abs(distance));
  if (step.x[8].data != 0ul) {
    const uint bucket = Words(step.extra).at[n_slopes + uint(clamp(distance, -kReach, kReach) + kReach)];
    s += Floats(row_of(step.x[8], bucket, 0u, 0u)).at[head];
  }
  return s;
}

void main() {
  const uint group = group_index();
  if (group >= step.n_groups) return;
  const uint n_heads = step.x[0].ne[1], head = group % n_heads, token = group / n_heads;
  const uint head_kv = head / (n_heads / step.x[1].ne[2]);
  const uint k_dim = step.x[0].ne[0], v_dim = step.y.ne[0];
  Floats y = Floats(row_of(step.y, head, token, 0u));
  const int position = Ints(step.x[3].data).at[token], slot = Ints(step.x[4].data).at[token];
  const uint n_max_blocks = step.x[5].ne[0], n_slots = step.x[5].ne[1], n_physical = step.x[1].ne[3];

  for (uint i = lane(); i < v_dim; i += n_lanes()) mean[i] = 0.0;
  const bool knows_slot = slot >= 0 && uint(slot) < n_slots;
  const bool knows_position = position >= 0 && uint(position) < n_max_blocks * kBlockTokens;
  if (!knows_slot || !knows_position) {
    if (lane() == 0u) {
      if (!knows_slot)
        report(kFaultSequence, slot, n_slots);
      else
        report(kFaultPosition, position, n_max_blocks * kBlockTokens);
    }
    for (uint i = lane(); i < v_dim; i += n_lanes()) y.at[i] = 0.0;
    return;
  }
  Floats q = Floats(row_of(step.x[0], head, token, 0u));
  for (uint i = lane(); i < k_dim; i += n_lanes()) query[i] = q.at[i];

  const bool is_causal = step.u[2] != 0u;
  const uint n_all = n_max_blocks * kBlockTokens, window = step.u[3] == 0u ? n_all : min(step.u[3], n_all);
  const uint end = is_causal ? uint(position) + 1u : min(uint(position) + window, n_all);
  const uint first = uint(position) + 1u > window ? uint(position) + 1u - window : 0u;
  Ints blocks = Ints(row_of(step.x[5], uint(slot), 0u, 0u));
  Words valid = Words(row_of(step.x[6], uint(slot), 0u, 0u));

  float highest = -kInfinity, sum = 0.0;
  for (uint b = first / kBlockTokens; b * kBlockTokens < end; ++b) {
    const int block = blocks.at[b];
    if (block < -1 || block >= int(n_physical)) {
      if (lane() == 0u) report(kFaultBlock, block, n_physical);
      break;
    }
    if (block == -1) continue;
    barrier();
    for (uint j = lane(); j < kBlockTokens; j += n_lanes()) {
      const uint p = b * kBlockTokens + j;
      const bool is_seen = p >= first && p < end && (valid.at[2u * b + j / 32u] >> (j & 31u) & 1u) != 0u;
      float s = -kInfinity;
      if (is_seen) s = score_of(product(row_of(step.x[1], j, head_kv, uint(block)), k_dim), head, int(p) - position);
      scores[j] = s;
    }
    barrier();
    float block_highest = highest;
    bool is_nan = false;
    for (uint j = 0; j < kBlockTokens; ++j) {
      is_nan = is_nan || isnan(scores[j]);
      block_highest = max(block_highest, scores[j]);
    }
    if (block_highest == -kInfinity && !is_nan) continue;
    barrier();
    for (uint j = lane(); j < kBlockTokens; j += n_lanes())
      scores[j] = scores[j] == -kInfinity ? 0.0 : exp(scores[j] - block_highest);
    barrier();
    const float keep = highest == -kInfinity ? 0.0 : exp(highest - block_highest);
    sum *= keep;
    for (uint j = 0; j < kBlockTokens; ++j) sum += scores[j];
    highest = block_highest;
    for (uint i = lane(); i < v_dim; i += n_lanes()) {
      float v = mean[i] * keep;
      for (uint j = 0; j < kBlockTokens; ++j) {
        if (scores[j] == 0.0) continue;  // what is not seen may be anything
        v = fma(scores[j],
                step.x[2].data != 0ul
                    ? element_at(kFormat2, row_of(step.x[2], j, head_kv, uint(block)), i)
                    : element_at(kFormat, row_of(step.x[1], j, head_kv, uint(block)), step.u[4] + i),
                v);
      }
      mean[i] = v;
    }
  }
  float factor = 1.0;
  if (step.x[7].data != 0ul) {
    const float sink = Floats(step.x[7].data).at[head], top = max(highest, sink);
    factor = highest == -kInfinity ? 0.0 : exp(highest - top);
    sum = sum * factor + exp(sink - top);
  }
  for (uint i = lane(); i < v_dim; i += n_lanes()) y.at[i] = sum == 0.0 ? 0.0 : mean[i] * factor / sum;
}
