// Request targets: percent-decoding, and the split into path and query. Pure functions over bytes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/server/http/message.h"

namespace tessera::server {

inline constexpr size_t kMaxQueryValues = 256;

struct Target {
  std::string path{};
  std::vector<HttpField> query{};
};

/// Decodes %XX once. Plus::space, the form of queries, turns "+" into a space. Nothing for a bad escape and for %00.
enum class Plus { literal, space };
std::optional<std::string> percent_decode(std::string_view text, Plus plus = Plus::literal);

/// Splits and decodes "/path?a=b&c". Nothing for a bad escape, for %00, or for more than kMaxQueryValues values.
std::optional<Target> parse_target(std::string_view text);

}  // namespace tessera::server
