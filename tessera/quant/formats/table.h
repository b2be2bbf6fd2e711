// The formats of one instruction set, each defined by the source of its name; table.cpp gathers them. Seen only by the
// sources of this folder, which are compiled once per set (cmake/isa.cmake).
#pragma once

#include "tessera/quant/format.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

#define TESSERA_DTYPE(name, symbol, text, id, elements, bytes) extern const Format k##symbol;
#include "tessera/tensor/dtype.def"

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
