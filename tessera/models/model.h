// A model: hyperparameters, weights, and the graph of one decode step. Each architecture implements this interface in
// its own file. The engine loads the weights and runs the graph without depending on the architecture.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/models/weights.h"
#include "tessera/nn/inputs.h"
#include "tessera/nn/pooling.h"
#include "tessera/nn/rope.h"

namespace tessera {

/// A draft model in a file of its own that takes hidden states of the model for which it guesses, like a prediction
/// head.
struct FollowerInfo {
  /// Layers of the other model whose inputs it takes (see Model::join_states()); n_layers: the output of the last one.
  /// Empty: it takes the inputs of the output layer.
  std::vector<int64_t> layers{};
  bool borrows_cache = false;     // it attends to K and V of the other model, and all guesses have the same position
  std::vector<int32_t> tokens{};  // by logit: the token of the other model; empty: the same tokens
};

struct ModelInfo {
  std::string architecture;
  std::string name;
  int64_t n_vocab = 0;
  int64_t n_embd = 0;
  int64_t n_layers = 0;
  int64_t n_ctx_train = 0;
  std::vector<KvLayerShape> kv_layers;
  std::vector<RecurrentLayerShape> recurrent_layers;
  std::vector<nn::Rope> ropes;
  std::vector<KvLayerShape> encoder_layers;          // of an encoder, then of the decoder's attention to its output
  std::vector<int64_t> kv_blocks, recurrent_blocks;  // by layer of either cache: the block of the model that writes it
  int32_t start_token = 0;                           // first token of the text of a decoder with an encoder
  std::vector<int> kv_ropes;  // by layer of the cache: index of the rope of its K, or nn::kNoRope
  bool is_causal = true;      // false: tokens attend to their whole sequence, which must be in one micro-batch
  bool has_logits = true;     // false: the model computes only embeddings
  std::optional<nn::Pooling> pooling{};         // of embeddings, if the file defines it
  nn::Pooling rank_pooling = nn::Pooling::cls;  // of the input of the rank head
  int64_t n_scores = 0;                         // number of outputs of the rank head; 0: no rank head
  int64_t n_hidden = 0;  // elements of a hidden state that a head or a draft model takes and gives; 0: n_embd
  std::optional<FollowerInfo> follower{};
  bool projects_pooled = false;  // pooled embeddings pass through layers of their own, which are in place of the head

  /// True if Model::build_rank() has a result.
  bool has_pooled_head() const { return n_scores > 0 || projects_pooled; }
  /// Elements of a row of logits.
  int64_t n_logits() const {
    return follower && !follower->tokens.empty() ? static_cast<int64_t>(follower->tokens.size()) : n_vocab;
  }
  int64_t hidden_width() const { return n_hidden > 0 ? n_hidden : n_embd; }
  /// True if an encoder reads the prompt and a decoder generates. Embeddings are then the encoder's.
  bool has_encoder() const { return !encoder_layers.empty(); }
  /// True if the embedding of a token depends only on the token and those before it.
  bool embeds_causally() const { return is_causal && !has_encoder(); }
};

/// Rope settings that replace those of the file.
struct RopeOverrides {
  std::optional<nn::RopeScaling> scaling{};
  std::optional<float> factor{}, freq_base{};
  std::optional<int64_t> original_context{};
  std::optional<float> yarn_ext{}, attn_factor{}, yarn_beta_fast{}, yarn_beta_slow{};
};

/// Results of a step of a model with a prediction head, and of the head itself.
struct HiddenRows {
  Value logits{};  // as Model::build() returns them
  Value hidden{};  // f32 [n_embd, n]
};

class Model {
 public:
  explicit Model(const ModelFiles& files) : weights_(files) {}
  virtual ~Model() = default;

  const ModelInfo& info() const { return info_; }
  WeightTable& weights() { return weights_; }
  const WeightTable& weights() const { return weights_; }

  /// Adds the decode step of a micro-batch to the graph: it embeds in.tokens, stores their K and V, and returns the
  /// logits [n_vocab, n_outputs] of in.outputs. Returns an absent value if there are no outputs.
  virtual Value build(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const = 0;
  /// The same step, which returns the embeddings [n_embd, n_outputs] of in.outputs (the input of the output layer).
  virtual Value build_embeddings(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const = 0;
  /// The same step as build(), which also returns the hidden states of all tokens: the inputs of the output layer. In a
  /// head these are the ones of in.outputs. Only of models with a head, and of heads.
  virtual HiddenRows build_hidden(GraphBuilder& /*b*/, const nn::BatchInputs& /*in*/, const KvCache& /*cache*/) const {
    return {};
  }
  /// The same step as build(), which also returns the hidden states [hidden_width of `follower`, n] of all tokens that
  /// a draft model takes. Absent values: not supported.
  virtual HiddenRows build_followed(GraphBuilder& /*b*/, const nn::BatchInputs& /*in*/, const KvCache& /*cache*/,
                                    const Model& /*follower*/) const {
    return {};
  }
  /// Only if info().has_encoder(). Runs the encoder on prompts that are complete in the micro-batch, and stores its K
  /// and V for the decoder in `cache`, a cache of encoder_layers. in.outputs are all tokens.
  virtual void build_encoder(GraphBuilder& /*b*/, const nn::BatchInputs& /*in*/, const KvCache& /*cache*/) const {}
  /// Returns the scores [n_scores, n] of pooled embeddings x [n_embd, n]. Only if info().n_scores > 0. With
  /// info().projects_pooled, returns the projected embeddings [n_embd, n].
  virtual Value build_rank(GraphBuilder& b, Value x) const = 0;

  // --- of a draft model, if info().follower; build_hidden() is its step, as that of a head

  /// Takes what the file lacks from the model for which it guesses, which must outlive it. Before the weights are
  /// placed. Errors: mismatch (it was not made for that model), with file, key and values.
  virtual Result<> follow(const Model& /*target*/) { return {}; }
  /// Adds the product that makes the hidden states [hidden_width, n] of the inputs [n_embd of the target, n] of the
  /// layers in info().follower.
  virtual Value join_states(GraphBuilder& /*b*/, std::span<const Value> /*states*/) const { return {}; }

  /// Whether the file has a prediction head that is supported.
  virtual bool may_add_head() const { return false; }
  /// Lists the weights of the model's prediction head, after those of the model. Errors: unsupported (no head in the
  /// file, or one of an architecture whose heads are not supported); those of create_model().
  virtual Result<> add_head();
  /// The prediction head (multi-token prediction, "nextn"), or null before add_head(). It is a model with a cache of
  /// its own, and its weights are in the table of this model. From the token at a position and the hidden state of the
  /// token before it (in.hidden) it computes the logits of the token after it, and a hidden state in place of the
  /// model's. A head may have several blocks, each a model of this kind: block i makes guess i after a text.
  const Model* head(size_t block = 0) const { return block < heads_.size() ? heads_[block].get() : nullptr; }
  /// The number of its blocks.
  size_t n_head_blocks() const { return heads_.size(); }

 protected:
  ModelInfo info_;
  WeightTable weights_;
  std::vector<std::unique_ptr<const Model>> heads_;  // the blocks of the prediction head
};

/// Creates the model of the architecture in general.architecture. Reads its keys and lists its weights, but loads no
/// data. The files must outlive the model. Errors: not_found, mismatch and limit for keys and tensors; unsupported for
/// an unknown architecture, with a list of the supported ones.
Result<std::unique_ptr<Model>> create_model(const ModelFiles& files, const RopeOverrides& rope);

}  // namespace tessera
