#include "tessera/server/http/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

namespace tessera::server {
namespace {

constexpr std::string_view kAnySegment = "{}";

std::string_view take_segment(std::string_view& path) {
  path.remove_prefix(1);  // its "/"
  const size_t end = std::min(path.find('/'), path.size());
  const std::string_view segment = path.substr(0, end);
  path.remove_prefix(end);
  return segment;
}

// The segments of the path that match {}; nothing if the path does not match.
std::optional<std::vector<std::string>> match_path(std::string_view pattern, std::string_view path) {
  std::vector<std::string> segments;
  if (pattern.find(kAnySegment) == std::string_view::npos) {
    if (pattern != path) return std::nullopt;
    return segments;
  }
  while (pattern.starts_with('/') && path.starts_with('/')) {
    const std::string_view want = take_segment(pattern), got = take_segment(path);
    if (want == kAnySegment && !got.empty())
      segments.emplace_back(got);
    else if (want != got)
      return std::nullopt;
  }
  if (!pattern.empty() || !path.empty()) return std::nullopt;
  return segments;
}

void add_once(std::vector<std::string_view>& methods, std::string_view method) {
  if (std::ranges::find(methods, method) == methods.end()) methods.push_back(method);
}

}  // namespace

void Router::add(Route route) { routes_.push_back(std::move(route)); }

Router::Match Router::find(std::string_view method, std::string_view path) const {
  Match match;
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  const Route* head_route = nullptr;  // a route for HEAD itself comes before one for GET
  std::vector<std::string> head_segments;
  std::vector<std::string_view> allowed;
  for (const Route& route : routes_) {
    auto segments = match_path(route.path, path);
    if (!segments) continue;
    add_once(allowed, route.method);
    if (route.method == "GET") add_once(allowed, "HEAD");
    if (method == "HEAD" && route.method == "HEAD" && head_route == nullptr) {
      head_route = &route;
      head_segments = *segments;
    }
    if (match.route == nullptr && route.method == wanted) {
      match.route = &route;
      match.path_segments = std::move(*segments);
    }
  }
  if (head_route != nullptr) {
    match.route = head_route;
    match.path_segments = std::move(head_segments);
  }
  if (!allowed.empty()) add_once(allowed, "OPTIONS");
  match.allow = fmt::format("{}", fmt::join(allowed, ", "));
  return match;
}

}  // namespace tessera::server
