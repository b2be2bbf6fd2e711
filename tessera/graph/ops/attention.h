#pragma once

#include <cstdint>

#include "tessera/base/result.h"
#include "tessera/graph/params.h"
#include "tessera/graph/value.h"

namespace tessera {

/// The formula of a score, and the keys that a query attends to. The score of query q (position p_q, head h) and key k
/// is
///   s = scale * q k;  s = soft_cap * tanh(s / soft_cap);  s -= slope_h * |p_q - p_k|;  s += bias of h and p_k - p_q
struct AttentionParams {
  float scale = 1.0f;
  bool causal = true;      // no attention to keys after the query
  int64_t window = 0;      // > 0: attention only to keys with |p_q - p_k| < window
  bool chunked = false;    // instead: only to keys of the same chunk of `window` positions (Llama 4). Wants causal
  float soft_cap = 0.0f;   // 0: none
  float max_alibi = 0.0f;  // 0: no slopes (Press et al. 2022); else slope_h falls from 2^(-max_alibi / 2^floor(log2 H))
  // 0: V has a cache of its own. > 0: there is no V cache, and V is the last latent_v elements of K (latent attention).
  int64_t latent_v = 0;
  // A device may compute scores from 16-bit integers (codes of q and K), and round softmax weights and V to bf16.
  bool int16 = false;
  void list(ParamList& params) const;
};

/// The choice of keys for each query (DeepSeek-AI 2025, "DeepSeek-V3.2"; MiniMax M3). Keys are chosen in units of
/// `unit` consecutive positions. A unit's score is the highest of its visible keys.
struct KeyChoiceParams {
  int64_t n_chosen = 1;  // units per query; all visible ones if there are fewer
  int64_t unit = 1;      // positions per unit
  int64_t n_local = 0;   // this many units, up to the query's own, are always chosen, and count
  void list(ParamList& params) const;
};

/// Keys of a layer that attends to recent tokens in a window, and to entries that stand for older ones (DeepSeek-AI
/// 2026, "DeepSeek-V4"). The block tables of such a layer contain the entries first, in n_entry_blocks logical blocks.
/// The tokens follow: position p is at position 64 * n_entry_blocks + p of the table.
struct KeyWindowParams {
  int64_t window = 0;  // > 0: a token at p sees only tokens above p - window
  int64_t ratio = 1;   // positions per entry. A token at p sees the first (p + 1) / ratio entries
  int64_t n_entry_blocks = 0;
  void list(ParamList& params) const;
};

/// The compression of rows to an entry: a softmax over positions, separately for each channel (DeepSeek-AI 2026).
struct CompressionParams {
  int64_t ratio = 1;      // positions per entry
  bool overlaps = false;  // an entry also reads the positions of the entry before it
  void list(ParamList& params) const;
};

/// Errors: a parameter is not finite, or negative without meaning.
Result<> require_attention_params(const AttentionParams& params);

/// ALiBi's slope of a head (Press et al. 2022). The slopes are a geometric series over the largest power of two of
/// heads. The remaining heads use every other term of the series for twice as many heads.
float alibi_slope(float max_alibi, int64_t head, int64_t n_heads);

/// All keys at this distance or farther have the same bias.
inline constexpr int64_t kMaxBiasDistance = 128;

/// The row of a relative bias (Raffel et al. 2020) for a key at `distance` = p_k - p_q. Each short distance has a row;
/// longer distances share rows, in groups that grow with the distance. If causal, only keys before the query have rows.
/// Otherwise half of the n_buckets rows, a multiple of 4, are for keys after it.
int64_t bias_bucket(int64_t distance, int64_t n_buckets, bool causal);

/// The part of GraphBuilder that adds attention over the paged cache.
class AttentionOps {
 public:
  /// Returns softmax(scores) V. A token attends to stored positions of its own sequence.
  ///   q [k_dim, n_heads, n_tokens]; k_cache, v_cache as in kv_store (v_cache absent if V is part of K);
  ///   positions, slots i32 [n_tokens];
  ///   blocks i32 [n_max_blocks, n_slots]: physical block of each logical block of a slot's sequence, or -1;
  ///   valid i64 [n_max_blocks, n_slots]: bit i = position 64 * block + i is stored
  ///   sinks [n_heads] or absent: an extra score per head in the softmax, without a value
  ///   bias [n_heads, n_buckets] or absent: added to scores by distance, see bias_bucket()
  ///   chosen, of choose_keys(), or absent: a token attends only to these positions. All heads share a set, or the
  ///   heads of each KV head have their own
  ///   returns [v_dim, n_heads, n_tokens]
  Value paged_attention(Value q, Value k_cache, Value v_cache, Value positions, Value slots, Value blocks, Value valid,
                        Value sinks, const AttentionParams& params, Value bias = {}, Value chosen = {});

  /// Chooses the keys with the highest scores for each token, among the stored positions of its own sequence up to its
  /// own. Equal scores: the lower position first.
  ///   q [dim, n_heads, n_tokens]; k_cache of one head, as in kv_store; positions, slots, blocks, valid as above
  ///   weights [n_heads, n_tokens]: the score of a key is the sum over heads of weight * max(q k, 0), and n_sets is 1;
  ///   absent: each head chooses for itself by q k, and n_sets is n_heads
  ///   returns i64 [n_max_blocks, n_sets, n_tokens]: bit i = position 64 * block + i is chosen
  Value choose_keys(Value q, Value k_cache, Value weights, Value positions, Value slots, Value blocks, Value valid,
                    const KeyChoiceParams& params);

  /// The positions of a block table that each token sees: entries of `chosen`, and tokens in a window.
  ///   chosen, of choose_keys() on the same tables with one set, or absent for all entries
  ///   positions i32 [n_tokens]: of tokens, without the offset of the table; blocks as above
  ///   returns i64 [n_max_blocks, 1, n_tokens]: bit i = position 64 * block + i is seen
  Value window_keys(Value chosen, Value positions, Value blocks, const KeyWindowParams& params);

  /// The entries that tokens complete. A token at p completes one if p + 1 is a multiple of the ratio r. The entry is,
  /// for each channel, the sum of the last r rows up to p, weighted by the softmax of their gates plus biases. If
  /// entries overlap, the last 2 r rows count. The older r rows give the first `dim` channels of row, gate and bias,
  /// the newer ones the last `dim`. Otherwise a row has `dim` channels.
  ///   bias f32 [dim or 2 dim, r]: column p % r is added to the gates at p
  ///   rows, gates: caches of one head, f32, as K and V in kv_store. Positions that are not stored have weight 0
  ///   positions, slots, blocks, valid as above
  ///   cells i32 [n_tokens]: a token with cell -1 completes no entry that is wanted; its result is 0
  ///   returns [dim, n_tokens]
  Value compress_rows(Value bias, Value rows, Value gates, Value positions, Value slots, Value blocks, Value valid,
                      Value cells, const CompressionParams& params);
};

}  // namespace tessera
