// The table of formats.
#include "tessera/quant/formats.h"

#include "tessera/quant/float_formats.h"
#include "tessera/quant/q4_0.h"
#include "tessera/quant/q8_0.h"

namespace tessera::quant {

namespace {

struct Row {
  DType dtype;
  Format format;
};

constexpr Row kFormats[] = {
    {DType::f32, {quantize_row_f32, dequantize_row_f32}},    {DType::f16, {quantize_row_f16, dequantize_row_f16}},
    {DType::bf16, {quantize_row_bf16, dequantize_row_bf16}}, {DType::q4_0, {quantize_row_q4_0, dequantize_row_q4_0}},
    {DType::q8_0, {quantize_row_q8_0, dequantize_row_q8_0}},
};

}  // namespace

const Format* find_format(DType dtype) {
  for (const Row& row : kFormats)
    if (row.dtype == dtype) return &row.format;
  return nullptr;
}

}  // namespace tessera::quant
