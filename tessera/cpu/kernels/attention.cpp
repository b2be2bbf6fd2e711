// Attention of up to 256 query rows of one KV head over a sequence's cache blocks: the attention() of the Kernels.
// cpu/ops/attention.cpp calls it, one task per thread at a time.
//
// For each block of 64 tokens: scores with one token per lane (K tiles), online softmax (Milakov and Gimelshein 2018),
// then weighted V rows with one element per lane. Latent attention (DeepSeek-AI 2024) has no V: a block's K is
// converted to f32, and part of it is transposed into V rows. The bits of a row depend only on its query, its position
// and the tokens it attends to. Every score is one fma chain over elements, or a sum of integers. Every output is one
// fma chain over tokens ascending, with exactly 0 for tokens to which only other rows attend. So rows may be grouped in
// any way. A register tile holds up to kMaxTileRows of them.
//
// A task may ask for scores from 16-bit integers (attention_codes.h). Then softmax weights and V are rounded to bf16.
#include <string.h>

#include "tessera/cpu/kernels/attention_codes.h"
#include "tessera/cpu/kernels/attention_pairs.h"
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

/// The scores of 16 keys of row `row`, the first of which is at position `begin`, from their dot products.
F32x16 scores_of(const AttentionTask& task, F32x16 dots, int row, int64_t begin) {
  F32x16 v = dots;
  if (task.soft_cap != 0.0f) {
    const F32x16 cap = F32x16::broadcast(task.soft_cap);
    v = mul(cap, tanh(div(v, cap)));
  }
  if (task.slopes != nullptr) v = with_slope(v, task.slopes[row], task.positions[row], begin);
  if (task.biases != nullptr) v = with_bias(v, task.biases[row], begin - task.positions[row]);
  return v;
}

/// Converts n_rows rows of dot products s [n_rows][64] with the block at position `begin` to weights exp(score - max),
/// with 0 for masked tokens. Row 0 is the task's row `first`. correction[r] is the factor for the row's earlier sums.
/// It has 16 entries; entries past n_rows are unspecified.
///
/// With kCodes, s times `units` of its row are logarithms to base 2 of weights, and RowState::max is such a logarithm.
/// Otherwise s and RowState::max are scores.
template <bool kCodes, class Weights>
void softmax_block(const AttentionTask& task, int first, int n_rows, const uint64_t* seen, int64_t begin,
                   const float* units, float* s, RowState* states, float* correction, Weights& weights) {
  const F32x16 unseen = F32x16::broadcast(kMinusInfinity), log2_e = F32x16::broadcast(kLog2E);
  const bool has_terms = task.soft_cap != 0.0f || task.slopes != nullptr || task.biases != nullptr;
  // Without terms, codes are scaled where they are subtracted from the maximum. Then s keeps its unit.
  const bool keeps_unit = kCodes && !has_terms;
  float base[kMaxTileRows];
  for (int r = 0; r < n_rows; ++r) {
    float* row = s + r * kBlockTokens;
    const F32x16 to_score = F32x16::broadcast(kCodes ? units[r] * kLn2 : task.scale);
    F32x16 highest = unseen;
    for (int t = 0; t < kTilesPerBlock; ++t) {
      const uint16_t mask = tile_mask(seen[r], t);
      float* const tile = row + t * kTileTokens;
      if (keeps_unit && mask == 0xffff) {
        highest = max(highest, F32x16::load(tile));
        continue;
      }
      F32x16 v = unseen;
      if (mask != 0) {
        v = F32x16::load(tile);
        if (!keeps_unit) v = scores_of(task, mul(v, to_score), first + r, begin + t * kTileTokens);
        if (kCodes && has_terms) v = mul(v, log2_e);
        v = select_mask(mask, v, unseen);
      }
      v.store(tile);
      highest = max(highest, v);
    }
    const float block_max = reduce_max(highest) * (keeps_unit ? units[r] : 1.0f);
    const float old_max = states[r].max;
    states[r].max = block_max > old_max ? block_max : old_max;
    // A row without visible tokens so far subtracts 0, so that its weights are exp(-inf) = 0 and not NaN.
    base[r] = states[r].max == kMinusInfinity ? 0.0f : states[r].max;
    correction[r] = old_max - base[r];
  }
  const F32x16 change = F32x16::load(correction);
  exp2_nonpositive(kCodes ? change : mul(change, log2_e)).store(correction);
  for (int r = 0; r < n_rows; ++r) {
    const F32x16 unit = F32x16::broadcast(keeps_unit ? units[r] : 1.0f), subtracted = F32x16::broadcast(base[r]);
    F32x16 p[kTilesPerBlock];
    for (int t = 0; t < kTilesPerBlock; ++t) {
      F32x16 score = F32x16::load(s + r * kBlockTokens + t * kTileTokens);
      if constexpr (kCodes) score = mul(score, unit);
      const F32x16 below = sub(score, subtracted);
      p[t] = kCodes ? exp2_for_bf16(below) : exp2_nonpositive(mul(below, log2_e));
    }
    states[r].sum = states[r].sum * correction[r] + reduce_add(add(add(p[0], p[1]), add(p[2], p[3])));
    weights.set_row(r, p);
  }
}

// Masks ---------------------------------------------------------------------------

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
  if (task.window > 0) {
    const int32_t window = task.chunked ? position % task.window + 1 : task.window;
    seen &= first_tokens(at + window) & ~first_tokens(at - window + 1);
  }
  return seen;
}

uint64_t union_of(const uint64_t* masks, int n) {
  uint64_t all = 0;
  for (int i = 0; i < n; ++i) all |= masks[i];
  return all;
}

// Keys and values as floats -------------------------------------------------------

/// Scores by f32 fma. K is read from the cache, or from an f32 copy of a block.
class FloatKeys {
 public:
  static constexpr bool kCodes = false;
  static size_t scratch_bytes(int k_dim) { return sizeof(float) * kBlockTokens * static_cast<size_t>(k_dim); }

  FloatKeys(const AttentionTask& task, int k_dtype, int n_groups, char* scratch)
      : dim_(task.k_dim), stored_(kKeyKernels.of_dtype[k_dtype]), floats_(reinterpret_cast<float*>(scratch)) {
    // Measured: for up to two groups it is faster to read the stored block and convert it in registers.
    const bool many_groups = n_groups > 2;
    copies_ = task.v_base == nullptr || (many_groups && k_dtype != static_cast<int>(DType::f32));
    kernels_ = copies_ ? &kKeys<RowF32> : stored_;
    for (int i = 0; i < task.n_rows; ++i) queries_[i] = task.q + task.q_offsets[i];
  }

  /// Later scores are those of this block.
  void read_block(const StoredBlock& block, uint64_t tokens) {
    ahead_ = block.k_ahead;
    keys_ = block.k;
    if (!copies_) return;
    stored_->convert(block.k, block.k_ahead, tokens, dim_, floats_);
    keys_ = reinterpret_cast<const char*>(floats_);
  }
  /// The f32 copy of a block, for latent attention.
  const float* floats() const { return floats_; }

  /// Scores [n][64] of rows `first` on.
  void scores(int first, int n, uint64_t tokens, float* s) const {
    kernels_->scores[n - 1](queries_ + first, keys_, ahead_, tokens, dim_, s);
  }
  static const float* units(int) { return nullptr; }

 private:
  int dim_;
  bool copies_;
  const KeyKernels *stored_, *kernels_;
  float* floats_;
  const float* queries_[kMaxAttentionRows];
  const char* keys_ = nullptr;
  ptrdiff_t ahead_ = 0;
};

/// The weights of a register tile as floats, with kRound rounded to bf16.
template <bool kRound>
struct FloatWeights {
  alignas(64) float p[kMaxTileRows * kBlockTokens];

  void set_row(int r, const F32x16 (&row)[kTilesPerBlock]) {
    for (int t = 0; t < kTilesPerBlock; ++t)
      (kRound ? nearest_bf16(row[t]) : row[t]).store(p + r * kBlockTokens + t * kTileTokens);
  }
};

/// Weighted values by f32 fma. V is read from the cache, or from an f32 copy of a block. With kRound weights and V are
/// rounded to bf16.
template <bool kRound>
class FloatValues {
 public:
  using Weights = FloatWeights<kRound>;
  static size_t scratch_bytes(int v_dim) { return sizeof(float) * kBlockTokens * static_cast<size_t>(padded(v_dim)); }

  FloatValues(const AttentionTask& task, int v_dtype, int n_groups, char* scratch)
      : task_(task), v_dim_(padded(task.v_dim)), floats_(reinterpret_cast<float*>(scratch)) {
    // V requires whole vectors.
    const bool many_groups = n_groups > 2;
    constexpr int kF32 = static_cast<int>(DType::f32);
    latent_ = task.v_base == nullptr;
    copies_ = !latent_ && ((many_groups && (kRound || v_dtype != kF32)) || v_dim_ != task.v_dim);
    const ValueKernels* const of_floats = kRound && latent_ ? &kValues<Rounded<RowF32>> : &kValues<RowF32>;
    stored_ = latent_ ? of_floats : (kRound ? kRoundedValueKernels : kValueKernels).of_dtype[v_dtype];
    kernels_ = latent_ || copies_ ? of_floats : stored_;
  }

  /// Later sums are those of this block. keys: an f32 copy of its K, for latent attention.
  void read_block(const StoredBlock& block, uint64_t tokens, const float* keys) {
    ahead_ = block.v_ahead;
    values_ = block.v;
    if (latent_) {
      values_of_keys(keys, tokens, task_.k_dim, task_.v_dim, v_dim_, floats_);
    } else if (copies_) {
      stored_->convert(block.v, block.v_ahead, tokens, task_.v_dim, v_dim_, floats_);
    }
    if (latent_ || copies_) values_ = reinterpret_cast<const char*>(floats_);
  }

  /// acc[r] = acc[r] * correction[r] + the values with the weights of n rows.
  void accumulate(int n, uint64_t tokens, const Weights& weights, const float* correction, float* acc) const {
    kernels_->accumulate[n - 1](values_, ahead_, tokens, v_dim_, weights.p, correction, acc);
  }

 private:
  const AttentionTask& task_;
  int v_dim_;  // padded
  bool copies_;
  bool latent_;  // V rows are a part of the f32 block of K
  const ValueKernels *stored_, *kernels_;
  float* floats_;
  const char* values_ = nullptr;
  ptrdiff_t ahead_ = 0;
};

// The task ------------------------------------------------------------------------

struct Rows {
  RowState states[kMaxAttentionRows];
  uint64_t seen[kMaxAttentionRows];  // tokens of the current block
  int32_t first_position;            // the lowest one
  bool all_see_same = false;         // all of `seen` are equal

  explicit Rows(const AttentionTask& task) : first_position(task.positions[0]) {
    for (int i = 1; i < task.n_rows; ++i)
      if (task.positions[i] < first_position) first_position = task.positions[i];
  }

  /// Sets `seen` to the tokens of block b to which each row attends. Returns those of any row.
  uint64_t see(const AttentionTask& task, int b) {
    if (task.chosen != nullptr) {
      for (int i = 0; i < task.n_rows; ++i) seen[i] = task.chosen[i][b] & seen_tokens(task, b, task.positions[i]);
      return union_of(seen, task.n_rows);
    }
    // Most blocks of a long context are before all rows.
    if (task.window == 0 && (!task.causal || first_position >= (int64_t{b} + 1) * kBlockTokens - 1)) {
      if (!all_see_same || seen[0] != task.valid[b])
        for (int i = 0; i < task.n_rows; ++i) seen[i] = task.valid[b];
      all_see_same = true;
      return task.valid[b];
    }
    all_see_same = false;
    for (int i = 0; i < task.n_rows; ++i) seen[i] = seen_tokens(task, b, task.positions[i]);
    return union_of(seen, task.n_rows);
  }
};

/// Adds block b to every row that attends to any of its tokens. The rows form n_groups register tiles of nearly equal
/// size.
template <class Keys, class Values>
void attend_block(const AttentionTask& task, int b, int n_groups, Keys& keys, Values& values, Rows& rows, float* acc) {
  const uint64_t any = rows.see(task, b);
  if (any == 0) return;

  const ptrdiff_t physical = task.blocks[b];
  const bool has_next = b + 1 < task.n_blocks && task.blocks[b + 1] >= 0;
  const ptrdiff_t blocks_ahead = has_next ? task.blocks[b + 1] - physical : 0;
  const auto k_stride = static_cast<ptrdiff_t>(task.k_block_stride);
  const auto v_stride = static_cast<ptrdiff_t>(task.v_block_stride);
  const StoredBlock block = {
      .k = static_cast<const char*>(task.k_base) + physical * k_stride,
      .v = task.v_base == nullptr ? nullptr : static_cast<const char*>(task.v_base) + physical * v_stride,
      .k_ahead = blocks_ahead * k_stride,
      .v_ahead = blocks_ahead * v_stride};
  keys.read_block(block, any);
  values.read_block(block, any, keys.floats());
  const int v_dim = padded(task.v_dim);
  for (int g = 0; g < n_groups; ++g) {
    const int first = task.n_rows * g / n_groups, n = task.n_rows * (g + 1) / n_groups - first;
    const uint64_t tokens = union_of(rows.seen + first, n);
    if (tokens == 0) continue;
    alignas(64) float s[kMaxTileRows * kBlockTokens];
    float correction[kLanes] = {};
    typename Values::Weights weights;
    keys.scores(first, n, tokens, s);
    softmax_block<Keys::kCodes>(task, first, n, rows.seen + first, int64_t{b} * kBlockTokens, keys.units(first), s,
                                rows.states + first, correction, weights);
    values.accumulate(n, tokens, weights, correction, acc + first * v_dim);
  }
}

/// out = acc / sum, where the sum includes the weight of a sink. max_unit is that of RowState::max.
void finish_row(const float* acc, const RowState& state, float max_unit, const float* sink, int dim, float* out) {
  const bool saw_any = state.sum != 0.0f;
  const F32x16 zero = F32x16::zero();
  F32x16 sum = F32x16::broadcast(state.sum);
  if (saw_any && sink != nullptr) sum = add(sum, exp(F32x16::broadcast(*sink - state.max * max_unit)));
  for (int i = 0; i < dim; i += kLanes) {
    // Weights of 0 can turn an underflowed -0 into +0; adding 0 makes it +0 for every grouping.
    const F32x16 v = saw_any ? add(div(F32x16::load(acc + i), sum), zero) : zero;
    v.store_partial(out + i, dim - i < kLanes ? dim - i : kLanes);
  }
}

size_t accumulator_bytes(int v_dim) { return sizeof(float) * kMaxAttentionRows * static_cast<size_t>(padded(v_dim)); }

template <class Keys, class Values>
void attend(const AttentionTask& task, int k_dtype, int v_dtype, char* scratch) {
  const int n_groups = (task.n_rows + kMaxTileRows - 1) / kMaxTileRows;
  const int v_dim = padded(task.v_dim);
  auto* const acc = reinterpret_cast<float*>(scratch);
  memset(acc, 0, sizeof(float) * static_cast<size_t>(task.n_rows) * static_cast<size_t>(v_dim));
  scratch += accumulator_bytes(task.v_dim);
  Keys keys(task, k_dtype, n_groups, scratch);
  Values values(task, v_dtype, n_groups, scratch + Keys::scratch_bytes(task.k_dim));
  Rows rows(task);
  for (int b = task.first_block; b < task.n_blocks; ++b)
    if (task.blocks[b] >= 0) attend_block(task, b, n_groups, keys, values, rows, acc);
  for (int i = 0; i < task.n_rows; ++i)
    finish_row(acc + i * v_dim, rows.states[i], Keys::kCodes ? kLn2 : 1.0f,
               task.sinks == nullptr ? nullptr : task.sinks + i, task.v_dim, task.out + task.out_offsets[i]);
}

}  // namespace

size_t attention_scratch_bytes(int k_dim, int v_dim) {
  size_t values = FloatValues<true>::scratch_bytes(v_dim);
#if defined(TESSERA_ISA_avx512)
  values = PairValues::scratch_bytes(v_dim);
#endif
  return accumulator_bytes(v_dim) + CodeKeys::scratch_bytes(k_dim) + values;
}

void attention(const AttentionTask& task, int k_dtype, int v_dtype, void* scratch) {
  auto* attend_with = task.int16 ? attend<CodeKeys, FloatValues<true>> : attend<FloatKeys, FloatValues<false>>;
#if defined(TESSERA_ISA_avx512)
  if (task.int16 && task.has_bf16_dot) attend_with = attend<CodeKeys, PairValues>;
#endif
  attend_with(task, k_dtype, v_dtype, static_cast<char*>(scratch));
}

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
