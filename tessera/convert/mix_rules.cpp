#include "tessera/convert/mix_rules.h"

#include <algorithm>

#include "tessera/gguf/weight_name.h"

namespace tessera::convert {

namespace {

// Mixes below 3 bits have separate rules.
bool is_tiny(FileType type) {
  using enum FileType;
  return type == iq1_s || type == iq1_m || type == iq2_xxs || type == iq2_xs || type == iq2_s || type == iq2_m;
}

bool is_embedding(std::string_view name) {
  return name == "token_embd.weight" || name == "per_layer_token_embd.weight";
}

// The sizes at which 8 query heads share a KV head. attn_v is small there and worth more bits.
bool is_70b(const MixModel& model) {
  if (model.arch == "llama") return model.n_layers == 80 && model.n_heads != model.n_heads_kv;
  if (model.arch == "jais2") return model.n_layers == 68;
  return model.n_layers == 80 && (model.arch == "deci" || model.arch == "qwen2" || model.arch == "olmo");
}

}  // namespace

Role role_of(std::string_view name) {
  if (name == "output.weight") return Role::output;
  if (is_embedding(name)) return Role::embedding;
  const WeightName parts = parse_weight_name(name);
  const auto is_matrix = [&](std::string_view role) { return parts.kind == "weight" && parts.role.ends_with(role); };
  if (is_matrix("attn_qkv") || is_matrix("attn_kv_b") || is_matrix("attn_v")) return Role::v;
  if (is_matrix("attn_k")) return Role::k;
  if (is_matrix("attn_q")) return Role::q;
  if (is_matrix("attn_output")) return Role::attn_output;
  if (parts.role.contains("ffn_up")) return Role::up;
  if (parts.role.contains("ffn_gate")) return Role::gate;
  if (parts.role.contains("ffn_down")) return Role::down;
  return Role::other;
}

MixRules::MixRules(std::span<const MixTensor> tensors, const MixModel& model, const MixOptions& options)
    : model_(model), options_(options), base_(info(options.file_type).dtype) {
  has_output_ = std::ranges::any_of(tensors, [](const MixTensor& t) { return t.name == "output.weight"; });
  is_falcon_ = model.arch == "falcon";
  is_70b_ = is_70b(model);
  has_8_experts_ = model.n_experts == 8;
  n_query_groups_ = model.n_heads_kv > 0 ? model.n_heads / model.n_heads_kv : 0;
  n_v_ = std::ranges::count_if(tensors, [](const MixTensor& t) { return role_of(t.name) == Role::v; });
}

DType MixRules::next(const MixTensor& tensor) {
  const Role role = role_of(tensor.name);
  if (role == Role::output || (role == Role::embedding && !has_output_)) return output_type(tensor);
  if (options_.file_type == FileType::mxfp4_moe) return tensor.shape[2] > 1 ? DType::mxfp4 : DType::q8_0;
  if (role == Role::embedding) return embedding_type();
  if (is_tiny(options_.file_type)) return tiny_type(role);
  switch (role) {
    case Role::v:
      return v_type();
    case Role::k:
    case Role::q:
      return q_or_k_type(role);
    case Role::attn_output:
      return attn_output_type();
    case Role::down:
      return down_type(tensor);
    case Role::gate:
      return gate_or_up_type(tensor, n_gate_seen_);
    case Role::up:
      return gate_or_up_type(tensor, n_up_seen_);
    default:
      return base_;
  }
}

// With experts, a layer may have several tensors of one role, or none, so the layer number is read from the name.
MixRules::Position MixRules::position(const MixTensor& tensor, int64_t& n_seen) const {
  const int64_t n_before = n_seen++;
  const int64_t layer = model_.n_experts > 1 ? layer_of(tensor.name) : -1;
  return {.i = layer >= 0 ? layer : n_before, .n = model_.n_layers};
}

DType MixRules::output_type(const MixTensor& tensor) const {
  if (options_.output_type) return *options_.output_type;
  const FileType type = options_.file_type;
  const bool is_odd = tensor.shape[0] % info(base_).block_elements != 0;
  if (type == FileType::mxfp4_moe || is_falcon_ || is_odd) return DType::q8_0;
  if (is_tiny(type) || type == FileType::iq3_xxs) return DType::q5_k;
  return base_ == DType::q8_0 ? DType::q8_0 : DType::q6_k;
}

DType MixRules::embedding_type() const {
  switch (options_.file_type) {
    case FileType::iq1_s:
    case FileType::iq1_m:
    case FileType::iq2_xxs:
    case FileType::iq2_xs:
      return DType::q2_k;
    case FileType::iq2_s:
    case FileType::iq2_m:
    case FileType::iq3_xxs:
      return DType::iq3_s;
    case FileType::tq1_0:
    case FileType::tq2_0:
    case FileType::q2_0:
      return DType::q4_k;
    default:
      return base_;
  }
}

DType MixRules::tiny_type(Role role) {
  const FileType type = options_.file_type;
  const bool is_larger = type == FileType::iq2_s || type == FileType::iq2_m;
  const DType better = is_larger ? DType::iq3_s : DType::q2_k;
  if (role == Role::v) return n_query_groups_ >= 4 || model_.n_experts >= 4 ? DType::q4_k : better;
  if (role == Role::k) return has_8_experts_ ? DType::q4_k : base_;
  if (role == Role::down) {
    // Counts tensors, although the other rules use the layer number.
    const int64_t n_before = n_down_seen_++;
    return n_before < model_.n_layers / 8 ? better : base_;
  }
  if (role != Role::attn_output) return base_;
  if (has_8_experts_) return DType::q5_k;
  if (type == FileType::iq1_s || type == FileType::iq1_m) return DType::iq2_xxs;
  return is_larger ? DType::iq3_s : base_;
}

DType MixRules::v_type() {
  const int64_t n_before = n_v_seen_++;
  const Position position{.i = n_before, .n = n_v_};
  const bool is_shared = n_query_groups_ >= 4;  // by many query heads, so each of its bits has more effect
  DType type = base_;
  switch (options_.file_type) {
    case FileType::q2_k:
      type = is_shared ? DType::q4_k : DType::q3_k;
      break;
    case FileType::q2_k_s:
    case FileType::iq3_xs:
    case FileType::iq3_s:
      if (is_shared) type = DType::q4_k;
      break;
    case FileType::iq3_xxs:
      type = is_shared ? DType::q4_k : options_.has_imatrix ? DType::iq3_xxs : DType::iq3_s;
      break;
    case FileType::iq3_m:
      type = DType::q4_k;
      break;
    case FileType::q3_k_m:
      type = n_before < 2 ? DType::q5_k : DType::q4_k;
      break;
    case FileType::q3_k_l:
      type = DType::q5_k;
      break;
    case FileType::iq4_nl:
    case FileType::iq4_xs:
      if (is_shared) type = DType::q5_k;
      break;
    case FileType::q4_k_s:
      if (n_before < 4) type = DType::q5_k;
      break;
    case FileType::q4_k_m:
    case FileType::q5_k_m:
      if (position.gets_more_bits()) type = DType::q6_k;
      break;
    default:
      break;
  }
  if (is_70b_ && (type == DType::q3_k || type == DType::q4_k)) type = DType::q5_k;
  return has_8_experts_ ? DType::q8_0 : type;
}

DType MixRules::q_or_k_type(Role role) const {
  if (role == Role::k && has_8_experts_) return DType::q8_0;
  if (options_.file_type == FileType::iq3_xxs) return DType::iq2_s;
  if (options_.file_type == FileType::iq3_xs) return DType::iq3_xxs;
  return base_;
}

DType MixRules::attn_output_type() const {
  using enum FileType;
  const FileType type = options_.file_type;
  if (is_falcon_) return type == q3_k_l ? DType::q4_k : base_;
  if (has_8_experts_) {
    constexpr FileType kRaised[] = {q2_k,   iq3_xxs, iq3_xs, iq3_s,  iq3_m, q3_k_s,
                                    q3_k_m, iq4_nl,  iq4_xs, q4_k_s, q4_k_m};
    return std::ranges::find(kRaised, type) != std::end(kRaised) ? DType::q5_k : base_;
  }
  switch (type) {
    case q2_k:
      return DType::q3_k;
    case iq3_xxs:
      return DType::iq3_s;
    case iq3_m:
    case q3_k_m:
      return DType::q4_k;
    case q3_k_l:
      return DType::q5_k;
    default:
      return base_;
  }
}

DType MixRules::down_type(const MixTensor& tensor) {
  const Position position = this->position(tensor, n_down_seen_);
  const bool is_early = position.is_in_first(8), more = position.gets_more_bits();
  switch (options_.file_type) {
    case FileType::q2_k:
      return DType::q3_k;
    case FileType::q2_k_s:
      return is_early ? DType::q4_k : base_;
    case FileType::iq3_xxs:
      if (options_.has_imatrix) return base_;
      return is_early ? DType::q4_k : DType::q3_k;
    case FileType::iq3_m:
      return is_early || (has_8_experts_ && more) ? DType::q4_k : base_;
    case FileType::q3_k_m:
      if (position.is_in_first(16)) return DType::q5_k;
      return !is_falcon_ || more ? DType::q4_k : DType::q3_k;
    case FileType::q3_k_l:
      return is_falcon_ ? DType::q4_k : DType::q5_k;
    case FileType::q4_0:
      return options_.has_imatrix && is_early ? DType::q4_1 : base_;
    case FileType::q5_0:
      return options_.has_imatrix && is_early ? DType::q5_1 : base_;
    case FileType::iq4_nl:
    case FileType::iq4_xs:
      return !options_.has_imatrix && is_early ? DType::q5_k : base_;
    case FileType::q4_k_s:
      return is_early && !is_falcon_ ? DType::q5_k : base_;
    case FileType::q4_k_m:
      if (!is_falcon_) return more ? DType::q6_k : base_;
      if (position.is_in_first(16)) return DType::q6_k;
      return more ? DType::q5_k : DType::q4_k;
    case FileType::q5_k_m:
      return more ? DType::q6_k : base_;
    default:
      return base_;
  }
}

DType MixRules::gate_or_up_type(const MixTensor& tensor, int64_t& n_seen) {
  const Position at = position(tensor, n_seen);
  const bool is_middle = at.i >= at.n / 8 && at.i < 7 * at.n / 8;
  return options_.file_type == FileType::iq3_xs && is_middle ? DType::iq3_xxs : base_;
}

}  // namespace tessera::convert
