// The storage formats of weights, one per dtype, with their decoders and encoders. The decoders are the reference
// implementation for tests of all kernels.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "tessera/quant/format.h"
#include "tessera/tensor/dtype.h"

namespace tessera::quant {

/// The format of a dtype, compiled for isa::default_isa(); null if the dtype is not a weight format.
const Format* find_format(DType dtype);

/// Likewise, compiled for one of isa::usable_isas(). Results do not depend on the instruction set.
const Format* find_format(DType dtype, std::string_view isa);

/// The first of these blocks with a value that is not finite, if there is one. Any bytes are valid input. Bytes after
/// the last whole block are ignored. `tessera verify` checks whole files with this function.
std::optional<BlockFault> first_fault(DType dtype, std::span<const std::byte> blocks);

}  // namespace tessera::quant
