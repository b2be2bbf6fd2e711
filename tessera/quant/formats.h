// The storage formats of weights, one per dtype: what their bytes mean and how floats become them. Every fast kernel is
// tested against the decoders.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>

#include "tessera/quant/format.h"
#include "tessera/tensor/dtype.h"

namespace tessera::quant {

/// The format of a dtype, compiled for isa::default_isa(), or null where the dtype is no weight format.
const Format* find_format(DType dtype);

/// The same compiled for one of isa::usable_isas(). Results do not depend on it.
const Format* find_format(DType dtype, std::string_view isa);

/// The first of these whole blocks that is not finite, if there is one. Any bytes are valid input; what is left over
/// after the last whole block is ignored. `tessera verify` runs it over whole files.
std::optional<BlockFault> first_fault(DType dtype, std::span<const std::byte> blocks);

}  // namespace tessera::quant
