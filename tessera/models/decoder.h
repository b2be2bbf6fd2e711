// What the architectures of decoder language models have in common: the keys, the lists of weights, and the outer graph
// (embedding, layers, final norm, output). An architecture is one file that says what differs: its own keys, the
// weights of a layer, and the formula of a layer where it is not the common one (docs/add_model.md).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tessera/models/hparams.h"
#include "tessera/nn/attention.h"
#include "tessera/nn/experts.h"

namespace tessera {

/// Bounds of what files may ask for: far above any model, and so low that no product of them overflows.
inline constexpr int64_t kMaxLayers = 512;
inline constexpr int64_t kMaxWidth = int64_t{1} << 20;
inline constexpr int64_t kMaxHeads = 4096;
inline constexpr int64_t kMaxHeadDim = 4096;
inline constexpr int64_t kMaxExperts = 512;

/// What the output layer's weights are: a tensor of their own, which may be absent (then the embedding's) or not, or
/// always the embedding's; none: there is no output layer.
enum class OutputWeights : uint8_t { own_or_embedding, own, embedding, none };

/// How much of a head is rotated.
enum class RopePart : uint8_t { none, some, whole };

/// Which weights of feed-forward blocks have their .scale applied: NVFP4's, to whose format it belongs, or all. Files
/// of other types have scales too, which llama.cpp looks at in few architectures.
enum class FfnScales : uint8_t { nvfp4, all };

struct DecoderTraits {
  std::string_view architecture;
  nn::NormKind norm = nn::NormKind::rms;
  RopePart rope = RopePart::some;
  RopePairs pairs = RopePairs::adjacent;
  OutputWeights output = OutputWeights::own_or_embedding;
  std::string_view output_norm = "output_norm";  // empty: none
  FfnScales ffn_scales = FfnScales::nvfp4;
  int64_t min_heads_kv = 1;  // 0: layers without KV heads are of another kind, and may have no heads at all
  bool is_causal = true;     // false: an encoder
};

/// The weights of a layer; an architecture fills in those it has.
struct DecoderLayer {
  nn::Norm attn_norm{}, attn_post_norm{};
  nn::Attention attention{};
  nn::Norm ffn_norm{}, ffn_post_norm{};
  nn::Ffn ffn{};
  nn::Experts experts{};     // no router weight: none
  nn::Ffn shared_expert{};   // beside experts
  nn::Linear shared_gate{};  // [n_embd, 1]: the shared expert's output is multiplied by its sigmoid
};

/// A layer's formula is written in these terms.
class DecoderStep {
 public:
  DecoderStep(GraphBuilder& builder, const nn::BatchInputs& inputs, const KvCache& kv_cache, int64_t n_layers)
      : b(builder), in(inputs), cache(kv_cache), n_layers_(n_layers) {}

  GraphBuilder& b;
  const nn::BatchInputs& in;
  const KvCache& cache;
  std::vector<nn::RopeTable> ropes;
  Value q_factors{};            // [1, 1, n_tokens] or absent: q is multiplied by them after it is rotated
  float residual_scale = 1.0f;  // what residual() multiplies y by
  int64_t layer = 0;
  Value shared{};  // what a layer leaves to those after it, where an architecture has that

  Value norm(Value x, const nn::Norm& n) { return n.present() ? nn::norm(b, x, n) : x; }
  /// Attention with its output projection; in the last layer of the wanted tokens only.
  Value attend(Value x, const nn::Attention& attention);
  /// Experts, and the shared one beside them; without experts the dense block.
  Value ffn(Value x, const DecoderLayer& layer);
  /// x + y, y multiplied by residual_scale. In the last layer the rows of x that y has.
  Value residual(Value x, Value y);
  /// x + attention(attn_input) + ffn(ffn_input).
  Value parallel(Value x, Value attn_input, Value ffn_input, const DecoderLayer& layer);

  /// From the last layer's attention on only wanted tokens go on: the rows of x for them, if x [n, t] has not been
  /// through this already. Where none are wanted the graph ends here. In other layers x itself.
  Value wanted(Value x);

 private:
  int64_t n_layers_;
};

class Decoder : public Model {
 public:
  Decoder(const ModelFiles& files, const DecoderTraits& traits, const RopeOverrides& overrides)
      : Model(files), files_(files), traits_(traits), overrides_(overrides), hp_(files, traits.architecture) {}

  /// Reads the keys and lists the weights. Errors: as create_model().
  Result<> read();
  Value build(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const override;
  Value build_embeddings(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const override;
  Value build_rank(GraphBuilder& b, Value x) const override;

 protected:
  // --- what an architecture says

  /// Its own keys; the common ones are read already.
  virtual Result<> read_keys() { return {}; }
  /// Weights outside the layers other than those of list_outer().
  virtual void list_more() {}
  /// Weights of one layer.
  virtual DecoderLayer list_layer(int64_t il) = 0;
  /// One layer on x [n_embd, t]. This one: x += post(attention(norm(x))), x += post(ffn(norm(x))), where norms that the
  /// layer does not have are left out.
  virtual Value layer(DecoderStep& s, Value x, const DecoderLayer& l) const;
  /// The embeddings of in.tokens [n_embd, t]. This one: rows of token_embd times embedding_scale_, plus those of
  /// position_embd and through embd_norm_ where the model has them.
  virtual Value embed(DecoderStep& s) const;

  // --- weights by name

  static std::string block(int64_t il, std::string_view name);  // "blk.3.name"
  nn::Linear linear(const std::string& name, int64_t n_in, int64_t n_out, nn::ScaleOf scale_of = nn::ScaleOf::product);
  nn::Norm norm(const std::string& name, const Shape& shape);
  /// Without a weight where the file has none.
  nn::Norm maybe_norm(const std::string& name, const Shape& shape);
  nn::Norm norm(int64_t il, std::string_view name) { return norm(block(il, name), {info_.n_embd}); }

  /// attn_q, attn_k, attn_v, or all in attn_qkv, and attn_output; a layer of the cache; scores by 1 / sqrt(k_dim); rope
  /// 0 if there is one.
  nn::Attention attention(int64_t il) { return attention(il, k_dim_, v_dim_); }
  nn::Attention attention(int64_t il, int64_t k_dim, int64_t v_dim);
  /// attn_q_norm and attn_k_norm [k_dim], for each head by itself.
  void add_head_norms(nn::Attention& attention, int64_t il);
  /// The same over all heads of a token: [k_dim * n_heads] and [k_dim * n_heads_kv].
  void add_whole_norms(nn::Attention& attention, int64_t il);

  /// ffn_gate, ffn_up, ffn_down.
  nn::Ffn gated_ffn(int64_t il, nn::Activation activation = nn::Activation::silu);
  /// ffn_up with the gate in its first half, ffn_down.
  nn::Ffn fused_ffn(int64_t il, nn::Activation activation = nn::Activation::silu);
  /// ffn_up, ffn_down.
  nn::Ffn plain_ffn(int64_t il, nn::Activation activation);
  /// ffn_{gate,up,down}_shexp of n_ff columns.
  nn::Ffn shared_expert(int64_t il, int64_t n_ff);
  /// ffn_gate_inp and ffn_{gate,up,down}_exps (or ffn_gate_up_exps, ffn_down_exps) of n_ff columns; router as given,
  /// its weights and numbers of experts filled in.
  nn::Experts experts(int64_t il, int64_t n_ff, const nn::Router& router);
  /// Where the file has experts, those of feed_forward_length columns, weighted by a softmax over their sum (Mixtral);
  /// else the dense gated block.
  void add_ffn_or_experts(DecoderLayer& layer, int64_t il);

  /// All but the last layer of each `period` have the window window_ and rope window_rope_; the last sees everything
  /// and has rope full_rope.
  void alternate_window(nn::Attention& attention, int64_t il, int64_t period, int full_rope = 0) const;

  /// feed_forward_length of a layer that has a dense block. Errors stick to the weights.
  int64_t n_ff(int64_t il);

  // --- keys

  /// The index of a rope: an equal one's, or the next.
  int add_rope(const nn::RopeConfig& config);
  /// The rope of layers with a window, as an index: rope 0, with its base where the file has no rope.freq_base_swa, or
  /// with another default; stretched as rope 0 or not at all.
  struct WindowRope {
    float base;
    bool is_stretched = true;
  };
  Result<int> window_rope(const WindowRope& absent);
  /// attention.sliding_window.
  Result<int64_t> window(int64_t absent);
  /// Errors: expert_count is missing or 0.
  Result<> want_experts();
  /// expert_feed_forward_length; absent 0: it must be there.
  Result<int64_t> n_ff_experts(int64_t absent);
  /// expert_gating_func, _weights_norm, _weights_scale and the groups.
  Result<nn::Router> router_from_keys(nn::Gating absent);
  /// YaRN's bounds and logarithm in the file, which most architectures do not look at.
  Result<> read_yarn_keys();
  /// attention.temperature_scale, and temperature_length or `length`.
  Result<> read_temperature(int64_t length);
  /// Where the file has rope.dimension_sections, rope 0 pairs halves. Text has one position for all sections but the
  /// fourth, which is not supported.
  Result<> read_rope_sections();
  /// granite's embedding_scale, residual_scale and attention.scale; each may be absent.
  Result<> read_multipliers();

  const ModelFiles& files_;
  DecoderTraits traits_;
  RopeOverrides overrides_;
  HparamReader hp_;

  int64_t n_layers_ = 0;  // that are run: without those of multi-token prediction
  int64_t n_blocks_ = 0;  // in the file: the length of arrays
  std::vector<int64_t> n_ff_, n_heads_, n_heads_kv_;
  int64_t k_dim_ = 0, v_dim_ = 0;
  float eps_ = 0.0f;
  int64_t n_experts_ = 0;  // 0: dense
  int64_t n_experts_used_ = 0;
  int64_t window_ = 0;   // of layers that have one; read by architectures that have such
  int window_rope_ = 0;  // their rope's index

  float embedding_scale_ = 1.0f;
  float residual_scale_ = 1.0f;
  float attention_scale_ = 0.0f;   // of scores; 0: as the head's width says
  float logit_scale_ = 1.0f;       // logits are multiplied by it
  float final_soft_cap_ = 0.0f;    // 0: none
  TemperatureParams temperature_;  // beta 0: none
  const Tensor* token_embd_ = nullptr;
  const Tensor* position_embd_ = nullptr;
  nn::Norm embd_norm_, output_norm_;
  nn::Linear output_;
  nn::RankHead rank_;  // its weights are listed where the file has them
  std::vector<DecoderLayer> layers_;

 private:
  Result<> read_common_keys();
  Result<> read_heads();
  Result<> read_main_rope();
  Result<> read_pooling();
  Value final_rows(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const;
  void list_outer();
  void list_output();
  void list_rank_head();
  void list_rope_factors();
  Result<> finish_cache_layers();
  bool applies_ffn_scale(const Tensor* weight) const;
  nn::ExpertLinear expert_linear(const std::string& name, int64_t n_in, int64_t n_out);
};

template <class Architecture>
Result<std::unique_ptr<Model>> create_decoder(const ModelFiles& files, const RopeOverrides& overrides,
                                              const DecoderTraits& traits) {
  auto model = std::make_unique<Architecture>(files, traits, overrides);
  TESSERA_TRY(model->read());
  return model;
}

}  // namespace tessera
