#include "tessera/convert/checkpoints/name_pattern.h"

namespace tessera::convert {

namespace {

constexpr std::string_view kLayerPlace = "{i}", kExpertPlace = "{e}", kEndPlace = "{}", kAnything = "*";

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Takes a number from the front of a name.
std::optional<int32_t> take_number(std::string_view& name) {
  size_t n = 0;
  int32_t number = 0;
  for (; n < name.size() && is_digit(name[n]); ++n) {
    number = number * 10 + (name[n] - '0');
    if (number > kMaxNameNumber) return std::nullopt;
  }
  if (n == 0 || (n > 1 && name[0] == '0')) return std::nullopt;
  name.remove_prefix(n);
  return number;
}

}  // namespace

std::optional<NamePlaces> match_name(std::string_view pattern, std::string_view name) {
  NamePlaces places;
  while (!pattern.empty()) {
    if (pattern == kAnything) return places;
    if (pattern == kEndPlace) {
      if (name != "weight" && name != "bias") return std::nullopt;
      places.end = name;
      return places;
    }
    const bool is_layer = pattern.starts_with(kLayerPlace), is_expert = pattern.starts_with(kExpertPlace);
    if (is_layer || is_expert) {
      const auto number = take_number(name);
      if (!number) return std::nullopt;
      (is_layer ? places.layer : places.expert) = number;
      pattern.remove_prefix(kLayerPlace.size());
      continue;
    }
    if (name.empty() || name[0] != pattern[0]) return std::nullopt;
    name.remove_prefix(1);
    pattern.remove_prefix(1);
  }
  if (!name.empty()) return std::nullopt;
  return places;
}

std::string name_of_pattern(std::string_view pattern, const NamePlaces& places) {
  std::string name;
  while (!pattern.empty()) {
    if (pattern.starts_with(kLayerPlace)) {
      name += std::to_string(places.layer.value_or(0));
      pattern.remove_prefix(kLayerPlace.size());
    } else if (pattern.starts_with(kExpertPlace)) {
      name += std::to_string(places.expert.value_or(0));
      pattern.remove_prefix(kExpertPlace.size());
    } else if (pattern == kEndPlace) {
      name += places.end;
      break;
    } else {
      name += pattern[0];
      pattern.remove_prefix(1);
    }
  }
  return name;
}

}  // namespace tessera::convert
