// Attention among the tokens of a batch, for training: the SelfAttentionKernels. cpu/ops/self_attention.cpp calls them.
//
// All scores of 64 queries are computed and kept, in one row of 64 lanes per key. A lane is a query, so maxima and sums
// over keys need no horizontal operations, and only queries are transposed, once for all keys. Each of the two products
// of the forward pass and the five of the backward pass multiplies a tile of broadcast rows by rows of lanes.
// Each element is one fma chain in a fixed order: over the elements of a head (scores), over keys ascending (outputs,
// dq), or over query heads, then queries ascending (dk, dv). Pairs of groups of 16 in which no query attends to any key
// are skipped.
#include "tessera/cpu/kernels/self_attention.h"

#include <string.h>

#include "tessera/cpu/kernels/simd.h"
#include "tessera/cpu/kernels/table.h"
#include "tessera/cpu/kernels/vector_loops.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace {

constexpr int kBlock = kSelfBlock, kGroup = kSelfGroup, kGroups = kBlock / kGroup;
static_assert(kGroup == kLanes, "a group of queries is a vector");
constexpr float kMinusInfinity = -__builtin_inff();

int64_t padded(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// Products ------------------------------------------------------------------------

// The largest tile: its accumulators and operands fill the registers.
#if defined(TESSERA_ISA_avx512)
constexpr int kTileRows = 6, kTileVectors = 4;
#elif defined(TESSERA_ISA_avx2)
constexpr int kTileRows = 6, kTileVectors = 1;
#else
constexpr int kTileRows = 2, kTileVectors = 1;
#endif

/// out[r][c] += sum over steps k of a[r][k] * b[k][c], steps ascending.
struct Product {
  const float* const* a;  // row r at step k: a[r][a_first + k * a_step]
  int64_t a_first = 0, a_step;
  const float* b;  // step k: whole vectors starting at b + k * b_step
  int64_t b_step;
  int64_t n_steps;
  float* const* out;  // row r: out[r] + out_first
  int64_t out_first = 0;
  int64_t n_columns;
  bool from_zero = false;  // false: add to the contents of `out`
};

template <int R, int C>
void multiply_tile(const Product& p, int64_t row, int64_t column) {
  const float* a[R];
  float* out[R];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) a[r] = p.a[row + r];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) out[r] = p.out[row + r] + p.out_first + column;
  const int last = lanes_left(p.n_columns, column + (C - 1) * kLanes);
  F32x16 acc[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c)
      acc[r][c] = p.from_zero ? F32x16::zero() : load_up_to(out[r] + c * kLanes, c < C - 1 ? kLanes : last);

  const float* b = p.b + column;
  const int64_t b_step = p.b_step, a_step = p.a_step;
  int64_t at = p.a_first;
  for (int64_t k = 0; k < p.n_steps; ++k, b += b_step, at += a_step) {
    F32x16 v[C];
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) v[c] = F32x16::load(b + c * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const F32x16 x = F32x16::broadcast(a[r][at]);
#pragma GCC unroll 8
      for (int c = 0; c < C; ++c) acc[r][c] = fma(x, v[c], acc[r][c]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 8
    for (int c = 0; c < C; ++c) store_up_to(acc[r][c], out[r] + c * kLanes, c < C - 1 ? kLanes : last);
}

/// Computes R rows, all columns.
template <int R, int C = kTileVectors>
void multiply_columns(const Product& p, int64_t row, int64_t column = 0) {
  for (; column + (C - 1) * kLanes < p.n_columns; column += C * kLanes) multiply_tile<R, C>(p, row, column);
  if constexpr (C > 1)
    if (column < p.n_columns) multiply_columns<R, C - 1>(p, row, column);
}

template <int R = kTileRows>
void multiply(const Product& p, int64_t n_rows, int64_t row = 0) {
  for (; row + R <= n_rows; row += R) multiply_columns<R>(p, row);
  if constexpr (R > 1)
    if (row < n_rows) multiply<R - 1>(p, n_rows, row);
}

// Packing -------------------------------------------------------------------------

template <class T>
T* row_of(HeadRows<T> rows, int32_t token) {
  return rows.first + token * rows.stride;
}

/// Packs the rows of n tokens, with zeros past dim.
void pack_rows(HeadRows<const float> rows, const int32_t* tokens, int n, int64_t dim, float* out) {
  for (int r = 0; r < n; ++r, out += padded(dim)) {
    const float* row = row_of(rows, tokens[r]);
    for (int64_t i = 0; i < dim; i += kLanes) load_up_to(row + i, lanes_left(dim, i)).store(out + i);
  }
}

/// Packs the rows of n tokens, each multiplied by its factor, then zeros up to 64 rows.
void pack_scaled_rows(HeadRows<const float> rows, const int32_t* tokens, int n, int64_t dim, const float* factors,
                      float* out) {
  pack_rows(rows, tokens, n, dim, out);
  const int64_t length = padded(dim);
  for (int r = 0; r < n; ++r, out += length) {
    const F32x16 factor = F32x16::broadcast(factors[r]);
    for (int64_t i = 0; i < length; i += kLanes) mul(F32x16::load(out + i), factor).store(out + i);
  }
  memset(out, 0, sizeof(float) * static_cast<size_t>((kBlock - n) * length));
}

/// Transposes 64 packed rows: element i of each becomes row i.
void transpose_rows(const float* rows, int64_t dim, float* out) {
  for (int64_t i = 0; i < dim; i += kLanes)
    for (int r = 0; r < kBlock; r += kLanes) {
      F32x16 square[kLanes];
      for (int j = 0; j < kLanes; ++j) square[j] = F32x16::load(rows + (r + j) * padded(dim) + i);
      transpose(square);
      for (int j = 0; j < lanes_left(dim, i); ++j) square[j].store(out + (i + j) * kBlock + r);
    }
}

// Masks ---------------------------------------------------------------------------

/// A range of groups of a block, from the first to the last that was added.
struct Span {
  int begin = kGroups, end = 0;

  bool operator==(const Span& other) const { return begin == other.begin && end == other.end; }
  bool empty() const { return begin >= end; }
  void add(int group) {
    if (group < begin) begin = group;
    if (group >= end) end = group + 1;
  }
};

/// Up to 64 tokens of a sequence, from `first` on.
struct Block {
  Block(const SelfAttentionTask& task, int64_t first)
      : first(first),
        n(static_cast<int>(task.n_tokens - first < kBlock ? task.n_tokens - first : kBlock)),
        n_groups((n + kGroup - 1) / kGroup),
        tokens(task.tokens + first),
        positions(task.positions + first),
        lowest(task.lowest + first / kGroup),
        highest(task.highest + first / kGroup) {}

  int64_t first;
  int n;
  int n_groups;
  const int32_t* tokens;
  const float* positions;
  const float *lowest, *highest;  // range of positions of each group
};

/// The largest distance of an earlier key to which a query attends.
float reach_of(const SelfAttentionTask& task, float position) {
  if (!task.chunked) return task.window - 1;
  return static_cast<float>(static_cast<int64_t>(position) % static_cast<int64_t>(task.window));
}

/// A block of queries and a block of keys.
struct Pair {
  Pair(const SelfAttentionTask& task, const Block& queries, int64_t first_key)
      : queries(queries), keys(task, first_key) {
    for (int k = 0; k < keys.n_groups; ++k)
      for (int q = 0; q < queries.n_groups; ++q) {
        // The smallest and the largest distance from a key of group k to a query of group q.
        const float nearest = queries.lowest[q] - keys.highest[k], farthest = queries.highest[q] - keys.lowest[k];
        const bool has_window = task.window > 0;
        const bool is_after = task.causal && farthest < 0;
        const bool is_beyond = has_window && (nearest >= task.window || -farthest >= task.window);
        const bool has_later = task.causal && nearest < 0;
        // The keys' lowest position is in the chunk of the queries' highest one: then all of both are.
        const bool has_farther = has_window && (task.chunked ? farthest > reach_of(task, queries.highest[q])
                                                             : farthest >= task.window || -nearest >= task.window);
        sees_all[k][q] = !has_later && !has_farther;
        all &= sees_all[k][q];
        if (is_after || is_beyond) continue;
        any = true;
        queries_of[k].add(q);
        keys_of[q].add(k);
      }
    all &= queries.n_groups == kGroups;
  }

  const Block& queries;
  Block keys;
  bool any = false, all = true;  // whether any query attends to any key; whether all 64 queries attend to all keys
  bool sees_all[kGroups][kGroups] = {};
  Span queries_of[kGroups];  // by group of keys: the groups of queries that may attend to any of them
  Span keys_of[kGroups];     // by group of queries: the groups of keys
};

/// Calls use(begin, end, span) for items [begin, end) of adjacent groups that have the same span.
template <class Use>
void for_equal_spans(const Span* spans, int n_items, Use use) {
  for (int begin = 0; begin < n_items;) {
    const Span& span = spans[begin / kGroup];
    int end = begin + kGroup;
    while (end < n_items && spans[end / kGroup] == span) end += kGroup;
    if (end > n_items) end = n_items;
    if (!span.empty()) use(begin, end, span);
    begin = end;
  }
}

// The task ------------------------------------------------------------------------

/// One value per query of a block.
struct Lanes {
  alignas(64) float of[kBlock];

  F32x16 group(int g) const { return F32x16::load(of + g * kGroup); }
  void set_group(int g, F32x16 v) { v.store(of + g * kGroup); }
  void fill(float value) {
    for (float& v : of) v = value;
  }
};

/// Computes a task block by block of queries.
class Attender {
 public:
  Attender(const SelfAttentionTask& task, bool has_gradient, void* scratch)
      : task_(task), next_(static_cast<float*>(scratch)) {
    const int64_t k_length = padded(task.k_dim), v_length = padded(task.v_dim);
    q_rows_ = take(kBlock * k_length);
    q_columns_ = take(task.k_dim * kBlock);
    packed_ = take(kBlock * (k_length > v_length ? k_length : v_length));
    weights_ = take(task.n_tokens * kBlock);
    if (!has_gradient) return;
    dy_rows_ = take(kBlock * v_length);
    dy_columns_ = take(task.v_dim * kBlock);
    d_scores_ = take(task.n_tokens * kBlock);
    if (task.soft_cap != 0) cap_slopes_ = take(task.n_tokens * kBlock);
  }

  void forward(const Block& queries, HeadRows<float> to) {
    make_weights(queries);
    float* out[kBlock];
    point_at(to, queries, out);
    clear(out, queries.n, task_.v_dim);
    for_pairs(queries, [&](const Pair& pair) {
      pack_rows(task_.v, pair.keys.tokens, pair.keys.n, task_.v_dim, packed_);
      add_keys(pair, weights_, task_.v_dim, out);
    });
    for (int r = 0; r < queries.n; ++r) scale(out[r], task_.v_dim, shares_.of[r]);
  }

  void backward(const Block& queries, const SelfAttentionGradients& to) {
    make_weights(queries);
    // The weights are not divided by their sums. dy is divided instead.
    pack_scaled_rows(to.dy, queries.tokens, queries.n, task_.v_dim, shares_.of, dy_rows_);
    transpose_rows(dy_rows_, task_.v_dim, dy_columns_);
    deltas_.fill(0);
    for_pairs(queries, [&](const Pair& pair) { make_weight_gradients(pair); });
    for (int r = 0; r < queries.n; ++r) {
      if (to.sink_terms != nullptr)
        to.sink_terms[queries.tokens[r]] = -(sink_weights_.of[r] * shares_.of[r]) * deltas_.of[r];
      deltas_.of[r] *= shares_.of[r];
    }
    float* dq[kBlock];
    point_at(to.dq, queries, dq);
    clear(dq, queries.n, task_.k_dim);
    for_pairs(queries, [&](const Pair& pair) {
      make_score_gradients(pair.keys);
      pack_rows(task_.k, pair.keys.tokens, pair.keys.n, task_.k_dim, packed_);
      add_keys(pair, d_scores_, task_.k_dim, dq);
      add_queries(pair, d_scores_, q_rows_, task_.k_dim, to.dk);
      add_queries(pair, weights_, dy_rows_, task_.v_dim, to.dv);
    });
    for (int r = 0; r < queries.n; ++r) scale(dq[r], task_.k_dim, task_.scale);
  }

 private:
  float* take(int64_t n) {
    float* taken = next_;
    next_ += n;
    return taken;
  }

  /// Calls use(pair) for all blocks of keys to which any query may attend, in ascending order.
  template <class Use>
  void for_pairs(const Block& queries, Use use) const {
    for (int64_t key = 0; key < task_.n_tokens; key += kBlock)
      if (const Pair pair(task_, queries, key); pair.any) use(pair);
  }

  template <class T>
  static void point_at(HeadRows<T> rows, const Block& block, T** out) {
    for (int r = 0; r < block.n; ++r) out[r] = row_of(rows, block.tokens[r]);
  }
  static void clear(float* const* rows, int n, int64_t dim) {
    for (int r = 0; r < n; ++r) memset(rows[r], 0, sizeof(float) * static_cast<size_t>(dim));
  }
  static void scale(float* row, int64_t dim, float factor) {
    for (int64_t i = 0; i < dim; i += kLanes) {
      const int count = lanes_left(dim, i);
      store_up_to(mul(load_up_to(row + i, count), F32x16::broadcast(factor)), row + i, count);
    }
  }

  // Weights: e^(score - highest score), and the divisor of each query's sum.

  void make_weights(const Block& queries) {
    alignas(64) float scales[kBlock];
    for (int r = 0; r < kBlock; ++r) {
      scales[r] = task_.scale;
      positions_.of[r] = r < queries.n ? queries.positions[r] : 0.0f;
      reaches_.of[r] = task_.window > 0 ? reach_of(task_, positions_.of[r]) : 0.0f;
    }
    pack_scaled_rows(task_.q, queries.tokens, queries.n, task_.k_dim, scales, q_rows_);
    transpose_rows(q_rows_, task_.k_dim, q_columns_);
    highest_.fill(task_.sink == nullptr ? kMinusInfinity : *task_.sink);
    for_pairs(queries, [&](const Pair& pair) {
      multiply_by_keys(pair, task_.k, q_columns_, task_.k_dim, weights_);
      if (pair.all && task_.soft_cap == 0 && task_.slope == 0) return find_highest(pair.keys);
      for (int k = 0; k < pair.keys.n_groups; ++k)
        for (int q = 0; q < kGroups; ++q) finish_scores(pair, k, q);
    });
    // A query without visible keys subtracts 0, so that its weights are exp(-inf) = 0 and not NaN.
    for (float& highest : highest_.of)
      if (highest == kMinusInfinity) highest = 0.0f;
    sums_.fill(0);
    for_pairs(queries, [&](const Pair& pair) { exponentiate(pair.keys); });
    sink_weights_.fill(0);
    if (task_.sink != nullptr)
      for (int g = 0; g < kGroups; ++g)
        sink_weights_.set_group(g, exp(sub(F32x16::broadcast(*task_.sink), highest_.group(g))));
    for (int r = 0; r < kBlock; ++r)
      shares_.of[r] = sums_.of[r] == 0 ? 0.0f : 1.0f / (sums_.of[r] + sink_weights_.of[r]);
  }

  /// out[key][query] = row of the key times columns of the queries, for groups in which a query may attend to a key.
  void multiply_by_keys(const Pair& pair, HeadRows<const float> rows, const float* columns, int64_t dim,
                        float* out) const {
    const float* keys[kBlock];
    float* to[kBlock];
    point_at(rows, pair.keys, keys);
    for (int k = 0; k < pair.keys.n; ++k) to[k] = out + (pair.keys.first + k) * kBlock;
    for_equal_spans(pair.queries_of, pair.keys.n, [&](int begin, int end, const Span& span) {
      multiply({.a = keys,
                .a_step = 1,
                .b = columns + span.begin * kGroup,
                .b_step = kBlock,
                .n_steps = dim,
                .out = to,
                .out_first = span.begin * kGroup,
                .n_columns = (span.end - span.begin) * kGroup,
                .from_zero = true},
               end, begin);
    });
  }

  void find_highest(const Block& keys) {
    F32x16 highest[kGroups];
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) highest[g] = highest_.group(g);
    const float* row = weights_ + keys.first * kBlock;
    for (int k = 0; k < keys.n; ++k, row += kBlock) {
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) highest[g] = max(highest[g], F32x16::load(row + g * kGroup));
    }
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) highest_.set_group(g, highest[g]);
  }

  /// Converts the products of two groups to scores, with -inf for masked keys.
  void finish_scores(const Pair& pair, int key_group, int query_group) {
    const Span& span = pair.queries_of[key_group];
    const bool was_made = query_group >= span.begin && query_group < span.end;
    const bool is_masked = was_made && !pair.sees_all[key_group][query_group];
    const F32x16 unseen = F32x16::broadcast(kMinusInfinity), zero = F32x16::zero();
    const F32x16 cap = F32x16::broadcast(task_.soft_cap), slope = F32x16::broadcast(task_.slope);
    const F32x16 reach = reaches_.group(query_group), position = positions_.group(query_group);
    F32x16 highest = highest_.group(query_group);
    const int end = pair.keys.n < (key_group + 1) * kGroup ? pair.keys.n : (key_group + 1) * kGroup;
    for (int k = key_group * kGroup; k < end; ++k) {
      const int64_t at = (pair.keys.first + k) * kBlock + query_group * kGroup;
      F32x16 s = unseen, cap_slope = zero;
      if (was_made) {
        s = F32x16::load(weights_ + at);
        if (task_.soft_cap != 0) {
          const F32x16 t = tanh(div(s, cap));
          s = mul(cap, t);
          cap_slope = sub(F32x16::broadcast(1.0f), mul(t, t));
        }
        const F32x16 before = sub(position, F32x16::broadcast(pair.keys.positions[k])), distance = abs(before);
        if (task_.slope != 0) s = sub(s, mul(slope, distance));
        if (is_masked && task_.causal) s = select_mask(at_least(before, zero), s, unseen);
        if (is_masked && task_.window > 0) s = select_mask(at_least(reach, distance), s, unseen);
        highest = max(highest, s);
      }
      s.store(weights_ + at);
      if (cap_slopes_ != nullptr) cap_slope.store(cap_slopes_ + at);
    }
    highest_.set_group(query_group, highest);
  }

  void exponentiate(const Block& keys) {
    const F32x16 log2_e = F32x16::broadcast(1.44269504088896341f);
    F32x16 sum[kGroups], highest[kGroups];
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) {
      sum[g] = F32x16::zero();
      highest[g] = highest_.group(g);
    }
    float* row = weights_ + keys.first * kBlock;
    for (int k = 0; k < keys.n; ++k, row += kBlock) {
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) {
        const F32x16 p = exp2_nonpositive(mul(sub(F32x16::load(row + g * kGroup), highest[g]), log2_e));
        p.store(row + g * kGroup);
        sum[g] = add(sum[g], p);
      }
    }
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) sums_.set_group(g, add(sums_.group(g), sum[g]));
  }

  // Gradients.

  /// Computes the gradients of the weights, 0 for skipped products. Adds weight * gradient to the deltas.
  void make_weight_gradients(const Pair& pair) {
    multiply_by_keys(pair, task_.v, dy_columns_, task_.v_dim, d_scores_);
    float* d = d_scores_ + pair.keys.first * kBlock;
    for (int k = 0; k < pair.keys.n; ++k) {
      const Span& span = pair.queries_of[k / kGroup];
      for (int g = 0; g < kGroups; ++g)
        if (g < span.begin || g >= span.end) F32x16::zero().store(d + k * kBlock + g * kGroup);
    }
    const float* p = weights_ + pair.keys.first * kBlock;
    F32x16 sum[kGroups];
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) sum[g] = F32x16::zero();
    for (int k = 0; k < pair.keys.n; ++k, d += kBlock, p += kBlock) {
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g)
        sum[g] = fma(F32x16::load(p + g * kGroup), F32x16::load(d + g * kGroup), sum[g]);
    }
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) deltas_.set_group(g, add(deltas_.group(g), sum[g]));
  }

  /// Converts the gradients of weights to gradients of scaled products.
  void make_score_gradients(const Block& keys) {
    F32x16 delta[kGroups];
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) delta[g] = deltas_.group(g);
    const int64_t first = keys.first * kBlock;
    for (int64_t at = first; at < first + keys.n * kBlock; at += kBlock) {
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) {
        const int64_t i = at + g * kGroup;
        F32x16 d = mul(F32x16::load(weights_ + i), sub(F32x16::load(d_scores_ + i), delta[g]));
        if (cap_slopes_ != nullptr) d = mul(d, F32x16::load(cap_slopes_ + i));
        d.store(d_scores_ + i);
      }
    }
  }

  /// out[query] += sum over keys of factors[key][query] * the key's packed row.
  void add_keys(const Pair& pair, const float* factors, int64_t dim, float* const* out) const {
    const float* a[kBlock];
    for (int q = 0; q < pair.queries.n; ++q) a[q] = factors + pair.keys.first * kBlock + q;
    for_equal_spans(pair.keys_of, pair.queries.n, [&](int begin, int end, const Span& span) {
      const int first = span.begin * kGroup;
      const int last = span.end * kGroup < pair.keys.n ? span.end * kGroup : pair.keys.n;
      multiply({.a = a,
                .a_first = first * kBlock,
                .a_step = kBlock,
                .b = packed_ + first * padded(dim),
                .b_step = padded(dim),
                .n_steps = last - first,
                .out = out,
                .n_columns = dim},
               end, begin);
    });
  }

  /// to[key] += sum over queries of factors[key][query] * the query's packed row. Rows past the last query are 0.
  void add_queries(const Pair& pair, const float* factors, const float* rows, int64_t dim, HeadRows<float> to) const {
    const float* a[kBlock];
    float* out[kBlock];
    point_at(to, pair.keys, out);
    for (int k = 0; k < pair.keys.n; ++k) a[k] = factors + (pair.keys.first + k) * kBlock;
    for_equal_spans(pair.queries_of, pair.keys.n, [&](int begin, int end, const Span& span) {
      multiply({.a = a,
                .a_first = span.begin * kGroup,
                .a_step = 1,
                .b = rows + span.begin * kGroup * padded(dim),
                .b_step = padded(dim),
                .n_steps = (span.end - span.begin) * kGroup,
                .out = out,
                .n_columns = dim},
               end, begin);
    });
  }

  const SelfAttentionTask& task_;
  float* next_;                 // the next free scratch memory
  float *q_rows_, *q_columns_;  // the queries times the scale, and their transpose
  float* packed_;               // a block of keys or values
  // One row of 64 per key: scores (later weights), gradients of weights (later of scores), slopes of the soft cap.
  float *weights_, *d_scores_ = nullptr, *cap_slopes_ = nullptr;
  float *dy_rows_ = nullptr, *dy_columns_ = nullptr;
  Lanes positions_, reaches_, highest_, sums_, sink_weights_;
  Lanes shares_;  // 1 / (sum + the sink's weight); 0 for queries without visible keys
  Lanes deltas_;  // sum of weight times gradient of the weight
};

size_t scratch_bytes(const SelfAttentionSize& size) {
  const int64_t k_length = padded(size.k_dim), v_length = padded(size.v_dim);
  const int64_t n_strips = size.has_gradient ? (size.has_cap ? 3 : 2) : 1;
  const int64_t gradients = size.has_gradient ? v_length + size.v_dim : 0;
  const int64_t longest = k_length > v_length ? k_length : v_length;
  return sizeof(float) * kBlock *
         static_cast<size_t>(k_length + size.k_dim + longest + gradients + n_strips * size.n_tokens);
}

void forward(const SelfAttentionTask& task, int64_t first, HeadRows<float> out, void* scratch) {
  Attender(task, false, scratch).forward(Block(task, first), out);
}

void backward(const SelfAttentionTask& task, const SelfAttentionGradients& gradients, void* scratch) {
  Attender attender(task, true, scratch);
  for (int64_t first = 0; first < task.n_tokens; first += kBlock) attender.backward(Block(task, first), gradients);
}

}  // namespace

constexpr SelfAttentionKernels kSelfAttentionKernels = {
    .scratch_bytes = scratch_bytes, .forward = forward, .backward = backward};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
