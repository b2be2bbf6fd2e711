#include "tessera/gguf/weight_name.h"

#include <algorithm>
#include <charconv>

namespace tessera {

namespace {

constexpr std::string_view kLayer = "blk.";

// The position at which "blk." begins a part of the name, or npos.
size_t find_layer(std::string_view name) {
  const size_t at = name.find(kLayer);
  return at == 0 || (at != std::string_view::npos && name[at - 1] == '.') ? at : std::string_view::npos;
}

}  // namespace

WeightName parse_weight_name(std::string_view name) {
  WeightName parts{.stack = {}, .role = {}, .kind = {}, .within_layer = name};
  if (const size_t at = find_layer(name); at != std::string_view::npos) {
    const std::string_view rest = name.substr(at + kLayer.size());
    const size_t n_digits = std::min(rest.find_first_not_of("0123456789"), rest.size());
    int64_t layer = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + n_digits, layer);
    if (error == std::errc() && n_digits < rest.size() && rest[n_digits] == '.') {
      parts.layer = layer;
      parts.stack = name.substr(0, at == 0 ? 0 : at - 1);
      parts.within_layer = rest.substr(n_digits + 1);
    }
  } else if (name.starts_with("enc.") || name.starts_with("dec.")) {
    parts.stack = name.substr(0, 3);
    parts.within_layer = name.substr(4);
  }
  const size_t dot = std::min(parts.within_layer.find('.'), parts.within_layer.size());
  parts.role = parts.within_layer.substr(0, dot);
  parts.kind = parts.within_layer.substr(std::min(dot + 1, parts.within_layer.size()));
  return parts;
}

}  // namespace tessera
