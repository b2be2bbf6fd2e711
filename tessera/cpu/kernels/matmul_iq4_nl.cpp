// Panels of iq4_nl weights: see matmul_int8.h and unpack/iq4_nl.h.
#include "tessera/cpu/kernels/matmul_int8.h"
#include "tessera/cpu/kernels/unpack/iq4_nl.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

constexpr PanelFormat kPanelIQ4_NL = int8_panel_format<PanelIQ4_NL>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
