// Named float constants for tests.
#pragma once

#include <limits>

namespace tessera::testing {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

}  // namespace tessera::testing
