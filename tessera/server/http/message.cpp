#include "tessera/server/http/message.h"

namespace tessera::server {
namespace {

std::optional<std::string_view> first_value(const std::vector<HttpField>& fields, std::string_view name) {
  for (const HttpField& field : fields)
    if (field.name == name) return field.value;
  return std::nullopt;
}

}  // namespace

std::optional<std::string_view> HttpRequest::field(std::string_view name) const { return first_value(fields, name); }

std::optional<std::string_view> HttpRequest::query_value(std::string_view name) const {
  return first_value(query, name);
}

}  // namespace tessera::server
