// Names of tensors with places for numbers, as the rules of checkpoints write them:
//   model.layers.{i}.mlp.experts.{e}.up_proj.{}    {i}: a layer; {e}: an expert; {} at the end: weight or bias
//   mtp.*                                          * at the end: anything
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::convert {

/// The parts of a name at the places of its pattern.
struct NamePlaces {
  std::optional<int32_t> layer{}, expert{};
  std::string_view end{};  // weight, bias, or empty

  bool operator==(const NamePlaces&) const = default;
};

/// The largest number of a layer or an expert.
inline constexpr int32_t kMaxNameNumber = 99'999;

/// Nothing if the name does not fit the pattern. Numbers are decimal and without zeros before them.
std::optional<NamePlaces> match_name(std::string_view pattern, std::string_view name);

/// The name of a pattern with these places, of which it may use any.
std::string name_of_pattern(std::string_view pattern, const NamePlaces& places);

}  // namespace tessera::convert
