#version 460
#extension GL_GOOGLE_include_directive : require
// Attention over the paged cache with a running maximum, sum and mean of V (Milakov and Gimelshein 2018; Dao et al.
// 2022). The blocks of a sequence are divided into splits of kSplitBlocks. Each split is summed separately, and the
// results are merged in order. A workgroup computes a query head of a token, either all splits or one split that
// attention_merge.comp merges. Both give the same bits. The keys in a block depend only on positions, so the bits do
// not depend on the rest of the cache.
//   kVariant: bit 0: one split; 1: V is a part of K; 2: dimensions are not multiples of eight; 3, 4: K and V can be
//   read 16 bytes at a time; 5: keys are chosen
//   x: q, K (kFormat), V (kFormat2) or absent, positions, slots, blocks, valid, sinks or absent, bias or absent, chosen
//   keys or absent
//   u[0], u[1]: scale and soft cap as bits; u[2]: bit 0: causal, bit 1: chunks; u[3]: window or 0; u[4]: first element of V in K
//   u[5]: 1 with slopes; extra: slopes by head if present, then buckets by distance -128 to 128 with a bias
//   u[6]: splits of a sequence; scratch (for one split): maximum, sum and values by token, head and split
#include "step.glsl"
#include "formats.glsl"
#include "formats_wide.glsl"
#include "math.glsl"
#include "attention.glsl"

const bool kOneSplit = (kVariant & 1u) != 0u, kVInK = (kVariant & 2u) != 0u, kHasTails = (kVariant & 4u) != 0u;
const bool kWideK = (kVariant & 8u) != 0u, kWideV = (kVariant & 16u) != 0u, kHasChosen = (kVariant & 32u) != 0u;
const uint kPerLane = (kBlockTokens + gl_WorkGroupSize.x - 1u) / gl_WorkGroupSize.x;
const uint kAtOnce = kPerLane < 4u ? kPerLane : 4u;  // tokens that share one read of the query

// Invocations without a token write to the last score, which nobody reads.
shared vec4 values[kMaxDim / 4u];
shared float query[kMaxDim], total[kMaxDim], scores[kBlockTokens + 1u], tree[kBlockTokens / 2u];

// The same for all invocations.
uint head, head_kv, token, k_dim, v_dim, first, end;
int position;
ScoreParams score_params;
float highest, sum;        // of this split
uint64_t k_rows, v_rows;   // addresses of the rows of the block and head

bool is_seen(uint p, uvec2 valid) {
  return p >= first && p < end && ((p & 32u) == 0u ? valid.x >> (p & 31u) & 1u : valid.y >> (p & 31u) & 1u) != 0u;
}

/// Products of the query with kAtOnce of this invocation's tokens, from the t-th on.
void products(uint t, uint seen, out float sums[kAtOnce]) {
  uint64_t keys[kAtOnce];
  [[unroll]] for (uint a = 0; a < kAtOnce; ++a) {
    sums[a] = 0.0;
    keys[a] = k_rows + uint64_t(min(lane() + (t + a) * n_lanes(), kBlockTokens - 1u) * step.x[1].nb[1]);
  }
  for (uint i = 0; i < k_dim; i += 8u) {
    const uint count = kHasTails ? min(8u, k_dim - i) : 8u;
    float q[8];
    for (uint n = 0; n < 8u; ++n) q[n] = n < count ? query[i + n] : 0.0;
    [[unroll]] for (uint a = 0; a < kAtOnce; ++a) {
      if ((seen >> t + a & 1u) == 0u) continue;
      float v[8];
      decode8_kv(kFormat, kWideK, keys[a], i, count, v);
      for (uint n = 0; n < 8u; ++n) sums[a] = fma(v[n], q[n], sums[a]);
    }
  }
}

/// Computes the scores of a block's tokens and returns the highest. A NaN counts as infinity, so that it propagates.
float score_block(uint b, uvec2 valid) {
  uint seen = 0u;  // bit per token of this invocation
  for (uint t = 0; t < kPerLane; ++t) {
    const uint j = lane() + t * n_lanes();
    if (j < kBlockTokens && is_seen(b * kBlockTokens + j, valid)) seen |= 1u << t;
  }
  for (uint t = 0; t < kPerLane; t += kAtOnce) {
    float sums[kAtOnce];
    products(t, seen, sums);
    [[unroll]] for (uint a = 0; a < kAtOnce; ++a) scores[min(lane() + (t + a) * n_lanes(), kBlockTokens)] = sums[a];
  }
  float most = -kInfinity;
  for (uint t = 0; t < kPerLane; ++t) {
    const uint j = min(lane() + t * n_lanes(), kBlockTokens);  // written by this invocation: no barrier is needed
    const int distance = int(b * kBlockTokens + j) - position;
    const float s = (seen >> t & 1u) != 0u ? score_of(score_params, scores[j], distance, head) : -kInfinity;
    scores[j] = s;
    most = max(most, isnan(s) ? kInfinity : s);
  }
  return max_over_group(most);
}

/// The sum of the block's scores, in the same order for any number of invocations.
float sum_of_scores() {
  for (uint n = kBlockTokens / 2u; n > 0u; n /= 2u) {
    for (uint j = lane(); j < n; j += n_lanes())
      tree[j] = n == kBlockTokens / 2u ? scores[j] + scores[j + n] : tree[j] + tree[j + n];
    sync_group();
  }
  return tree[0];
}

/// Groups of eight values are distributed over invocations. If there are more invocations than groups, the tokens of a
/// block are distributed too.
uint n_value_groups() { return (v_dim + 7u) / 8u; }
uint n_token_shares() { return clamp(n_lanes() / n_value_groups(), 1u, kBlockTokens); }

void values_at(uint j, uint i, uint count, out float v[8]) {
  const uint64_t row = v_rows + uint64_t(j * (kVInK ? step.x[1].nb[1] : step.x[2].nb[1]));
  decode8_kv(kVInK ? kFormat : kFormat2, kWideV, row, kVInK ? step.u[4] + i : i, kHasTails ? count : 8u, v);
}

void add_values(float keep) {
  const uint n_groups = n_value_groups(), n_shares = n_token_shares();
  for (uint item = lane(); item < n_groups * n_shares; item += n_lanes()) {
    const uint i = item % n_groups * 8u, count = min(8u, v_dim - i);
    vec4 low = values[2u * item] * keep, high = values[2u * item + 1u] * keep;
    for (uint j = item / n_groups; j < kBlockTokens; j += n_shares) {
      const float weight = scores[j];
      if (weight == 0.0) continue;  // rows that are not attended to may hold any bits
      float v[8];
      values_at(j, i, count, v);
      low = fma(vec4(weight), vec4(v[0], v[1], v[2], v[3]), low);
      high = fma(vec4(weight), vec4(v[4], v[5], v[6], v[7]), high);
    }
    values[2u * item] = low;
    values[2u * item + 1u] = high;
  }
}

/// Sets highest, sum and, per share, values. Returns false after reporting an invalid block table.
bool sum_up_split(uint split, Ints blocks, Words valid) {
  const uint n_items = n_value_groups() * n_token_shares(), n_physical = step.x[1].ne[3];
  sync_group();
  for (uint i = lane(); i < 2u * n_items; i += n_lanes()) values[i] = vec4(0.0);
  highest = -kInfinity;
  sum = 0.0;
  const uint b_begin = max(split * kSplitBlocks, first / kBlockTokens), b_end = (split + 1u) * kSplitBlocks;
  for (uint b = b_begin; b < b_end && b * kBlockTokens < end; ++b) {
    const int block = blocks.at[b];
    if (block < -1 || block >= int(n_physical)) {
      if (lane() == 0u) report(kFaultBlock, block, n_physical);
      return false;
    }
    uvec2 seen = uvec2(valid.at[2u * b], valid.at[2u * b + 1u]);
    if (kHasChosen) seen &= chosen_of(b, token, head_kv);
    if (block == -1 || (kHasChosen && seen == uvec2(0u))) continue;
    k_rows = row_of(step.x[1], 0u, head_kv, uint(block));
    v_rows = kVInK ? k_rows : row_of(step.x[2], 0u, head_kv, uint(block));
    sync_group();
    const float block_highest = max(highest, score_block(b, seen));
    if (block_highest == -kInfinity) continue;
    for (uint j = lane(); j < kBlockTokens; j += n_lanes())
      scores[j] = scores[j] == -kInfinity ? 0.0 : exp(scores[j] - block_highest);
    sync_group();
    const float keep = highest == -kInfinity ? 0.0 : exp(highest - block_highest);
    sum = fma(sum, keep, sum_of_scores());
    highest = block_highest;
    add_values(keep);
  }
  sync_group();
  return true;
}

/// Value i of the split: the sum of its shares in order.
float value_of(uint i) {
  const uint n_shares = n_token_shares(), stride = 2u * n_value_groups();
  float v = values[i / 4u][i % 4u];
  for (uint s = 1; s < n_shares; ++s) v += values[s * stride + i / 4u][i % 4u];
  return v;
}

void main() {
  const uint group = group_index();
  if (group >= step.n_groups) return;
  const uint n_heads = step.x[0].ne[1], n_splits = step.u[6], n_parts = kOneSplit ? n_splits : 1u;
  const uint item = group / n_parts;
  token = item / n_heads;
  head = item % n_heads;
  head_kv = head / (n_heads / step.x[1].ne[2]);
  k_dim = step.x[0].ne[0];
  v_dim = step.y.ne[0];
  position = Ints(step.x[3].data).at[token];
  const int slot = Ints(step.x[4].data).at[token];
  const uint n_max_blocks = step.x[5].ne[0], n_slots = step.x[5].ne[1], n_all = n_max_blocks * kBlockTokens;
  const Range range = range_of(position, slot, n_slots, n_all);
  first = range.first;
  end = range.end;
  score_params = read_score_params();
  Floats q = Floats(row_of(step.x[0], head, token, 0u));
  for (uint i = lane(); i < k_dim; i += n_lanes()) query[i] = q.at[i];
  const uint safe_slot = slot >= 0 && uint(slot) < n_slots ? uint(slot) : 0u;
  Ints blocks = Ints(row_of(step.x[5], safe_slot, 0u, 0u));
  Words valid = Words(row_of(step.x[6], safe_slot, 0u, 0u));

  if (kOneSplit) {
    sum_up_split(group % n_parts, blocks, valid);
    Floats part = Floats(step.scratch + uint64_t(group) * uint64_t(4u * (v_dim + 2u)));
    if (lane() == 0u) {
      part.at[0] = highest;
      part.at[1] = sum;
    }
    if (is_empty(highest, sum)) return;
    for (uint i = lane(); i < v_dim; i += n_lanes()) part.at[2u + i] = value_of(i);
    return;
  }
  for (uint i = lane(); i < v_dim; i += n_lanes()) total[i] = 0.0;
  float total_highest = -kInfinity, total_sum = 0.0;
  const uint span = kSplitBlocks * kBlockTokens;
  for (uint split = first / span; split * span < end; ++split) {
    if (!sum_up_split(split, blocks, valid)) break;
    if (is_empty(highest, sum)) continue;
    const Merge m = merged(total_highest, total_sum, highest, sum);
    for (uint i = lane(); i < v_dim; i += n_lanes()) total[i] = merged_value(m, total[i], value_of(i));
    total_highest = m.highest;
    total_sum = m.sum;
  }
  Floats y = Floats(row_of(step.y, head, token, 0u));
  const float factor = final_factor(total_highest, total_sum, head);
  for (uint i = lane(); i < v_dim; i += n_lanes()) y.at[i] = factor == 0.0 ? 0.0 : total[i] * factor;
}
