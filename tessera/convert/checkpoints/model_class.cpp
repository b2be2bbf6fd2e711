#include "tessera/convert/checkpoints/model_class.h"

#include <algorithm>
#include <utility>

#include "tessera/convert/checkpoints/rope_scaling.h"
#include "tessera/gguf/keys.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

#define TESSERA_CHECKPOINT(name) std::span<const ModelClass> name##_classes();
#include "tessera/convert/checkpoints/checkpoints.def"
#undef TESSERA_CHECKPOINT

namespace {

constexpr std::string_view kAllLayers = "=all_layers";

constexpr TensorRule kDecoderRules[] = {
    {"model.embed_tokens.weight", "token_embd.weight"},
    {"model.norm.{}", "output_norm.{}"},
    {"lm_head.weight", "output.weight"},
    {"model.layers.{i}.input_layernorm.{}", "blk.{i}.attn_norm.{}"},
    {"model.layers.{i}.self_attn.q_proj.{}", "blk.{i}.attn_q.{}"},
    {"model.layers.{i}.self_attn.k_proj.{}", "blk.{i}.attn_k.{}"},
    {"model.layers.{i}.self_attn.v_proj.{}", "blk.{i}.attn_v.{}"},
    {"model.layers.{i}.self_attn.o_proj.{}", "blk.{i}.attn_output.{}"},
    {"model.layers.{i}.post_attention_layernorm.{}", "blk.{i}.ffn_norm.{}"},
    {"model.layers.{i}.mlp.gate_proj.{}", "blk.{i}.ffn_gate.{}"},
    {"model.layers.{i}.mlp.up_proj.{}", "blk.{i}.ffn_up.{}"},
    {"model.layers.{i}.mlp.down_proj.{}", "blk.{i}.ffn_down.{}"},
    // Experts are tensors of their own, or already stacked with gate and up in one.
    {"model.layers.{i}.mlp.gate.weight", "blk.{i}.ffn_gate_inp.weight"},
    {"model.layers.{i}.mlp.gate.e_score_correction_bias", "blk.{i}.exp_probs_b.bias"},
    {"model.layers.{i}.mlp.experts.{e}.gate_proj.weight", "blk.{i}.ffn_gate_exps.weight"},
    {"model.layers.{i}.mlp.experts.{e}.up_proj.weight", "blk.{i}.ffn_up_exps.weight"},
    {"model.layers.{i}.mlp.experts.{e}.down_proj.weight", "blk.{i}.ffn_down_exps.weight"},
    {"model.layers.{i}.mlp.experts.gate_up_proj", "blk.{i}.ffn_gate_exps.weight", Change::first_half},
    {"model.layers.{i}.mlp.experts.gate_up_proj", "blk.{i}.ffn_up_exps.weight", Change::second_half},
    {"model.layers.{i}.mlp.experts.down_proj", "blk.{i}.ffn_down_exps.weight"},
    {"model.layers.{i}.mlp.shared_expert.gate_proj.weight", "blk.{i}.ffn_gate_shexp.weight"},
    {"model.layers.{i}.mlp.shared_expert.up_proj.weight", "blk.{i}.ffn_up_shexp.weight"},
    {"model.layers.{i}.mlp.shared_expert.down_proj.weight", "blk.{i}.ffn_down_shexp.weight"},
    {"model.layers.{i}.mlp.shared_expert_gate.weight", "blk.{i}.ffn_gate_inp_shexp.weight"},
    {"model.layers.{i}.mlp.shared_experts.gate_proj.weight", "blk.{i}.ffn_gate_shexp.weight"},
    {"model.layers.{i}.mlp.shared_experts.up_proj.weight", "blk.{i}.ffn_up_shexp.weight"},
    {"model.layers.{i}.mlp.shared_experts.down_proj.weight", "blk.{i}.ffn_down_shexp.weight"},
};

// Names may have other parts before and after these.
constexpr std::string_view kDroppedEndings[] = {".rotary_emb.inv_freq", ".attention.bias", ".attention.masked_bias",
                                                ".attn.bias", ".attn.masked_bias"};
constexpr std::string_view kDroppedBeginnings[] = {"vision_tower.",
                                                   "vision_model.",
                                                   "vision_encoder.",
                                                   "visual.",
                                                   "model.visual.",
                                                   "model.vision_tower.",
                                                   "model.vision_embedder.",
                                                   "multi_modal_projector.",
                                                   "model.multi_modal_projector.",
                                                   "vision_language_adapter.",
                                                   "patch_merger.",
                                                   "audio_tower.",
                                                   "model.audio_tower.",
                                                   "model.embed_vision.",
                                                   "model.embed_audio.",
                                                   "embed_vision.",
                                                   "embed_audio."};
// Parts of names that tell the language model from the towers beside it.
constexpr std::string_view kCutParts[] = {"language_model.", "text_model."};

bool is_dropped(std::string_view name) {
  return std::ranges::any_of(kDroppedEndings, [&](std::string_view end) { return name.ends_with(end); }) ||
         std::ranges::any_of(kDroppedBeginnings, [&](std::string_view begin) { return name.starts_with(begin); });
}

std::string without_cut_parts(std::string name) {
  for (const std::string_view part : kCutParts)
    if (const size_t at = name.find(part); at != std::string::npos) name.erase(at, part.size());
  return name;
}

std::vector<const ModelClass*> collect_classes() {
  std::vector<const ModelClass*> classes;
  const auto add = [&](std::span<const ModelClass> rows) {
    for (const ModelClass& row : rows) classes.push_back(&row);
  };
#define TESSERA_CHECKPOINT(name) add(name##_classes());
#include "tessera/convert/checkpoints/checkpoints.def"
#undef TESSERA_CHECKPOINT
  return classes;
}

bool has_name(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const size_t space = std::min(names.find(' '), names.size());
    if (names.substr(0, space) == name) return true;
    names.remove_prefix(std::min(space + 1, names.size()));
  }
  return false;
}

}  // namespace

std::string ModelDraft::key(std::string_view suffix) const { return keys::arch_key(architecture, suffix); }

bool ModelDraft::has_tensor(std::string_view name) const {
  return std::ranges::find(tensors, name, &ConvertedTensor::name) != tensors.end();
}

int64_t ModelDraft::rows_of(std::string_view name) const {
  const auto found = std::ranges::find(tensors, name, &ConvertedTensor::name);
  return found == tensors.end() || found->shape.empty() ? 0 : found->shape[0];
}

std::span<const TensorRule> decoder_rules() { return kDecoderRules; }

std::vector<CheckpointTensor> kept_tensors(std::span<const CheckpointTensor> sources) {
  std::vector<CheckpointTensor> kept;
  for (const CheckpointTensor& source : sources) {
    if (is_dropped(source.tensor.name)) continue;
    kept.push_back(source);
    kept.back().tensor.name = without_cut_parts(source.tensor.name);
  }
  return kept;
}

std::span<const ModelClass* const> all_model_classes() {
  static const std::vector<const ModelClass*> classes = collect_classes();
  return classes;
}

Result<const ModelClass*> find_model_class(const HubConfig& config) {
  for (const ModelClass* row : all_model_classes()) {
    if (!has_name(row->names, config.class_name())) continue;
    if (row->fits == nullptr) return row;
    TESSERA_ASSIGN(const bool fits, row->fits(config));
    if (fits) return row;
  }
  return fail(ErrorCode::unsupported, "{}: models of class {} are not converted", config.path(),
              text::quote_text(config.class_name()));
}

Result<ClassRules> rules_of(const ModelClass& model_class, const HubConfig& config) {
  ClassRules result{.facts = {.config = &config, .prefix = model_class.prefix}};
  TESSERA_ASSIGN(result.facts.heads.q, heads_of(config));
  TESSERA_ASSIGN(result.facts.heads.kv, kv_heads_of(config));
  TESSERA_ASSIGN(result.facts.n_layers, layers_of(config));
  result.facts.drops_later_layers = model_class.later_layers == LaterLayers::dropped;
  std::vector<TensorRule>& rules = result.rules;
  rules.assign(model_class.rules.begin(), model_class.rules.end());
  rules.insert(rules.end(), model_class.shared_rules.begin(), model_class.shared_rules.end());
  if (model_class.is_decoder) rules.insert(rules.end(), std::begin(kDecoderRules), std::end(kDecoderRules));
  return result;
}

Result<std::vector<ConvertedTensor>> apply_class(const ModelClass& model_class, const ClassRules& rules,
                                                 std::span<const CheckpointTensor> tensors) {
  TESSERA_ASSIGN(std::vector<ConvertedTensor> result, apply_rules(tensors, rules.rules, rules.facts));
  if (model_class.rename != nullptr) TESSERA_TRY(model_class.rename(*rules.facts.config, result));
  return result;
}

Result<> draft_model(const ModelClass& model_class, std::span<const CheckpointTensor> sources, ModelDraft& draft) {
  TESSERA_ASSIGN(ClassRules rules, rules_of(model_class, draft.config));
  if (draft.later_layers == LaterLayers::dropped) rules.facts.drops_later_layers = true;
  TESSERA_ASSIGN(draft.tensors, apply_class(model_class, rules, kept_tensors(sources)));
  std::vector<KeyRow> rows(model_class.keys.begin(), model_class.keys.end());
  for (const KeyRow& row : model_class.shared_keys)
    if (std::ranges::find(model_class.keys, row.key, &KeyRow::key) == model_class.keys.end()) rows.push_back(row);
  TESSERA_TRY(add_keys(draft.config, model_class.architecture, rows, draft.builder));
  if (model_class.scaling == RopeScaling::of_config) TESSERA_TRY(add_rope_scaling(draft));
  if (model_class.finish != nullptr) TESSERA_TRY(model_class.finish(draft));
  const bool counts_later_layers = std::ranges::find(rows, kAllLayers, &KeyRow::names) != rows.end();
  if (rules.facts.drops_later_layers && counts_later_layers) {
    draft.builder.set(draft.key("block_count"), static_cast<uint32_t>(rules.facts.n_layers));
    draft.builder.remove(draft.key("nextn_predict_layers"));
  }
  return {};
}

}  // namespace tessera::convert
