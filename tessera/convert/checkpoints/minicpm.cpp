// MiniCPM and MiniCPM 3: constant factors of embeddings, layers and logits.
#include <cmath>

#include "tessera/convert/checkpoints/model_class.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kMiniCpmRules[] = {
    {"model.layers.{i}.self_attn.q_proj.weight", "blk.{i}.attn_q.weight", Change::rope_q},
    {"model.layers.{i}.self_attn.k_proj.weight", "blk.{i}.attn_k.weight", Change::rope_k},
};

constexpr KeyRow kMiniCpmKeys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"embedding_scale", "scale_emb", KeyType::f32, otherwise(1)},
    {"rope.scaling.original_context_length", "rope_scaling.original_max_position_embeddings"},
};

// The factors of a model, as the runtime has them: of the output of each block, and the divisor of logits.
struct MiniCpmFactors {
  double residual = 0, divisor = 0;
};

Result<MiniCpmFactors> factors_of(const HubConfig& config) {
  TESSERA_ASSIGN(const auto depth, config.number({"scale_depth"}));
  TESSERA_ASSIGN(const auto base, config.number({"dim_model_base"}));
  TESSERA_ASSIGN(const int64_t n_layers, layers_of(config));
  TESSERA_ASSIGN(const int64_t n_embd, embedding_of(config));
  if (!depth || !base || !(*base > 0) || n_layers < 1)
    return fail(ErrorCode::not_found, "{}: no scale_depth and dim_model_base", config.path());
  return MiniCpmFactors{.residual = *depth / std::sqrt(static_cast<double>(n_layers)),
                        .divisor = static_cast<double>(n_embd) / *base};
}

Result<> finish_minicpm(ModelDraft& draft) {
  TESSERA_ASSIGN(const MiniCpmFactors factors, factors_of(draft.config));
  draft.builder.set(draft.key("residual_scale"), static_cast<float>(factors.residual));
  draft.builder.set(draft.key("logit_scale"), static_cast<float>(factors.divisor));
  return {};
}

constexpr TensorRule kMiniCpm3Rules[] = {
    {"model.layers.{i}.self_attn.q_a_proj.weight", "blk.{i}.attn_q_a.weight"},
    {"model.layers.{i}.self_attn.q_a_layernorm.weight", "blk.{i}.attn_q_a_norm.weight"},
    {"model.layers.{i}.self_attn.q_b_proj.weight", "blk.{i}.attn_q_b.weight"},
    {"model.layers.{i}.self_attn.kv_a_proj_with_mqa.weight", "blk.{i}.attn_kv_a_mqa.weight"},
    {"model.layers.{i}.self_attn.kv_a_layernorm.weight", "blk.{i}.attn_kv_a_norm.weight"},
    {"model.layers.{i}.self_attn.kv_b_proj.weight", "blk.{i}.attn_kv_b.weight"},
};

constexpr KeyRow kMiniCpm3Keys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"attention.q_lora_rank", "q_lora_rank", KeyType::u32, kRequired},
    {"attention.kv_lora_rank", "kv_lora_rank", KeyType::u32, kRequired},
    {"attention.key_length", "=full_key", KeyType::u32, kRequired},
    {"attention.value_length", "v_head_dim =plain_head_size"},
    {"rope.dimension_count", "qk_rope_head_dim", KeyType::u32, kRequired},
    {"rope.scaling.original_context_length", "rope_scaling.original_max_position_embeddings"},
};

// The runtime has these factors built in: no key states them.
Result<> check_minicpm3(ModelDraft& draft) {
  constexpr double kEmbedding = 12, kDepth = 1.4, kBase = 256;
  TESSERA_ASSIGN(const auto embedding, draft.config.number({"scale_emb"}));
  TESSERA_ASSIGN(const auto depth, draft.config.number({"scale_depth"}));
  TESSERA_ASSIGN(const auto base, draft.config.number({"dim_model_base"}));
  if (embedding == kEmbedding && depth == kDepth && base == kBase) return {};
  return fail(ErrorCode::unsupported, "{}: want a scale_emb of 12, a scale_depth of 1.4 and a dim_model_base of 256",
              draft.config.path());
}

// PLM has an FFN without a gate, with the square of relu. Only its keys and values have the latent form.
constexpr KeyRow kPlmKeys[] = {
    {"attention.q_lora_rank", ""},
    {"attention.value_length", "v_head_dim", KeyType::u32, kRequired},
    {"rope.scaling.original_context_length", ""},
};

constexpr ModelClass kMiniCpmClasses[] = {
    {.names = "MiniCPMForCausalLM",
     .architecture = "minicpm",
     .rules = kMiniCpmRules,
     .keys = kMiniCpmKeys,
     .finish = finish_minicpm},
    {.names = "MiniCPM3ForCausalLM",
     .architecture = "minicpm3",
     .rules = kMiniCpm3Rules,
     .keys = kMiniCpm3Keys,
     .finish = check_minicpm3},
    {.names = "PLMForCausalLM",
     .architecture = "plm",
     .rules = kMiniCpm3Rules,
     .keys = kPlmKeys,
     .shared_keys = kMiniCpm3Keys,
     .is_head_tied = true},
};

}  // namespace

std::span<const ModelClass> minicpm_classes() { return kMiniCpmClasses; }

}  // namespace tessera::convert
