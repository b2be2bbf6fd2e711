// Times as text.
#pragma once

#include <chrono>
#include <string>

namespace tessera::server {

/// A time of UTC to nanoseconds, as in RFC 3339: 2026-09-30T12:00:00.000000001Z.
std::string rfc3339(std::chrono::system_clock::time_point time);

}  // namespace tessera::server
