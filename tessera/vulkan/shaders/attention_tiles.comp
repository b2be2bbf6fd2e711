#version 460
#extension GL_GOOGLE_include_directive : require
// Attention for many tokens: the same operations as attention.comp, in the same order, for several queries at once. A
// workgroup of 256 invocations takes up to 16 queries of a KV head. It reads each block of the cache once for all of
// them into shared memory.
//   kVariant: bits 0 to 7: queries per workgroup (4, 8 or 16); bits 3 and 4 of the next byte: K and V can be read 16
//   bytes at a time; bit 5: keys are chosen
//   x, u, extra: as in attention.comp, with u[4] = 0; u[7]: groups of queries of a KV head
#define kWorkgroup 256
#include "step.glsl"
#include "formats.glsl"
#include "formats_wide.glsl"
#include "math.glsl"
#include "attention.glsl"

const uint kQueries = kVariant & 255u, kEach = kQueries / 4u;  // kEach: queries of an invocation
const bool kWideK = (kVariant >> 8u & 8u) != 0u, kWideV = (kVariant >> 8u & 16u) != 0u;
const bool kHasChosen = (kVariant >> 8u & 32u) != 0u;
const uint kMostDim = 2048u / kQueries;   // of a head, as query has room for
const uint kColumns = 64, kLine = kColumns / 4u + 1u;  // of K in shared memory; the padding avoids bank conflicts
const uint kItems = 64;                   // invocations that share a query, as a workgroup of attention.comp
const uint kMine = 4u * kMostDim / kWorkgroup;

shared vec4 pool[kBlockTokens * kLine];   // a part of K or V, or the values of a split
shared vec4 query[kQueries * kMostDim / 4u];
shared float scores[kQueries * kBlockTokens], tree[kQueries * 16u], maxima[kQueries * 8u];
// By query: of this split and of all splits.
shared float keep[kQueries], highest[kQueries], sum[kQueries];
shared float total_highest[kQueries], total_sum[kQueries], merge_keep[kQueries], merge_take[kQueries];
shared uint first[kQueries], end[kQueries];
shared int position[kQueries], slot[kQueries];

// Read once, because barriers make invocations read parameters again.
uint k_dim, v_dim, n_groups, n_shares;
ScoreParams score_params;

vec4 low[kEach], high[kEach];     // values of a split, of item lane() % kItems
float totals[kEach][kMine];       // of all splits
float products[kEach];

uint my_item() { return lane() % kItems; }
uint my_query(uint e) { return lane() / kItems * kEach + e; }

/// Reads dimensions begin to begin + kColumns of all rows of K.
void load_k(uint64_t rows, uint row_bytes, uint begin) {
  for (uint i = lane(); i < kBlockTokens * kColumns / 8u; i += kWorkgroup) {
    const uint j = i / (kColumns / 8u), at = i % (kColumns / 8u);
    if (begin + at * 8u >= k_dim) continue;
    float v[8];
    decode8_kv(kFormat, kWideK, rows + uint64_t(j * row_bytes), begin + at * 8u, 8u, v);
    pool[j * kLine + 2u * at] = vec4(v[0], v[1], v[2], v[3]);
    pool[j * kLine + 2u * at + 1u] = vec4(v[4], v[5], v[6], v[7]);
  }
}

/// Adds the products of the dimensions in shared memory, in order.
void multiply(uint begin) {
  const uint j = my_item(), n = min(kColumns, k_dim - begin) / 4u;
  for (uint i = 0; i < n; ++i) {
    const vec4 k = pool[j * kLine + i];
    [[unroll]] for (uint e = 0; e < kEach; ++e) {
      const vec4 q = query[my_query(e) * kMostDim / 4u + begin / 4u + i];
      [[unroll]] for (uint n4 = 0; n4 < 4u; ++n4) products[e] = fma(k[n4], q[n4], products[e]);
    }
  }
}

/// Whether a query from `begin` to `next` sees a chosen position of block b.
bool is_any_chosen(uint b, uint begin, uint next, uint head_kv, uint query_of_first, uint n_group_heads) {
  uvec2 any = uvec2(0u);
  for (uint q = begin; q < next; ++q)
    if (first[q] < end[q]) any |= chosen_of(b, (query_of_first + q) / n_group_heads, head_kv);
  return any != uvec2(0u);
}

bool is_seen(uint q, uint p, uvec2 valid) {
  return p >= first[q] && p < end[q] && ((p & 32u) == 0u ? valid.x >> (p & 31u) & 1u : valid.y >> (p & 31u) & 1u) != 0u;
}

/// Turns products into scores, then into weights relative to the highest score, and updates the sums.
void weigh_block(uint b, uvec2 valid, uint head_of_first, uint n_group_heads, uint query_of_first) {
  const uint n_parts = kItems / gl_SubgroupSize, part = gl_SubgroupID % n_parts;
  [[unroll]] for (uint e = 0; e < kEach; ++e) {
    const uint q = my_query(e), p = b * kBlockTokens + my_item();
    const uint head = head_of_first + (query_of_first + q) % n_group_heads;
    uvec2 seen = valid;
    if (kHasChosen && first[q] < end[q])
      seen &= chosen_of(b, (query_of_first + q) / n_group_heads, head_of_first / n_group_heads);
    const float s =
        is_seen(q, p, seen) ? score_of(score_params, products[e], int(p) - position[q], head) : -kInfinity;
    scores[q * kBlockTokens + my_item()] = s;
    const float most = subgroupMax(isnan(s) ? kInfinity : s);  // a NaN propagates
    if (subgroupElect()) maxima[q * 8u + part] = most;
  }
  barrier();
  if (lane() < kQueries) {
    float most = highest[lane()];
    for (uint i = 0; i < n_parts; ++i) most = max(most, maxima[lane() * 8u + i]);
    keep[lane()] = highest[lane()] == -kInfinity ? 0.0 : exp(highest[lane()] - most);
    highest[lane()] = most;
  }
  barrier();
  [[unroll]] for (uint e = 0; e < kEach; ++e) {
    const uint q = my_query(e), at = q * kBlockTokens + my_item();
    scores[at] = scores[at] == -kInfinity ? 0.0 : exp(scores[at] - highest[q]);
  }
  barrier();
  // The tree of attention.comp, two levels at a time.
  for (uint i = lane(); i < kQueries * 16u; i += kWorkgroup) {
    const uint at = i / 16u * kBlockTokens + i % 16u;
    precise const float a = scores[at] + scores[at + 32u], b = scores[at + 16u] + scores[at + 48u], c = a + b;
    tree[i] = c;
  }
  barrier();
  if (lane() < kQueries) {
    float four[4];
    for (uint j = 0; j < 4u; ++j) {
      const uint at = lane() * 16u + j;
      precise const float a = tree[at] + tree[at + 8u], b = tree[at + 4u] + tree[at + 12u], c = a + b;
      four[j] = c;
    }
    precise const float a = four[0] + four[2], b = four[1] + four[3], c = a + b;
    sum[lane()] = fma(sum[lane()], keep[lane()], c);
  }
}

/// Adds the weighted rows of V. A part of the rows is in shared memory at a time.
void add_values(uint64_t rows, uint row_bytes) {
  const uint n_rows = min(kBlockTokens, 4096u / v_dim), n_words = v_dim / 8u;
  const uint group = my_item() % n_groups;
  uint j = my_item() / n_groups;
  const bool is_idle = j >= n_shares;
  [[unroll]] for (uint e = 0; e < kEach; ++e) {
    low[e] *= keep[my_query(e)];
    high[e] *= keep[my_query(e)];
  }
  for (uint begin = 0; begin < kBlockTokens; begin += n_rows) {
    barrier();
    for (uint i = lane(); i < n_rows * n_words; i += kWorkgroup) {
      const uint row = i / n_words, at = i % n_words;
      if (begin + row >= kBlockTokens) break;
      float v[8];
      decode8_kv(kFormat2, kWideV, rows + uint64_t((begin + row) * row_bytes), at * 8u, 8u, v);
      pool[(row * 2u) * n_words + at] = vec4(v[0], v[1], v[2], v[3]);
      pool[(row * 2u + 1u) * n_words + at] = vec4(v[4], v[5], v[6], v[7]);
    }
    barrier();
    if (is_idle) continue;
    for (; j < min(begin + n_rows, kBlockTokens); j += n_shares) {
      const vec4 a = pool[(j - begin) * 2u * n_words + group], b = pool[((j - begin) * 2u + 1u) * n_words + group];
      [[unroll]] for (uint e = 0; e < kEach; ++e) {
        const float weight = scores[my_query(e) * kBlockTokens + j];
        if (weight == 0.0) continue;  // rows that are not attended to may hold any bits
        low[e] = fma(vec4(weight), a, low[e]);
        high[e] = fma(vec4(weight), b, high[e]);
      }
    }
  }
}

/// Merges the values of a split into the totals.
void merge_split() {
  barrier();
  if (lane() < kQueries) {
    const bool takes = !is_empty(highest[lane()], sum[lane()]);
    Merge m = merged(total_highest[lane()], total_sum[lane()], highest[lane()], sum[lane()]);
    merge_keep[lane()] = m.keep;
    merge_take[lane()] = takes ? m.take : -1.0;
    if (takes) {
      total_highest[lane()] = m.highest;
      total_sum[lane()] = m.sum;
    }
  }
  const uint n_words = v_dim / 8u;
  [[unroll]] for (uint e = 0; e < kEach; ++e) {
    barrier();
    pool[2u * lane()] = low[e];
    pool[2u * lane() + 1u] = high[e];
    barrier();
    [[unroll]] for (uint n = 0; n < kMine; ++n) {
      const uint o = lane() + n * kWorkgroup;  // queries e, kEach + e, ... by value
      if (o >= 4u * v_dim) break;
      const uint of = o / v_dim, i = o % v_dim, q = of * kEach + e;
      const uint at = 2u * (of * kItems) + i / 4u;
      float v = pool[at][i % 4u];
      for (uint s = 1; s < n_shares; ++s) v += pool[at + s * 2u * n_groups][i % 4u];
      const Merge m = Merge(merge_keep[q], merge_take[q], 0.0, 0.0);
      if (m.take >= 0.0 || isnan(m.take)) totals[e][n] = merged_value(m, totals[e][n], v);
    }
  }
}

void main() {
  const uint group = group_index();
  if (group >= step.n_groups) return;
  const uint n_heads = step.x[0].ne[1], n_kv_heads = step.x[1].ne[2], n_group_heads = n_heads / n_kv_heads;
  const uint n_query_groups = step.u[7], head_kv = group / n_query_groups;
  const uint query_of_first = group % n_query_groups * kQueries, n_queries = step.x[0].ne[2] * n_group_heads;
  const uint head_of_first = head_kv * n_group_heads;
  const uint n_max_blocks = step.x[5].ne[0], n_slots = step.x[5].ne[1], n_all = n_max_blocks * kBlockTokens;
  const uint k_bytes = step.x[1].nb[1], v_bytes = step.x[2].nb[1], n_physical = step.x[1].ne[3];
  score_params = read_score_params();
  k_dim = step.x[0].ne[0];
  v_dim = step.y.ne[0];
  n_groups = v_dim / 8u;
  n_shares = clamp(kItems / n_groups, 1u, kBlockTokens);

  if (lane() < kQueries) {
    const uint token = (query_of_first + lane()) / n_group_heads;
    const bool exists = query_of_first + lane() < n_queries;
    const int s = exists ? Ints(step.x[4].data).at[token] : -1, p = exists ? Ints(step.x[3].data).at[token] : 0;
    slot[lane()] = s;
    position[lane()] = p;
    first[lane()] = 0u;
    end[lane()] = 0u;  // a token with an invalid slot or position attends to nothing
    if (exists) {
      const Range range = range_of(p, s, n_slots, n_all);
      first[lane()] = range.first;
      end[lane()] = range.end;
    }
  }
  for (uint i = lane(); i < kQueries * (k_dim / 4u); i += kWorkgroup) {
    const uint q = i / (k_dim / 4u), at = i % (k_dim / 4u), here = min(query_of_first + q, n_queries - 1u);
    Floats from = Floats(row_of(step.x[0], head_of_first + here % n_group_heads, here / n_group_heads, 0u));
    query[q * kMostDim / 4u + at] = vec4(from.at[4u * at], from.at[4u * at + 1u], from.at[4u * at + 2u], from.at[4u * at + 3u]);
  }
  // Queries whose tokens belong to the same sequence are computed together.
  for (uint begin = 0u, next; begin < kQueries; begin = next) {
    barrier();
    const int this_slot = slot[begin];
    next = begin + 1u;
    while (next < kQueries && slot[next] == this_slot) ++next;
    uint lowest = n_all, highest_end = 0u;
    for (uint q = begin; q < next; ++q) {
      if (first[q] >= end[q]) continue;
      lowest = min(lowest, first[q]);
      highest_end = max(highest_end, end[q]);
    }
    // Outside of this sequence, queries see nothing.
    barrier();
    const bool is_other = lane() < kQueries && (lane() < begin || lane() >= next);
    const uint saved_end = is_other ? end[lane()] : 0u;
    if (is_other) end[lane()] = 0u;
    if (lane() < kQueries) {
      total_highest[lane()] = -kInfinity;
      total_sum[lane()] = 0.0;
    }
    [[unroll]] for (uint e = 0; e < kEach; ++e)
      [[unroll]] for (uint n = 0; n < kMine; ++n) totals[e][n] = 0.0;
    const uint span = kSplitBlocks * kBlockTokens;
    const uint safe_slot = this_slot >= 0 && uint(this_slot) < n_slots ? uint(this_slot) : 0u;
    Ints blocks = Ints(row_of(step.x[5], safe_slot, 0u, 0u));
    Words valid = Words(row_of(step.x[6], safe_slot, 0u, 0u));
    for (uint split = lowest / span; split * span < highest_end; ++split) {
      if (lane() < kQueries) {
        highest[lane()] = -kInfinity;
        sum[lane()] = 0.0;
      }
      [[unroll]] for (uint e = 0; e < kEach; ++e) low[e] = high[e] = vec4(0.0);
      const uint b_end = (split + 1u) * kSplitBlocks;
      for (uint b = max(split * kSplitBlocks, lowest / kBlockTokens); b < b_end && b * kBlockTokens < highest_end; ++b) {
        const int block = blocks.at[b];
        if (block < -1 || block >= int(n_physical)) {
          if (lane() == 0u) report(kFaultBlock, block, n_physical);
          continue;
        }
        if (block == -1) continue;
        if (kHasChosen && !is_any_chosen(b, begin, next, head_kv, query_of_first, n_group_heads)) continue;
        const uint64_t k_rows = row_of(step.x[1], 0u, head_kv, uint(block));
        [[unroll]] for (uint e = 0; e < kEach; ++e) products[e] = 0.0;
        for (uint column = 0; column < k_dim; column += kColumns) {
          barrier();
          load_k(k_rows, k_bytes, column);
          barrier();
          multiply(column);
        }
        weigh_block(b, uvec2(valid.at[2u * b], valid.at[2u * b + 1u]), head_of_first, n_group_heads, query_of_first);
        add_values(row_of(step.x[2], 0u, head_kv, uint(block)), v_bytes);
      }
      merge_split();
      barrier();
    }
    [[unroll]] for (uint e = 0; e < kEach; ++e)
      [[unroll]] for (uint n = 0; n < kMine; ++n) {
        const uint o = lane() + n * kWorkgroup;
        if (o >= 4u * v_dim) break;
        const uint q = o / v_dim * kEach + e, here = query_of_first + q;
        if (q < begin || q >= next || here >= n_queries) continue;
        const uint head = head_of_first + here % n_group_heads;
        const float factor = final_factor(total_highest[q], total_sum[q], head);
        Floats y = Floats(row_of(step.y, head, here / n_group_heads, 0u));
        y.at[o % v_dim] = factor == 0.0 ? 0.0 : totals[e][n] * factor;
      }
    if (is_other) end[lane()] = saved_end;
  }
}
