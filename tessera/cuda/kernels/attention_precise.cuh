// Attention in f32, for every format of the cache and heads of up to 1024 elements. A block computes a query head of a
// token, either all splits or one split that attention_precise_merge merges. Both give the same bits.
//   variant: bit 0: one split; bit 1: V is a part of K
//   x: q, K (format), V (format2) or absent, positions, slots, blocks, valid, sinks or absent, bias or absent, chosen
//   keys or absent
//   u[0], u[1]: scale and soft cap as bits; u[2]: bit 0: causal, bit 1: chunks; u[3]: window or 0; u[4]: first element
//   of V in K u[5]: 1 with slopes; extra: slopes by head if present, then buckets by distance -128 to 128 with a bias
//   u[6]: splits of a sequence; scratch (for one split): maximum, sum and values by token, head and split
#pragma once

#include "tessera/cuda/kernels/attention.cuh"
#include "tessera/cuda/kernels/formats.cuh"

namespace tessera::cuda {

constexpr uint32_t kPreciseThreads = 128, kMaxHeadDim = 1024;

struct PreciseRoom {
  float values[kMaxHeadDim], query[kMaxHeadDim], total[kMaxHeadDim];
  float scores[kBlockTokens], tree[kBlockTokens / 2], reduced[kWarp];
};

class Precise {
 public:
  __device__ Precise(const Params& step, PreciseRoom& room, uint32_t head, uint32_t token)
      : step_(step), room_(room), head_(head), token_(token), head_kv_(head / (step.x[0].ne[1] / step.x[1].ne[2])) {
    is_v_in_k_ = (step.variant & 2) != 0;
    k_dim_ = step.x[0].ne[0];
    v_dim_ = step.y.ne[0];
    span_ = span_of(step, token, lane() == 0);
    const uint32_t slot = safe_slot_of(step, token);
    blocks_ = ints(row_of(step.x[5], slot, 0, 0));
    valid_ = words(row_of(step.x[6], slot, 0, 0));
    const uint32_t set = step.x[9].ne[1] == 1 ? 0 : head_kv_;  // all heads share one, or each KV head has its own
    chosen_ = step.x[9].data == 0 ? nullptr : words(row_of(step.x[9], set, token, 0));
    const float* q = floats(row_of(step.x[0], head, token, 0));
    for (uint32_t i = lane(); i < k_dim_; i += n_lanes()) room.query[i] = q[i];
  }

  /// Writes the result of one split for attention_precise_merge.
  __device__ void run_split(uint32_t group, uint32_t split) {
    sum_up(split);
    float* part = floats(step_.scratch + uint64_t{group} * (4 * (v_dim_ + 2)));
    if (lane() == 0) {
      part[0] = state_.highest;
      part[1] = state_.sum;
    }
    if (is_empty(state_)) return;
    for (uint32_t i = lane(); i < v_dim_; i += n_lanes()) part[2 + i] = value_of(i);
  }

  __device__ void run_all() {
    for (uint32_t i = lane(); i < v_dim_; i += n_lanes()) room_.total[i] = 0;
    Softmax all = empty_softmax();
    for (uint32_t split = span_.first / kSplitTokens; split * kSplitTokens < span_.end; ++split) {
      sum_up(split);
      if (is_empty(state_)) continue;
      const Merge m = merged<BaseE>(all, state_);
      for (uint32_t i = lane(); i < v_dim_; i += n_lanes())
        room_.total[i] = merged_value(m, room_.total[i], value_of(i));
      all = m.after;
    }
    float* y = floats(row_of(step_.y, head_, token_, 0));
    const float factor = final_factor<BaseE>(step_, all, head_);
    for (uint32_t i = lane(); i < v_dim_; i += n_lanes()) y[i] = final_value(factor, room_.total[i]);
  }

 private:
  // Groups of eight values are distributed over threads. If there are more threads than groups, the tokens of a block
  // are distributed too.
  __device__ uint32_t n_value_groups() const { return (v_dim_ + 7) / 8; }
  __device__ uint32_t n_shares() const { return min_of(max_of(kPreciseThreads / n_value_groups(), 1), kBlockTokens); }
  // Value i of the split: the sum of its shares in order.
  __device__ float value_of(uint32_t i) const {
    float v = room_.values[i];
    for (uint32_t s = 1; s < n_shares(); ++s) v += room_.values[8 * s * n_value_groups() + i];
    return v;
  }

  // Sets state_ and, per share, the values.
  __device__ void sum_up(uint32_t split) {
    const uint32_t n_physical = step_.x[1].ne[3];
    sync_group();
    for (uint32_t i = lane(); i < 8 * n_value_groups() * n_shares(); i += n_lanes()) room_.values[i] = 0;
    state_ = empty_softmax();
    const uint32_t begin = max_of(split * kSplitBlocks, span_.first / kBlockTokens);
    for (uint32_t b = begin; b < (split + 1) * kSplitBlocks && b * kBlockTokens < span_.end; ++b) {
      const int32_t block = blocks_[b];
      if (block < -1 || block >= static_cast<int32_t>(n_physical)) {
        if (lane() == 0) report(step_, kFaultBlock, block, n_physical);
        continue;
      }
      if (block >= 0 && (chosen_ == nullptr || (seen_of(b, 0) | seen_of(b, 1)) != 0))
        add_block(b, static_cast<uint32_t>(block));
    }
    sync_group();
  }

  __device__ void add_block(uint32_t b, uint32_t physical) {
    k_rows_ = row_of(step_.x[1], 0, head_kv_, physical);
    v_rows_ = is_v_in_k_ ? k_rows_ : row_of(step_.x[2], 0, head_kv_, physical);
    sync_group();
    const float highest = fmaxf(state_.highest, score_block(b));
    if (highest == -infinity()) return;
    for (uint32_t j = lane(); j < kBlockTokens; j += n_lanes())
      room_.scores[j] = room_.scores[j] == -infinity() ? 0 : expf(room_.scores[j] - highest);
    sync_group();
    const float keep = state_.highest == -infinity() ? 0 : expf(state_.highest - highest);
    state_ = {highest, fmaf(state_.sum, keep, sum_of_scores())};
    add_values(keep);
  }

  // The stored and chosen positions of half of a block.
  __device__ uint32_t seen_of(uint32_t b, uint32_t half) const {
    const uint32_t stored = valid_[2 * b + half];
    return chosen_ == nullptr ? stored : stored & chosen_[2 * b + half];
  }

  __device__ bool is_seen(uint32_t b, uint32_t j) const {
    const uint32_t p = b * kBlockTokens + j;
    return p >= span_.first && p < span_.end && (seen_of(b, j / 32) >> j % 32 & 1) != 0;
  }

  // Computes the scores of a block's keys and returns the highest. A NaN counts as infinity, so that it propagates. Two
  // threads share a key: one takes the even groups of eight elements, the other the odd ones.
  __device__ float score_block(uint32_t b) {
    static_assert(kPreciseThreads == 2 * kBlockTokens);
    const uint32_t j = lane() / 2;
    const bool sees = is_seen(b, j);
    float sum = 0;
    for (uint32_t i = 8 * (lane() % 2); sees && i < k_dim_; i += 16) {
      const uint32_t count = min_of(8, k_dim_ - i);
      float v[8];
      decode8_kv(step_.format, step_.tables, k_rows_ + uint64_t{j} * step_.x[1].nb[1], i, count, v);
      for (uint32_t n = 0; n < 8; ++n)
        if (n < count) sum = fmaf(v[n], room_.query[i + n], sum);
    }
    sum += shuffle_xor(sum, 1);
    float score = -infinity();
    if (sees) {
      const auto distance = static_cast<int32_t>(b * kBlockTokens + j) - span_.position;
      score = score_of(step_, sum * float_of(step_.u[0]), distance, head_);
    }
    if (lane() % 2 == 0) room_.scores[j] = score;
    return max_over_group(is_nan(score) ? infinity() : score, room_.reduced);
  }

  __device__ float sum_of_scores() {
    for (uint32_t n = kBlockTokens / 2; n > 0; n /= 2) {
      const uint32_t j = lane();
      if (j < n)
        room_.tree[j] =
            n == kBlockTokens / 2 ? room_.scores[j] + room_.scores[j + n] : room_.tree[j] + room_.tree[j + n];
      sync_group();
    }
    return room_.tree[0];
  }

  __device__ void add_values(float keep) {
    const uint32_t n_groups = n_value_groups(), format = is_v_in_k_ ? step_.format : step_.format2;
    const uint32_t row_bytes = step_.x[is_v_in_k_ ? 1 : 2].nb[1], begin = is_v_in_k_ ? step_.u[4] : 0;
    for (uint32_t item = lane(); item < n_groups * n_shares(); item += n_lanes()) {
      const uint32_t i = item % n_groups * 8, count = min_of(8, v_dim_ - i);
      float sums[8];
      for (uint32_t n = 0; n < 8; ++n) sums[n] = room_.values[8 * item + n] * keep;
      for (uint32_t j = item / n_groups; j < kBlockTokens; j += n_shares()) {
        const float weight = room_.scores[j];
        if (weight == 0) continue;  // rows that are not attended to may hold any bits
        float v[8];
        decode8_kv(format, step_.tables, v_rows_ + uint64_t{j} * row_bytes, begin + i, count, v);
        for (uint32_t n = 0; n < 8; ++n)
          if (n < count) sums[n] = fmaf(weight, v[n], sums[n]);
      }
      for (uint32_t n = 0; n < 8; ++n) room_.values[8 * item + n] = sums[n];
    }
  }

  const Params& step_;
  PreciseRoom& room_;
  uint32_t head_, token_, head_kv_, k_dim_, v_dim_;
  bool is_v_in_k_;
  Span span_;
  const int32_t* blocks_;
  const uint32_t* valid_;
  const uint32_t* chosen_;    // null: all keys
  Softmax state_;             // of this split
  uint64_t k_rows_, v_rows_;  // addresses of the rows of the block and head
};

/// Merges the splits of a token's query head, `group`, which are in the scratch memory: maximum, sum and values of
/// each.
__device__ inline void merge_splits(const Params& step, uint32_t group) {
  const uint32_t n_heads = step.x[0].ne[1], head = group % n_heads, token = group / n_heads, n_splits = step.u[6];
  const uint32_t v_dim = step.y.ne[0], part_bytes = 4 * (v_dim + 2);
  const uint64_t parts = step.scratch + uint64_t{group} * n_splits * part_bytes;
  float* y = floats(row_of(step.y, head, token, 0));
  const Span span = span_of(step, token, false);
  // Each thread merges the maxima and sums again. They are few, and this needs no barrier.
  for (uint32_t i = lane(); i < v_dim; i += n_lanes()) {
    Softmax all = empty_softmax();
    float total = 0;
#pragma unroll 4
    for (uint32_t split = span.first / kSplitTokens; split * kSplitTokens < span.end; ++split) {
      const float* part = floats(parts + uint64_t{split} * part_bytes);
      const Softmax next = {part[0], part[1]};
      const float value = part[2 + i];  // undefined in an empty part; here, so that loads do not wait for each other
      if (is_empty(next)) continue;
      const Merge m = merged<BaseE>(all, next);
      total = merged_value(m, total, value);
      all = m.after;
    }
    y[i] = final_value(final_factor<BaseE>(step, all, head), total);
  }
}

}  // namespace tessera::cuda
