#include "tessera/json/json.h"

#include <array>
#include <nlohmann/json.hpp>

#include "tessera/json/reader.h"

namespace tessera {

namespace {

// The last member; null if there is none.
Json* last_of(Json& value) {
  if (value.is_array() && !value.empty()) return &value.get_ref<Json::array_t&>().back();
  if (value.is_object() && !value.empty()) return &value.get_ref<Json::object_t&>().back().second;
  return nullptr;
}

void remove_last(Json& value) {
  if (value.is_array())
    value.get_ref<Json::array_t&>().pop_back();
  else
    value.get_ref<Json::object_t&>().pop_back();
}

}  // namespace

// Removes the last leaf again and again. A value without members is destroyed without taking memory.
void FreeJson::operator()(Json* root) const noexcept {
  std::array<Json*, kMaxJsonDepth + 1> path{root};  // from the root to the container whose members are removed
  for (size_t depth = 0;;) {
    Json* const last = last_of(*path[depth]);
    if (last != nullptr && last_of(*last) != nullptr && depth + 1 < path.size()) {
      path[++depth] = last;
    } else if (last != nullptr) {
      remove_last(*path[depth]);
    } else if (depth > 0) {
      --depth;
    } else {
      break;
    }
  }
  delete root;
}

}  // namespace tessera
