// The samplers by name and letter, and the order of a chain's steps in the notations of --samplers and --sampling-seq.
// Used by the chain, the parameters and the command line. The table itself is samplers.def.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::sample {

enum class SamplerKind : uint8_t {
#define TESSERA_SAMPLER(enumerator, name, letter, description) enumerator,
#include "tessera/sample/samplers.def"
};

struct SamplerInfo {
  SamplerKind kind;
  std::string_view name;
  char letter;  // '\0': not a step that users can arrange
  std::string_view description;
};

/// Every sampler, in the order of samplers.def. The enumerator is the index.
std::span<const SamplerInfo> sampler_table();

/// penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature
std::vector<SamplerKind> default_order();

/// Parses an order written as names separated by ';'. "" is the order without steps. Errors: invalid_argument for an
/// unknown or repeated name, with a list of the known ones; unsupported for a sampler of llama.cpp that tessera does
/// not implement.
Result<std::vector<SamplerKind>> parse_sampler_names(std::string_view text);

/// Parses an order written as letters ("edskypmxt"). Errors: as parse_sampler_names().
Result<std::vector<SamplerKind>> parse_sampler_letters(std::string_view text);

}  // namespace tessera::sample
