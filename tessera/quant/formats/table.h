// The formats of one instruction set, each defined by the source of its name; table.cpp gathers them. Seen only by the
// sources of this folder, which are compiled once per set (cmake/isa.cmake).
#pragma once

#include "tessera/quant/format.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

extern const Format kF32, kF16, kBF16;
extern const Format kQ4_0, kQ8_0;

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
