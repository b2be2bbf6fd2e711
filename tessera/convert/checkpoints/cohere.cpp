// Command R and R7B: one norm for attention and FFN, and a scale of the logits.
#include <algorithm>

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

constexpr ModelClass kCohereClasses[] = {
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
