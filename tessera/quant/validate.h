// Whether stored weights hold only finite values, read off the scales: a block whose scales are finite has finite
// values. `tessera verify` runs it over whole files, so it looks at the scale fields alone and the memory's speed is
// its limit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tessera/tensor/dtype.h"

namespace tessera::quant {

struct BlockFault {
  int64_t block = 0;      // an element, for types without blocks
  std::string_view what;  // "scale is not finite", ...; lives for ever
};

/// The first block of these whole blocks that is not finite, if there is one. Integers have no faults. Any bytes are
/// valid input; what is left over after the last whole block is ignored.
std::optional<BlockFault> first_fault(DType dtype, std::span<const std::byte> blocks);

}  // namespace tessera::quant
