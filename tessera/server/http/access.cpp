#include "tessera/server/http/access.h"

#include <arpa/inet.h>

#include <algorithm>
#include <optional>

#include "tessera/server/http/head.h"

namespace tessera::server {
namespace {

constexpr size_t kMaxRequestId = 64;

// The host of "host:port" or "[v6]:port", without brackets and a last dot.
std::string_view host_without_port(std::string_view value) {
  if (value.starts_with('[')) return value.substr(1, std::min(value.find(']'), value.size()) - 1);
  std::string_view host = value.substr(0, value.find(':'));
  if (host.ends_with('.')) host.remove_suffix(1);
  return host;
}

bool is_loopback_literal(std::string_view host) {
  const std::string text(host);
  in_addr v4{};
  if (inet_pton(AF_INET, text.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  in6_addr v6{};
  if (inet_pton(AF_INET6, text.c_str(), &v6) != 1) return false;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

bool is_loopback_name(std::string_view host) {
  constexpr std::string_view kName = "localhost", kSuffix = ".localhost";
  if (equal_ignoring_case(host, kName)) return true;
  return host.size() > kSuffix.size() && equal_ignoring_case(host.substr(host.size() - kSuffix.size()), kSuffix);
}

// The authority of an origin: "host:port" of "http://host:port". Nothing for "null" and other schemes.
std::optional<std::string_view> origin_authority(std::string_view origin) {
  for (const std::string_view scheme : {"http://", "https://"})
    if (equal_ignoring_case(origin.substr(0, scheme.size()), scheme)) return origin.substr(scheme.size());
  return std::nullopt;
}

// Exactly localhost, 127.0.0.1 and [::1]: a name below .localhost may be another machine's in some resolvers.
bool is_local_origin(std::string_view origin) {
  const auto authority = origin_authority(origin);
  if (!authority) return false;
  const std::string_view host = host_without_port(*authority);
  return equal_ignoring_case(host, "localhost") || host == "127.0.0.1" || host == "::1";
}

std::vector<std::string_view> field_values(const std::vector<HttpField>& fields, std::string_view name) {
  std::vector<std::string_view> values;
  for (const HttpField& field : fields)
    if (field.name == name) values.push_back(field.value);
  return values;
}

// "*" does not include Authorization, and means itself in requests with credentials (the Fetch standard). So the
// requested names follow it.
std::string allowed_headers(const CorsRules& rules, const std::vector<HttpField>& fields) {
  std::string allowed = rules.headers;
  if (allowed != "*") return allowed;
  for (const std::string_view value : field_values(fields, "access-control-request-headers"))
    for (const std::string_view name : split_list(value))
      if (is_http_token(name)) allowed.append(", ").append(name);
  return allowed;
}

}  // namespace

bool is_host_allowed(const HostRules& rules, std::string_view host) {
  const std::string_view name = host_without_port(host);
  if (is_loopback_literal(name) || is_loopback_name(name)) return true;
  if (!rules.machine_name.empty() && equal_ignoring_case(name, rules.machine_name)) return true;
  return std::ranges::any_of(rules.allowed, [&](const std::string& allowed) {
    return allowed == "any" || equal_ignoring_case(allowed, name) || equal_ignoring_case(allowed, host);
  });
}

bool is_origin_allowed(const CorsRules& rules, std::string_view origin) {
  return std::ranges::any_of(split_list(rules.origins), [&](std::string_view allowed) {
    if (allowed == "localhost") return is_local_origin(origin);
    return allowed == "*" || equal_ignoring_case(allowed, origin);
  });
}

bool is_page_allowed(const CorsRules& rules, const std::vector<HttpField>& fields, std::string_view host) {
  const auto origins = field_values(fields, "origin");
  if (origins.empty()) {
    const auto sites = field_values(fields, "sec-fetch-site");
    return std::ranges::none_of(sites, [](std::string_view site) { return equal_ignoring_case(site, "cross-site"); });
  }
  if (origins.size() > 1) return false;
  const auto authority = origin_authority(origins[0]);
  return (authority && equal_ignoring_case(*authority, host)) || is_origin_allowed(rules, origins[0]);
}

std::vector<HttpField> cors_fields(const CorsRules& rules, const std::vector<HttpField>& fields, bool is_preflight) {
  std::vector<HttpField> out;
  const auto origins = field_values(fields, "origin");
  if (origins.size() == 1 && is_origin_allowed(rules, origins[0])) {
    out.push_back({"Access-Control-Allow-Origin", std::string(origins[0])});
    if (rules.credentials) out.push_back({"Access-Control-Allow-Credentials", "true"});
  }
  if (is_preflight) {
    out.push_back({"Access-Control-Allow-Methods", rules.methods});
    out.push_back({"Access-Control-Allow-Headers", allowed_headers(rules, fields)});
  }
  if (!origins.empty()) out.push_back({"Vary", "Origin"});
  return out;
}

bool is_request_id(std::string_view id) {
  const auto is_id_char = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  return !id.empty() && id.size() <= kMaxRequestId && std::ranges::all_of(id, is_id_char);
}

}  // namespace tessera::server
