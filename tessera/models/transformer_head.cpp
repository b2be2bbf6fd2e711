// The prediction head of a transformer, as DeepSeek V3 has it (DeepSeek-AI 2024, section 2.2): the embedding of a token
// and the model's hidden state of the token before it, each normed, are joined by a product. A block like the model's
// layers follows, then a norm and an output layer. Files have the block after those of the layers, and the other
// weights under blk.N.nextn. Weights that the file lacks are the model's.
//
// Files may have several such blocks. Each of them is a head with a cache of its own, for one guess after a text
// (Xiaomi 2025, MiMo-7B; StepFun 2026, Step 3.5).
#include <algorithm>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

constexpr int64_t kMostHeadBlocks = 16;  // that are used; known files have three at most

}  // namespace

class Transformer::Head final : public Model {
 public:
  Head(const Transformer& trunk, int64_t block, const ModelInfo& info)
      : Model(trunk.files_), trunk_(trunk), block_(block) {
    info_ = info;
  }

  Value build(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const override {
    return build_hidden(b, in, cache).logits;
  }
  Value build_embeddings(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const override {
    return build_hidden(b, in, cache).hidden;
  }
  HiddenRows build_hidden(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const override;
  Value build_rank(GraphBuilder& /*b*/, Value /*x*/) const override { return {}; }

  nn::Linear join;  // [2 * n_embd, n_embd]
  nn::Norm embd_norm, hidden_norm, output_norm;
  const Tensor* token_embd = nullptr;
  nn::Linear output;
  TransformerLayer layer;

 private:
  const Transformer& trunk_;
  int64_t block_;  // of the file
};

HiddenRows Transformer::Head::build_hidden(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const {
  LayerBuilder s = trunk_.layer_builder(b, in, cache, block_ + 1);
  s.layer = block_;
  const Value embeddings = b.get_rows(b.tensor(*token_embd), in.tokens);
  Value x = nn::linear(b, b.concat(nn::norm(b, embeddings, embd_norm), nn::norm(b, in.hidden, hidden_norm)), join);
  x = trunk_.layer(s, x, layer);
  const Value normed = s.norm(x, output_norm);
  return {.logits = trunk_.logits(b, normed, output), .hidden = b.output(trunk_.head_state(x, normed), "hidden")};
}

HiddenRows Transformer::build_hidden(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const {
  LayerBuilder s = layer_builder(b, in, cache, std::ssize(layers_) + 1);  // so that the last layer computes all tokens
  const Value x = run_layers(s), normed = s.norm(x, output_norm_);
  const Value hidden = b.output(head_state(x, normed), "hidden");
  return {.logits = logits(b, s.wanted(normed), output_), .hidden = hidden};
}

HiddenRows Transformer::build_followed(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache,
                                       const Model& follower) const {
  LayerBuilder s = layer_builder(b, in, cache, std::ssize(layers_) + 1);
  std::vector<Value> inputs, states;
  const Value x = run_layers(s, &inputs), normed = s.norm(x, output_norm_);
  for (const int64_t layer : follower.info().follower->layers) states.push_back(inputs[to_size(layer)]);
  // Without wanted tokens the graph ends at the logits.
  const Value hidden = b.output(states.empty() ? normed : follower.join_states(b, states), "hidden");
  return {.logits = logits(b, s.wanted(normed), output_), .hidden = hidden};
}

bool Transformer::may_add_head() const {
  return traits_.heads != PredictionHeads::none && n_blocks_ > n_layers_ &&
         weights_.has(block(n_layers_, "nextn.eh_proj.weight"));
}

Result<> Transformer::add_head() {
  if (traits_.heads == PredictionHeads::none) return Model::add_head();
  if (!may_add_head()) return fail(ErrorCode::unsupported, "{}: the file has no prediction head", files_.name());
  const int64_t end = std::min(n_blocks_, n_layers_ + kMostHeadBlocks);
  std::vector<std::unique_ptr<const Model>> heads;
  for (int64_t il = n_layers_; il < end && weights_.has(block(il, "nextn.eh_proj.weight")); ++il)
    heads.push_back(list_head(il));
  TESSERA_TRY(weights_.finish());
  heads_ = std::move(heads);
  return {};
}

// Lists the weights of a block. Its K and V are the only layer of its cache.
std::unique_ptr<const Model> Transformer::list_head(int64_t il) {
  const int64_t n_embd = info_.n_embd;
  std::vector<KvLayerShape> trunk_layers = std::exchange(info_.kv_layers, {});
  TransformerLayer layer = list_layer(il);
  ModelInfo info = info_;
  info_.kv_layers = std::move(trunk_layers);
  info.n_layers = 1;
  info.recurrent_layers.clear();
  info.recurrent_blocks.clear();
  info.n_scores = 0;
  finish_cache_layers(info, {&layer, 1}, il);

  auto head = std::make_unique<Head>(*this, il, info);
  head->layer = std::move(layer);
  head->join = linear(block(il, "nextn.eh_proj"), 2 * n_embd, n_embd);
  head->embd_norm = norm(il, "nextn.enorm");
  head->hidden_norm = norm(il, "nextn.hnorm");
  head->output_norm = maybe_norm(block(il, "nextn.shared_head_norm"), {n_embd});
  if (!head->output_norm.present()) head->output_norm = maybe_norm(block(il, "layer_output_norm"), {n_embd});
  if (!head->output_norm.present()) head->output_norm = output_norm_;
  const std::string own_table = block(il, "nextn.embed_tokens.weight"),
                    own_output = block(il, "nextn.shared_head_head");
  head->token_embd = weights_.maybe(own_table, {n_embd, info_.n_vocab}, Op::get_rows);
  if (head->token_embd == nullptr) head->token_embd = token_embd_;
  head->output = weights_.has(own_output + ".weight") ? linear(own_output, n_embd, info_.n_vocab) : output_;
  return head;
}

}  // namespace tessera
