// The operations of a mixture of experts except products (graph/ops/experts.h defines the layout of routes). Variants:
//   0 top_k           one warp per token. u[0]: k; u[1]: divisor of ids
//   1 top_groups      one warp per token. u[0]: groups; u[1]: groups to keep
//   2 expert_weights  one warp per token. u[0]: 1 to normalize; u[1]: the scale as bits
//   3 expert_routes   one block of as many threads as there are pairs, if it can. u[0]: experts
//   4 expert_rows     one block per row in routed order
//   5 expert_sum      one block per token. u[0]: experts
//   6 expert_spread   one block per token. u[0]: experts
#include "tessera/cuda/kernels/math.cuh"

namespace tessera::cuda {

namespace {

enum : uint32_t { kTopK, kTopGroups, kExpertWeights, kExpertRoutes, kExpertRows, kExpertSum };  // and expert_spread

constexpr float kMinWeightSum = 6.103515625e-5f;

// NaN is lower than any number.
__device__ inline bool is_higher(float a, float b) { return !is_nan(a) && (is_nan(b) || a > b); }

struct Ranked {
  float score;
  uint32_t id;
};
constexpr uint32_t kNoId = 0xffffffffu;

/// Whether a is before b in the order of results: by descending score, then by ascending id.
__device__ inline bool is_before(Ranked a, Ranked b) {
  return is_higher(a.score, b.score) || (!is_higher(b.score, a.score) && a.id < b.id);
}

/// Each result is the first in the order among the experts after the previous result. The lanes of a warp divide the
/// experts.
__device__ inline void top_k(const Params& step, uint32_t token) {
  const float* scores = floats(row_of(step.x[0], token, 0, 0));
  int32_t* ids = ints(row_of(step.y, token, 0, 0));
  const uint32_t n = step.x[0].ne[0], k = min_of(step.u[0], n);
  Ranked previous = {0.0f, kNoId};
  for (uint32_t place = 0; place < k; ++place) {
    Ranked best = {float_of(0x7fc00000u), kNoId};  // after all others
    for (uint32_t id = lane() % kWarp; id < n; id += kWarp) {
      const Ranked candidate = {scores[id], id};
      if ((place == 0 || is_before(previous, candidate)) && is_before(candidate, best)) best = candidate;
    }
    for (uint32_t mask = kWarp / 2; mask > 0; mask /= 2) {
      const Ranked other = {shuffle_xor(best.score, mask), shuffle_xor(best.id, mask)};
      if (is_before(other, best)) best = other;
    }
    if (lane() % kWarp == 0) ids[place] = static_cast<int32_t>(best.id / step.u[1]);
    previous = best;
  }
}

/// Returns the sum of the two highest scores, or the score if there is only one.
__device__ inline float best_two(const float* scores, uint32_t n) {
  float first = -infinity(), second = -infinity();
  for (uint32_t i = 0; i < n; ++i) {
    if (is_higher(scores[i], first)) {
      second = first;
      first = scores[i];
    } else if (is_higher(scores[i], second)) {
      second = scores[i];
    }
  }
  return n == 1 ? first : first + second;
}

/// Keeps a group if fewer than u[1] groups are better. Better groups have a higher sum, or an equal sum and a lower
/// index. The lanes of a warp divide the groups, then the experts. Shared memory: the sums of the groups of each warp,
/// and whether they are kept.
__device__ inline void top_groups(const Params& step, uint32_t token) {
  const float* scores = floats(row_of(step.x[0], token, 0, 0));
  float* y = floats(row_of(step.y, token, 0, 0));
  const uint32_t n = step.y.ne[0], n_groups = step.u[0], size = n / n_groups, in_warp = lane() % kWarp;
  float* sums = reinterpret_cast<float*>(dynamic_shared()) + lane() / kWarp * n_groups * 2;
  float* kept = sums + n_groups;
  for (uint32_t g = in_warp; g < n_groups; g += kWarp) sums[g] = best_two(scores + g * size, size);
  sync_warp();
  for (uint32_t g = in_warp; g < n_groups; g += kWarp) {
    uint32_t n_better = 0;
    for (uint32_t other = 0; other < n_groups; ++other)
      if (is_before({sums[other], other}, {sums[g], g})) ++n_better;
    kept[g] = n_better < step.u[1] ? 1.0f : 0.0f;
  }
  sync_warp();
  for (uint32_t i = in_warp; i < n; i += kWarp) y[i] = kept[i / size] != 0.0f ? scores[i] : -infinity();
}

/// The lanes of a warp divide the slots; each adds all weights, in order.
__device__ inline void expert_weights(const Params& step, uint32_t token) {
  const float* scores = floats(row_of(step.x[0], token, 0, 0));
  const int32_t* ids = ints(row_of(step.x[1], token, 0, 0));
  float* y = floats(row_of(step.y, token, 0, 0));
  const uint32_t n = step.x[0].ne[0], n_used = step.y.ne[0], in_warp = lane() % kWarp;
  float sum = 0;
  for (uint32_t first = 0; first < n_used; first += kWarp) {
    const uint32_t slot = first + in_warp;
    float weight = 0;
    if (slot < n_used) {
      const int32_t id = ids[slot];
      const bool exists = id >= 0 && static_cast<uint32_t>(id) < n;
      if (!exists) report(step, kFaultExpert, id, n);
      weight = exists ? scores[id] : 0.0f;
      y[slot] = weight;
    }
    for (uint32_t i = 0; i < min_of(kWarp, n_used - first); ++i) sum += shuffle(weight, i);
  }
  const float divisor = step.u[0] != 0 ? (sum < kMinWeightSum ? kMinWeightSum : sum) : 1.0f;
  for (uint32_t slot = in_warp; slot < n_used; slot += kWarp) y[slot] = y[slot] / divisor * float_of(step.u[1]);
}

/// The experts whose pairs are counted at a time (cuda/kernels.h has the same). Shared memory: a counter of each of
/// them for each warp.
constexpr uint32_t kRoutedExperts = 512, kTiles = kRoutedExperts / kWarp;
constexpr uint32_t kNoExpert = 0xffffffffu;
/// Pairs whose experts a lane reads before it uses the first.
constexpr uint32_t kPairsAhead = 4;

/// The part of the pairs that a warp sorts: adjacent ones, so that the order of warps is the order of pairs.
struct PairRange {
  uint32_t begin, end;
};
__device__ inline PairRange pairs_of_warp(uint32_t n_pairs) {
  const uint32_t n_warps = n_lanes() / kWarp, in_each = (n_pairs + n_warps - 1) / n_warps;
  const uint32_t size = (in_each + kWarp - 1) / kWarp * kWarp, begin = min_of(n_pairs, lane() / kWarp * size);
  return {begin, begin + min_of(size, n_pairs - begin)};
}

/// Calls use(pair, expert) for the pairs of this warp, in order. All lanes take part: those without a pair have
/// kNoExpert. An invalid id counts as expert 0, so that readers of the routes need no checks. Returns whether this lane
/// found one.
template <class Use>
__device__ inline bool for_each_pair(const int32_t* ids, uint32_t n_experts, const PairRange& range, Use use) {
  bool is_invalid = false;
  for (uint32_t first = range.begin; first < range.end; first += kPairsAhead * kWarp) {
    uint32_t experts[kPairsAhead];
#pragma unroll
    for (uint32_t i = 0; i < kPairsAhead; ++i) {
      const uint32_t pair = first + i * kWarp + lane() % kWarp;
      experts[i] = pair < range.end ? static_cast<uint32_t>(ids[pair]) : kNoExpert;
      if (pair < range.end && experts[i] >= n_experts) {
        experts[i] = 0;
        is_invalid = true;
      }
    }
#pragma unroll
    for (uint32_t i = 0; i < kPairsAhead; ++i)
      if (first + i * kWarp < range.end) use(first + i * kWarp + lane() % kWarp, experts[i]);
  }
  return is_invalid;
}

/// Reports the first invalid id, whichever warp found one first.
__device__ inline void report_first_invalid(const Params& step, const int32_t* ids) {
  uint32_t pair = 0;
  while (static_cast<uint32_t>(ids[pair]) < step.u[0]) ++pair;
  report(step, kFaultExpert, ids[pair], step.u[0]);
}

/// The sum over the lanes of the warp up to this one.
__device__ inline uint32_t sum_up_to_lane(uint32_t v) {
  const uint32_t in_warp = lane() % kWarp;
  for (uint32_t distance = 1; distance < kWarp; distance *= 2) {
    const uint32_t before = shuffle(v, (in_warp - distance) % kWarp);
    if (in_warp >= distance) v += before;
  }
  return v;
}

/// A counting sort. Each warp counts its pairs by expert. The rows of an expert begin after those of lower experts, and
/// those of a warp after those of lower warps; within a warp, pairs keep their order. So the result does not depend on
/// the order in which warps run.
__device__ inline void expert_routes(const Params& step) {
  __shared__ uint32_t first_rows[kRoutedExperts], tile_sums[kTiles], is_invalid;
  const uint32_t n_experts = step.u[0], n_pairs = step.x[0].ne[0] * step.x[0].ne[1];
  const uint32_t n_warps = n_lanes() / kWarp, warp = lane() / kWarp, in_warp = lane() % kWarp;
  const int32_t* ids = ints(step.x[0].data);
  int32_t* begins = ints(step.y.data);
  int32_t *pairs = begins + n_experts + 1, *rows = pairs + n_pairs;
  auto* counters = reinterpret_cast<uint32_t*>(dynamic_shared());
  const PairRange range = pairs_of_warp(n_pairs);
  if (lane() == 0) is_invalid = 0;

  uint32_t n_lower = 0;  // pairs of lower experts than those at a time
  for (uint32_t first = 0; first < n_experts; first += kRoutedExperts) {
    const uint32_t n = min_of(kRoutedExperts, n_experts - first), n_tiles = (n + kWarp - 1) / kWarp;
    uint32_t* mine = counters + warp * n;
    for (uint32_t i = lane(); i < n_warps * n; i += n_lanes()) counters[i] = 0;
    sync_group();
    const bool has_invalid = for_each_pair(ids, n_experts, range, [&](uint32_t, uint32_t expert) {
      if (expert - first < n) atomic_add(mine + (expert - first), 1);
    });
    if (has_invalid) is_invalid = 1;
    sync_group();
    // Counters become the numbers of the expert's pairs in lower warps.
    for (uint32_t tile = warp; tile < n_tiles; tile += n_warps) {
      const uint32_t i = tile * kWarp + in_warp;
      uint32_t total = 0;
      for (uint32_t w = 0; w < n_warps && i < n; ++w) {
        const uint32_t count = counters[w * n + i];
        counters[w * n + i] = total;
        total += count;
      }
      const uint32_t end = sum_up_to_lane(total);
      first_rows[i] = end - total;
      if (in_warp == kWarp - 1) tile_sums[tile] = end;
    }
    sync_group();
    for (uint32_t tile = warp; tile < n_tiles; tile += n_warps) {
      const uint32_t i = tile * kWarp + in_warp;
      uint32_t begin = n_lower + first_rows[i];
      for (uint32_t lower = 0; lower < tile; ++lower) begin += tile_sums[lower];
      first_rows[i] = begin;
      if (i < n) begins[first + i] = static_cast<int32_t>(begin);
    }
    for (uint32_t tile = 0; tile < n_tiles; ++tile) n_lower += tile_sums[tile];
    sync_group();
    for_each_pair(ids, n_experts, range, [&](uint32_t pair, uint32_t expert) {
      const uint32_t same = match(expert), rank = count_bits(same & ((1u << in_warp) - 1)), i = expert - first;
      uint32_t n_before = 0;
      if (i < n) {
        n_before = mine[i];
        const uint32_t row = first_rows[i] + n_before + rank;
        pairs[row] = static_cast<int32_t>(pair);
        rows[pair] = static_cast<int32_t>(row);
      }
      sync_warp();
      if (i < n && rank == 0) mine[i] = n_before + count_bits(same);
      sync_warp();
    });
    sync_group();  // no warp uses the counters any more
  }
  if (lane() != 0) return;
  begins[n_experts] = static_cast<int32_t>(n_pairs);
  if (is_invalid != 0) report_first_invalid(step, ids);
}

__device__ inline void expert_rows(const Params& step, uint32_t row) {
  const int32_t* begins = ints(step.x[1].data);
  // Find the last expert that begins at or before the row.
  uint32_t low = 0, high = step.x[0].ne[1] - 1;
  while (low < high) {
    const uint32_t middle = (low + high + 1) / 2;
    if (begins[middle] <= static_cast<int32_t>(row))
      low = middle;
    else
      high = middle - 1;
  }
  const uint32_t* from = words(row_of(step.x[0], low, 0, 0));
  uint32_t* y = words(row_of(step.y, row, 0, 0));
  for (uint32_t i = lane(); i < step.y.ne[0]; i += n_lanes()) y[i] = from[i];
}

/// Adjacent elements that a thread reads at a time.
template <uint32_t kCount>
struct alignas(sizeof(float) * kCount) Elements {
  float v[kCount];
};

template <uint32_t kCount>
__device__ inline void sum_rows(const Params& step, uint32_t token) {
  const uint32_t n_used = step.x[1].ne[0], n_pairs = n_used * step.x[1].ne[1];
  const float* weights = floats(row_of(step.x[1], token, 0, 0));
  const uint32_t* rows = words(step.x[2].data) + step.u[0] + 1 + n_pairs + token * n_used;
  auto* y = at<Elements<kCount>>(row_of(step.y, token, 0, 0));
  for (uint32_t i = lane(); i < step.y.ne[0] / kCount; i += n_lanes()) {
    Elements<kCount> sum = {};
#pragma unroll 4
    for (uint32_t slot = 0; slot < n_used; ++slot) {
      const auto x = at<const Elements<kCount>>(row_of(step.x[0], rows[slot], 0, 0))[i];
      for (uint32_t e = 0; e < kCount; ++e) sum.v[e] = fmaf(weights[slot], x.v[e], sum.v[e]);
    }
    y[i] = sum;
  }
}

__device__ inline void expert_sum(const Params& step, uint32_t token) {
  if (step.y.ne[0] % 4 == 0 && is_wide(step.x[0].data | step.x[0].nb[1] | step.y.data | step.y.nb[1]))
    sum_rows<4>(step, token);
  else
    sum_rows<1>(step, token);
}

__device__ inline void expert_spread(const Params& step, uint32_t token) {
  const uint32_t n_used = step.x[1].ne[0], n_pairs = n_used * step.x[1].ne[1];
  const float* x = floats(row_of(step.x[0], token, 0, 0));
  const float* weights = floats(row_of(step.x[1], token, 0, 0));
  const uint32_t* rows = words(step.x[2].data) + step.u[0] + 1 + n_pairs + token * n_used;
  for (uint32_t slot = 0; slot < n_used; ++slot) {
    float* y = floats(row_of(step.y, rows[slot], 0, 0));
    for (uint32_t i = lane(); i < step.y.ne[0]; i += n_lanes()) y[i] = weights[slot] * x[i];
  }
}

}  // namespace

TESSERA_KERNEL(experts, 1024) {
  allow_next();
  wait_for_previous();
  const uint32_t group = group_of(step), token = group * (n_lanes() / kWarp) + lane() / kWarp;
  switch (step.variant) {
    case kTopK:
      if (token < step.y.ne[1]) top_k(step, token);
      return;
    case kTopGroups:
      if (token < step.y.ne[1]) top_groups(step, token);
      return;
    case kExpertWeights:
      if (token < step.y.ne[1]) expert_weights(step, token);
      return;
    case kExpertRoutes:
      return expert_routes(step);
    case kExpertRows:
      return expert_rows(step, group);
    case kExpertSum:
      return expert_sum(step, group);
    default:
      return expert_spread(step, group);
  }
}

}  // namespace tessera::cuda
