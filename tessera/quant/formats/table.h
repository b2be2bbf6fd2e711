// The formats of one instruction set. Each is defined in the source file of its name, and table.cpp collects them. Used
// only in this folder, whose sources are compiled once per set (cmake/isa.cmake).
#pragma once

#include "tessera/quant/format.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

#define TESSERA_DTYPE(name, symbol, text, id, elements, bytes) extern const Format k##symbol;
#include "tessera/tensor/dtype.def"

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
