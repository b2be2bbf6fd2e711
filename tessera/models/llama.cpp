// llama: Llama 1 to 3, Mistral, SmolLM and all that store themselves as such. Pre-norm blocks with RMS norm,
// adjacent-pair rope over the whole head, grouped-query attention and SwiGLU; optional biases. With experts (Mixtral):
// every layer is a mixture, weights are a softmax's, divided by their sum.
#include <fmt/format.h>

#include <cmath>

#include "tessera/gguf/keys.h"
#include "tessera/models/hparams.h"
#include "tessera/nn/attention.h"
#include "tessera/nn/experts.h"
#include "tessera/nn/ffn.h"

namespace tessera {

namespace {

constexpr int64_t kMaxLayers = 512;
constexpr int64_t kMaxWidth = int64_t{1} << 20;
constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxHeadDim = 4096;
constexpr int64_t kMaxExperts = 512;

struct LlamaLayer {
  const Tensor* attn_norm = nullptr;
  nn::Attention attention;
  const Tensor* ffn_norm = nullptr;
  nn::GatedFfn ffn;          // without experts
  nn::GatedExperts experts;  // with experts
};

class Llama final : public Model {
 public:
  using Model::Model;

  Result<> read(const ModelFiles& files, const RopeOverrides& overrides) {
    const HparamReader hp(files, "llama");
    info_.architecture = "llama";
    TESSERA_ASSIGN(info_.name, files.metadata().get_or<std::string_view>(keys::kName, ""));
    TESSERA_ASSIGN(info_.n_vocab, hp.n_vocab());
    TESSERA_ASSIGN(info_.n_ctx_train, hp.integer("context_length", 1, kMaxContext));
    TESSERA_ASSIGN(info_.n_embd, hp.integer("embedding_length", 1, kMaxWidth));
    TESSERA_ASSIGN(const int64_t n_layers, hp.integer("block_count", 1, kMaxLayers));
    TESSERA_ASSIGN(const auto n_ff, hp.per_layer("feed_forward_length", n_layers, 1, kMaxWidth));
    TESSERA_ASSIGN(const auto n_heads, hp.per_layer("attention.head_count", n_layers, 1, kMaxHeads));
    std::vector<int64_t> n_heads_kv = n_heads;
    if (hp.has("attention.head_count_kv")) {
      TESSERA_ASSIGN(n_heads_kv, hp.per_layer("attention.head_count_kv", n_layers, 1, kMaxHeads));
    }
    TESSERA_ASSIGN(eps_, hp.real("attention.layer_norm_rms_epsilon", 0.0f, 1.0f));
    TESSERA_ASSIGN(n_experts_, hp.integer_or("expert_count", 0, 0, kMaxExperts));
    if (n_experts_ > 0) {
      TESSERA_ASSIGN(n_experts_used_, hp.integer("expert_used_count", 1, n_experts_));
    }
    const int64_t head_dim = info_.n_embd / n_heads[0];
    TESSERA_ASSIGN(const int64_t k_dim, hp.integer_or("attention.key_length", head_dim, 1, kMaxHeadDim));
    TESSERA_ASSIGN(const int64_t v_dim, hp.integer_or("attention.value_length", head_dim, 1, kMaxHeadDim));
    TESSERA_ASSIGN(info_.rope, hp.rope(info_.n_ctx_train, overrides));
    TESSERA_ASSIGN(info_.rope.n_rot, hp.integer_or("rope.dimension_count", k_dim, 2, kMaxHeadDim));
    if (info_.rope.n_rot != k_dim || k_dim % 2 != 0)
      return fail(ErrorCode::mismatch, "{}: rope.dimension_count {} and key length {}: want the same even number",
                  files.name(), info_.rope.n_rot, k_dim);
    for (int64_t il = 0; il < n_layers; ++il) {
      const auto i = static_cast<size_t>(il);
      if (n_heads[i] % n_heads_kv[i] != 0)
        return fail(ErrorCode::mismatch, "{}: layer {}: {} heads for {} KV heads, want a multiple", files.name(), il,
                    n_heads[i], n_heads_kv[i]);
      info_.kv_layers.push_back({.n_heads_kv = n_heads_kv[i], .k_dim = k_dim, .v_dim = v_dim});
    }
    list_weights(n_heads, n_ff);
    return weights_.finish();
  }

  Value build(GraphBuilder& b, const nn::BatchInputs& in, const KvCache& cache) const override {
    const Value factors = info_.rope_factors == nullptr ? Value() : nn::vector_f32(b, *info_.rope_factors);
    const Value rope = b.rope_table(in.positions, factors, nn::rope_table_params(info_.rope));
    Value x = b.get_rows(b.tensor(*token_embd_), in.tokens);
    for (size_t il = 0; il < layers_.size(); ++il) {
      const LlamaLayer& layer = layers_[il];
      const Value h = nn::rms_norm(b, x, *layer.attn_norm, eps_);
      Value heads = nn::attend(b, h, layer.attention, in, rope, cache, static_cast<int64_t>(il));
      if (il + 1 == layers_.size()) {  // only wanted tokens go on from here
        if (!in.outputs.present()) return {};
        heads = b.get_rows(heads, in.outputs);
        x = b.get_rows(x, in.outputs);
      }
      x = b.name(b.add(x, nn::linear(b, heads, layer.attention.out)), fmt::format("attn_residual.{}", il));
      const Value g = nn::rms_norm(b, x, *layer.ffn_norm, eps_);
      const Value y = n_experts_ > 0 ? nn::swiglu_experts(b, g, layer.experts) : nn::swiglu_ffn(b, g, layer.ffn);
      x = b.name(b.add(x, y), fmt::format("ffn_residual.{}", il));
    }
    x = nn::rms_norm(b, x, *output_norm_, eps_);
    return b.output(nn::linear(b, x, output_), "logits");
  }

 private:
  nn::Linear linear(const std::string& name, int64_t n_in, int64_t n_out, nn::ScaleOf scale_of) {
    return {.weight = weights_.need(name + ".weight", {n_in, n_out}, Op::mul_mat),
            .bias = weights_.maybe(name + ".bias", {n_out}, Op::add),
            .scale = weights_.maybe(name + ".scale", {1}, Op::mul),
            .scale_of = scale_of};
  }

  nn::ExpertLinear expert_linear(const std::string& name, int64_t n_in, int64_t n_out) {
    return {.weight = weights_.need(name + ".weight", {n_in, n_out, n_experts_}, Op::mul_mat_experts),
            .bias = weights_.maybe(name + ".bias", {n_out, n_experts_}, Op::expert_rows),
            .scale = weights_.maybe(name + ".scale", {n_experts_}, Op::expert_rows)};
  }

  nn::GatedExperts experts(const std::string& blk, int64_t n_ff) {
    const int64_t n_embd = info_.n_embd;
    return {.router = {.weight = weights_.need(blk + "ffn_gate_inp.weight", {n_embd, n_experts_}, Op::mul_mat),
                       .bias = weights_.maybe(blk + "ffn_gate_inp.bias", {n_experts_}, Op::add),
                       .n_experts = n_experts_,
                       .n_used = n_experts_used_,
                       .gating = nn::Gating::softmax,
                       .normalize = true},
            .gate = expert_linear(blk + "ffn_gate_exps", n_embd, n_ff),
            .up = expert_linear(blk + "ffn_up_exps", n_embd, n_ff),
            .down = expert_linear(blk + "ffn_down_exps", n_ff, n_embd)};
  }

  void list_weights(const std::vector<int64_t>& n_heads, const std::vector<int64_t>& n_ff) {
    const int64_t n_embd = info_.n_embd;
    token_embd_ = weights_.need("token_embd.weight", {n_embd, info_.n_vocab}, Op::get_rows);
    output_norm_ = weights_.need("output_norm.weight", {n_embd}, Op::rms_norm);
    output_.weight = weights_.maybe("output.weight", {n_embd, info_.n_vocab}, Op::mul_mat);
    output_.bias = weights_.maybe("output.bias", {info_.n_vocab}, Op::add);
    if (output_.weight == nullptr) {
      output_.weight = token_embd_;
      weights_.also_multiplies(token_embd_);
    }
    info_.rope_factors = weights_.maybe("rope_freqs.weight", {info_.rope.n_rot / 2}, Op::rope_table);
    for (size_t i = 0; i < info_.kv_layers.size(); ++i) {
      const KvLayerShape& kv = info_.kv_layers[i];
      const std::string blk = fmt::format("blk.{}.", i);
      LlamaLayer layer;
      layer.attn_norm = weights_.need(blk + "attn_norm.weight", {n_embd}, Op::rms_norm);
      layer.attention = {
          .q = linear(blk + "attn_q", n_embd, kv.k_dim * n_heads[i], nn::ScaleOf::product),
          .k = linear(blk + "attn_k", n_embd, kv.k_dim * kv.n_heads_kv, nn::ScaleOf::product),
          .v = linear(blk + "attn_v", n_embd, kv.v_dim * kv.n_heads_kv, nn::ScaleOf::product),
          .out = linear(blk + "attn_output", kv.v_dim * n_heads[i], n_embd, nn::ScaleOf::product),
          .n_heads = n_heads[i],
          .n_heads_kv = kv.n_heads_kv,
          .k_dim = kv.k_dim,
          .v_dim = kv.v_dim,
          .scale = 1.0f / std::sqrt(static_cast<float>(kv.k_dim)),
          .pairs = RopePairs::adjacent,
      };
      layer.ffn_norm = weights_.need(blk + "ffn_norm.weight", {n_embd}, Op::rms_norm);
      if (n_experts_ > 0) {
        layer.experts = experts(blk, n_ff[i]);
      } else {
        layer.ffn = {
            .gate = linear(blk + "ffn_gate", n_embd, n_ff[i], nn::ScaleOf::sum),
            .up = linear(blk + "ffn_up", n_embd, n_ff[i], nn::ScaleOf::sum),
            .down = linear(blk + "ffn_down", n_ff[i], n_embd, nn::ScaleOf::sum),
        };
      }
      layers_.push_back(layer);
    }
  }

  float eps_ = 0.0f;
  int64_t n_experts_ = 0;  // 0: dense
  int64_t n_experts_used_ = 0;
  const Tensor* token_embd_ = nullptr;
  const Tensor* output_norm_ = nullptr;
  nn::Linear output_;
  std::vector<LlamaLayer> layers_;
};

}  // namespace

Result<std::unique_ptr<Model>> create_llama(const ModelFiles& files, const RopeOverrides& rope) {
  auto model = std::make_unique<Llama>(files);
  TESSERA_TRY(model->read(files, rope));
  return model;
}

}  // namespace tessera
