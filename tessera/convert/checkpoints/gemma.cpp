// Gemma: norms store the difference from 1, and the token embedding is the output layer.
#include <algorithm>

#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/checkpoints/pieces.h"
#include "tessera/convert/checkpoints/pooling.h"
#include "tessera/convert/source/views.h"

namespace tessera::convert {

namespace {

constexpr TensorRule kGemmaRules[] = {
    {"lm_head.weight", "", Change::drop},
    {"model.norm.weight", "output_norm.weight", Change::add_one},
    {"model.layers.{i}.input_layernorm.weight", "blk.{i}.attn_norm.weight", Change::add_one},
    {"model.layers.{i}.post_attention_layernorm.weight", "blk.{i}.ffn_norm.weight", Change::add_one},
};

constexpr TensorRule kGemma2Rules[] = {
    {"lm_head.weight", "", Change::drop},
    {"model.norm.weight", "output_norm.weight", Change::add_one},
    {"model.layers.{i}.input_layernorm.weight", "blk.{i}.attn_norm.weight", Change::add_one},
    {"model.layers.{i}.post_attention_layernorm.weight", "blk.{i}.post_attention_norm.weight", Change::add_one},
    {"model.layers.{i}.pre_feedforward_layernorm.weight", "blk.{i}.ffn_norm.weight", Change::add_one},
    {"model.layers.{i}.post_feedforward_layernorm.weight", "blk.{i}.post_ffw_norm.weight", Change::add_one},
};

// Rows of the embedding past the vocabulary belong to no token.
Result<TensorPieces> rows_of_vocabulary(const StoredTensor& tensor, const RuleFacts& facts) {
  constexpr int64_t kAbsentTokens = 262208;
  TESSERA_ASSIGN(const auto stated, facts.config->integer({"vocab_size"}, 1, INT32_MAX));
  const int64_t n_rows = tensor.shape.empty() ? 0 : tensor.shape[0];
  TESSERA_ASSIGN(StoredTensor view, part_of(tensor, 0, 0, std::min(n_rows, stated.value_or(kAbsentTokens))));
  return one_view(std::move(view));
}

constexpr TensorRule kGemma3Rules[] = {
    {"lm_head.weight", "", Change::drop},
    {"model.embed_tokens.weight", "token_embd.weight", Change::same, rows_of_vocabulary},
    {"model.norm.weight", "output_norm.weight", Change::add_one},
    {"model.layers.{i}.input_layernorm.weight", "blk.{i}.attn_norm.weight", Change::add_one},
    {"model.layers.{i}.post_attention_layernorm.weight", "blk.{i}.post_attention_norm.weight", Change::add_one},
    {"model.layers.{i}.pre_feedforward_layernorm.weight", "blk.{i}.ffn_norm.weight", Change::add_one},
    {"model.layers.{i}.post_feedforward_layernorm.weight", "blk.{i}.post_ffw_norm.weight", Change::add_one},
    {"model.layers.{i}.self_attn.q_norm.weight", "blk.{i}.attn_q_norm.weight", Change::add_one},
    {"model.layers.{i}.self_attn.k_norm.weight", "blk.{i}.attn_k_norm.weight", Change::add_one},
};

constexpr KeyRow kGemmaKeys[] = {
    {"attention.head_count_kv", "*", KeyType::u32, otherwise(16)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"attention.key_length", "*", KeyType::u32, otherwise(256)},
    {"attention.value_length", "*", KeyType::u32, otherwise(256)},
};

constexpr KeyRow kGemma2Keys[] = {
    {"attention.head_count", "*", KeyType::u32, otherwise(8)},
    {"attention.head_count_kv", "*", KeyType::u32, otherwise(4)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"attention.key_length", "*", KeyType::u32, otherwise(256)},
    {"attention.value_length", "*", KeyType::u32, otherwise(256)},
    {"attn_logit_softcapping", "attn_logit_softcapping", KeyType::f32, otherwise(50)},
    {"final_logit_softcapping", "final_logit_softcapping", KeyType::f32, otherwise(30)},
    {"attention.sliding_window", "sliding_window", KeyType::u32, otherwise(4096)},
};

constexpr KeyRow kGemma3Keys[] = {
    {"block_count", "*", KeyType::u32, otherwise(26)},
    {"context_length", "*", KeyType::u32, otherwise(131072)},
    {"embedding_length", "*", KeyType::u32, otherwise(2304)},
    {"feed_forward_length", "*", KeyType::u32, otherwise(9216)},
    {"attention.head_count", "*", KeyType::u32, otherwise(8)},
    {"attention.head_count_kv", "*", KeyType::u32, otherwise(4)},
    {"rope.freq_base", "*", KeyType::f32, otherwise(1e6)},
    {"rope.freq_base_swa", "*", KeyType::f32, otherwise(10000)},
    {"attention.layer_norm_rms_epsilon", "*", KeyType::f32, otherwise(1e-6)},
    {"attention.key_length", "*", KeyType::u32, otherwise(256)},
    {"attention.value_length", "*", KeyType::u32, otherwise(256)},
    {"attn_logit_softcapping", "attn_logit_softcapping", KeyType::f32},
    {"final_logit_softcapping", "final_logit_softcapping", KeyType::f32},
};

// A pattern of 1 means that no layer has a window.
Result<> add_gemma3_window(ModelDraft& draft) {
  TESSERA_ASSIGN(const auto pattern, draft.config.integer({"sliding_window_pattern"}, 0, kMaxLayers));
  TESSERA_ASSIGN(const auto window, draft.config.integer({"sliding_window"}, 0, INT32_MAX));
  constexpr uint32_t kAbsentWindow = 4096;
  if (pattern.value_or(0) != 1)
    draft.builder.set(draft.key("attention.sliding_window"), window ? static_cast<uint32_t>(*window) : kAbsentWindow);
  return {};
}

constexpr KeyRow kGemmaEmbeddingKeys[] = {
    {"attention.sliding_window", "sliding_window", KeyType::u32, kRequired},
    {"attention.sliding_window_pattern", "_sliding_window_pattern sliding_window_pattern", KeyType::u32, otherwise(6)},
    {"attention.causal", "", KeyType::boolean, otherwise(0)},
};

Result<> finish_gemma_embedding(ModelDraft& draft) {
  TESSERA_TRY(add_pooling(draft));
  return add_dense_layers(draft);
}

constexpr ModelClass kGemmaClasses[] = {
    {.names = "Gemma3TextModel",
     .architecture = "gemma-embedding",
     .rules = kGemma3Rules,
     .keys = kGemmaEmbeddingKeys,
     .shared_keys = kGemma3Keys,
     .scaling = RopeScaling::none,
     .finish = finish_gemma_embedding},
    {.names = "GemmaForCausalLM", .architecture = "gemma", .rules = kGemmaRules, .keys = kGemmaKeys},
    {.names = "Gemma2ForCausalLM", .architecture = "gemma2", .rules = kGemma2Rules, .keys = kGemma2Keys},
    {.names = "Gemma3ForCausalLM Gemma3ForConditionalGeneration",
     .architecture = "gemma3",
     .rules = kGemma3Rules,
     .keys = kGemma3Keys,
     .finish = add_gemma3_window},
};

}  // namespace

std::span<const ModelClass> gemma_classes() { return kGemmaClasses; }

}  // namespace tessera::convert
