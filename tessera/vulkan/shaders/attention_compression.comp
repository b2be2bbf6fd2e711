#version 460
#extension GL_GOOGLE_include_directive : require
// compress_rows: entries from the rows of caches. An invocation computes a channel: a softmax over positions.
//   x: biases, rows, gates, positions, slots, blocks, valid, cells
//   u[2], u[3]: as in attention.comp; u[4]: positions of an entry; u[5]: 1 if entries overlap; u[6]: workgroups per token
#include "step.glsl"
#include "math.glsl"
#include "attention.glsl"

uint slot;    // of the token
Range range;  // the positions that count

/// The address of the row at a stored position.
uint64_t row_at(Operand cache, uint p) {
  const int block = Ints(row_of(step.x[5], slot, 0u, 0u)).at[p / kBlockTokens];
  return row_of(cache, p % kBlockTokens, 0u, uint(block));
}

/// The element of a row that counts for a channel. If entries overlap, newer rows give their second half.
uint element_of(uint channel, uint p) {
  return step.u[5] != 0u && p + step.u[4] >= range.end ? channel + step.y.ne[0] : channel;
}

float score_at(uint channel, uint p) {
  const uint i = element_of(channel, p);
  return Floats(row_at(step.x[2], p)).at[i] + Floats(row_of(step.x[0], p % step.u[4], 0u, 0u)).at[i];
}

/// Channel of the entry: 0 if no position that counts is stored.
float value_of(uint channel) {
  const uint begin = range.first / 32u;
  float highest = -kInfinity, total = 0.0, sum = 0.0;
  for (uint w = begin; 32u * w < range.end; ++w)
    for (uint rest = stored_in(w, slot, range); rest != 0u; rest &= rest - 1u)
      highest = max(highest, score_at(channel, 32u * w + uint(findLSB(rest))));
  for (uint w = begin; 32u * w < range.end; ++w)
    for (uint rest = stored_in(w, slot, range); rest != 0u; rest &= rest - 1u) {
      const uint p = 32u * w + uint(findLSB(rest));
      const float weight = exp(score_at(channel, p) - highest);
      total += weight;
      sum = fma(weight, Floats(row_at(step.x[1], p)).at[element_of(channel, p)], sum);
    }
  return total == 0.0 ? 0.0 : sum / total;
}

void main() {
  const uint group = group_index(), token = group / step.u[6];
  if (group >= step.n_groups) return;
  const uint channel = group % step.u[6] * n_lanes() + lane();
  if (channel >= step.y.ne[0]) return;
  float value = 0.0;
  if (Ints(step.x[7].data).at[token] >= 0) {
    const int slot_or_not = Ints(step.x[4].data).at[token];
    const uint n_slots = step.x[5].ne[1], n_all = step.x[5].ne[0] * kBlockTokens;
    range = range_of(Ints(step.x[3].data).at[token], slot_or_not, n_slots, n_all);
    slot = range.end != 0u ? uint(slot_or_not) : 0u;
    value = value_of(channel);
  }
  Floats(row_of(step.y, token, 0u, 0u)).at[channel] = value;
}
