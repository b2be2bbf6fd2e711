// Shared by the shaders of attention: scores, the positions that a token attends to, and merging the partial results of
// a query head over the splits of its sequence, in the order of the splits and with the same operations in each shader.

const uint kBlockTokens = 64, kMaxDim = 1024;
const uint kSplitBlocks = 4;  // blocks per split, as in ops/attention.cpp

const uint kFaultSequence = 3, kFaultPosition = 4, kFaultBlock = 5;
const int kReach = 128;

/// Parameters of score_of.
struct ScoreParams {
  float scale, cap;
  uint n_slopes;  // 0: none
  uint64_t extra, bias;
  uint bias_bytes;
};
ScoreParams read_score_params() {
  return ScoreParams(uintBitsToFloat(step.u[0]), uintBitsToFloat(step.u[1]), step.u[5] != 0u ? step.x[0].ne[1] : 0u,
                     step.extra, step.x[8].data, step.x[8].nb[1]);
}

/// The score of a product of query and key.
float score_of(ScoreParams params, float s, int distance, uint head) {
  s *= params.scale;
  if (params.cap != 0.0) s = params.cap * tanh_of(s / params.cap);
  if (params.n_slopes != 0u) s -= Floats(params.extra).at[head] * float(abs(distance));
  if (params.bias != 0ul) {
    const uint bucket = Words(params.extra).at[params.n_slopes + uint(clamp(distance, -kReach, kReach) + kReach)];
    s += Floats(params.bias + uint64_t(bucket) * params.bias_bytes).at[head];
  }
  return s;
}

/// The positions that a token attends to: none after reporting an invalid slot or position.
struct Range {
  uint first, end;
};
Range range_of(int position, int slot, uint n_slots, uint n_all) {
  const bool knows_slot = slot >= 0 && uint(slot) < n_slots, knows_position = position >= 0 && uint(position) < n_all;
  if (!knows_slot) report(kFaultSequence, slot, n_slots);
  if (knows_slot && !knows_position) report(kFaultPosition, position, n_all);
  Range range = Range(0u, 0u);
  if (knows_slot && knows_position) {
    uint window = step.u[3] == 0u ? n_all : min(step.u[3], n_all);
    if ((step.u[2] & 2u) != 0u) window = uint(position) % step.u[3] + 1u;  // from the start of the chunk on
    range.end = step.u[2] != 0u ? uint(position) + 1u : min(uint(position) + window, n_all);
    range.first = uint(position) + 1u > window ? uint(position) + 1u - window : 0u;
  }
  return range;
}

/// The positions of [first, end) among the 32 from `from` on, as bits.
uint within(uint from, uint first, uint end) {
  const uint below_end = end <= from ? 0u : end - from >= 32u ? ~0u : (1u << end - from) - 1u;
  const uint below_first = first <= from ? 0u : first - from >= 32u ? ~0u : (1u << first - from) - 1u;
  return below_end & ~below_first;
}

/// The stored positions of a range among the 32 of word w of a slot, as bits: none after reporting an invalid block.
uint stored_in(uint w, uint slot, Range range) {
  const uint wanted = within(32u * w, range.first, range.end), n_physical = step.x[1].ne[3];
  if (wanted == 0u) return 0u;
  const int block = Ints(row_of(step.x[5], slot, 0u, 0u)).at[w / 2u];
  if (block < -1 || block >= int(n_physical)) {
    report(kFaultBlock, block, n_physical);
    return 0u;
  }
  return block == -1 ? 0u : Words(row_of(step.x[6], slot, 0u, 0u)).at[w] & wanted;
}

/// The chosen positions of block b of a token and a KV head, as bits. All heads share a set, or each has its own.
uvec2 chosen_of(uint b, uint token, uint head_kv) {
  Words words = Words(row_of(step.x[9], step.x[9].ne[1] == 1u ? 0u : head_kv, token, 0u));
  return uvec2(words.at[2u * b], words.at[2u * b + 1u]);
}

/// Factors of the values so far (keep) and of the new part (take), and the state after merging both.
struct Merge {
  float keep, take, highest, sum;
};

bool is_empty(float highest, float sum) { return highest == -kInfinity && sum == 0.0; }

Merge merged(float highest, float sum, float part_highest, float part_sum) {
  Merge m;
  m.highest = max(highest, part_highest);
  m.keep = highest == -kInfinity ? 0.0 : exp(highest - m.highest);
  m.take = part_highest == -kInfinity ? 0.0 : exp(part_highest - m.highest);
  precise const float kept = sum * m.keep;
  m.sum = fma(part_sum, m.take, kept);
  return m;
}
float merged_value(Merge m, float value, float part_value) {
  precise const float kept = value * m.keep;
  return fma(part_value, m.take, kept);
}

/// The factor applied to all values at the end. A sink, if present, adds to the sum (Xiao et al. 2024). 0 if the query
/// attends to nothing.
float final_factor(float highest, float sum, uint head) {
  float factor = 1.0;
  if (step.x[7].data != 0ul) {
    const float sink = Floats(step.x[7].data).at[head], top = max(highest, sink);
    factor = highest == -kInfinity ? 0.0 : exp(highest - top);
    precise const float kept = sum * factor;
    sum = kept + exp(sink - top);
  }
  return sum == 0.0 ? 0.0 : factor / sum;
}
