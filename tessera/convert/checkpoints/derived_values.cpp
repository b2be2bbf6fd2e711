#include "tessera/convert/checkpoints/derived_values.h"

#include <algorithm>
#include <cmath>

#include "tessera/convert/checkpoints/key_rows.h"

namespace tessera::convert {

namespace {

using Number = Result<std::optional<double>>;

Number number_or(const HubConfig& config, std::string_view names, double absent) {
  TESSERA_ASSIGN(const auto number, config.number(HubConfig::Names(split_names(names))));
  return number.value_or(absent);
}

// The sum of two numbers, if the config has both.
Number sum_of(const HubConfig& config, std::string_view a, std::string_view b) {
  TESSERA_ASSIGN(const auto left, config.number({a}));
  TESSERA_ASSIGN(const auto right, config.number({b}));
  if (!left || !right) return std::nullopt;
  return *left + *right;
}

Number plain_head_size(const HubConfig& config) {
  TESSERA_ASSIGN(const int64_t n_embd, embedding_of(config));
  TESSERA_ASSIGN(const int64_t n_heads, heads_of(config));
  return n_heads > 0 ? std::optional(static_cast<double>(n_embd / n_heads)) : std::nullopt;
}

Number head_size(const HubConfig& config) {
  TESSERA_ASSIGN(const int64_t size, head_size_of(config));
  return size > 0 ? std::optional(static_cast<double>(size)) : std::nullopt;
}

// The rotated dimensions of a head. absent_share: where the config leaves out their share of it.
Number rotated(const HubConfig& config, double absent_share) {
  constexpr std::string_view kShare =
      "partial_rotary_factor rotary_pct rope_pct rope_percent rope_parameters.partial_rotary_factor";
  TESSERA_ASSIGN(const auto size, head_size(config));
  TESSERA_ASSIGN(const auto share, number_or(config, kShare, absent_share));
  if (!size) return std::nullopt;
  return std::floor(*size * *share);
}
Number rotated_whole(const HubConfig& config) { return rotated(config, 1.0); }
Number rotated_half(const HubConfig& config) { return rotated(config, 0.5); }
Number rotated_quarter(const HubConfig& config) { return rotated(config, 0.25); }

Number embedding(const HubConfig& config) {
  TESSERA_ASSIGN(const int64_t size, embedding_of(config));
  return static_cast<double>(size);
}

Number heads(const HubConfig& config) {
  TESSERA_ASSIGN(const int64_t n, heads_of(config));
  return static_cast<double>(n);
}

// Layers of the model and those that predict further tokens.
Number all_layers(const HubConfig& config) {
  TESSERA_ASSIGN(const int64_t n, layers_of(config));
  TESSERA_ASSIGN(const auto more, number_or(config, "num_nextn_predict_layers mtp_num_hidden_layers", 0));
  return static_cast<double>(n) + *more;
}

// Mamba: the width of a block's state, and the rank of its steps, where the config leaves them out.
Number mamba_width(const HubConfig& config) {
  TESSERA_ASSIGN(const int64_t size, embedding_of(config));
  TESSERA_ASSIGN(const auto expand, number_or(config, "mamba_expand expand", 2));
  return static_cast<double>(size) * *expand;
}
Number mamba_rank(const HubConfig& config) {
  constexpr double kValuesPerRank = 16;
  TESSERA_ASSIGN(const int64_t size, embedding_of(config));
  return std::ceil(static_cast<double>(size) / kValuesPerRank);
}

// PLaMo 2 states the width of a block's state by its heads.
Number plamo2_width(const HubConfig& config) {
  TESSERA_ASSIGN(const auto heads, number_or(config, "mamba_num_heads", 64));
  TESSERA_ASSIGN(const auto size, number_or(config, "hidden_size_per_head", 128));
  return *heads * *size;
}

// Multi-head latent attention: lengths of keys in the compressed and in the full form.
Number latent_key(const HubConfig& config) { return sum_of(config, "kv_lora_rank", "qk_rope_head_dim"); }
Number full_key(const HubConfig& config) { return sum_of(config, "qk_nope_head_dim", "qk_rope_head_dim"); }

// The width of all shared experts, which GGUF has as one block.
Number shared_width(const HubConfig& config) {
  TESSERA_ASSIGN(const auto width, config.number({"moe_intermediate_size"}));
  TESSERA_ASSIGN(const auto n, config.number({"moe_num_shared_experts", "num_shared_experts", "n_shared_experts"}));
  if (!width || !n) return std::nullopt;
  return *width * *n;
}

// LFM2 states a width of the FFN that is adjusted in the way of its training code.
Number lfm2_ffn(const HubConfig& config) {
  TESSERA_ASSIGN(const auto width, config.number({"block_ff_dim"}));
  TESSERA_ASSIGN(const auto is_adjusted, config.flag({"block_auto_adjust_ff_dim"}));
  if (!width || !is_adjusted.value_or(true)) return width;
  TESSERA_ASSIGN(const auto factor, number_or(config, "block_ffn_dim_multiplier", 1));
  TESSERA_ASSIGN(const auto multiple, number_or(config, "block_multiple_of", 256));
  const double adjusted = std::floor(*factor * std::floor(2 * *width / 3));
  return *multiple >= 1 ? *multiple * std::ceil(adjusted / *multiple) : adjusted;
}

// Linear attention of Qwen: the width of all value heads.
Number linear_width(const HubConfig& config) {
  TESSERA_ASSIGN(const auto size, config.number({"linear_value_head_dim"}));
  TESSERA_ASSIGN(const auto n, config.number({"linear_num_value_heads"}));
  if (!size || !n) return std::nullopt;
  return *size * *n;
}

struct DerivedRow {
  std::string_view name;
  DerivedValue value;
};
constexpr DerivedRow kDerivedValues[] = {
    {"=head_size", head_size},
    {"=plain_head_size", plain_head_size},
    {"=rotated", rotated_whole},
    {"=rotated_half", rotated_half},
    {"=rotated_quarter", rotated_quarter},
    {"=embedding", embedding},
    {"=heads", heads},
    {"=all_layers", all_layers},
    {"=mamba_width", mamba_width},
    {"=mamba_rank", mamba_rank},
    {"=latent_key", latent_key},
    {"=full_key", full_key},
    {"=lfm2_ffn", lfm2_ffn},
    {"=linear_width", linear_width},
    {"=plamo2_width", plamo2_width},
    {"=shared_width", shared_width},
};

}  // namespace

DerivedValue find_derived_value(std::string_view name) {
  const auto* row = std::ranges::find(kDerivedValues, name, &DerivedRow::name);
  return row != std::end(kDerivedValues) ? row->value : nullptr;
}

}  // namespace tessera::convert
