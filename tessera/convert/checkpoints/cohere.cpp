// Command R, R7B and A with experts: one norm for attention and FFN, and a scale of the logits.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tessera/convert/checkpoints/model_class.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kCohereRules[] = {
    {"model.layers.{i}.self_attn.q_norm.weight", "blk.{i}.attn_q_norm.weight"},
    {"model.layers.{i}.self_attn.k_norm.weight", "blk.{i}.attn_k_norm.weight"},
};

constexpr KeyRow kCohereKeys[] = {
    {"context_length", "model_max_length max_position_embeddings", KeyType::u32, otherwise(8192)},
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"logit_scale", "logit_scale", KeyType::f32, otherwise(0.0625)},
    {"rope.scaling.type", "", KeyType::text, otherwise_text("none")},
};

constexpr KeyRow kCohere2Keys[] = {
    {"context_length", "model_max_length max_position_embeddings", KeyType::u32, otherwise(8192)},
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"logit_scale", "logit_scale", KeyType::f32, otherwise(0.0625)},
    {"attention.sliding_window", "sliding_window", KeyType::u32, otherwise(4096)},
    {"vocab_size", "vocab_size", KeyType::u32, kRequired},
    {"rope.dimension_count", "=rotated"},
    {"rope.scaling.type", "", KeyType::text, otherwise_text("none")},
};

// The architecture has no biases.
Result<> check_cohere2(ModelDraft& draft) {
  const auto bias =
      std::ranges::find_if(draft.tensors, [](const ConvertedTensor& tensor) { return tensor.name.ends_with(".bias"); });
  if (bias == draft.tensors.end()) return {};
  return fail(ErrorCode::unsupported, "{}: {} has a place in no model of {}", draft.config.path(), bias->name,
              draft.architecture);
}

constexpr TensorRule kCohere2MoeRules[] = {
#include "tessera/convert/checkpoints/later_layers.def"
};

constexpr KeyRow kCohere2MoeKeys[] = {
    {"block_count", "=all_layers"},
    {"attention.sliding_window_pattern", "layer_types", KeyType::windows, kRequired},
    {"leading_dense_block_count", "first_k_dense_replace", KeyType::u32, otherwise(0)},
    {"rope.dimension_count", "=head_size"},
    {"expert_feed_forward_length", "intermediate_size", KeyType::u32, kRequired},
    {"expert_shared_count", "num_shared_experts"},
    {"expert_gating_func", "expert_selection_fn", KeyType::function, otherwise_text("softmax")},
    {"expert_weights_norm", "norm_topk_prob", KeyType::boolean, otherwise(1)},
    {"nextn_predict_layers", "num_nextn_predict_layers"},
};

// The runtime averages the outputs of routed and shared experts. Its softmax is over all experts, that of the models'
// code over the chosen ones, which is the same only if weights are normed.
Result<> finish_cohere2_moe(ModelDraft& draft) {
  const HubConfig& config = draft.config;
  TESSERA_TRY(check_cohere2(draft));
  TESSERA_ASSIGN(const auto sum, config.text({"shared_expert_combination_strategy"}));
  if (sum.value_or("average") != "average")
    return fail(ErrorCode::unsupported, "{}: shared_expert_combination_strategy, want average", config.path());
  TESSERA_ASSIGN(const auto function, config.text({"expert_selection_fn"}));
  if (function.value_or("softmax") == "softmax") draft.builder.set(draft.key("expert_weights_norm"), true);
  TESSERA_ASSIGN(const auto n_shared, config.integer({"num_shared_experts"}, 0, 1 << 10));
  TESSERA_ASSIGN(const int64_t width, config.require_integer({"intermediate_size"}, 1, 1 << 20));
  if (n_shared.value_or(0) > 0)
    draft.builder.set(draft.key("expert_shared_feed_forward_length"), static_cast<uint32_t>(*n_shared * width));
  const Json* const kinds = config.find({"mlp_layer_types"});
  if (kinds == nullptr || !kinds->is_array()) return {};
  const auto first = std::ranges::find_if(*kinds, [](const Json& kind) { return kind != "dense"; });
  draft.builder.set(draft.key("leading_dense_block_count"), static_cast<uint32_t>(first - kinds->begin()));
  return {};
}

constexpr ModelClass kCohereClasses[] = {
    {.names = "Cohere2MoeForCausalLM",
     .architecture = "cohere2moe",
     .rules = kCohere2MoeRules,
     .keys = kCohere2MoeKeys,
     .shared_keys = kCohere2Keys,
     .is_head_tied = true,
     .scaling = RopeScaling::none,
     .finish = finish_cohere2_moe},
    {.names = "CohereForCausalLM",
     .architecture = "command-r",
     .rules = kCohereRules,
     .keys = kCohereKeys,
     .is_head_tied = true,
     .scaling = RopeScaling::none},
    {.names = "Cohere2ForCausalLM",
     .architecture = "cohere2",
     .rules = {},
     .keys = kCohere2Keys,
     .is_head_tied = true,
     .scaling = RopeScaling::none,
     .finish = check_cohere2},
};

}  // namespace

std::span<const ModelClass> cohere_classes() { return kCohereClasses; }

}  // namespace tessera::convert
