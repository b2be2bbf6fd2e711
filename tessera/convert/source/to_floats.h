// Values of any element type as floats of 32 bits.
#pragma once

#include <cstddef>
#include <span>

#include "tessera/convert/source/element_type.h"

namespace tessera::convert {

/// Converts elements. `from` has as many as have values.size() values. F64 and integers are rounded to the nearest
/// float; a boolean is 0 or 1.
void to_floats(ElementType type, std::span<const std::byte> from, std::span<float> values);

}  // namespace tessera::convert
