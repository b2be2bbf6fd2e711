// Decoders that differ from Llama by a few rows: StableLM, Nemotron, EXAONE 4.
#include <memory>

#include "tessera/convert/checkpoints/model_class.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kStableLmRules[] = {
    {"model.layers.{i}.self_attn.q_layernorm.norms.{e}.weight", "blk.{i}.attn_q_norm.weight"},
    {"model.layers.{i}.self_attn.k_layernorm.norms.{e}.weight", "blk.{i}.attn_k_norm.weight"},
};

constexpr KeyRow kStableLmKeys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"rope.dimension_count", "=rotated_quarter"},
    {"use_parallel_residual", "use_parallel_residual", KeyType::boolean, otherwise(0)},
};

constexpr TensorRule kNemotronRules[] = {
    {"model.norm.weight", "output_norm.weight", Change::add_one},
    {"model.layers.{i}.input_layernorm.weight", "blk.{i}.attn_norm.weight", Change::add_one},
    {"model.layers.{i}.post_attention_layernorm.weight", "blk.{i}.ffn_norm.weight", Change::add_one},
};

constexpr KeyRow kNemotronKeys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_epsilon", "layer_norm_eps norm_eps", KeyType::f32, otherwise(1e-5)},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"rope.dimension_count", "=rotated_half"},
};

Result<> finish_nemotron(ModelDraft& draft) {
  TESSERA_ASSIGN(const auto factor, draft.config.number({"factor", "rope_scaling.factor"}));
  draft.builder.set(draft.key("rope.scaling.type"), factor ? "linear" : "none");
  if (factor) draft.builder.set(draft.key("rope.scaling.factor"), static_cast<float>(*factor));
  return {};
}

constexpr TensorRule kExaone4Rules[] = {
    {"model.layers.{i}.post_attention_layernorm.weight", "blk.{i}.post_attention_norm.weight"},
    {"model.layers.{i}.post_feedforward_layernorm.weight", "blk.{i}.post_ffw_norm.weight"},
    {"model.layers.{i}.self_attn.q_norm.weight", "blk.{i}.attn_q_norm.weight"},
    {"model.layers.{i}.self_attn.k_norm.weight", "blk.{i}.attn_k_norm.weight"},
};

constexpr KeyRow kExaone4Keys[] = {
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"attention.sliding_window", "sliding_window"},
};

// The layers with a window: a list of names, or a pattern that repeats, such as LLLG.
Result<> add_exaone4_windows(ModelDraft& draft) {
  constexpr std::string_view kKey = "attention.sliding_window_pattern";
  if (draft.config.find({"sliding_window"}) == nullptr) return {};
  constexpr KeyRow kWindows[] = {{kKey, "layer_types", KeyType::windows}};
  if (draft.config.find({"layer_types"}) != nullptr)
    return add_rows(draft.config, draft.architecture, kWindows, draft.builder);
  TESSERA_ASSIGN(const auto pattern, draft.config.text({"sliding_window_pattern"}));
  TESSERA_ASSIGN(const int64_t n_layers, layers_of(draft.config));
  if (!pattern || pattern->empty() || pattern->find_first_not_of("LG") != std::string::npos)
    return fail(ErrorCode::format, "{}: sliding_window_pattern: want letters L and G, or layer_types",
                draft.config.path());
  const auto n = static_cast<size_t>(n_layers);
  const std::unique_ptr<bool[]> windows(new bool[n]);
  for (size_t i = 0; i < n; ++i) windows[i] = (*pattern)[i % pattern->size()] == 'L';
  draft.builder.set_array(draft.key(kKey), std::span<const bool>(windows.get(), n));
  return {};
}

constexpr ModelClass kDecoderClasses[] = {
    {.names = "StableLmForCausalLM StableLMEpochForCausalLM",
     .architecture = "stablelm",
     .rules = kStableLmRules,
     .keys = kStableLmKeys},
    {.names = "NemotronForCausalLM",
     .architecture = "nemotron",
     .rules = kNemotronRules,
     .keys = kNemotronKeys,
     .scaling = RopeScaling::none,
     .finish = finish_nemotron},
    {.names = "Exaone4ForCausalLM",
     .architecture = "exaone4",
     .rules = kExaone4Rules,
     .keys = kExaone4Keys,
     .finish = add_exaone4_windows},
};

}  // namespace

std::span<const ModelClass> decoders_classes() { return kDecoderClasses; }

}  // namespace tessera::convert
