// Rows of plain tensors to and from floats (token embeddings, outputs, norms): the dtypes' tables of the
// Kernels. Blocked dtypes take whole blocks. The same bytes in every instruction set.
#include "tessera/cpu/kernels/row_formats.h"
#include "tessera/cpu/kernels/table.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace {

template <class Row>
void decode_row(const void* row, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Row::load(row, i).store(out + i);
  if constexpr (Row::kBlock == 1) {
    const int rest = static_cast<int>(n - i);
    if (rest > 0) Row::load_partial(row, i, rest).store_partial(out + i, rest);
  }
}

template <class Row>
void encode_row(const float* x, int64_t n, void* row) {
  Row::encode(x, n, row);
}

}  // namespace

// Positions are GGUF type ids: 0 f32, 1 f16, 2 q4_0, 8 q8_0, 30 bf16.
// clang-format off
constexpr void (*const kToF32[kMaxDTypes])(const void* row, int64_t n, float* out) = {
    decode_row<RowF32>, decode_row<RowF16>, decode_row<RowQ4_0>, nullptr, nullptr, nullptr, nullptr, nullptr,
    decode_row<RowQ8_0>, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
    nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
    nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, decode_row<RowBF16>};

constexpr void (*const kFromF32[kMaxDTypes])(const float* x, int64_t n, void* row) = {
    encode_row<RowF32>, encode_row<RowF16>, encode_row<RowQ4_0>, nullptr, nullptr, nullptr, nullptr, nullptr,
    encode_row<RowQ8_0>, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
    nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
    nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, encode_row<RowBF16>};
// clang-format on

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
