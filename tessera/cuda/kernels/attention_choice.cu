// choose_keys: the best keys of each query, as bits. A set of keys of a token is an item. The ranks of an item's keys,
// integers in the order of scores, are in the scratch memory. The best ones are found by the digits of ranks: each pass
// counts the ranks that agree with the limit so far, by their next digit.
//   variant: bits 0 and 1: 0: a block ranks and chooses, one item after the other; 1: it ranks a part of the positions
//   of an item; 2: it chooses for an item. Bit 2: weighted sums of heads
//   x: q, K (format), weights or absent, positions, slots, blocks, valid
//   u[2], u[3]: as in attention_precise.cuh; u[4]: units to choose; u[5]: positions of a unit; u[6]: local units; u[7]:
//   parts of an item; u[8]: items
#include "tessera/cuda/kernels/attention.cuh"
#include "tessera/cuda/kernels/formats.cuh"

namespace tessera::cuda {

namespace {

constexpr uint32_t kWhole = 0, kRanks = 1;  // as in gpu/ops/attention.cpp
constexpr uint32_t kIsWeighted = 4, kPartPositions = 4 * kBlockTokens, kChoiceThreads = 256;
constexpr uint32_t kMostHeads = 16;  // whose products share one read of a key
constexpr uint32_t kColumns = 64;    // of queries in shared memory
constexpr uint32_t kAlways = 0xffffffffu, kDigits = 256;

struct ChoiceRoom {
  float queries[kMostHeads * kColumns];
  uint32_t counts[kDigits], n_ranked;
};

/// The order of floats as integers above 0. NaN is below all others.
__device__ inline uint32_t rank_of(float score) {
  const uint32_t bits = bits_of(score), magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 1;
  return bits >> 31 != 0 && magnitude != 0 ? ~bits : bits | 0x80000000u;
}

/// The units that are chosen: those of higher ranks, and of that rank the first ones, up to ~least.
struct Cut {
  uint32_t rank, least;
};

/// An item, whose ranks have a place in the scratch memory. Its span is empty if its slot or position is invalid.
class Choice {
 public:
  __device__ Choice(const Params& step, ChoiceRoom& room, uint32_t item, uint32_t place)
      : step_(step), room_(room), token_(item / step.y.ne[1]), set_(item % step.y.ne[1]), unit_(step.u[5]) {
    end_ = span_of(step, token_, lane() == 0).end;
    tables_ = tables_of(step, token_);
    ranks_ = words(step.scratch + uint64_t{place} * step.x[5].ne[0] * kBlockTokens * sizeof(uint32_t));
  }

  __device__ uint32_t end() const { return end_; }

  /// Writes the ranks of the positions [begin, last): 0 where the token sees no key.
  __device__ void rank_keys(uint32_t begin, uint32_t last) {
    for (uint32_t first = begin; first < last; first += n_lanes()) {
      const uint32_t p = first + lane();
      const uint64_t key = p < last ? key_at(p) : 0;
      const bool is_weighted = (step_.variant & kIsWeighted) != 0;
      const float score = is_weighted ? weighted_score(key) : score_of_head(key);
      if (p < last) ranks_[p] = key == 0 ? 0 : rank_of(score);
    }
  }

  __device__ void choose() {
    const uint32_t n_units = end_ == 0 ? 0 : (end_ - 1) / unit_ + 1;
    rank_units(n_units);
    const Cut cut = cut_of(n_units);
    uint32_t* y = words(row_of(step_.y, set_, token_, 0));
    for (uint32_t w = lane(); w < 2 * step_.y.ne[0]; w += n_lanes()) {
      uint32_t chosen = 0;
      for (uint32_t rest = seen_of(w); rest != 0; rest &= rest - 1) {
        const uint32_t bit = lowest_bit(rest), u = (32 * w + index_of_bit(bit)) / unit_, rank = ranks_[u * unit_];
        if (rank > cut.rank || (rank == cut.rank && ~u >= cut.least)) chosen |= bit;
      }
      y[w] = chosen;
    }
  }

 private:
  /// The stored positions among the 32 of word w, up to the token's own.
  __device__ uint32_t seen_of(uint32_t w) const { return stored_in(step_, tables_, w, 0, end_); }

  /// The row of K at a position; 0 if the token does not see it.
  __device__ uint64_t key_at(uint32_t p) const {
    if (p >= end_ || (seen_of(p / 32) >> p % 32 & 1) == 0) return 0;
    return row_at_position(step_.x[1], tables_, p);
  }

  /// The products of a key and heads from `head` on, below `end_head`. All threads take part.
  template <uint32_t kHeads>
  __device__ void multiply(uint64_t key, uint32_t head, uint32_t end_head, float (&sums)[kHeads]) {
    const uint32_t k_dim = step_.x[0].ne[0];
    for (uint32_t h = 0; h < kHeads; ++h) sums[h] = 0;
    for (uint32_t column = 0; column < k_dim; column += kColumns) {
      sync_group();
      for (uint32_t i = lane(); i < kHeads * kColumns; i += n_lanes()) {
        const uint32_t h = head + i / kColumns, c = column + i % kColumns;
        const bool exists = h < end_head && c < k_dim;
        room_.queries[i] = exists ? floats(row_of(step_.x[0], h, token_, 0))[c] : 0.0f;
      }
      sync_group();
      const uint32_t n = key == 0 ? 0 : min_of(kColumns, k_dim - column);
      for (uint32_t i = 0; i < n; i += 8) {
        float v[8];
        decode8_kv(step_.format, step_.tables, key, column + i, min_of(8, n - i), v);
#pragma unroll
        for (uint32_t h = 0; h < kHeads; ++h)
#pragma unroll
          for (uint32_t c = 0; c < 8; ++c) sums[h] = fmaf(v[c], room_.queries[h * kColumns + i + c], sums[h]);
      }
    }
  }

  __device__ float score_of_head(uint64_t key) {
    float sums[1];
    multiply(key, set_, set_ + 1, sums);
    return sums[0];
  }

  __device__ float weighted_score(uint64_t key) {
    const uint32_t n_heads = step_.x[0].ne[1];
    const float* weights = floats(row_of(step_.x[2], token_, 0, 0));
    float score = 0;
    for (uint32_t head = 0; head < n_heads; head += kMostHeads) {
      float sums[kMostHeads];
      multiply(key, head, n_heads, sums);
#pragma unroll
      for (uint32_t h = 0; h < kMostHeads; ++h)
        if (head + h < n_heads) score = fmaf(weights[head + h], sums[h] > 0 ? sums[h] : 0.0f, score);
    }
    return score;
  }

  /// Gives each unit the highest rank of its keys, and counts the units that have one.
  __device__ void rank_units(uint32_t n_units) {
    if (lane() == 0) room_.n_ranked = 0;
    sync_group();
    uint32_t n_mine = 0;
    for (uint32_t u = lane(); u < n_units; u += n_lanes()) {
      const uint32_t first = u * unit_, last = min_of(first + unit_, end_);
      uint32_t rank = 0;
      for (uint32_t p = first; p < last; ++p) rank = max_of(rank, ranks_[p]);
      if (rank == 0) continue;
      ++n_mine;
      ranks_[first] = n_units - 1 - u < step_.u[6] ? kAlways : rank;
    }
    atomic_add(&room_.n_ranked, n_mine);
    sync_group();
  }

  __device__ Cut cut_of(uint32_t n_units) {
    Cut cut = {0, 0};
    uint32_t n = step_.u[4];
    if (room_.n_ranked <= n) return cut;
    // Four digits of the rank, then four of ~u among the units of this rank.
    for (uint32_t pass = 0; pass < 8; ++pass) {
      const bool is_rank = pass < 4;
      const uint32_t shift = 24 - 8 * (pass % 4);
      count_digits(n_units, cut, is_rank, shift);
      uint32_t digit = kDigits - 1;
      for (; digit > 0 && room_.counts[digit] < n; --digit) n -= room_.counts[digit];
      const bool takes_all = room_.counts[digit] == n;
      (is_rank ? cut.rank : cut.least) |= digit << shift;
      sync_group();
      if (pass == 3 && takes_all) break;
    }
    return cut;
  }

  /// Counts the units that agree with the cut so far, by the digit at `shift`. Their scores are alike, so lanes of a
  /// warp with the same digit are counted together.
  __device__ void count_digits(uint32_t n_units, const Cut& cut, bool is_rank, uint32_t shift) {
    const uint32_t known = shift == 24 ? 0 : ~0u << (shift + 8), wanted = is_rank ? cut.rank : cut.least;
    for (uint32_t i = lane(); i < kDigits; i += n_lanes()) room_.counts[i] = 0;
    sync_group();
    for (uint32_t first = 0; first < n_units; first += n_lanes()) {
      const uint32_t u = first + lane();
      const uint32_t rank = u < n_units ? ranks_[u * unit_] : 0, value = is_rank ? rank : ~u;
      const bool agrees = u < n_units && (is_rank || rank == cut.rank) && (value & known) == wanted;
      const uint32_t digit = agrees ? value >> shift & (kDigits - 1) : kDigits, alike = match(digit);
      const bool is_first_lane = (alike & ((1u << lane() % kWarp) - 1)) == 0;
      if (agrees && is_first_lane) atomic_add(&room_.counts[digit], count_bits(alike));
    }
    sync_group();
  }

  const Params& step_;
  ChoiceRoom& room_;
  uint32_t token_, set_, unit_;
  uint32_t end_;  // positions that the token sees are below it
  SlotTables tables_;
  uint32_t* ranks_;  // by position; of a unit: at its first position
};

}  // namespace

TESSERA_KERNEL(attention_choice, kChoiceThreads) {
  allow_next();
  wait_for_previous();
  __shared__ ChoiceRoom room;
  const uint32_t group = group_of(step), n_parts = step.u[7], stage = step.variant & 3;
  if (group >= step.n_groups) return;
  if (stage == kWhole) {
    for (uint32_t item = group; item < step.u[8]; item += step.n_groups) {
      Choice choice(step, room, item, group);
      choice.rank_keys(0, choice.end());
      sync_group();
      choice.choose();
      sync_group();
    }
  } else if (stage == kRanks) {
    Choice choice(step, room, group / n_parts, group / n_parts);
    const uint32_t begin = group % n_parts * kPartPositions;
    choice.rank_keys(begin, min_of(begin + kPartPositions, choice.end()));
  } else {
    Choice(step, room, group, group).choose();
  }
}

}  // namespace tessera::cuda
