// eagle3: the draft model of EAGLE-3 (Li et al. 2025), in a file of its own. It takes the inputs of three layers of the
// model for which it guesses, joined by a product, and the embedding of the next token. Its only layer attends with
// both. The file may lack embeddings and the output layer, which are then those of the other model. It may have logits
// for some of the tokens only: d2t has their ids.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "tessera/base/index.h"
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

constexpr size_t kStates = 3;

class Eagle3 final : public Transformer {
 public:
  using Transformer::Transformer;

  Result<> follow(const Model& target) override;
  Value join_states(GraphBuilder& b, std::span<const Value> states) const override {
    Value joined = states[0];
    for (size_t i = 1; i < states.size(); ++i) joined = b.concat(joined, states[i]);
    return nn::linear(b, states_norm_.present() ? nn::norm(b, joined, states_norm_) : joined, join_);
  }
  HiddenRows build_hidden(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const override;

 protected:
  Result<> read_keys() override;
  void list_outer() override;
  TransformerLayer list_layer(int64_t il) override;

 private:
  Result<> read_tokens();
  Result<> require_target(const Model& target) const;

  int64_t n_target_ = 0;      // elements of a state of the target
  bool adds_normed_ = false;  // the layer adds to the normed state
  nn::Linear join_;           // [kStates * n_target_, n_embd]
  nn::Norm states_norm_;      // of the joined states; may be absent
  nn::Norm hidden_norm_;
};

Result<> Eagle3::read_keys() {
  if (n_blocks_ != 1)
    return fail(ErrorCode::unsupported, "{}: key '{}': {} layers, want 1", files_.name(), hp_.full_key("block_count"),
                n_blocks_);
  FollowerInfo follower;
  TESSERA_ASSIGN(follower.layers, hp_.per_layer("target_layers", kStates, 0, kMaxLayers));
  TESSERA_ASSIGN(n_target_, hp_.integer("target_hidden_size", 1, kMaxWidth));
  TESSERA_ASSIGN(adds_normed_, hp_.flag_or("norm_before_residual", false));
  info_.follower = std::move(follower);
  info_.n_hidden = info_.n_embd;
  return read_tokens();
}

// d2t: the token of each logit.
Result<> Eagle3::read_tokens() {
  const ModelFiles::Tensor* d2t = files_.find_tensor("d2t");
  if (d2t == nullptr) return {};
  const Shape& shape = d2t->info.shape;
  const std::span<const std::byte> bytes = files_.data(*d2t);
  if (d2t->info.dtype != DType::i64 || shape.n_elements() != shape[0] || shape[0] > info_.n_vocab)
    return fail(ErrorCode::mismatch, "{}: tensor d2t is {} {}, want i64 of at most {} tokens", files_.name(),
                tessera::info(d2t->info.dtype).name, to_string(shape), info_.n_vocab);
  std::vector<int64_t> tokens(to_size(shape[0]));
  std::memcpy(tokens.data(), bytes.data(), bytes.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] < 0 || tokens[i] >= info_.n_vocab)
      return fail(ErrorCode::limit, "{}: tensor d2t: token {} at {}, want 0 to {}", files_.name(), tokens[i], i,
                  info_.n_vocab - 1);
    info_.follower->tokens.push_back(static_cast<int32_t>(tokens[i]));
  }
  return {};
}

void Eagle3::list_outer() {
  const int64_t n_embd = info_.n_embd, n_states = static_cast<int64_t>(kStates) * n_target_;
  // The table may have more rows than the vocabulary has tokens.
  if (const ModelFiles::Tensor* table = files_.find_tensor("token_embd.weight"))
    token_embd_ =
        weights_.need("token_embd.weight", {n_embd, std::max(info_.n_vocab, table->info.shape[1])}, Op::get_rows);
  if (weights_.has("output.weight")) output_ = linear("output", n_embd, info_.n_logits());
  output_norm_ = norm("output_norm", {n_embd});
  join_ = linear("fc", n_states, n_embd);
  states_norm_ = maybe_norm("enc.output_norm", {n_states});
  list_rope_factors();
}

TransformerLayer Eagle3::list_layer(int64_t il) {
  const int64_t n_embd = info_.n_embd, n_in = 2 * n_embd, n_heads = n_heads_[0], n_heads_kv = n_heads_kv_[0];
  TransformerLayer l{.attn_norm = norm(il, "attn_norm"),
                     .attention = {.q = linear(block(il, "attn_q"), n_in, k_dim_ * n_heads),
                                   .k = linear(block(il, "attn_k"), n_in, k_dim_ * n_heads_kv),
                                   .v = linear(block(il, "attn_v"), n_in, v_dim_ * n_heads_kv),
                                   .out = linear(block(il, "attn_output"), v_dim_ * n_heads, n_embd),
                                   .n_heads = n_heads,
                                   .n_heads_kv = n_heads_kv,
                                   .k_dim = k_dim_,
                                   .v_dim = v_dim_,
                                   .rope = 0,
                                   .cache_layer = 0,
                                   .params = {.scale = 1.0f / std::sqrt(static_cast<float>(k_dim_))}},
                     .ffn_norm = norm(il, "ffn_norm"),
                     .ffn = dense_ffn(il)};
  info_.kv_layers.push_back({.n_heads_kv = n_heads_kv, .k_dim = k_dim_, .v_dim = v_dim_});
  hidden_norm_ = norm(il, "attn_norm_2");
  return l;
}

Result<> Eagle3::require_target(const Model& target) const {
  const ModelInfo& other = target.info();
  const std::string& name = target.weights().files().name();
  if (n_target_ != other.n_embd)
    return fail(ErrorCode::mismatch, "{}: not a draft model for {}: key '{}' is {}, and its states have {} elements",
                files_.name(), name, hp_.full_key("target_hidden_size"), n_target_, other.n_embd);
  for (const int64_t layer : info_.follower->layers)
    if (layer > other.n_layers)
      return fail(ErrorCode::mismatch, "{}: not a draft model for {}: key '{}' has layer {}, and it has {} layers",
                  files_.name(), name, hp_.full_key("target_layers"), layer, other.n_layers);
  for (const int32_t token : info_.follower->tokens)
    if (token >= other.n_vocab)
      return fail(ErrorCode::mismatch, "{}: not a draft model for {}: tensor d2t has token {}, and it has {} tokens",
                  files_.name(), name, token, other.n_vocab);
  if (info_.n_vocab < other.n_vocab)
    return fail(ErrorCode::mismatch, "{}: not a draft model for {}: its vocabulary has {} tokens, want {}",
                files_.name(), name, info_.n_vocab, other.n_vocab);
  return {};
}

Result<> Eagle3::follow(const Model& target) {
  TESSERA_TRY(require_target(target));
  const WeightTable& weights = target.weights();
  const auto take = [&](std::string_view needed, const Shape& shape) -> Result<const Tensor*> {
    const Tensor* tensor = weights.find_listed(needed);
    if (tensor == nullptr) tensor = weights.find_listed("token_embd.weight");
    if (tensor != nullptr && tensor->shape() == shape) return tensor;
    return fail(ErrorCode::mismatch, "{}: tensor {} is missing, and {} has none of shape {}", files_.name(), needed,
                weights.files().name(), to_string(shape));
  };
  const Shape table{info_.n_embd, target.info().n_vocab};
  if (token_embd_ == nullptr) {
    TESSERA_ASSIGN(token_embd_, take("token_embd.weight", table));
  }
  if (output_.weight != nullptr) return {};
  TESSERA_ASSIGN(output_.weight, take("output.weight", {info_.n_embd, info_.n_logits()}));
  output_.scale = weights.find_listed("output.scale");
  output_.bias = weights.find_listed("output.bias");
  return {};
}

HiddenRows Eagle3::build_hidden(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const {
  LayerBuilder s = layer_builder(b, in, cache, 1);
  const TransformerLayer& l = layers_[0];
  const Value embedding = s.norm(b.get_rows(b.tensor(*token_embd_), in.tokens), l.attn_norm);
  const Value state = s.norm(in.hidden, hidden_norm_);
  Value x = s.residual(adds_normed_ ? state : in.hidden, s.attend(b.concat(embedding, state), l.attention));
  x = s.residual(x, s.ffn(s.norm(x, l.ffn_norm), l));
  return {.logits = b.output(nn::linear(b, s.norm(x, output_norm_), output_), "logits"),
          .hidden = b.output(x, "hidden")};
}

}  // namespace

Result<std::unique_ptr<Model>> create_eagle3(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<Eagle3>(files, rope, {.architecture = "eagle3"});
}

}  // namespace tessera
