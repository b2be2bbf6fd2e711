// Differences between architectures that are values. An architecture that has no others is a row of models.def.
#pragma once

#include <string_view>

#include "tessera/nn/experts.h"
#include "tessera/nn/norm.h"

namespace tessera {

/// Weights of the output layer.
enum class OutputWeights : uint8_t {
  own_or_embedding,  // a tensor of their own or, if the file has none, the embedding's
  own,
  own_or_both,  // their own, which are also the embedding if the file has none
  embedding,    // the embedding's
  none,         // the model has no output layer
};

/// Part of a head that is rotated.
enum class RopePart : uint8_t { none, some, whole };

/// Weights of feed-forward blocks whose .scale is applied: only NVFP4, where the scale is part of the format, or all.
/// Files of other types have such scales too, but llama.cpp applies them in few architectures only.
enum class FfnScales : uint8_t { nvfp4, all };

/// The weights of the dense feed-forward block.
enum class FfnForm : uint8_t {
  gated,  // gate, up and down
  fused,  // gate and up in one matrix, and down
  plain,  // up and down
};

/// The formula of a layer on x.
enum class LayerForm : uint8_t {
  pre_norm,   // x += attention(norm(x)); x += ffn(norm(x))
  post_norm,  // x += norm(attention(x)); x += norm(ffn(x))
  sandwich,   // x += norm(attention(norm(x))); x += norm(ffn(norm(x)))
  parallel,   // n = norm(x); x += attention(n) + ffn(n)
  norm_sum,   // x = norm(x + attention(x)); x = norm(x + ffn(x))
};

/// Gates of attention: the heads' outputs are multiplied by a function of attn_gate x, per head or per element.
enum class HeadGate : uint8_t { none, sigmoid, sigmoid_if_any, softplus };

/// Norms of q and k: of each head before or after the rotation, if the file has them, of each head with weights of its
/// own, or of all heads together.
enum class QkNorms : uint8_t { none, heads, rotated_heads, heads_if_any, each_head, whole };

/// Optional weights that the graph applies. llama.cpp loads some without applying them, so files may have them.
struct OptionalWeights {
  bool qkv_bias = true, qkv_scale = true;
  bool out_bias = true;  // of the output projection of attention
  bool ffn_bias = true;
  bool output_bias = true, output_scale = true;
  bool rope_factors = true;
};

/// Use of a key that some architectures ignore.
enum class KeyUse : uint8_t { ignored, optional, required };

/// Layers with a window, in periods of layers that end (or begin) with one without. Windows of models that are not
/// causal are symmetric: they reach half as far to either side.
struct WindowTraits {
  int64_t period = 0;            // 0: no windows, unless there is a pattern
  int64_t only_with_layers = 0;  // > 0: only models with this many layers have windows
  bool begins_without = false;   // the first layer of a period has no window, not the last
  // attention.sliding_window_pattern: the period, 0 if all layers have windows, or a flag per layer.
  KeyUse pattern = KeyUse::ignored;
  bool reads_period = false;        // attention.sliding_window_pattern is the period if it is one number
  bool is_required = false;         // of attention.sliding_window
  int64_t absent = 0;               // the window if the file has no key; 0: none
  bool is_rope_of_windows = false;  // layers without a window are not rotated
  float rope_base = 0.0f;           // of layers with a window if the file has no rope.freq_base_swa; 0: rope.freq_base
  bool has_rope_base = true;        // rope.freq_base_swa is used
  bool has_own_n_rot = false;       // rope.dimension_count_swa is used
  bool is_stretched = true;         // layers with a window have the factor of the others' rope scaling
  bool is_scaled = true;            // layers with a window have the rope scaling of the others
};

/// Layers with experts: none, all if the file has experts, all, all after leading_dense_block_count, or those with a
/// router in the file.
enum class ExpertLayers : uint8_t { none, if_counted, all, after_dense, with_router };

/// Columns of an expert: expert_feed_forward_length; the same or, if absent, feed_forward_length / expert_used_count;
/// the same or, if absent, feed_forward_length; always feed_forward_length.
enum class ExpertWidth : uint8_t { own, own_or_share, own_or_dense, dense };

/// Columns of the shared expert. Its own key is expert_shared_feed_forward_length, and expert_shared_count counts
/// shared experts, which files store as one.
enum class SharedWidth : uint8_t {
  none,
  own,             // its own key
  own_or_expert,   // its own key or, if absent, those of an expert
  own_or_dense,    // its own key or, if absent, those of the dense block
  counted,         // the count times those of an expert
  counted_own,     // the count times (its own key or, if absent, those of an expert)
  own_or_counted,  // its own key or, if absent, the count times those of an expert
};

/// The mixture of experts of an architecture.
struct MixtureTraits {
  ExpertLayers layers = ExpertLayers::none;
  ExpertWidth width = ExpertWidth::own;
  SharedWidth shared = SharedWidth::none;
  int64_t shared_count = 0;                 // if expert_shared_count is absent
  bool has_shared_gate = false;             // the shared expert's output is multiplied by a sigmoid
  nn::Gating gating = nn::Gating::softmax;  // if expert_gating_func is ignored or absent
  KeyUse gating_key = KeyUse::ignored;      // expert_gating_func
  bool normalize = true;                    // divide a token's weights by their sum, if the key is ignored
  bool reads_norm = false;                  // expert_weights_norm is used; absent: false
  bool reads_scale = false;                 // expert_weights_scale is used
  KeyUse step_key = KeyUse::ignored;        // interleave_moe_layer_step n: only each n-th layer has experts
};

/// Prediction heads in files of an architecture: none; or heads whose hidden states, the model's and their own, are
/// those after the final norm, or before it.
enum class PredictionHeads : uint8_t { none, after_norm, before_norm };

struct TransformerTraits {
  std::string_view architecture;
  LayerForm form = LayerForm::pre_norm;
  FfnForm ffn = FfnForm::gated;
  nn::Activation activation = nn::Activation::silu;
  nn::NormKind norm = nn::NormKind::rms;
  bool has_norm_weights = true;
  QkNorms qk_norms = QkNorms::none;
  RopePart rope = RopePart::some;
  RopePairs pairs = RopePairs::adjacent;
  int64_t no_rope_period = 0;              // > 0: the last layer of each period is not rotated
  KeyUse rope_sections = KeyUse::ignored;  // rope.dimension_sections
  float max_alibi = 0.0f;                  // 0: no ALiBi
  KeyUse clamp = KeyUse::ignored;          // attention.clamp_kqv
  bool has_sinks = false;                  // attn_sinks
  HeadGate gate = HeadGate::none;
  bool has_qkv_of_all_heads = false;  // attn_qkv has K and V for as many heads as Q; the first KV heads are used
  OutputWeights output = OutputWeights::own_or_embedding;
  std::string_view ffn_norm = "ffn_norm";
  std::string_view output_norm = "output_norm";  // empty: none
  bool has_embd_norm = false;                    // token_embd_norm
  bool has_positions = false;                    // position_embd
  bool has_token_types = false;                  // the first row of token_types is added to all embeddings
  bool has_width_scale = false;                  // embeddings are multiplied by sqrt(n_embd)
  KeyUse logit_scale = KeyUse::ignored;          // logits are multiplied by it; 0: not scaled
  FfnScales ffn_scales = FfnScales::nvfp4;
  OptionalWeights optional{};
  WindowTraits window{};
  MixtureTraits mixture{};
  int64_t min_heads_kv = 1;  // 0: layers without KV heads are recurrent, and may have no heads at all
  bool is_causal = true;     // false: tokens attend to the whole text
  PredictionHeads heads = PredictionHeads::none;
  bool has_loops = false;  // num_loops: passes through the layers, each with K and V of its own
};

}  // namespace tessera
