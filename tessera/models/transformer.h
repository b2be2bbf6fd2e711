// The base of all architectures: common keys, lists of weights, and the outer graph (embedding, layers, final norm,
// output). An architecture is one file with its differences: keys of its own, the weights of a layer, and the formula
// of a layer if it is not the common one (docs/add_model.md).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/models/hparams.h"
#include "tessera/models/traits.h"
#include "tessera/nn/attention.h"

namespace tessera {

/// Bounds of the values in a file: far above any model, and so low that no product of them overflows.
inline constexpr int64_t kMaxLayers = 512;
inline constexpr int64_t kMaxWidth = int64_t{1} << 20;
inline constexpr int64_t kMaxHeads = 4096;
inline constexpr int64_t kMaxHeadDim = 4096;
inline constexpr int64_t kMaxExperts = 512;

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

/// The parts of a linear layer besides its weight.
struct LinearParts {
  nn::ScaleOf scale_of = nn::ScaleOf::product;
  bool bias = true, scale = true;
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
  Value q_factors{};            // [1, 1, n_tokens] or absent: factors of positions, by which rotated q is multiplied
  float residual_scale = 1.0f;  // factor of y in residual()
  int64_t layer = 0;
  Value shared{};  // a value that one layer leaves for later layers, in architectures that have it
  /// Values that the layers of a group of the cache share, in architectures with compressed entries.
  struct GroupValues {
    Value entry_rope{};  // rotations of the entries
    Value keys{};        // the keys that queries see, if the layers choose none
  };
  std::vector<GroupValues> of_group{};  // by group; made by the first layer

  Value norm(Value x, const nn::Norm& n) { return n.present() ? nn::norm(b, x, n) : x; }
  /// Attention with its output projection. In the last layer only tokens whose output is wanted.
  Value attend(Value x, const nn::Attention& attention);
  /// The experts plus the shared expert, or the dense block of a layer without experts.
  Value ffn(Value x, const TransformerLayer& layer);
  /// The experts with given routing, plus the shared expert.
  Value ffn(Value x, const TransformerLayer& layer, const nn::Routed& routed);
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
  HiddenRows build_followed(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache,
                            const Model& follower) const override;
  Value build_rank(GraphBuilder& b, Value x) const override;
  bool may_add_head() const override;
  Result<> add_head() override;

 protected:
  // --- overridden by architectures

  /// Reads the keys of the architecture, after the common ones.
  virtual Result<> read_keys() { return {}; }
  /// Lists the embeddings, the final norm, the output layer and the factors of ropes.
  virtual void list_outer();
  /// Lists weights outside the layers, besides those of list_outer().
  virtual void list_more() {}
  /// Lists the weights of one layer. Default: norms, attention and feed-forward block or experts as the traits say.
  virtual TransformerLayer list_layer(int64_t il);
  /// One layer on x [n_embd, t]. Default: the formula of the traits, without the norms that are absent.
  virtual Value layer(LayerBuilder& s, Value x, const TransformerLayer& l) const;
  /// The embeddings of in.tokens [n_embd, t]. Default: rows of token_embd times embedding_scale_, plus the first row of
  /// token_types, plus rows of position_embd, normed by embd_norm_, each if present.
  virtual Value embed(LayerBuilder& s) const;
  /// Changes the logits x [n_vocab, t] of some tokens. Default: none.
  virtual Value masked_logits(GraphBuilder& /*b*/, Value x) const { return x; }

  // --- weights by name

  static std::string block(int64_t il, std::string_view name);  // "blk.3.name"
  /// weight, and bias and scale if the file has them.
  nn::Linear linear(const std::string& name, int64_t n_in, int64_t n_out, LinearParts parts = {});
  nn::Norm norm(const std::string& name, const Shape& shape);
  /// Absent if the file has no such weight.
  nn::Norm maybe_norm(const std::string& name, const Shape& shape);
  nn::Norm norm(int64_t il, std::string_view name) { return norm(block(il, name), {info_.n_embd}); }

  /// attn_q, attn_k, attn_v, or the fused attn_qkv, and attn_output. Adds a layer to the cache, scales scores by
  /// 1 / sqrt(k_dim), and uses rope 0 if there is one.
  nn::Attention attention(int64_t il) { return attention(il, k_dim_, v_dim_); }
  nn::Attention attention(int64_t il, int64_t k_dim, int64_t v_dim);
  /// attn_q_norm and attn_k_norm: [k_dim] for each head, or of all heads of a token.
  void add_qk_norms(nn::Attention& attention, int64_t il, QkNorms norms);
  /// The window and rope of a layer, and ALiBi, as the traits say.
  void place(nn::Attention& attention, int64_t il) const;

  /// key_choice_, without weights. Adds a layer to the cache.
  nn::KeyChoice add_key_choice();

  /// The dense feed-forward block of n_ff columns, in the form of the traits.
  nn::Ffn dense_ffn(int64_t il) { return dense_ffn(il, n_ff(il)); }
  nn::Ffn dense_ffn(int64_t il, int64_t n_ff);
  /// ffn_{gate,up,down}_shexp of n_ff columns.
  nn::Ffn shared_expert(int64_t il, int64_t n_ff);
  /// ffn_gate_inp and ffn_{gate,up,down}_exps (or ffn_gate_up_exps, ffn_down_exps) of n_ff columns. Completes the given
  /// router with its weights and the numbers of experts.
  nn::Experts experts(int64_t il, int64_t n_ff, const nn::Router& router) {
    return experts(il, n_ff, router, info_.n_embd);
  }
  /// The same with experts on inputs of n_in columns.
  nn::Experts experts(int64_t il, int64_t n_ff, const nn::Router& router, int64_t n_in);
  virtual bool has_experts(int64_t il) const;
  /// The dense block, or the experts and the shared expert that the traits describe.
  void add_ffn(TransformerLayer& layer, int64_t il);

  /// A layer's limit of SwiGLU in the file. Tiny ones mean that there is none: 0.
  static float swiglu_limit(float stored) { return stored > 1e-6f ? stored : 0.0f; }

  /// feed_forward_length of a layer with a dense block. Errors are recorded in the weights.
  int64_t n_ff(int64_t il);

  /// rope_freqs, or rope_factors_short and rope_factors_long, of rope 0.
  void list_rope_factors();

  // --- the graph

  LayerBuilder layer_builder(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache, int64_t n_layers) const;

  // --- keys

  /// The index of a rope: of an equal one that exists, else of a new one.
  int add_rope(const nn::RopeConfig& config);
  /// expert_feed_forward_length. absent = 0: the key is required.
  Result<int64_t> n_ff_experts(int64_t absent);
  /// YaRN's bounds and logarithm in the file, which most architectures ignore.
  Result<> read_yarn_keys();
  /// attention.temperature_scale, and temperature_length or `length`.
  Result<> read_temperature(int64_t length);
  /// attention.indexer.{head_count,key_length,top_k}: into key_choice_.
  Result<> read_key_choice();
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
  int64_t window_ = 0;   // of layers with a window; 0: none
  int window_rope_ = 0;  // their rope's index
  std::vector<bool> has_window_;
  struct {
    int64_t n_dense = 0;      // layers without experts, which come first
    int64_t step = 1;         // of the others, each layer il where il + 1 is a multiple has experts; 0: none
    int64_t n_ff = 0;         // columns of an expert; 0: those of the layer's dense block
    int64_t n_ff_shared = 0;  // columns of the shared expert; 0: none
    nn::Router router{};
  } mixture_;

  nn::KeyChoice key_choice_;  // of layers that choose keys
  int64_t n_loops_ = 1;       // passes through the layers
  bool norms_loops_ = true;   // with the final norm between them
  float embedding_scale_ = 1.0f;
  float residual_scale_ = 1.0f;
  float attention_scale_ = 0.0f;   // of scores; 0: 1 / sqrt(k_dim)
  float clamp_ = 0.0f;             // bound of q, k and v; 0: none
  float logit_scale_ = 1.0f;       // logits are multiplied by it
  float final_soft_cap_ = 0.0f;    // 0: none
  TemperatureParams temperature_;  // beta 0: none
  const Tensor* token_embd_ = nullptr;
  const Tensor* position_embd_ = nullptr;
  const Tensor* token_types_ = nullptr;  // [n_embd, n_types]
  nn::Norm embd_norm_, output_norm_;
  nn::Linear output_;
  nn::RankHead rank_;                     // its weights are optional
  std::vector<TransformerLayer> layers_;  // of all passes, one after another

 private:
  class Head;

  Result<> read_common_keys();
  Result<> read_heads();
  Result<> read_main_rope();
  Result<> read_pooling();
  Result<> read_rope_sections();
  Result<> read_window();
  Result<> read_window_layers();
  Result<> read_window_rope();
  Result<> read_mixture();
  Result<> read_loops();
  void repeat_layers();
  Result<nn::Router> read_router() const;
  Result<int64_t> n_ff_shared_expert() const;
  Value run_layers(LayerBuilder& s, std::vector<Value>* inputs = nullptr) const;
  /// The hidden state of prediction heads, of a layer's output and its norm.
  Value head_state(Value x, Value normed) const { return traits_.heads == PredictionHeads::before_norm ? x : normed; }
  Value final_rows(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const;
  Value logits(GraphBuilder& b, Value x, const nn::Linear& output) const;
  void list_output();
  std::unique_ptr<const Model> list_head(int64_t il);
  void list_token_types();
  nn::HeadGate head_gate(int64_t il, const nn::Attention& attention);
  void list_rank_head();
  nn::Linear ffn_linear(int64_t il, std::string_view name, int64_t n_in, int64_t n_out);
  void finish_cache_layers(ModelInfo& info, std::span<const TransformerLayer> layers, int64_t first_block) const;
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
