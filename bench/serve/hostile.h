// Requests that kill, hang or fool servers, each with the statuses that are right. Bodies are made when they are sent,
// since the largest have megabytes.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/serve/http.h"

namespace tessera::load {

struct Hostile {
  enum class Size { small, large };  // large: a soak sends it 50 times less often
  std::string_view name;
  std::string_view target;  // empty: the text is a raw request
  std::string (*text)();
  std::vector<int> statuses;  // any of these; 0: the connection is closed without an answer
  Size size = Size::small;
};

std::span<const Hostile> hostile_requests();

/// Returns the request of a row.
Request hostile_request(const Hostile& row, const std::string& api_key);
/// Whether a status is one of the row's.
bool is_right(const Hostile& row, int status);

}  // namespace tessera::load
