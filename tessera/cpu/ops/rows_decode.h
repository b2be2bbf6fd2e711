// How rows of plain tensors become floats.
#pragma once

#include "tessera/cpu/step.h"
#include "tessera/quant/formats.h"

namespace tessera::cpu {

using Decode = void (*)(const void* row, int64_t n, float* out);

/// The vector kernel where the dtype has one, else the format's own decoder; null where the dtype is no number.
inline Decode decoder_of(const Kernels& kernels, DType dtype) {
  if (const Decode kernel = kernels.to_f32[static_cast<size_t>(dtype)]; kernel != nullptr) return kernel;
  const quant::Format* format = quant::find_format(dtype);
  return format == nullptr ? nullptr : format->dequantize_row;
}

}  // namespace tessera::cpu
