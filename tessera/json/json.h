// The type of a JSON value, declared only. Sources that look into a value include <nlohmann/json.hpp>. Members keep
// the order of the text.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>

namespace tessera {

using Json = nlohmann::ordered_json;

struct FreeJson {
  void operator()(Json* root) const noexcept;
};

/// A value that is freed without taking memory. The destructor of Json takes some for the members of a value, and ends
/// the process if there is none.
using JsonTree = std::unique_ptr<Json, FreeJson>;

}  // namespace tessera
