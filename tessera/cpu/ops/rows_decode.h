// Chooses the decoder that converts rows of unpacked tensors to floats.
#pragma once

#include "tessera/base/index.h"
#include "tessera/cpu/step.h"
#include "tessera/quant/formats.h"

namespace tessera::cpu {

using Decode = void (*)(const void* row, int64_t n, float* out);

/// Returns the vector kernel of a dtype, else the format's reference decoder; null for dtypes that are not numbers.
inline Decode decoder_of(const Kernels& kernels, DType dtype) {
  if (const Decode kernel = kernels.to_f32[to_size(dtype)]; kernel != nullptr) return kernel;
  const quant::Format* format = quant::find_format(dtype);
  return format == nullptr ? nullptr : format->dequantize_row;
}

}  // namespace tessera::cpu
