// A model: hyperparameters, weights, and the graph of one decoding step. One file per architecture implements
// this; the engine loads the weights and runs the graph without knowing which.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/models/weights.h"
#include "tessera/nn/inputs.h"
#include "tessera/nn/pooling.h"
#include "tessera/nn/rope.h"

namespace tessera {

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
  std::vector<KvLayerShape> encoder_layers;  // of an encoder beside the decoder, then of what the decoder sees of it
  std::vector<int64_t> kv_blocks, recurrent_blocks;  // by layer of either cache: the model's layer that writes it
  int32_t start_token = 0;                           // with which the text of a decoder that has an encoder begins
  std::vector<int> kv_ropes;  // by layer of the cache: which of the ropes its K is rotated by, or nn::kNoRope
  bool is_causal = true;      // false: tokens see all of their sequence, which is computed at once
  bool has_logits = true;     // false: embeddings are all it gives
  std::optional<nn::Pooling> pooling{};         // of embeddings, where the file says so
  nn::Pooling rank_pooling = nn::Pooling::cls;  // of what the rank head takes
  int64_t n_scores = 0;                         // that the rank head gives; 0: there is none

  /// The model reads a prompt with an encoder and writes with a decoder. Embeddings are then the encoder's.
  bool has_encoder() const { return !encoder_layers.empty(); }
  /// Whether embeddings are of tokens that see only those before them.
  bool embeds_causally() const { return is_causal && !has_encoder(); }
};

/// Rope settings that replace the file's.
struct RopeOverrides {
  std::optional<nn::RopeScaling> scaling{};
  std::optional<float> factor{}, freq_base{};
  std::optional<int64_t> original_context{};
  std::optional<float> yarn_ext{}, attn_factor{}, yarn_beta_fast{}, yarn_beta_slow{};
};

class Model {
 public:
  explicit Model(const ModelFiles& files) : weights_(files) {}
  virtual ~Model() = default;

  const ModelInfo& info() const { return info_; }
  WeightTable& weights() { return weights_; }
  const WeightTable& weights() const { return weights_; }

  /// Adds the decoding step of a micro-batch: embeds in.tokens, stores their K and V, and returns the logits
  /// [n_vocab, n_outputs] of in.outputs; an absent value when none are wanted.
  virtual Value build(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const = 0;
  /// The same step with the embeddings [n_embd, n_outputs] of in.outputs, which logits would be made of, as its result.
  virtual Value build_embeddings(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const = 0;
  /// Only where info().has_encoder(): runs the encoder on prompts that are whole in the micro-batch, and stores what
  /// the decoder sees of them in `cache`, of encoder_layers. in.outputs are all tokens.
  virtual void build_encoder(GraphBuilder& /*b*/, const nn::BatchInputs& /*in*/, const KvCache& /*cache*/) const {}
  /// The scores [n_scores, n] of pooled embeddings x [n_embd, n]. Only where info().n_scores > 0.
  virtual Value build_rank(GraphBuilder& b, Value x) const = 0;

 protected:
  ModelInfo info_;
  WeightTable weights_;
};

/// Creates the model that general.architecture names: reads its keys and lists its weights, loads nothing. The files
/// must outlive the model. Errors: not_found, mismatch and limit for keys and tensors; unsupported (an architecture
/// that is not built, naming those that are).
Result<std::unique_ptr<Model>> create_model(const ModelFiles& files, const RopeOverrides& rope);

}  // namespace tessera
