// Shared by the kernels of attention: the keys that a token attends to, the score of a key, and merging the partial
// results of the splits of a sequence, in the order of the splits and with the same operations in all kernels.
#pragma once

#include "tessera/cuda/kernels/attention_layout.cuh"
#include "tessera/cuda/kernels/math.cuh"

namespace tessera::cuda {

constexpr uint32_t kBlockTokens = 64, kSplitTokens = kSplitBlocks * kBlockTokens;  // of attention_precise

/// The positions [first, end) that a token may attend to; empty if its slot or position is invalid.
struct Span {
  uint32_t first, end;
  int32_t position;
};

__device__ inline Span span_of(const Params& step, uint32_t token, bool reports) {
  const int32_t position = ints(step.x[3].data)[token], slot = ints(step.x[4].data)[token];
  const uint32_t n_slots = step.x[5].ne[1], n_all = step.x[5].ne[0] * kBlockTokens;
  const bool knows_slot = slot >= 0 && static_cast<uint32_t>(slot) < n_slots;
  const bool knows_position = position >= 0 && static_cast<uint32_t>(position) < n_all;
  if (reports && !knows_slot) report(step, kFaultSequence, slot, n_slots);
  if (reports && knows_slot && !knows_position) report(step, kFaultPosition, position, n_all);
  if (!knows_slot || !knows_position) return {0, 0, position};
  const uint32_t after = static_cast<uint32_t>(position) + 1;
  uint32_t window = step.u[3] == 0 ? n_all : min_of(step.u[3], n_all);
  if ((step.u[2] & 2) != 0) window = position % step.u[3] + 1;  // from the start of the chunk on
  return {after > window ? after - window : 0, step.u[2] != 0 ? after : min_of(after - 1 + window, n_all), position};
}

/// The slot of a token, or 0 if it is invalid; such a token attends to nothing.
__device__ inline uint32_t safe_slot_of(const Params& step, uint32_t token) {
  const uint32_t slot = ints(step.x[4].data)[token];
  return slot < step.x[5].ne[1] ? slot : 0;
}

/// The positions of [first, end) among the 32 from `from` on, as bits.
__device__ inline uint32_t within(uint32_t from, uint32_t first, uint32_t end) {
  const uint32_t below_end = end <= from ? 0 : end - from >= 32 ? ~0u : (1u << (end - from)) - 1;
  const uint32_t below_first = first <= from ? 0 : first - from >= 32 ? ~0u : (1u << (first - from)) - 1;
  return below_end & ~below_first;
}

/// The tables of a token's slot, for kernels that look at single positions.
struct SlotTables {
  const int32_t* blocks;
  const uint32_t* valid;
};
__device__ inline SlotTables tables_of(const Params& step, uint32_t token) {
  const uint32_t slot = safe_slot_of(step, token);
  return {ints(row_of(step.x[5], slot, 0, 0)), words(row_of(step.x[6], slot, 0, 0))};
}
/// The stored positions of [first, end) among the 32 of word w, as bits: none after reporting an invalid block.
__device__ inline uint32_t stored_in(const Params& step, const SlotTables& tables, uint32_t w, uint32_t first,
                                     uint32_t end) {
  const uint32_t wanted = within(32 * w, first, end), n_physical = step.x[1].ne[3];
  if (wanted == 0) return 0;
  const int32_t block = tables.blocks[w / 2];
  if (block < -1 || block >= static_cast<int32_t>(n_physical)) {
    report(step, kFaultBlock, block, n_physical);
    return 0;
  }
  return block == -1 ? 0 : tables.valid[w] & wanted;
}
/// The address of the row of a cache of one head at a stored position.
__device__ inline uint64_t row_at_position(const Operand& cache, const SlotTables& tables, uint32_t p) {
  return row_of(cache, p % kBlockTokens, 0, static_cast<uint32_t>(tables.blocks[p / kBlockTokens]));
}
/// The lowest bit of v, and its index.
__device__ inline uint32_t lowest_bit(uint32_t v) { return v & (~v + 1); }
__device__ inline uint32_t index_of_bit(uint32_t bit) { return count_bits(bit - 1); }

/// Whether scores are more than scaled products.
__device__ inline bool has_score_terms(const Params& step) {
  return step.u[1] != 0 || step.u[5] != 0 || step.x[8].data != 0;
}
/// The score of a key at `distance` after the query, from their scaled product.
__device__ inline float score_of(const Params& step, float s, int32_t distance, uint32_t head) {
  constexpr int32_t kReach = 128;
  const float cap = float_of(step.u[1]);
  if (cap != 0) s = cap * tanh_of(s / cap);
  const uint32_t n_slopes = step.u[5] != 0 ? step.x[0].ne[1] : 0;
  const uint32_t length = distance < 0 ? 0u - static_cast<uint32_t>(distance) : static_cast<uint32_t>(distance);
  if (n_slopes != 0) s -= floats(step.extra)[head] * static_cast<float>(length);
  if (step.x[8].data != 0) {
    const int32_t near = distance < -kReach ? -kReach : distance > kReach ? kReach : distance;
    const uint32_t bucket = words(step.extra)[n_slopes + static_cast<uint32_t>(near + kReach)];
    s += floats(row_of(step.x[8], bucket, 0, 0))[head];
  }
  return s;
}

/// Scores are in units of the base's logarithm: kUnit of them are a factor e.
struct BaseE {
  static constexpr float kUnit = 1;
  static __device__ inline float power(float v) { return expf(v); }
};
struct Base2 {
  static constexpr float kUnit = 1.4426950408889634f;
  static __device__ inline float power(float v) { return exp2_of(v); }
};

/// The maximum of scores, and the sum of their powers relative to it.
struct Softmax {
  float highest, sum;
};
__device__ inline Softmax empty_softmax() { return {-infinity(), 0}; }
__device__ inline bool is_empty(const Softmax& s) { return s.highest == -infinity() && s.sum == 0; }

/// Factors of the values so far (keep) and of the next part (take), and the state after merging both. Merging an empty
/// part changes no bit, except that it may change -0 to 0.
struct Merge {
  float keep, take;
  Softmax after;
};
template <class Base>
__device__ inline Merge merged(const Softmax& before, const Softmax& part) {
  Merge m;
  m.after.highest = fmaxf(before.highest, part.highest);
  m.keep = before.highest == -infinity() ? 0 : Base::power(before.highest - m.after.highest);
  m.take = part.highest == -infinity() ? 0 : Base::power(part.highest - m.after.highest);
  m.after.sum = fmaf(part.sum, m.take, before.sum * m.keep);
  return m;
}
__device__ inline float merged_value(const Merge& m, float value, float part) {
  return fmaf(part, m.take, value * m.keep);
}

/// The factor applied to all values at the end. A sink, if present, adds to the sum (Xiao et al. 2024). 0 if the query
/// attends to nothing.
template <class Base>
__device__ inline float final_factor(const Params& step, Softmax s, uint32_t head) {
  float factor = 1;
  if (step.x[7].data != 0) {
    const float sink = floats(step.x[7].data)[head] * Base::kUnit, top = fmaxf(s.highest, sink);
    factor = s.highest == -infinity() ? 0 : Base::power(s.highest - top);
    s.sum = s.sum * factor + Base::power(sink - top);
  }
  return s.sum == 0 ? 0 : factor / s.sum;
}
/// The result. Adding 0 changes -0 to 0: the sign of a zero depends on how many empty parts were merged.
__device__ inline float final_value(float factor, float value) { return factor == 0 ? 0 : value * factor + 0.0f; }

}  // namespace tessera::cuda
