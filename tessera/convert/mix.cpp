#include "tessera/convert/mix.h"

#include <algorithm>
#include <array>

#include "tessera/base/index.h"
#include "tessera/convert/mix_rules.h"
#include "tessera/gguf/keys.h"
#include "tessera/gguf/weight_name.h"

namespace tessera::convert {

namespace {

// Small tensors that are very sensitive to errors, and tensors that no matrix product reads.
constexpr std::string_view kKeptParts[] = {
    "_norm.weight", "ffn_gate_inp.weight", "ffn_gate_tid2eid.weight", "altup", "laurel", "per_layer_model_proj",
    "ssm_conv1d", "shortconv.conv.weight", "indexer.k_proj.weight", "indexer.q_proj.weight", "attn_rel_b.weight",
    ".position_embd", "sam.pos_embd", "sam.neck.", "sam.net_", ".rel_pos", ".patch_embd", ".patch_merger",
    "a.rvq.codebook", "mm.a.code_embd",
    // RWKV
    "time_mix_first.weight", "time_mix_w0.weight", "time_mix_w1.weight", "time_mix_w2.weight", "time_mix_v0.weight",
    "time_mix_v1.weight", "time_mix_v2.weight", "time_mix_a0.weight", "time_mix_a1.weight", "time_mix_a2.weight",
    "time_mix_g1.weight", "time_mix_g2.weight", "time_mix_decay_w1.weight", "time_mix_decay_w2.weight",
    "time_mix_lerp_fused.weight"};

// The same of DeepSeek V4, for which llama-quantize has no rule: they mix the streams and choose keys, and are small.
constexpr std::string_view kKeptPartsOfDeepseek4[] = {"hc_attn_fn.weight", "hc_ffn_fn.weight", "output_hc_fn.weight",
                                                      "_compressor_ape.weight", "indexer.proj.weight"};

bool is_kept(const MixTensor& tensor, const MixModel& model, const MixOptions& options) {
  const std::string_view name = tensor.name;
  if (options.copy_all || tensor.shape.n_rows() == 1 || !name.ends_with("weight")) return true;
  if (!is_weight_type(tensor.dtype)) return true;  // integers
  if (name == "position_embd.weight" || name == "token_types.weight") return true;
  if (name == "output.weight" && options.keep_output) return true;
  if (options.keep_blocks && info(tensor.dtype).is_blocked()) return true;
  const auto has = [&](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (model.arch == "deepseek4" && std::ranges::any_of(kKeptPartsOfDeepseek4, has)) return true;
  return std::ranges::any_of(kKeptParts, has);
}

// The type that a flag sets for this tensor. Rules cannot change it.
std::optional<DType> asked_type(std::string_view name, const MixOptions& options) {
  const Role role = role_of(name);
  if (role == Role::embedding && options.embedding_type) return options.embedding_type;
  if (role == Role::output && options.output_type) return options.output_type;
  for (const TensorTypeRule& rule : options.tensor_types)
    if (rule.pattern.matches(name)) return rule.dtype;
  return std::nullopt;
}

// The next type to try if rows are not whole blocks.
DType next_wider(DType dtype) {
  using enum DType;
  switch (dtype) {
    case iq1_s:
    case iq1_m:
    case iq2_xxs:
    case iq2_xs:
    case iq2_s:
    case iq3_xxs:
    case iq3_s:
    case iq4_xs:
      return iq4_nl;
    case q2_0:
    case q2_k:
    case q3_k:
    case tq1_0:
    case tq2_0:
      return q4_0;
    case q4_k:
      return q5_0;
    case q5_k:
      return q5_1;
    case q6_k:
      return q8_0;
    default:
      return f16;
  }
}

// The value of a key for layer 0.
Result<int64_t> first_of(const Metadata& metadata, const std::string& key, int64_t absent) {
  const GgufValue* value = metadata.find(key);
  if (value == nullptr || !value->is_array()) return metadata.get_or<int64_t>(key, absent);
  TESSERA_ASSIGN(const std::vector<int64_t> layers, metadata.get_vector<int64_t>(key));
  return layers.empty() ? absent : layers[0];
}

}  // namespace

Result<MixModel> MixModel::read(const Metadata& metadata, std::span<const MixTensor> tensors) {
  MixModel model;
  int64_t n_named = 0;
  for (const MixTensor& tensor : tensors) n_named = std::max(n_named, layer_of(tensor.name) + 1);
  TESSERA_ASSIGN(model.arch, metadata.get_or<std::string_view>(keys::kArchitecture, ""));
  const auto key = [&](std::string_view suffix) { return keys::arch_key(model.arch, suffix); };
  TESSERA_ASSIGN(model.n_layers, metadata.get_or<int64_t>(key("block_count"), n_named));
  TESSERA_ASSIGN(model.n_experts, metadata.get_or<int64_t>(key("expert_count"), 0));
  TESSERA_ASSIGN(model.n_heads, first_of(metadata, key("attention.head_count"), 0));
  TESSERA_ASSIGN(model.n_heads_kv, first_of(metadata, key("attention.head_count_kv"), model.n_heads));
  constexpr int64_t kMaxCount = INT32_MAX;  // keeps products of the rules small
  for (const auto& [name, count] :
       {std::pair("block_count", model.n_layers), std::pair("expert_count", model.n_experts),
        std::pair("attention.head_count", model.n_heads), std::pair("attention.head_count_kv", model.n_heads_kv)})
    if (count < 0 || count > kMaxCount)
      return fail(ErrorCode::limit, "{}: got {}, want 0 to {}", key(name), count, kMaxCount);
  return model;
}

std::string_view to_string(MixReason reason) {
  constexpr std::array<std::string_view, 6> kNames = {"default", "rule", "override", "fallback", "kept", "size"};
  return kNames[to_size(reason)];
}

std::vector<MixChoice> choose_types(std::span<const MixTensor> tensors, const MixModel& model,
                                    const MixOptions& options) {
  MixRules rules(tensors, model, options);
  const DType base = info(options.file_type).dtype;
  std::vector<MixChoice> choices;
  choices.reserve(tensors.size());
  for (const MixTensor& tensor : tensors) {
    if (is_kept(tensor, model, options)) {
      choices.push_back({tensor.dtype, MixReason::kept, tensor.dtype});
      continue;
    }
    MixChoice choice{base, MixReason::base, base};
    if (const auto asked = asked_type(tensor.name, options)) {
      choice = {*asked, MixReason::asked, *asked};
    } else if (!options.pure && info(base).is_blocked()) {
      choice.dtype = choice.wanted = rules.next(tensor);
      if (choice.dtype != base) choice.reason = MixReason::rule;
    }
    choice.dtype = fitting_type(choice.wanted, tensor.shape[0]);
    if (choice.dtype != choice.wanted) choice.reason = MixReason::fallback;
    choices.push_back(choice);
  }
  return choices;
}

DType fitting_type(DType wanted, int64_t n) {
  while (n % info(wanted).block_elements != 0) wanted = next_wider(wanted);
  return wanted;
}

int64_t layer_of(std::string_view name) {
  const WeightName parts = parse_weight_name(name);
  return parts.is_of_layer() && *parts.layer <= INT32_MAX ? *parts.layer : -1;
}

bool wants_imatrix(std::string_view name, DType dtype, FileType file_type) {
  using enum DType;
  const Role role = role_of(name);
  if (role == Role::output || role == Role::embedding) return false;
  if (dtype == q2_k) return file_type == FileType::q2_k_s;
  return dtype == iq1_s || dtype == iq1_m || dtype == iq2_xxs || dtype == iq2_xs || dtype == iq2_s || dtype == iq3_xxs;
}

}  // namespace tessera::convert
