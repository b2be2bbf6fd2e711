#include "tessera/hub/url.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "tessera/hub/ascii.h"

namespace tessera::hub {

namespace {

constexpr size_t kMaxUrlBytes = 8192;

uint16_t default_port(std::string_view scheme) { return scheme == "https" ? 443 : 80; }

bool is_host(std::string_view host) {
  if (host.starts_with('[')) {
    if (!host.ends_with(']')) return false;
    host = host.substr(1, host.size() - 2);
    return !host.empty() &&
           std::ranges::all_of(host, [](char c) { return std::string_view("0123456789abcdef:.").contains(c); });
  }
  return !host.empty() && std::ranges::all_of(host, [](char c) {
    return is_letter(c) || is_digit(c) || c == '.' || c == '-' || c == '_';
  });
}

// Returns the length of the host in "host:port" or "[v6]:port".
size_t host_length(std::string_view authority) {
  const size_t bracket = authority.rfind(']');
  const size_t colon = authority.rfind(':');
  if (colon == std::string_view::npos || (bracket != std::string_view::npos && colon < bracket))
    return authority.size();
  return colon;
}

}  // namespace

Result<Url> parse_url(std::string_view text) {
  if (text.size() > kMaxUrlBytes)
    return fail(ErrorCode::invalid_argument, "a URL of {} bytes, limit {}", text.size(), kMaxUrlBytes);
  if (std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) <= 0x20 || c == 0x7f || c == '\\'; }))
    return fail(ErrorCode::invalid_argument, "a URL with a space, control character or backslash");
  const size_t scheme_end = text.find("://");
  Url url{.scheme = lower_case(text.substr(0, std::min(scheme_end, text.size()))), .host = {}, .target = {}};
  if (scheme_end == std::string_view::npos || (url.scheme != "http" && url.scheme != "https"))
    return fail(ErrorCode::invalid_argument, "'{}' is not a URL of http or https", text);
  std::string_view rest = text.substr(scheme_end + 3);
  rest = rest.substr(0, rest.find('#'));
  const size_t authority_end = std::min(rest.find_first_of("/?"), rest.size());
  const std::string_view authority = rest.substr(0, authority_end);
  if (authority.find('@') != std::string_view::npos)
    return fail(ErrorCode::invalid_argument, "a URL with a user name or password: these are not supported");
  const size_t host_end = host_length(authority);
  url.host = lower_case(authority.substr(0, host_end));
  if (!is_host(url.host)) return fail(ErrorCode::invalid_argument, "'{}': '{}' is not a host", text, url.host);
  url.port = default_port(url.scheme);
  if (host_end < authority.size()) {
    const std::string_view port = authority.substr(host_end + 1);
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), url.port);
    if (error != std::errc() || end != port.data() + port.size() || url.port == 0)
      return fail(ErrorCode::invalid_argument, "'{}': '{}' is not a port", text, port);
  }
  url.target = std::string(rest.substr(authority_end));
  if (!url.target.starts_with('/')) url.target.insert(0, "/");
  return url;
}

std::string host_and_port(const Url& url) {
  return url.port == default_port(url.scheme) ? url.host : fmt::format("{}:{}", url.host, url.port);
}

std::string to_string(const Url& url) { return fmt::format("{}://{}{}", url.scheme, host_and_port(url), url.target); }

std::string_view path_of(const Url& url) {
  const std::string_view target = url.target;
  return target.substr(0, target.find('?'));
}

bool same_origin(const Url& a, const Url& b) { return a.scheme == b.scheme && a.host == b.host && a.port == b.port; }

Result<Url> follow_redirect(const Url& from, std::string_view location) {
  const std::string origin = fmt::format("{}://{}", from.scheme, host_and_port(from));
  std::string target;
  const size_t colon = location.find(':');
  if (colon != std::string_view::npos && colon < location.find_first_of("/?#"))
    target = std::string(location);  // has a scheme
  else if (location.starts_with("//"))
    target = fmt::format("{}:{}", from.scheme, location);
  else if (location.starts_with('/'))
    target = origin + std::string(location);
  else if (location.starts_with('?'))
    target = fmt::format("{}{}{}", origin, path_of(from), location);
  else
    target = fmt::format("{}{}{}", origin, path_of(from).substr(0, path_of(from).rfind('/') + 1), location);
  auto url = parse_url(target);
  if (!url) return forward_error(url, "redirect");
  if (from.scheme == "https" && url->scheme == "http")
    return fail(ErrorCode::invalid_argument, "redirect from https to '{}': only https is followed", target);
  return url;
}

std::string percent_encoded(std::string_view path) {
  std::string encoded;
  for (const char c : path) {
    if (is_letter(c) || is_digit(c) || std::string_view("/-._~").contains(c))
      encoded += c;
    else
      encoded += fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return encoded;
}

std::string percent_decoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto high = text[i] == '%' && i + 2 < text.size() ? hex_value(text[i + 1]) : std::nullopt;
    const auto low = high ? hex_value(text[i + 2]) : std::nullopt;
    if (low) {
      decoded += static_cast<char>(*high * 16 + *low);
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

}  // namespace tessera::hub
