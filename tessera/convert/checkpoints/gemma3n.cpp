// Gemma 3n, its text: four streams, inputs per layer, and layers from 20 on that use K and V of earlier ones.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/mix.h"
#include "tessera/convert/source/views.h"

namespace tessera::convert {

namespace {

constexpr int64_t kFirstSharedLayer = 20, kSparse = 10, kFullPeriod = 5;

// Tables of embeddings may have no rows for tokens of images and sound. They are zeros: rows that exist, times 0.
Result<TensorPieces> rows_of_all_tokens(const StoredTensor& tensor, const RuleFacts& facts) {
  constexpr int64_t kAbsentTokens = 262400;
  TESSERA_ASSIGN(const auto stated, facts.config->integer({"vocab_size"}, 1, INT32_MAX));
  const int64_t n_rows = tensor.shape.empty() ? 0 : tensor.shape[0], n_all = stated.value_or(kAbsentTokens);
  if (n_rows < 1 || n_all > 2 * n_rows)
    return fail(ErrorCode::mismatch, "{}: {} rows, for a vocabulary of {}", tensor.name, n_rows, n_all);
  TensorPieces pieces{.shape = tensor.shape};
  pieces.views.push_back(tensor);
  pieces.factors.push_back(1.0f);
  if (n_all <= n_rows) return pieces;
  TESSERA_ASSIGN(StoredTensor more, part_of(tensor, 0, 0, n_all - n_rows));
  pieces.views.push_back(std::move(more));
  pieces.factors.push_back(0.0f);
  pieces.shape[0] = n_all;
  return pieces;
}

constexpr TensorRule kGemma3nRules[] = {
    {"lm_head.weight", "", Change::drop},
    {"model.embed_tokens.weight", "token_embd.weight", Change::same, rows_of_all_tokens},
    {"model.embed_tokens_per_layer.weight", "per_layer_token_embd.weight", Change::same, rows_of_all_tokens},
    {"model.per_layer_model_projection.weight", "per_layer_model_proj.weight"},
    {"model.per_layer_projection_norm.weight", "per_layer_proj_norm.weight"},
    {"model.altup_projections.{e}.weight", "altup_proj.weight"},
    {"model.altup_unembed_projections.{e}.weight", "altup_unembd_proj.weight"},
    {"model.layers.{i}.altup.correct_output_scale", "blk.{i}.altup_correct_scale.weight"},
    {"model.layers.{i}.altup.correction_coefs.weight", "blk.{i}.altup_correct_coef.weight"},
    {"model.layers.{i}.altup.prediction_coefs.weight", "blk.{i}.altup_predict_coef.weight"},
    {"model.layers.{i}.altup.modality_router.weight", "blk.{i}.altup_router.weight"},
    {"model.layers.{i}.altup.router_norm.weight", "blk.{i}.altup_router_norm.weight"},
    {"model.layers.{i}.laurel.linear_left.weight", "blk.{i}.laurel_l.weight"},
    {"model.layers.{i}.laurel.linear_right.weight", "blk.{i}.laurel_r.weight"},
    {"model.layers.{i}.laurel.post_laurel_norm.weight", "blk.{i}.laurel_post_norm.weight"},
    {"model.layers.{i}.per_layer_input_gate.weight", "blk.{i}.inp_gate.weight"},
    {"model.layers.{i}.per_layer_projection.weight", "blk.{i}.proj.weight"},
    {"model.layers.{i}.post_per_layer_input_norm.weight", "blk.{i}.post_norm.weight"},
    {"model.layers.{i}.post_attention_layernorm.weight", "blk.{i}.post_attention_norm.weight"},
    {"model.layers.{i}.pre_feedforward_layernorm.weight", "blk.{i}.ffn_norm.weight"},
    {"model.layers.{i}.post_feedforward_layernorm.weight", "blk.{i}.post_ffw_norm.weight"},
    {"model.layers.{i}.self_attn.q_norm.weight", "blk.{i}.attn_q_norm.weight"},
    {"model.layers.{i}.self_attn.k_norm.weight", "blk.{i}.attn_k_norm.weight"},
};

constexpr KeyRow kGemma3nKeys[] = {
    {"context_length", "*", KeyType::u32, otherwise(32768)},
    {"feed_forward_length", ""},
    {"attention.head_count_kv", "*", KeyType::u32, otherwise(2)},
    {"rope.freq_base", "*", KeyType::f32, otherwise(1e6)},
    {"rope.freq_base_swa", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"attention.key_length", "*", KeyType::u32, otherwise(256)},
    {"attention.value_length", "*", KeyType::u32, otherwise(256)},
    {"attention.sliding_window", "sliding_window", KeyType::u32, otherwise(512)},
    {"attention.sliding_window_pattern", "layer_types", KeyType::windows, kRequired},
    {"attention.shared_kv_layers", "num_kv_shared_layers", KeyType::u32, kRequired},
    {"embedding_length_per_layer_input", "hidden_size_per_layer_input", KeyType::u32, otherwise(256)},
};

// A number, or one for each layer.
Result<> add_gemma3n_widths(ModelDraft& draft) {
  constexpr std::string_view kName = "intermediate_size";
  const std::string key = draft.key("feed_forward_length");
  if (const Json* const stated = draft.config.find({kName}); stated != nullptr && stated->is_array()) {
    TESSERA_ASSIGN(const auto numbers, draft.config.integers({kName}, 1, INT32_MAX));
    const std::vector<int64_t> widths = numbers.value_or(std::vector<int64_t>{});
    draft.builder.set_array(key, std::vector<int32_t>(widths.begin(), widths.end()));
    return {};
  }
  TESSERA_ASSIGN(const int64_t width, draft.config.require_integer({kName}, 1, INT32_MAX));
  draft.builder.set(key, static_cast<uint32_t>(width));
  return {};
}

// The runtime has these values, which no key of GGUF states.
Result<> check_gemma3n(const HubConfig& config, int64_t n_layers) {
  constexpr double kSparsity = 0.95, kCap = 30;
  TESSERA_ASSIGN(const auto n_shared, config.integer({"num_kv_shared_layers"}, 0, kMaxLayers));
  TESSERA_ASSIGN(const auto n_streams, config.integer({"altup_num_inputs"}, 1, INT32_MAX));
  TESSERA_ASSIGN(const auto active, config.integer({"altup_active_idx"}, 0, INT32_MAX));
  TESSERA_ASSIGN(const auto cap, config.number({"final_logit_softcapping"}));
  TESSERA_ASSIGN(const auto types, layer_types_of(config));
  const auto refusal = [&](std::string_view want) {
    return fail(ErrorCode::unsupported, "{}: want {}", config.path(), want);
  };
  if (n_layers <= kFirstSharedLayer || n_shared.value_or(0) != n_layers - kFirstSharedLayer)
    return refusal("num_kv_shared_layers of all layers from 20 on");
  if (n_streams.value_or(4) != 4 || active.value_or(0) != 0) return refusal("altup_num_inputs 4, altup_active_idx 0");
  if (cap.value_or(kCap) != kCap) return refusal("final_logit_softcapping 30");
  for (size_t i = 0; types && i < types->size(); ++i)
    if (((*types)[i] == "full_attention") != ((static_cast<int64_t>(i) + 1) % kFullPeriod == 0))
      return refusal("full_attention in every fifth of layer_types");
  const Json* const sparsities = config.find({"activation_sparsity_pattern"});
  if (sparsities == nullptr) return {};
  if (!sparsities->is_array() || std::ssize(*sparsities) != n_layers)
    return refusal("an activation_sparsity_pattern of one number for each layer");
  for (size_t i = 0; i < sparsities->size(); ++i)
    if (!(*sparsities)[i].is_number() ||
        (*sparsities)[i].get<double>() != (static_cast<int64_t>(i) < kSparse ? kSparsity : 0.0))
      return refusal("an activation_sparsity_pattern of 0.95 in ten layers and 0 in the others");
  return {};
}

Result<> finish_gemma3n(ModelDraft& draft) {
  TESSERA_ASSIGN(const int64_t n_layers, layers_of(draft.config));
  TESSERA_TRY(check_gemma3n(draft.config, n_layers));
  // Checkpoints have weights of K and V that no layer uses.
  std::erase_if(draft.tensors, [](const ConvertedTensor& tensor) {
    const auto is = [&](std::string_view part) { return tensor.name.find(part) != std::string::npos; };
    return (is(".attn_k.") || is(".attn_k_norm.") || is(".attn_v.")) && layer_of(tensor.name) >= kFirstSharedLayer;
  });
  return add_gemma3n_widths(draft);
}

constexpr ModelClass kGemma3nClasses[] = {
    {.names = "Gemma3nForConditionalGeneration Gemma3nForCausalLM",
     .architecture = "gemma3n",
     .rules = kGemma3nRules,
     .keys = kGemma3nKeys,
     .scaling = RopeScaling::none,
     .finish = finish_gemma3n},
};

}  // namespace

std::span<const ModelClass> gemma3n_classes() { return kGemma3nClasses; }

}  // namespace tessera::convert
