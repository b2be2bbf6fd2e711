// Talkie: norms without weights, and factors that are trained.
#include <algorithm>
#include <cmath>

#include "tessera/convert/checkpoints/model_class.h"
#include "tessera/convert/checkpoints/pieces.h"
#include "tessera/convert/source/views.h"

namespace tessera::convert {

namespace {

// The models' code rotates pairs of q and k in the other direction. With the second half of each head negated, both
// directions give the same scores.
Result<TensorPieces> rotated_backwards(const StoredTensor& tensor, const RuleFacts& facts) {
  TESSERA_ASSIGN(const int64_t size, head_size_of(*facts.config));
  const int64_t n_rows = tensor.shape.empty() ? 0 : tensor.shape[0], half = size / 2;
  if (size < 2 || size % 2 != 0 || n_rows % size != 0)
    return fail(ErrorCode::mismatch, "{}: {} rows, want heads of {}", tensor.name, n_rows, size);
  TensorPieces pieces{.shape = tensor.shape};
  for (int64_t first = 0; first < n_rows; first += half) {
    TESSERA_ASSIGN(StoredTensor part, part_of(tensor, 0, first, half));
    pieces.views.push_back(std::move(part));
    pieces.factors.push_back(first % size == 0 ? 1.0f : -1.0f);
  }
  return pieces;
}

Result<TensorPieces> one_per_head(const StoredTensor& tensor, const RuleFacts& /*facts*/) {
  return in_shape(tensor, {tensor.n_elements(), 1});
}

constexpr std::string_view kLogitScale = "talkie.logit_scale";

constexpr TensorRule kTalkieRules[] = {
    {"model.embed.weight", "token_embd.weight"},
    {"lm_head", "output.weight"},
    {"lm_head.weight", "output.weight"},
    {"lm_head_gain.w_g", kLogitScale},  // becomes a key
    {"model.blocks.{i}.attn.attn_query.weight", "blk.{i}.attn_q.weight", Change::same, rotated_backwards},
    {"model.blocks.{i}.attn.attn_key.weight", "blk.{i}.attn_k.weight", Change::same, rotated_backwards},
    {"model.blocks.{i}.attn.attn_value.weight", "blk.{i}.attn_v.weight"},
    {"model.blocks.{i}.attn.attn_resid.weight", "blk.{i}.attn_output.weight"},
    {"model.blocks.{i}.attn.head_gain.head_g", "blk.{i}.attn_q_norm.weight", Change::same, one_per_head},
    {"model.blocks.{i}.attn_gain.a_g", "blk.{i}.attn_output.scale"},
    {"model.blocks.{i}.mlp.mlp_gate.weight", "blk.{i}.ffn_gate.weight"},
    {"model.blocks.{i}.mlp.mlp_linear.weight", "blk.{i}.ffn_up.weight"},
    {"model.blocks.{i}.mlp.mlp_resid.weight", "blk.{i}.ffn_down.weight"},
    {"model.blocks.{i}.mlp_gain.a_g", "blk.{i}.ffn_down.scale"},
    {"model.blocks.{i}.embed_skip.a_g", "blk.{i}.layer_output_scale.weight"},
};

constexpr double kFloatEpsilon = 1.1920928955078125e-07;  // 2^-23, which the models' code leaves to its library

constexpr KeyRow kTalkieKeys[] = {
    {"context_length", "*", KeyType::u32, otherwise(2048)},
    {"attention.head_count_kv", "* =heads"},
    {"rope.freq_base", "*", KeyType::f32, otherwise(1e6)},
    {"attention.layer_norm_rms_epsilon", "", KeyType::f32, otherwise(kFloatEpsilon)},
    {"logit_scale", "", KeyType::f32, otherwise(1)},
};

Result<> finish_talkie(ModelDraft& draft) {
  const auto scale = std::ranges::find(draft.tensors, kLogitScale, &ConvertedTensor::name);
  if (scale == draft.tensors.end()) return {};
  const std::vector<float> values = stored_floats(draft.checkpoint, *scale);
  if (values.size() != 1 || !std::isfinite(values[0]))
    return fail(ErrorCode::format, "{}: lm_head_gain.w_g: {} values, want one number", draft.checkpoint.folder(),
                values.size());
  draft.builder.set(kLogitScale, values[0]);
  draft.tensors.erase(scale);
  return {};
}

constexpr ModelClass kTalkieClasses[] = {
    {.names = "TalkieForCausalLM",
     .architecture = "talkie",
     .rules = kTalkieRules,
     .keys = kTalkieKeys,
     .is_decoder = false,
     .scaling = RopeScaling::none,
     .finish = finish_talkie},
};

}  // namespace

std::span<const ModelClass> talkie_classes() { return kTalkieClasses; }

}  // namespace tessera::convert
