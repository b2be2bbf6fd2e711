// RWKV 6; and RWKV 7, in the form of the flash-linear-attention library, or under the names of its authors' own code.
#include <cmath>

#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/checkpoints/pieces.h"

namespace tessera::convert {

namespace {

Result<TensorPieces> flattened(const StoredTensor& tensor, const RuleFacts& /*facts*/) {
  return in_shape(tensor, {tensor.n_elements()});
}

// One of the six factors that are one tensor: [1, 1, n].
Result<TensorPieces> as_factor(const StoredTensor& tensor, const RuleFacts& /*facts*/) {
  return in_shape(tensor, {1, 1, tensor.n_elements()});
}

constexpr std::string_view kLerp = "blk.{i}.time_mix_lerp_fused.weight";

constexpr TensorRule kRwkv7Rules[] = {
    {"lm_head.weight", "output.weight"},
    {"model.embeddings.weight", "token_embd.weight"},
    {"model.norm.{}", "output_norm.{}"},
    {"model.layers.0.pre_norm.{}", "token_embd_norm.{}"},
    {"model.layers.{i}.attn_norm.{}", "blk.{i}.attn_norm.{}"},
    {"model.layers.{i}.ffn_norm.{}", "blk.{i}.attn_norm_2.{}"},
    {"model.layers.{i}.attn.x_r", kLerp, Change::same, as_factor, false, 0},
    {"model.layers.{i}.attn.x_w", kLerp, Change::same, as_factor, false, 1},
    {"model.layers.{i}.attn.x_k", kLerp, Change::same, as_factor, false, 2},
    {"model.layers.{i}.attn.x_v", kLerp, Change::same, as_factor, false, 3},
    {"model.layers.{i}.attn.x_a", kLerp, Change::same, as_factor, false, 4},
    {"model.layers.{i}.attn.x_g", kLerp, Change::same, as_factor, false, 5},
    {"model.layers.{i}.attn.w_lora.lora.0.weight", "blk.{i}.time_mix_w1.weight"},
    {"model.layers.{i}.attn.w_lora.lora.2.weight", "blk.{i}.time_mix_w2.weight"},
    {"model.layers.{i}.attn.w_lora.lora.2.bias", "blk.{i}.time_mix_w0.weight"},
    // The first layer has no v of its own. Other programs want tensors there, which they do not use.
    {"model.layers.0.attn.a_lora.lora.0.weight", "blk.0.time_mix_a1.weight"},
    {"model.layers.0.attn.a_lora.lora.0.weight", "blk.0.time_mix_v1.weight"},
    {"model.layers.0.attn.a_lora.lora.2.weight", "blk.0.time_mix_a2.weight"},
    {"model.layers.0.attn.a_lora.lora.2.weight", "blk.0.time_mix_v2.weight"},
    {"model.layers.0.attn.a_lora.lora.2.bias", "blk.0.time_mix_a0.weight"},
    {"model.layers.0.attn.a_lora.lora.2.bias", "blk.0.time_mix_v0.weight"},
    {"model.layers.{i}.attn.a_lora.lora.0.weight", "blk.{i}.time_mix_a1.weight"},
    {"model.layers.{i}.attn.a_lora.lora.2.weight", "blk.{i}.time_mix_a2.weight"},
    {"model.layers.{i}.attn.a_lora.lora.2.bias", "blk.{i}.time_mix_a0.weight"},
    {"model.layers.{i}.attn.v_lora.lora.0.weight", "blk.{i}.time_mix_v1.weight"},
    {"model.layers.{i}.attn.v_lora.lora.2.weight", "blk.{i}.time_mix_v2.weight"},
    {"model.layers.{i}.attn.v_lora.lora.2.bias", "blk.{i}.time_mix_v0.weight"},
    {"model.layers.{i}.attn.g_lora.lora.0.weight", "blk.{i}.time_mix_g1.weight"},
    {"model.layers.{i}.attn.g_lora.lora.2.weight", "blk.{i}.time_mix_g2.weight"},
    {"model.layers.{i}.attn.k_k", "blk.{i}.time_mix_k_k.weight", Change::same, flattened},
    {"model.layers.{i}.attn.k_a", "blk.{i}.time_mix_k_a.weight", Change::same, flattened},
    {"model.layers.{i}.attn.r_k", "blk.{i}.time_mix_r_k.weight", Change::same, flattened},
    {"model.layers.{i}.attn.r_proj.weight", "blk.{i}.time_mix_receptance.weight"},
    {"model.layers.{i}.attn.k_proj.weight", "blk.{i}.time_mix_key.weight"},
    {"model.layers.{i}.attn.v_proj.weight", "blk.{i}.time_mix_value.weight"},
    {"model.layers.{i}.attn.o_proj.weight", "blk.{i}.time_mix_output.weight"},
    {"model.layers.{i}.attn.g_norm.{}", "blk.{i}.time_mix_ln.{}"},
    {"model.layers.{i}.ffn.x_k", "blk.{i}.channel_mix_lerp_k.weight", Change::same, flattened},
    {"model.layers.{i}.ffn.key.weight", "blk.{i}.channel_mix_key.weight"},
    {"model.layers.{i}.ffn.value.weight", "blk.{i}.channel_mix_value.weight"},
};

// The authors' own names. Matrices of low rank are stored transposed.
constexpr TensorRule kOriginalRwkv7Rules[] = {
    {"head.weight", "output.weight"},
    {"emb.weight", "token_embd.weight"},
    {"ln_out.{}", "output_norm.{}"},
    {"blocks.0.ln0.{}", "token_embd_norm.{}"},
    {"blocks.{i}.ln1.{}", "blk.{i}.attn_norm.{}"},
    {"blocks.{i}.ln2.{}", "blk.{i}.attn_norm_2.{}"},
    {"blocks.{i}.att.x_r", kLerp, Change::same, as_factor, false, 0},
    {"blocks.{i}.att.x_w", kLerp, Change::same, as_factor, false, 1},
    {"blocks.{i}.att.x_k", kLerp, Change::same, as_factor, false, 2},
    {"blocks.{i}.att.x_v", kLerp, Change::same, as_factor, false, 3},
    {"blocks.{i}.att.x_a", kLerp, Change::same, as_factor, false, 4},
    {"blocks.{i}.att.x_g", kLerp, Change::same, as_factor, false, 5},
    {"blocks.{i}.att.w0", "blk.{i}.time_mix_w0.weight", Change::same, flattened},
    {"blocks.{i}.att.w1", "blk.{i}.time_mix_w1.weight", Change::transpose},
    {"blocks.{i}.att.w2", "blk.{i}.time_mix_w2.weight", Change::transpose},
    // Some files have tensors for v in the first layer, which are not used.
    {"blocks.0.att.v0", "", Change::drop},
    {"blocks.0.att.v1", "", Change::drop},
    {"blocks.0.att.v2", "", Change::drop},
    {"blocks.0.att.a0", "blk.0.time_mix_a0.weight", Change::same, flattened},
    {"blocks.0.att.a0", "blk.0.time_mix_v0.weight", Change::same, flattened},
    {"blocks.0.att.a1", "blk.0.time_mix_a1.weight", Change::transpose},
    {"blocks.0.att.a1", "blk.0.time_mix_v1.weight", Change::transpose},
    {"blocks.0.att.a2", "blk.0.time_mix_a2.weight", Change::transpose},
    {"blocks.0.att.a2", "blk.0.time_mix_v2.weight", Change::transpose},
    {"blocks.{i}.att.a0", "blk.{i}.time_mix_a0.weight", Change::same, flattened},
    {"blocks.{i}.att.a1", "blk.{i}.time_mix_a1.weight", Change::transpose},
    {"blocks.{i}.att.a2", "blk.{i}.time_mix_a2.weight", Change::transpose},
    {"blocks.{i}.att.v0", "blk.{i}.time_mix_v0.weight", Change::same, flattened},
    {"blocks.{i}.att.v1", "blk.{i}.time_mix_v1.weight", Change::transpose},
    {"blocks.{i}.att.v2", "blk.{i}.time_mix_v2.weight", Change::transpose},
    {"blocks.{i}.att.g1", "blk.{i}.time_mix_g1.weight", Change::transpose},
    {"blocks.{i}.att.g2", "blk.{i}.time_mix_g2.weight", Change::transpose},
    {"blocks.{i}.att.k_k", "blk.{i}.time_mix_k_k.weight", Change::same, flattened},
    {"blocks.{i}.att.k_a", "blk.{i}.time_mix_k_a.weight", Change::same, flattened},
    {"blocks.{i}.att.r_k", "blk.{i}.time_mix_r_k.weight", Change::same, flattened},
    {"blocks.{i}.att.receptance.weight", "blk.{i}.time_mix_receptance.weight"},
    {"blocks.{i}.att.key.weight", "blk.{i}.time_mix_key.weight"},
    {"blocks.{i}.att.value.weight", "blk.{i}.time_mix_value.weight"},
    {"blocks.{i}.att.output.weight", "blk.{i}.time_mix_output.weight"},
    {"blocks.{i}.att.ln_x.{}", "blk.{i}.time_mix_ln.{}"},
    {"blocks.{i}.ffn.x_k", "blk.{i}.channel_mix_lerp_k.weight", Change::same, flattened},
    {"blocks.{i}.ffn.key.weight", "blk.{i}.channel_mix_key.weight"},
    {"blocks.{i}.ffn.value.weight", "blk.{i}.channel_mix_value.weight"},
};

constexpr uint32_t kNoContextLimit = 1u << 20;

constexpr KeyRow kRwkv7Keys[] = {
    {"context_length", "", KeyType::u32, otherwise(kNoContextLimit)},
    {"feed_forward_length", "intermediate_size", KeyType::u32, kRequired},
    {"attention.head_count", "", KeyType::u32, otherwise(0)},
    {"attention.head_count_kv", ""},
    {"attention.key_length", ""},
    {"attention.value_length", ""},
    {"attention.layer_norm_rms_epsilon", ""},
    {"attention.layer_norm_epsilon", "norm_eps layer_norm_epsilon", KeyType::f32, otherwise(1e-5)},
    {"wkv.head_size", "head_dim", KeyType::u32, otherwise(64)},
    {"attention.decay_lora_rank", "decay_low_rank_dim", KeyType::u32, kRequired},
    {"attention.iclr_lora_rank", "a_low_rank_dim", KeyType::u32, kRequired},
    {"attention.value_residual_mix_lora_rank", "v_low_rank_dim", KeyType::u32, kRequired},
    {"attention.gate_lora_rank", "gate_low_rank_dim", KeyType::u32, kRequired},
};

// The runtime halves x after every few layers, and wants these matrices scaled for that.
Result<TensorPieces> halved(const StoredTensor& tensor, const RuleFacts& facts, std::string_view pattern) {
  constexpr int64_t kAbsentPeriod = 6;
  std::string_view name = tensor.name;
  if (name.starts_with(facts.prefix)) name.remove_prefix(facts.prefix.size());
  const auto places = match_name(pattern, name);
  TESSERA_ASSIGN(const auto stated, facts.config->integer({"rescale_every"}, 0, kMaxLayers));
  const int64_t period = stated.value_or(kAbsentPeriod), layer = places && places->layer ? *places->layer : 0;
  return one_view(tensor, period > 0 ? std::exp2(-static_cast<double>(layer / period)) : 1.0);
}

constexpr std::string_view kTimeOutput = "blocks.{i}.attention.output.weight";
constexpr std::string_view kChannelValue = "blocks.{i}.feed_forward.value.weight";

Result<TensorPieces> halved_output(const StoredTensor& tensor, const RuleFacts& facts) {
  return halved(tensor, facts, kTimeOutput);
}
Result<TensorPieces> halved_value(const StoredTensor& tensor, const RuleFacts& facts) {
  return halved(tensor, facts, kChannelValue);
}

constexpr TensorRule kRwkv6Rules[] = {
    {"head.weight", "output.weight"},
    {"embeddings.weight", "token_embd.weight"},
    {"ln_out.{}", "output_norm.{}"},
    {"blocks.0.pre_ln.{}", "token_embd_norm.{}"},
    {"blocks.{i}.ln1.{}", "blk.{i}.attn_norm.{}"},
    {"blocks.{i}.ln2.{}", "blk.{i}.attn_norm_2.{}"},
    {"blocks.{i}.attention.time_maa_x", "blk.{i}.time_mix_lerp_x.weight", Change::same, flattened},
    {"blocks.{i}.attention.time_maa_w", kLerp, Change::same, as_factor, false, 0},
    {"blocks.{i}.attention.time_maa_k", kLerp, Change::same, as_factor, false, 1},
    {"blocks.{i}.attention.time_maa_v", kLerp, Change::same, as_factor, false, 2},
    {"blocks.{i}.attention.time_maa_r", kLerp, Change::same, as_factor, false, 3},
    {"blocks.{i}.attention.time_maa_g", kLerp, Change::same, as_factor, false, 4},
    {"blocks.{i}.attention.time_maa_w1", "blk.{i}.time_mix_w1.weight", Change::transpose},
    {"blocks.{i}.attention.time_maa_w2", "blk.{i}.time_mix_w2.weight", Change::transpose},
    {"blocks.{i}.attention.time_decay", "blk.{i}.time_mix_decay.weight", Change::same, flattened},
    {"blocks.{i}.attention.time_decay_w1", "blk.{i}.time_mix_decay_w1.weight", Change::transpose},
    {"blocks.{i}.attention.time_decay_w2", "blk.{i}.time_mix_decay_w2.weight", Change::transpose},
    {"blocks.{i}.attention.time_faaaa", "blk.{i}.time_mix_first.weight"},
    {"blocks.{i}.attention.receptance.weight", "blk.{i}.time_mix_receptance.weight"},
    {"blocks.{i}.attention.key.weight", "blk.{i}.time_mix_key.weight"},
    {"blocks.{i}.attention.value.weight", "blk.{i}.time_mix_value.weight"},
    {"blocks.{i}.attention.gate.weight", "blk.{i}.time_mix_gate.weight"},
    {kTimeOutput, "blk.{i}.time_mix_output.weight", Change::same, halved_output},
    {"blocks.{i}.attention.ln_x.{}", "blk.{i}.time_mix_ln.{}"},
    {"blocks.{i}.feed_forward.time_maa_k", "blk.{i}.channel_mix_lerp_k.weight", Change::same, flattened},
    {"blocks.{i}.feed_forward.time_maa_r", "blk.{i}.channel_mix_lerp_r.weight", Change::same, flattened},
    {"blocks.{i}.feed_forward.key.weight", "blk.{i}.channel_mix_key.weight"},
    {kChannelValue, "blk.{i}.channel_mix_value.weight", Change::same, halved_value},
    {"blocks.{i}.feed_forward.receptance.weight", "blk.{i}.channel_mix_receptance.weight"},
};

constexpr KeyRow kRwkv6Keys[] = {
    {"context_length", "", KeyType::u32, otherwise(kNoContextLimit)},
    {"feed_forward_length", ""},
    {"attention.head_count", "", KeyType::u32, otherwise(0)},
    {"attention.head_count_kv", ""},
    {"attention.key_length", ""},
    {"attention.value_length", ""},
    {"attention.layer_norm_epsilon", "*", KeyType::f32, otherwise(1e-5)},
    {"rescale_every_n_layers", "rescale_every", KeyType::u32, otherwise(6)},
    {"wkv.head_size", "head_size", KeyType::u32, otherwise(64)},
};

// Configs leave out most widths, so the weights count. The mixing of inputs has five matrices in one.
Result<> finish_rwkv6(ModelDraft& draft) {
  struct Width {
    std::string_view key, tensor;
    int64_t divisor = 1;
  };
  constexpr Width kWidths[] = {{"feed_forward_length", "blk.0.channel_mix_key.weight"},
                               {"time_mix_extra_dim", "blk.0.time_mix_w1.weight", 5},
                               {"time_decay_extra_dim", "blk.0.time_mix_decay_w1.weight"}};
  for (const auto& [key, tensor, divisor] : kWidths) {
    const int64_t n = draft.rows_of(tensor) / divisor;
    if (n < 1 || n > INT32_MAX)
      return fail(ErrorCode::mismatch, "{}: {} has {} rows", draft.checkpoint.folder(), tensor, draft.rows_of(tensor));
    draft.builder.set(draft.key(key), static_cast<uint32_t>(n));
  }
  return {};
}

constexpr ModelClass kRwkvClasses[] = {
    {.names = "Rwkv6ForCausalLM",
     .architecture = "rwkv6",
     .rules = kRwkv6Rules,
     .keys = kRwkv6Keys,
     .is_decoder = false,
     .prefix = "rwkv.",
     .scaling = RopeScaling::none,
     .finish = finish_rwkv6},
    {.names = "RWKV7ForCausalLM",
     .architecture = "rwkv7",
     .rules = kRwkv7Rules,
     .keys = kRwkv7Keys,
     .shared_rules = kOriginalRwkv7Rules,
     .is_decoder = false,
     .has_unused_tensors = true,
     .scaling = RopeScaling::none},
};

}  // namespace

std::span<const ModelClass> rwkv_classes() { return kRwkvClasses; }

}  // namespace tessera::convert
