#version 460
#extension GL_GOOGLE_include_directive : require
// choose_keys: the best keys of each query, as bits. A set of keys of a token is an item. The ranks of an item's keys,
// integers in the order of scores, are in the scratch memory. The best ones are found by the digits of ranks: each pass
// counts the ranks that agree with the limit so far, by their next digit.
//   kVariant: bits 0 and 1: 0: a workgroup ranks and chooses, one item after the other; 1: it ranks a part of the
//   positions of an item; 2: it chooses for an item. Bit 2: weighted sums of heads; 3: the dimension is not a multiple
//   of eight; 4: K can be read 16 bytes at a time
//   x: q, K (kFormat), weights or absent, positions, slots, blocks, valid
//   u[2], u[3]: as in attention.comp; u[4]: units to choose; u[5]: positions of a unit; u[6]: local units; u[7]: parts
//   of an item; u[8]: items
#include "step.glsl"
#include "formats.glsl"
#include "formats_wide.glsl"
#include "math.glsl"
#include "attention.glsl"

const uint kWhole = 0, kRanks = 1;  // as in gpu/ops/attention.cpp
const uint kStage = kVariant & 3u, kPartPositions = 4u * kBlockTokens;
const bool kIsWeighted = (kVariant & 4u) != 0u, kHasTails = (kVariant & 8u) != 0u, kWide = (kVariant & 16u) != 0u;
const uint kHeads = kIsWeighted ? 16u : 1u;  // heads whose products share one read of a key
const uint kColumns = 64;                    // of queries in shared memory
const uint kAlways = 0xffffffffu, kDigits = 256;

// Invocations read the ranks that others of their workgroup wrote.
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Ranks { uint at[]; };

shared vec4 queries[kHeads * kColumns / 4u];
shared uint counts[kDigits], n_ranked;

// The same for all invocations.
uint token, set, k_dim, first_head, end_head, end, unit, slot;
uint64_t ranks;  // of the item, by position; of a unit: at its first position

void sync_ranks() {
  memoryBarrierBuffer();
  sync_group();
}

/// Sets the variables above. An item with an invalid slot or position has no positions.
void begin_item(uint item, uint place) {
  const uint n_sets = step.y.ne[1], n_slots = step.x[5].ne[1], n_all = step.x[5].ne[0] * kBlockTokens;
  token = item / n_sets;
  set = item % n_sets;
  k_dim = step.x[0].ne[0];
  first_head = kIsWeighted ? 0u : set;
  end_head = kIsWeighted ? step.x[0].ne[1] : set + 1u;
  unit = step.u[5];
  const int slot_or_not = Ints(step.x[4].data).at[token];
  end = range_of(Ints(step.x[3].data).at[token], slot_or_not, n_slots, n_all).end;
  slot = end != 0u ? uint(slot_or_not) : 0u;
  ranks = step.scratch + uint64_t(place) * n_all * 4ul;
}

/// The stored positions among the 32 of word w, up to the token's own.
uint seen_of(uint w) { return stored_in(w, slot, Range(0u, end)); }

/// The row of K at a position; 0 if the token does not see it.
uint64_t key_at(uint p) {
  if (p >= end || (seen_of(p / 32u) >> (p & 31u) & 1u) == 0u) return 0ul;
  return row_of(step.x[1], p % kBlockTokens, 0u, uint(Ints(row_of(step.x[5], slot, 0u, 0u)).at[p / kBlockTokens]));
}

/// Reads columns of up to kHeads heads from `head` on. Everything beyond them is 0.
void load_queries(uint head, uint column) {
  for (uint i = lane(); i < kHeads * kColumns; i += n_lanes()) {
    const uint h = head + i / kColumns, c = column + i % kColumns;
    const bool exists = h < end_head && c < k_dim;
    queries[i / 4u][i % 4u] = exists ? Floats(row_of(step.x[0], h, token, 0u)).at[c] : 0.0;
  }
}

/// Adds the products of a key and the columns of the queries in shared memory, in order.
void multiply(uint64_t key, uint column, inout float sums[kHeads]) {
  const uint n = min(kColumns, k_dim - column);
  for (uint i = 0; i < n; i += 8u) {
    float v[8];
    decode8_kv(kFormat, kWide, key, column + i, kHasTails ? min(8u, n - i) : 8u, v);
    [[unroll]] for (uint h = 0; h < kHeads; ++h) {
      [[unroll]] for (uint part = 0; part < 2u; ++part) {
        const vec4 q = queries[(h * kColumns + i) / 4u + part];
        [[unroll]] for (uint c = 0; c < 4u; ++c) sums[h] = fma(v[4u * part + c], q[c], sums[h]);
      }
    }
  }
}

/// The score of a key of this invocation, or 0 without one. All invocations take part.
float score_of_key(uint64_t key) {
  float score = 0.0;
  for (uint head = first_head; head < end_head; head += kHeads) {
    float sums[kHeads];
    [[unroll]] for (uint h = 0; h < kHeads; ++h) sums[h] = 0.0;
    for (uint column = 0; column < k_dim; column += kColumns) {
      sync_group();
      load_queries(head, column);
      sync_group();
      if (key != 0ul) multiply(key, column, sums);
    }
    if (!kIsWeighted) return sums[0];
    Floats weights = Floats(row_of(step.x[2], token, 0u, 0u));
    [[unroll]] for (uint h = 0; h < kHeads; ++h)
      if (head + h < end_head) score = fma(weights.at[head + h], sums[h] > 0.0 ? sums[h] : 0.0, score);
  }
  return score;
}

/// The order of floats as integers above 0. NaN is below all others.
uint rank_of(float score) {
  const uint bits = floatBitsToUint(score), magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 1u;
  return bits >> 31u != 0u && magnitude != 0u ? ~bits : bits | 0x80000000u;
}

/// Writes the ranks of the positions [begin, last): 0 where the token sees no key.
void rank_keys(uint begin, uint last) {
  for (uint first = begin; first < last; first += n_lanes()) {
    const uint p = first + lane();
    const uint64_t key = p < last ? key_at(p) : 0ul;
    const float score = score_of_key(key);
    if (p < last) Ranks(ranks).at[p] = key == 0ul ? 0u : rank_of(score);
  }
}

/// Gives each unit the highest rank of its keys, and counts the units that have one.
void rank_units(uint n_units) {
  if (lane() == 0u) n_ranked = 0u;
  sync_group();
  uint n_mine = 0u;
  for (uint u = lane(); u < n_units; u += n_lanes()) {
    const uint first = u * unit, last = min(first + unit, end);
    uint rank = 0u;
    for (uint p = first; p < last; ++p) rank = max(rank, Ranks(ranks).at[p]);
    if (rank == 0u) continue;
    ++n_mine;
    Ranks(ranks).at[first] = n_units - 1u - u < step.u[6] ? kAlways : rank;
  }
  atomicAdd(n_ranked, n_mine);
  sync_ranks();
}

/// The units that are chosen: those of higher ranks, and of that rank the first ones, up to ~least.
struct Cut {
  uint rank, least;
};
Cut cut_of(uint n_units) {
  Cut cut = Cut(0u, 0u);
  uint n = step.u[4];
  if (n_ranked <= n) return cut;
  // Four digits of the rank, then four of ~u among the units of this rank.
  for (uint pass = 0; pass < 8u; ++pass) {
    const bool is_rank = pass < 4u;
    const uint shift = 24u - 8u * (pass & 3u), known = (pass & 3u) == 0u ? 0u : ~0u << shift + 8u;
    for (uint i = lane(); i < kDigits; i += n_lanes()) counts[i] = 0u;
    sync_group();
    for (uint u = lane(); u < n_units; u += n_lanes()) {
      const uint rank = Ranks(ranks).at[u * unit], value = is_rank ? rank : ~u;
      const bool agrees = is_rank || rank == cut.rank;
      if (agrees && (value & known) == (is_rank ? cut.rank : cut.least)) atomicAdd(counts[value >> shift & 255u], 1u);
    }
    sync_group();
    uint digit = kDigits - 1u;
    for (; digit > 0u && counts[digit] < n; --digit) n -= counts[digit];
    const bool takes_all = counts[digit] == n;
    if (is_rank)
      cut.rank |= digit << shift;
    else
      cut.least |= digit << shift;
    sync_group();
    if (pass == 3u && takes_all) break;
  }
  return cut;
}

void choose() {
  const uint n_units = end == 0u ? 0u : (end - 1u) / unit + 1u;
  rank_units(n_units);
  const Cut cut = cut_of(n_units);
  Words y = Words(row_of(step.y, set, token, 0u));
  for (uint w = lane(); w < 2u * step.y.ne[0]; w += n_lanes()) {
    uint chosen = 0u;
    for (uint rest = seen_of(w); rest != 0u; rest &= rest - 1u) {
      const uint u = (32u * w + uint(findLSB(rest))) / unit, rank = Ranks(ranks).at[u * unit];
      if (rank > cut.rank || (rank == cut.rank && ~u >= cut.least)) chosen |= rest & -rest;
    }
    y.at[w] = chosen;
  }
}

void main() {
  const uint group = group_index(), n_parts = step.u[7];
  if (group >= step.n_groups) return;
  if (kStage == kWhole) {
    for (uint item = group; item < step.u[8]; item += step.n_groups) {
      begin_item(item, group);
      rank_keys(0u, end);
      sync_ranks();
      choose();
      sync_ranks();
    }
  } else if (kStage == kRanks) {
    begin_item(group / n_parts, group / n_parts);
    const uint begin = group % n_parts * kPartPositions;
    rank_keys(begin, min(begin + kPartPositions, end));
  } else {
    begin_item(group, group);
    choose();
  }
}
