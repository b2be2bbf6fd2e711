// The member quantization_config of config.json. Its names differ between methods.
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "tessera/convert/source/packings/packed_group.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

constexpr int64_t kMaxBlockExtent = int64_t{1} << 31;
constexpr size_t kMaxConfigGroups = 1000;

std::string lower_case(std::string text) {
  for (char& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

// The number of a text among those that are known; without a value, that of the first one.
Result<size_t> one_of(const HubConfig& config, HubConfig::Names names, std::span<const std::string_view> known) {
  TESSERA_ASSIGN(const auto found, config.text(names));
  if (!found) return 0;
  const auto place = std::ranges::find(known, lower_case(*found));
  if (place == known.end())
    return fail(ErrorCode::unsupported, "{}: {} is {}, want one of {}", config.path(), *names.begin(),
                text::quote_text(*found), fmt::join(known, ", "));
  return static_cast<size_t>(place - known.begin());
}

// A member that is a list of two extents; nothing without it.
Result<std::optional<PackingScheme>> scheme_of_block(const HubConfig& config, HubConfig::Names names) {
  TESSERA_ASSIGN(const auto extents, config.integers(names, 1, kMaxBlockExtent));
  if (!extents) return std::nullopt;
  if (extents->size() != 2)
    return fail(ErrorCode::format, "{}: {} has {} numbers, want 2", config.path(), *names.begin(), extents->size());
  return PackingScheme{.bits = 8, .block_rows = (*extents)[0], .block_columns = (*extents)[1]};
}

// Bits, and columns with one scale.
Result<PackingScheme> scheme_of_group(const HubConfig& config, HubConfig::Names bits, HubConfig::Names group) {
  TESSERA_ASSIGN(const int64_t n_bits, config.require_integer(bits, 1, 8));
  TESSERA_ASSIGN(const auto n_group, config.integer(group, -1, kMaxBlockExtent));
  return PackingScheme{.bits = static_cast<int>(n_bits), .block_columns = std::max<int64_t>(n_group.value_or(0), 0)};
}

Result<> read_fp8(const HubConfig& config, PackingConfig& packing) {
  TESSERA_ASSIGN(const auto scheme, scheme_of_block(config, {"weight_block_size"}));
  if (scheme) packing.schemes.push_back(*scheme);
  return {};
}

Result<> read_gptq(const HubConfig& config, PackingConfig& packing) {
  constexpr std::string_view kFormats[] = {"gptq", "gptq_v2"};
  constexpr int kBits[] = {2, 3, 4, 8};
  TESSERA_ASSIGN(const size_t format, one_of(config, {"checkpoint_format"}, kFormats));
  packing.has_shifted_zeros = format == 0;
  TESSERA_ASSIGN(const PackingScheme scheme, scheme_of_group(config, {"bits"}, {"group_size"}));
  if (std::ranges::find(kBits, scheme.bits) == std::end(kBits))
    return fail(ErrorCode::unsupported, "{}: bits is {}, want one of {}", config.path(), scheme.bits,
                fmt::join(kBits, ", "));
  packing.schemes.push_back(scheme);
  return {};
}

Result<> read_awq(const HubConfig& config, PackingConfig& packing) {
  constexpr std::string_view kVersions[] = {"gemm"};
  TESSERA_TRY(one_of(config, {"version"}, kVersions));
  TESSERA_ASSIGN(const PackingScheme scheme,
                 scheme_of_group(config, {"bits", "w_bit"}, {"group_size", "q_group_size"}));
  if (scheme.bits != 4) return fail(ErrorCode::unsupported, "{}: bits is {}, want 4", config.path(), scheme.bits);
  packing.schemes.push_back(scheme);
  return {};
}

Result<> read_modelopt(const HubConfig& config, PackingConfig&) {
  constexpr std::string_view kAlgorithms[] = {"nvfp4", "fp8", "mixed_precision"};
  TESSERA_TRY(one_of(config, {"quant_algo"}, kAlgorithms));
  return {};
}

// The groups of config_groups say for which modules they are. The shapes of tensors decide instead, so that patterns of
// module names need not be understood.
Result<> read_compressed(const HubConfig& config, PackingConfig& packing) {
  constexpr std::string_view kFormats[] = {"float-quantized", "int-quantized",        "naive-quantized",
                                           "pack-quantized",  "nvfp4-pack-quantized", "mixed-precision"};
  packing.has_inverse_scales = true;
  TESSERA_TRY(one_of(config, {"format"}, kFormats));
  const Json* groups = config.find({"config_groups"});
  if (groups == nullptr) return {};
  if (!groups->is_object() || groups->size() > kMaxConfigGroups)
    return fail(ErrorCode::format, "{}: config_groups is no object of at most {} groups", config.path(),
                kMaxConfigGroups);
  for (const auto& [name, value] : groups->items()) {
    const std::string path = fmt::format("{}, {}", config.path(), text::quote_text(name));
    TESSERA_ASSIGN(const HubConfig group, config.member(value, path));
    TESSERA_TRY(one_of(group, {"format"}, kFormats));
    const Json* weights = group.find({"weights"});
    if (weights == nullptr) continue;
    TESSERA_ASSIGN(const HubConfig weight_config, group.member(*weights, path + ", weights"));
    TESSERA_ASSIGN(const auto block, scheme_of_block(weight_config, {"block_structure"}));
    TESSERA_ASSIGN(PackingScheme scheme, scheme_of_group(weight_config, {"num_bits"}, {"group_size"}));
    if (block) scheme = {.bits = scheme.bits, .block_rows = block->block_rows, .block_columns = block->block_columns};
    packing.schemes.push_back(scheme);
  }
  return {};
}

Result<> read_nothing(const HubConfig&, PackingConfig&) { return {}; }

struct Method {
  std::string_view name;
  Result<> (*read)(const HubConfig&, PackingConfig&);
};
constexpr Method kMethods[] = {{"modelopt", read_modelopt},
                               {"fp8", read_fp8},
                               {"gptq", read_gptq},
                               {"awq", read_awq},
                               {"bitnet", read_nothing},
                               {"mxfp4", read_nothing},
                               {"compressed-tensors", read_compressed}};
constexpr size_t kModelopt = 0;

constexpr auto kMethodNames = [] {
  std::array<std::string_view, std::size(kMethods)> names;
  std::ranges::transform(kMethods, names.begin(), &Method::name);
  return names;
}();

}  // namespace

Result<std::optional<PackingConfig>> read_packing_config(const HubConfig& config) {
  const Json* member = config.find({"quantization_config", "compression_config"});
  if (member == nullptr) return std::nullopt;
  TESSERA_ASSIGN(const HubConfig quantization, config.member(*member, config.path() + ", quantization_config"));
  PackingConfig packing{.path = quantization.path()};
  size_t method = kModelopt;
  if (quantization.find({"quant_method"}) != nullptr) {
    TESSERA_ASSIGN(method, one_of(quantization, {"quant_method"}, kMethodNames));
  } else if (quantization.find({"quant_algo"}) == nullptr) {
    return fail(ErrorCode::not_found, "{}: no quant_method", quantization.path());
  }
  packing.method = kMethods[method].name;
  TESSERA_TRY(kMethods[method].read(quantization, packing));
  return packing;
}

}  // namespace tessera::convert
