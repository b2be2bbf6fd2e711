#include "tessera/server/json/json_field.h"

#include <nlohmann/json.hpp>

#include "tessera/json/reader.h"

namespace tessera::server {

FieldResult<Json> read_json_field(std::string_view text) {
  auto value = read_json(text);
  if (!value) return std::unexpected(field_error_of(value.error(), ""));
  return std::move(*value);
}

}  // namespace tessera::server
