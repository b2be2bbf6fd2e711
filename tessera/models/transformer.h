// The base of all architectures: common keys, lists of weights, and the outer graph (embedding, layers, final norm,
// output). An architecture is one file with its differences: keys of its own, the weights of a layer, and the formula
// of a layer if it is not the common one (docs/add_model.md).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/models/hparams.h"
#include "tessera/nn/attention.h"
#include "tessera/nn/experts.h"

namespace tessera {

/// Bounds of the values in a file: far above any model, and so low that no product of them overflows.
inline constexpr int64_t kMaxLayers = 512;
inline constexpr int64_t kMaxWidth = int64_t{1} << 20;
inline constexpr int64_t kMaxHeads = 4096;
inline constexpr int64_t kMaxHeadDim = 4096;
inline constexpr int64_t kMaxExperts = 512;

/// Weights of the output layer: a tensor of their own or, if the file has none, the embedding's; always their own;
/// always the embedding's; no output layer.
enum class OutputWeights : uint8_t { own_or_embedding, own, embedding, none };

/// Part of a head that is rotated.
enum class RopePart : uint8_t { none, some, whole };

/// Weights of feed-forward blocks whose .scale is applied: only NVFP4, where the scale is part of the format, or all.
/// Files of other types have such scales too, but llama.cpp applies them in few architectures only.
enum class FfnScales : uint8_t { nvfp4, all };

/// The dense feed-forward block: gate, up and down; gate and up in one matrix, and down; up and down.
enum class FfnForm : uint8_t { gated, fused, plain };

/// Differences between architectures that are values.
struct TransformerTraits {
  std::string_view architecture;
  FfnForm ffn = FfnForm::gated;
  nn::Activation activation = nn::Activation::silu;
  nn::NormKind norm = nn::NormKind::rms;
  RopePart rope = RopePart::some;
  RopePairs pairs = RopePairs::adjacent;
  OutputWeights output = OutputWeights::own_or_embedding;
  std::string_view output_norm = "output_norm";  // empty: none
  FfnScales ffn_scales = FfnScales::nvfp4;
  int64_t min_heads_kv = 1;  // 0: layers without KV heads are recurrent, and may have no heads at all
  bool is_causal = true;     // false: an encoder
  bool has_heads = false;    // files may have prediction heads of this architecture
};

/// The weights of a layer. An architecture fills in its own; the others stay absent.
struct TransformerLayer {
  nn::Norm attn_norm{}, attn_post_norm{};
  nn::Attention attention{};
  nn::Norm ffn_norm{}, ffn_post_norm{};
  nn::Ffn ffn{};
  nn::Experts experts{};     // no router weight: none
  nn::Ffn shared_expert{};   // beside experts
  nn::Linear shared_gate{};  // [n_embd, 1]: the shared expert's output is multiplied by its sigmoid
};

/// Builds the layers of a graph; the terms in which an architecture writes its formula.
class LayerBuilder {
 public:
  LayerBuilder(GraphBuilder& builder, const nn::BatchInputs& inputs, const KvCache& kv_cache, int64_t n_layers)
      : b(builder), in(inputs), cache(kv_cache), n_layers_(n_layers) {}

  GraphBuilder& b;
  const nn::BatchInputs& in;
  const KvCache& cache;
  std::vector<nn::RopeTable> ropes;
  Value q_factors{};            // [1, 1, n_tokens] or absent: q is multiplied by them after it is rotated
  float residual_scale = 1.0f;  // factor of y in residual()
  int64_t layer = 0;
  Value shared{};  // a value that one layer leaves for later layers, in architectures that have it

  Value norm(Value x, const nn::Norm& n) { return n.present() ? nn::norm(b, x, n) : x; }
  /// Attention with its output projection. In the last layer only tokens whose output is wanted.
  Value attend(Value x, const nn::Attention& attention);
  /// The experts plus the shared expert, or the dense block of a layer without experts.
  Value ffn(Value x, const TransformerLayer& layer);
  /// x + residual_scale * y. In the last layer x is reduced to the rows of y.
  Value residual(Value x, Value y);
  /// x + attention(attn_input) + ffn(ffn_input).
  Value parallel(Value x, Value attn_input, Value ffn_input, const TransformerLayer& layer);

  /// Reduces x [n, t] to the tokens whose output is wanted, in the last layer, once. Ends the graph if there are none.
  /// Returns x itself in other layers.
  Value wanted(Value x);

 private:
  int64_t n_layers_;
};

class Transformer : public Model {
 public:
  Transformer(const ModelFiles& files, const TransformerTraits& traits, const RopeOverrides& overrides)
      : Model(files), files_(files), traits_(traits), overrides_(overrides), hp_(files, traits.architecture) {}

  /// Reads the keys and lists the weights. Errors: as create_model().
  Result<> read();
  Value build(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const override;
  Value build_embeddings(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const override;
  HiddenRows build_hidden(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const override;
  Value build_rank(GraphBuilder& b, Value x) const override;
  bool may_add_head() const override;
  Result<> add_head() override;

 protected:
  // --- overridden by architectures

  /// Reads the keys of the architecture, after the common ones.
  virtual Result<> read_keys() { return {}; }
  /// Lists weights outside the layers, besides those of list_outer().
  virtual void list_more() {}
  /// Lists the weights of one layer. Default: norm, attention, norm, and the dense feed-forward block of the traits.
  virtual TransformerLayer list_layer(int64_t il);
  /// One layer on x [n_embd, t]. Default: x += post(attention(norm(x))), x += post(ffn(norm(x))), without the norms
  /// that are absent.
  virtual Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const;
  /// The embeddings of in.tokens [n_embd, t]. Default: rows of token_embd times embedding_scale_, plus rows of
  /// position_embd, normed by embd_norm_, each if present.
  virtual Value embed(LayerBuilder& s) const;

  // --- weights by name

  static std::string block(int64_t il, std::string_view name);  // "blk.3.name"
  nn::Linear linear(const std::string& name, int64_t n_in, int64_t n_out, nn::ScaleOf scale_of = nn::ScaleOf::product);
  nn::Norm norm(const std::string& name, const Shape& shape);
  /// Absent if the file has no such weight.
  nn::Norm maybe_norm(const std::string& name, const Shape& shape);
  nn::Norm norm(int64_t il, std::string_view name) { return norm(block(il, name), {info_.n_embd}); }

  /// attn_q, attn_k, attn_v, or the fused attn_qkv, and attn_output. Adds a layer to the cache, scales scores by
  /// 1 / sqrt(k_dim), and uses rope 0 if there is one.
  nn::Attention attention(int64_t il) { return attention(il, k_dim_, v_dim_); }
  nn::Attention attention(int64_t il, int64_t k_dim, int64_t v_dim);
  /// attn_q_norm and attn_k_norm [k_dim], applied to each head separately.
  void add_head_norms(nn::Attention& attention, int64_t il);
  /// The same norms over all heads of a token: [k_dim * n_heads] and [k_dim * n_heads_kv].
  void add_whole_norms(nn::Attention& attention, int64_t il);

  /// ffn_gate, ffn_up, ffn_down.
  nn::Ffn gated_ffn(int64_t il, nn::Activation activation = nn::Activation::silu);
  /// ffn_up whose first half is the gate, ffn_down.
  nn::Ffn fused_ffn(int64_t il, nn::Activation activation = nn::Activation::silu);
  /// ffn_up, ffn_down.
  nn::Ffn plain_ffn(int64_t il, nn::Activation activation);
  /// ffn_{gate,up,down}_shexp of n_ff columns.
  nn::Ffn shared_expert(int64_t il, int64_t n_ff);
  /// ffn_gate_inp and ffn_{gate,up,down}_exps (or ffn_gate_up_exps, ffn_down_exps) of n_ff columns. Completes the given
  /// router with its weights and the numbers of experts.
  nn::Experts experts(int64_t il, int64_t n_ff, const nn::Router& router);
  /// Experts of feed_forward_length columns, weighted by a softmax divided by its sum (Mixtral), if the file has
  /// experts; else the dense gated block.
  void add_ffn_or_experts(TransformerLayer& layer, int64_t il);

  /// Sets window_ and window_rope_ on all but the last layer of each `period`; the last one has no window and uses
  /// full_rope.
  void alternate_window(nn::Attention& attention, int64_t il, int64_t period, int full_rope = 0) const;

  /// feed_forward_length of a layer with a dense block. Errors are recorded in the weights.
  int64_t n_ff(int64_t il);

  // --- keys

  /// The index of a rope: of an equal one that exists, else of a new one.
  int add_rope(const nn::RopeConfig& config);
  /// Defaults of the rope of layers with a window, used where the file has no rope.freq_base_swa.
  struct WindowRope {
    float base;
    bool is_stretched = true;  // as rope 0
  };
  /// The index of the rope of layers with a window.
  Result<int> window_rope(const WindowRope& absent);
  /// attention.sliding_window.
  Result<int64_t> window(int64_t absent);
  /// Errors: expert_count is missing or 0.
  Result<> require_experts();
  /// expert_feed_forward_length. absent = 0: the key is required.
  Result<int64_t> n_ff_experts(int64_t absent);
  /// expert_gating_func, _weights_norm, _weights_scale and the groups.
  Result<nn::Router> router_from_keys(nn::Gating absent);
  /// YaRN's bounds and logarithm in the file, which most architectures ignore.
  Result<> read_yarn_keys();
  /// attention.temperature_scale, and temperature_length or `length`.
  Result<> read_temperature(int64_t length);
  /// rope.dimension_sections: rope 0 then pairs halves. In text all sections have the token's position. Errors:
  /// unsupported for a fourth section.
  Result<> read_rope_sections();
  /// Granite's embedding_scale, residual_scale and attention.scale, each optional.
  Result<> read_multipliers();

  const ModelFiles& files_;
  TransformerTraits traits_;
  RopeOverrides overrides_;
  HparamReader hp_;

  int64_t n_layers_ = 0;  // without the blocks of prediction heads
  int64_t n_blocks_ = 0;  // blocks in the file: the length of arrays
  std::vector<int64_t> n_ff_, n_heads_, n_heads_kv_;
  int64_t k_dim_ = 0, v_dim_ = 0;
  float eps_ = 0.0f;
  int64_t n_experts_ = 0;  // 0: dense
  int64_t n_experts_used_ = 0;
  int64_t window_ = 0;   // of layers with a window; set by architectures that have them
  int window_rope_ = 0;  // their rope's index

  float embedding_scale_ = 1.0f;
  float residual_scale_ = 1.0f;
  float attention_scale_ = 0.0f;   // of scores; 0: 1 / sqrt(k_dim)
  float logit_scale_ = 1.0f;       // logits are multiplied by it
  float final_soft_cap_ = 0.0f;    // 0: none
  TemperatureParams temperature_;  // beta 0: none
  const Tensor* token_embd_ = nullptr;
  const Tensor* position_embd_ = nullptr;
  nn::Norm embd_norm_, output_norm_;
  nn::Linear output_;
  nn::RankHead rank_;  // its weights are optional
  std::vector<TransformerLayer> layers_;

 private:
  class Head;

  Result<> read_common_keys();
  Result<> read_heads();
  Result<> read_main_rope();
  Result<> read_pooling();
  LayerBuilder layer_builder(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache, int64_t n_layers) const;
  Value run_layers(LayerBuilder& s) const;
  Value final_rows(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const;
  Value logits(GraphBuilder& b, Value x, const nn::Linear& output) const;
  void list_outer();
  void list_output();
  void list_rank_head();
  void list_rope_factors();
  void finish_cache_layers(ModelInfo& info, std::span<const TransformerLayer> layers, int64_t first_block) const;
  bool applies_ffn_scale(const Tensor* weight) const;
  nn::ExpertLinear expert_linear(const std::string& name, int64_t n_in, int64_t n_out);
};

template <class Architecture>
Result<std::unique_ptr<Model>> create_transformer(const ModelFiles& files, const RopeOverrides& overrides,
                                                  const TransformerTraits& traits) {
  auto model = std::make_unique<Architecture>(files, traits, overrides);
  TESSERA_TRY(model->read());
  return model;
}

}  // namespace tessera
