// minimax-m3: MiniMax M3. Dense layers, then layers with experts and a shared expert, all with the bounded SwiGLU of
// gpt-oss. Layers with experts attend only to some blocks of keys, which each KV head chooses by a head of its own. The
// last blocks are always chosen.
#include "tessera/models/transformer.h"

namespace tessera {

namespace {

class MiniMaxM3 final : public Transformer {
 public:
  using Transformer::Transformer;

 protected:
  Result<> read_keys() override {
    TESSERA_TRY(read_key_choice());
    TESSERA_ASSIGN(key_choice_.params.unit, hp_.integer("attention.indexer.block_size", 1, kMaxContext));
    TESSERA_ASSIGN(key_choice_.params.n_local, hp_.integer("attention.indexer.local_blocks", 0, kMaxContext));
    key_choice_.rope = info_.ropes.empty() ? nn::kNoRope : 0;
    for (int64_t il = 0; il < n_layers_; ++il)
      if (has_experts(il) && n_heads_kv_[to_size(il)] != key_choice_.n_heads)
        return fail(ErrorCode::mismatch, "{}: layer {} has {} KV heads, and {} heads choose keys, want as many",
                    files_.name(), il, n_heads_kv_[to_size(il)], key_choice_.n_heads);
    return {};
  }

  TransformerLayer list_layer(int64_t il) override {
    TransformerLayer l = Transformer::list_layer(il);
    if (!has_experts(il)) return l;
    nn::KeyChoice choice = add_key_choice();
    choice.q = linear(block(il, "indexer.q_proj"), info_.n_embd, choice.n_heads * choice.dim);
    choice.k = linear(block(il, "indexer.k_proj"), info_.n_embd, choice.dim);
    choice.q_norm = norm(block(il, "indexer.q_norm"), {choice.dim});
    choice.k_norm = norm(block(il, "indexer.k_norm"), {choice.dim});
    l.attention.choice = choice;
    return l;
  }
};

}  // namespace

Result<std::unique_ptr<Model>> create_minimax_m3(const ModelFiles& files, const RopeOverrides& rope) {
  return create_transformer<MiniMaxM3>(files, rope,
                                       {.architecture = "minimax-m3",
                                        .activation = nn::Activation::swiglu_oai,
                                        .qk_norms = QkNorms::heads,
                                        .pairs = RopePairs::halves,
                                        .output = OutputWeights::own,
                                        .mixture = {.layers = ExpertLayers::after_dense,
                                                    .shared = SharedWidth::counted,
                                                    .gating_key = KeyUse::required,
                                                    .reads_norm = true,
                                                    .reads_scale = true}});
}

}  // namespace tessera
