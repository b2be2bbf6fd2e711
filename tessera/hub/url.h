// URLs of HTTP, and the rules for redirects.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/base/result.h"

namespace tessera::hub {

struct Url {
  std::string scheme;  // "http" or "https"
  std::string host;    // in lower case, "[::1]" with its brackets
  uint16_t port = 0;
  std::string target;  // path and query; begins with '/'
};

/// Parses an absolute URL. A fragment is dropped. Errors: invalid_argument (another scheme; no host; a user name; a
/// control character or space; more than 8192 bytes).
Result<Url> parse_url(std::string_view text);

/// Returns the URL as text, without the port if it is the scheme's.
std::string to_string(const Url& url);

/// "host", or "host:port" if the port is not the scheme's.
std::string host_and_port(const Url& url);

/// The path without the query.
std::string_view path_of(const Url& url);

bool same_origin(const Url& a, const Url& b);

/// Resolves the Location of an answer (RFC 3986, section 5.2, without dot segments, which the server resolves).
/// Errors: invalid_argument (those of parse_url(); from https to http).
Result<Url> follow_redirect(const Url& from, std::string_view location);

/// Encodes a path for a URL: all but letters, digits, '/' and "-._~" becomes %XX.
std::string percent_encoded(std::string_view path);

/// Decodes %XX. Returns the text as it is where two hexadecimal digits are missing.
std::string percent_decoded(std::string_view text);

}  // namespace tessera::hub
