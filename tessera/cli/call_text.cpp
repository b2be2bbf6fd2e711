#include "tessera/cli/call_text.h"

#include <nlohmann/json.hpp>

#include "tessera/text/chat/json_view.h"

namespace tessera::cli {

std::string call_text(std::string_view name, std::string_view arguments) {
  using Json = nlohmann::ordered_json;
  // nlohmann's reader and writer recurse, so deep texts are refused before.
  const bool is_flat = text::is_json(arguments);
  const Json json = is_flat ? Json::parse(arguments, nullptr, false) : Json(Json::value_t::discarded);
  std::string out = std::string(name) + '(';
  if (!json.is_object()) return out.append(arguments) += ')';
  bool is_first = true;
  for (const auto& [key, value] : json.items()) {
    if (!is_first) out += ", ";
    is_first = false;
    out += key + '=' + value.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  return out += ')';
}

}  // namespace tessera::cli
