#pragma once

#include <cstdint>

#include "tessera/base/result.h"

namespace tessera {

/// What a score is made of and which tokens a query sees. The score of query q (position p_q, head h) and key k is
///   s = scale * q k;  s = soft_cap * tanh(s / soft_cap);  s -= slope_h * |p_q - p_k|;  s += bias of h and p_k - p_q
struct AttentionParams {
  float scale = 1.0f;
  bool causal = true;      // keys after the query are not seen
  int64_t window = 0;      // > 0: only keys with |p_q - p_k| < window are seen
  float soft_cap = 0.0f;   // 0: none
  float max_alibi = 0.0f;  // 0: no slopes (Press et al. 2022); else slope_h falls from 2^(-max_alibi / 2^floor(log2 H))
  // 0: V has a cache of its own. Else there is none, and V is the last latent_v elements of K (latent attention).
  int64_t latent_v = 0;
};

/// errors: not finite or negative where it makes no sense
Result<> want_attention_params(const AttentionParams& params);

/// ALiBi's slope of a head (Press et al. 2022): a geometric series over the largest power of two of heads; the heads
/// beyond it take every other term of the series of twice as many.
float alibi_slope(float max_alibi, int64_t head, int64_t n_heads);

/// From this distance on all keys have one bias.
inline constexpr int64_t kMaxBiasDistance = 128;

/// The row of a relative bias (Raffel et al. 2020) for a key at `distance` = p_k - p_q. Short distances have a row
/// each, longer ones share them, more the longer they are. Causal: keys before the query alone have rows; else half of
/// the n_buckets rows, a multiple of 4, are for those after it.
int64_t bias_bucket(int64_t distance, int64_t n_buckets, bool causal);

}  // namespace tessera
