// Conversion of rows of plain tensors to and from floats (token embeddings, outputs, norms): the tables by dtype in
// Kernels. Rows of blocked dtypes are whole blocks. Results have the same bytes on every instruction set.
#include "tessera/cpu/kernels/row_formats.h"

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

struct Decoder {
  template <class Row>
  static constexpr auto of() {
    return &decode_row<Row>;
  }
};
struct Encoder {
  template <class Row>
  static constexpr auto of() {
    return &encode_row<Row>;
  }
};

}  // namespace

constexpr ByDType<void (*)(const void* row, int64_t n, float* out)> kToF32 = make_row_table<Decoder>();
constexpr ByDType<void (*)(const float* x, int64_t n, void* row)> kFromF32 = make_row_table<Encoder>();

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
