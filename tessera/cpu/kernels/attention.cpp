// Attention of up to 256 query rows of one KV head over a sequence's cache blocks: the attention() of the Kernels.
// cpu/ops/attention.cpp calls it, one task per thread at a time.
//
// For each block of 64 tokens: scores with one token per lane (K tiles), online softmax (Milakov and Gimelshein 2018),
// then weighted V rows with one element per lane. Latent attention (DeepSeek-AI 2024) has no V: a block's K is
// converted to f32, and part of it is transposed into V rows. The bits of a row depend only on its query, its position
// and the tokens it attends to. Every score is one fma chain over elements. Every output is one fma chain over tokens
// ascending, with exactly 0 for tokens to which only other rows attend. So rows may be grouped in any way. A register
// tile holds up to kMaxTileRows of them.
#include <string.h>

#include "tessera/cpu/kernels/attention_tiles.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace {

constexpr float kMinusInfinity = -__builtin_inff();

// Softmax -------------------------------------------------------------------------

/// The state of the online softmax for one row: out = acc / sum.
struct RowState {
  float max = kMinusInfinity;
  float sum = 0.0f;
};

/// Converts dot products to scores: scale and soft cap.
struct ScoreRule {
  F32x16 scale, soft_cap;
  bool has_cap;

  explicit ScoreRule(const AttentionTask& task)
      : scale(F32x16::broadcast(task.scale)),
        soft_cap(F32x16::broadcast(task.soft_cap)),
        has_cap(task.soft_cap != 0.0f) {}

  F32x16 operator()(F32x16 dot) const {
    const F32x16 s = mul(dot, scale);
    return has_cap ? mul(soft_cap, tanh(div(s, soft_cap))) : s;
  }
};

/// s - slope * |distance| for 16 tokens from position `first` on (Press et al. 2022).
F32x16 with_slope(F32x16 s, float slope, int32_t position, int64_t first) {
  alignas(64) static constexpr float kLaneNumbers[kLanes] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const F32x16 distance = sub(F32x16::broadcast(static_cast<float>(position - first)), F32x16::load(kLaneNumbers));
  return sub(s, mul(F32x16::broadcast(slope), max(distance, sub(F32x16::zero(), distance))));
}

/// Adds the biases of 16 keys, the first of which is at `distance` from the query. All distances beyond the reach have
/// the same bias.
F32x16 with_bias(F32x16 s, const float* biases, int64_t distance) {
  constexpr int64_t kLast = kBiasReach - (kLanes - 1);
  const int64_t from = distance > kLast ? kLast : distance < -kBiasReach ? -kBiasReach : distance;
  return add(s, F32x16::load(biases + from));
}

/// Converts n_rows rows of dot products with the block at position `begin` to weights exp(s - max), with 0 for masked
/// tokens. Row 0 is the task's row `first`. correction[r] is the factor for the row's earlier sums. It has 16 entries;
/// entries past n_rows are unspecified.
void softmax_block(const AttentionTask& task, int first, int n_rows, const uint64_t* seen, int64_t begin, float* s,
                   RowState* states, float* correction) {
  const ScoreRule rule(task);
  const F32x16 unseen = F32x16::broadcast(kMinusInfinity), log2_e = F32x16::broadcast(1.44269504088896341f);
  float base[kMaxTileRows];
  for (int r = 0; r < n_rows; ++r) {
    float* row = s + r * kBlockTokens;
    F32x16 highest = unseen;
    for (int t = 0; t < kTilesPerBlock; ++t) {
      F32x16 v = unseen;
      if (const uint16_t mask = tile_mask(seen[r], t); mask != 0) {
        v = rule(F32x16::load(row + t * kTileTokens));
        if (task.slopes != nullptr)
          v = with_slope(v, task.slopes[first + r], task.positions[first + r], begin + t * kTileTokens);
        if (task.biases != nullptr)
          v = with_bias(v, task.biases[first + r], begin + t * kTileTokens - task.positions[first + r]);
        v = select_mask(mask, v, unseen);
      }
      v.store(row + t * kTileTokens);
      highest = max(highest, v);
    }
    const float block_max = reduce_max(highest);
    const float old_max = states[r].max;
    states[r].max = block_max > old_max ? block_max : old_max;
    // A row without visible tokens so far subtracts 0, so that its weights are exp(-inf) = 0 and not NaN.
    base[r] = states[r].max == kMinusInfinity ? 0.0f : states[r].max;
    correction[r] = old_max - base[r];
  }
  exp2_nonpositive(mul(F32x16::load(correction), log2_e)).store(correction);
  for (int r = 0; r < n_rows; ++r) {
    float* row = s + r * kBlockTokens;
    F32x16 p[kTilesPerBlock];
    for (int t = 0; t < kTilesPerBlock; ++t) {
      p[t] = exp2_nonpositive(mul(sub(F32x16::load(row + t * kTileTokens), F32x16::broadcast(base[r])), log2_e));
      p[t].store(row + t * kTileTokens);
    }
    states[r].sum = states[r].sum * correction[r] + reduce_add(add(add(p[0], p[1]), add(p[2], p[3])));
  }
}

// The task ------------------------------------------------------------------------

int padded(int dim) { return (dim + kLanes - 1) / kLanes * kLanes; }

/// The mask of tokens 0 to n - 1 of a block: none for n <= 0, all for n >= 64.
uint64_t first_tokens(int64_t n) {
  if (n <= 0) return 0;
  return n >= kBlockTokens ? ~uint64_t{0} : (uint64_t{1} << n) - 1;
}

/// The mask of the tokens of block b to which a row at `position` attends.
uint64_t seen_tokens(const AttentionTask& task, int b, int32_t position) {
  const int64_t at = int64_t{position} - int64_t{b} * kBlockTokens;  // offset of the row's own position in the block
  uint64_t seen = task.valid[b];
  if (task.causal) seen &= first_tokens(at + 1);
  if (task.window > 0) seen &= first_tokens(at + task.window) & ~first_tokens(at - task.window + 1);
  return seen;
}

uint64_t union_of(const uint64_t* masks, int n) {
  uint64_t all = 0;
  for (int i = 0; i < n; ++i) all |= masks[i];
  return all;
}

/// The choices of attention() for all blocks: the kernels, and the layout of the scratch memory.
struct Plan {
  int n_groups;               // register tiles of nearly equal size
  int v_dim;                  // padded
  bool convert_k, convert_v;  // convert blocks to f32 once for all groups
  bool latent_v;              // extract V rows from the f32 block of K
  const KeyKernels *stored_keys, *keys;
  const ValueKernels *stored_values, *values;
  float *acc, *k_floats, *v_floats;
};

Plan make_plan(const AttentionTask& task, int k_dtype, int v_dtype, void* scratch) {
  Plan plan;
  plan.n_groups = (task.n_rows + kMaxTileRows - 1) / kMaxTileRows;
  plan.v_dim = padded(task.v_dim);
  // Measured: for up to two groups it is faster to read the stored block and convert it in registers. V requires whole
  // vectors.
  const bool many_groups = plan.n_groups > 2;
  plan.latent_v = task.v_base == nullptr;
  constexpr int kF32 = static_cast<int>(DType::f32);
  plan.convert_k = plan.latent_v || (many_groups && k_dtype != kF32);
  plan.convert_v = !plan.latent_v && ((many_groups && v_dtype != kF32) || plan.v_dim != task.v_dim);
  plan.stored_keys = kKeyKernels.of_dtype[k_dtype];
  plan.stored_values = plan.latent_v ? &kValues<RowF32> : kValueKernels.of_dtype[v_dtype];
  plan.keys = plan.convert_k ? &kKeys<RowF32> : plan.stored_keys;
  plan.values = plan.convert_v ? &kValues<RowF32> : plan.stored_values;
  plan.acc = static_cast<float*>(scratch);
  plan.k_floats = plan.acc + kMaxAttentionRows * plan.v_dim;
  plan.v_floats = plan.k_floats + kBlockTokens * task.k_dim;
  return plan;
}

struct Rows {
  const float* queries[kMaxAttentionRows];
  RowState states[kMaxAttentionRows];
  uint64_t seen[kMaxAttentionRows];  // tokens of the current block
};

/// Adds block b to every row that attends to any of its tokens.
void attend_block(const AttentionTask& task, const Plan& plan, int b, Rows& rows) {
  for (int i = 0; i < task.n_rows; ++i) rows.seen[i] = seen_tokens(task, b, task.positions[i]);
  const uint64_t any = union_of(rows.seen, task.n_rows);
  if (any == 0) return;

  const ptrdiff_t physical = task.blocks[b];
  const bool has_next = b + 1 < task.n_blocks && task.blocks[b + 1] >= 0;
  const ptrdiff_t blocks_ahead = has_next ? task.blocks[b + 1] - physical : 0;
  const auto k_stride = static_cast<ptrdiff_t>(task.k_block_stride);
  const auto v_stride = static_cast<ptrdiff_t>(task.v_block_stride);
  const char* k = static_cast<const char*>(task.k_base) + physical * k_stride;
  const char* v = plan.latent_v ? nullptr : static_cast<const char*>(task.v_base) + physical * v_stride;
  if (plan.convert_k) {
    plan.stored_keys->convert(k, blocks_ahead * k_stride, any, task.k_dim, plan.k_floats);
    k = reinterpret_cast<const char*>(plan.k_floats);
  }
  if (plan.latent_v) {
    values_of_keys(plan.k_floats, any, task.k_dim, task.v_dim, plan.v_dim, plan.v_floats);
    v = reinterpret_cast<const char*>(plan.v_floats);
  } else if (plan.convert_v) {
    plan.stored_values->convert(v, blocks_ahead * v_stride, any, task.v_dim, plan.v_dim, plan.v_floats);
    v = reinterpret_cast<const char*>(plan.v_floats);
  }
  for (int g = 0; g < plan.n_groups; ++g) {
    const int first = task.n_rows * g / plan.n_groups, n = task.n_rows * (g + 1) / plan.n_groups - first;
    const uint64_t tokens = union_of(rows.seen + first, n);
    if (tokens == 0) continue;
    alignas(64) float s[kMaxTileRows * kBlockTokens];
    float correction[kLanes] = {};
    plan.keys->scores[n - 1](rows.queries + first, k, blocks_ahead * k_stride, tokens, task.k_dim, s);
    softmax_block(task, first, n, rows.seen + first, int64_t{b} * kBlockTokens, s, rows.states + first, correction);
    plan.values->accumulate[n - 1](v, blocks_ahead * v_stride, tokens, plan.v_dim, s, correction,
                                   plan.acc + first * plan.v_dim);
  }
}

/// out = acc / sum, where the sum includes the weight of a sink.
void finish_row(const float* acc, const RowState& state, const float* sink, int dim, float* out) {
  const bool saw_any = state.sum != 0.0f;
  const F32x16 zero = F32x16::zero();
  F32x16 sum = F32x16::broadcast(state.sum);
  if (saw_any && sink != nullptr) sum = add(sum, exp(F32x16::broadcast(*sink - state.max)));
  for (int i = 0; i < dim; i += kLanes) {
    // Weights of 0 can turn an underflowed -0 into +0; adding 0 makes it +0 for every grouping.
    const F32x16 v = saw_any ? add(div(F32x16::load(acc + i), sum), zero) : zero;
    v.store_partial(out + i, dim - i < kLanes ? dim - i : kLanes);
  }
}

}  // namespace

// Scratch memory: the accumulators of all rows, then one block of K and one of V as f32.
size_t attention_scratch_bytes(int k_dim, int v_dim) {
  const auto k = static_cast<size_t>(k_dim), v = static_cast<size_t>(padded(v_dim));
  return sizeof(float) * (kMaxAttentionRows * v + kBlockTokens * (k + v));
}

void attention(const AttentionTask& task, int k_dtype, int v_dtype, void* scratch) {
  const Plan plan = make_plan(task, k_dtype, v_dtype, scratch);
  memset(plan.acc, 0, sizeof(float) * static_cast<size_t>(task.n_rows) * static_cast<size_t>(plan.v_dim));
  Rows rows;
  for (int i = 0; i < task.n_rows; ++i) rows.queries[i] = task.q + task.q_offsets[i];
  for (int b = task.first_block; b < task.n_blocks; ++b) {
    if (task.blocks[b] >= 0) attend_block(task, plan, b, rows);
  }
  for (int i = 0; i < task.n_rows; ++i) {
    finish_row(plan.acc + i * plan.v_dim, rows.states[i], task.sinks == nullptr ? nullptr : task.sinks + i, task.v_dim,
               task.out + task.out_offsets[i]);
  }
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
