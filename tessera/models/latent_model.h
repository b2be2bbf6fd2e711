// The base class of architectures with multi-head latent attention (DeepSeek-AI 2024). Keys and values are products of
// one latent vector per token. Current files store these products separately, so that they can be applied to q and to
// the heads' outputs instead (absorbed). The cache then stores only the latent vector and the rotated part of the key,
// which all heads share. Older files store one product, and the cache stores keys and values of each head.
//
// K and q are stored with the rotated part first. This does not change the dot product, and V is then the end of K.
#pragma once

#include "tessera/models/recurrent_model.h"

namespace tessera {

/// The projections of latent attention, except that of the output.
struct Latent {
  nn::Linear q{};  // absent if q is a product of two matrices, q_a and q_b
  nn::Linear q_a{}, q_b{};
  nn::Norm q_a_norm{};
  nn::Linear kv_a{};  // [n_embd, n_latent + n_rot]: the latent vector, and the rotated part of the key
  nn::Norm kv_a_norm{};
  const Tensor* k_b = nullptr;  // [n_nope, n_latent, n_heads]
  const Tensor* v_b = nullptr;  // [n_latent, v_dim, n_heads]
  nn::Linear kv_b{};            // instead of k_b and v_b: [n_latent, n_heads * (n_nope + v_dim)]
};

class LatentModel : public RecurrentModel {
 public:
  using RecurrentModel::RecurrentModel;

 protected:
  /// attention.kv_lora_rank, q_lora_rank, key_length_mla and value_length_mla. Scores are scaled by 1 / sqrt(key
  /// length). Errors: rope.dimension_count is not less than the key length.
  Result<> read_latent_keys();

  /// Norm, latent attention of head_count heads, norm, and the feed-forward block or experts of the traits.
  TransformerLayer list_layer(int64_t il) override;
  Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const override;

  Latent list_latent(int64_t il, int64_t n_heads);
  /// Adds a layer to the cache, with scores scaled by score_scale_.
  nn::Attention latent_attention(int64_t il, int64_t n_heads);
  /// Attention with its output projection. In the last layer only tokens whose output is wanted.
  Value attend_latent(LayerBuilder& s, Value x, const nn::Attention& a, const Latent& w) const;
  /// The keys to which the tokens of x attend, if a layer chooses them. q_latent is the normed product of q_a, or
  /// absent. Default: all keys.
  virtual Value chosen_keys(LayerBuilder& /*s*/, Value /*q_latent*/, Value /*x*/, const nn::Attention& /*a*/) const {
    return {};
  }

  int64_t n_rot_ = 0, n_latent_ = 0, n_latent_q_ = 0;
  int64_t head_k_dim_ = 0, head_v_dim_ = 0;  // per head, without absorption
  bool is_absorbed_ = false;
  float score_scale_ = 0.0f;
  std::vector<Latent> latents_;
};

}  // namespace tessera
