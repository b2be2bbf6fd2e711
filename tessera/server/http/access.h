// Rules of access by host name and origin, as pure functions over the fields of a request: a page in a browser must not
// reach the server by DNS rebinding (Host) or from another site (Origin, Sec-Fetch-Site).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tessera/server/http/message.h"

namespace tessera::server {

/// Hosts that a server on loopback without keys answers to.
struct HostRules {
  std::vector<std::string> allowed{};  // beside loopback names; "any": all
  std::string machine_name{};
};

/// Whether a value of Host is a loopback address, localhost, *.localhost, this machine's name or an allowed name. An
/// allowed name may have a port, which then counts.
bool is_host_allowed(const HostRules& rules, std::string_view host);

struct CorsRules {
  std::string origins{};  // separated by commas; "*": all, "localhost": loopback with any port
  std::string methods{};
  std::string headers{};
  bool credentials = true;
};

/// Whether CORS allows an Origin.
bool is_origin_allowed(const CorsRules& rules, std::string_view origin);

/// Whether the fields of a request for `host` come from an allowed page, or from no page at all.
bool is_page_allowed(const CorsRules& rules, const std::vector<HttpField>& fields, std::string_view host);

/// The fields of CORS that an answer gets. `is_preflight`: the answer of OPTIONS.
std::vector<HttpField> cors_fields(const CorsRules& rules, const std::vector<HttpField>& fields, bool is_preflight);

/// Whether a client may name its request so: 1 to 64 of A-Z a-z 0-9 . _ -
bool is_request_id(std::string_view id);

}  // namespace tessera::server
