// The revision of all float computations. Saved keys and values of another revision may differ from what this program
// would compute, so they are not used.
#pragma once

#include <cstdint>

namespace tessera {

/// Increase it with any change that gives other bits of keys, values, states or logits, for any model or instruction
/// set. tests/engine/numerics_test.cpp fails after such a change.
inline constexpr uint32_t kNumericsRevision = 3;

}  // namespace tessera
