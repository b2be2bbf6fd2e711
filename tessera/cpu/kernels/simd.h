// Makes the vector types of tessera/isa available in the kernels' namespace.
#pragma once

#include "tessera/isa/simd.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

using namespace isa::TESSERA_ISA_NAMESPACE;

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
