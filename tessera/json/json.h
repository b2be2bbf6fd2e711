// The type of a JSON value, declared only. Sources that look into a value include <nlohmann/json.hpp>. Members keep
// the order of the text.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace tessera {

using Json = nlohmann::ordered_json;

}  // namespace tessera
