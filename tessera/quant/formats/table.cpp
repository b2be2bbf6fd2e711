// One instruction set's formats by GGUF type id (tensor/dtype.def, which this source does not include).
#include "tessera/quant/formats/table.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

struct Row {
  int id;
  const Format* format;
};

constexpr Row kRows[] = {
    {0, &kF32}, {1, &kF16}, {2, &kQ4_0}, {8, &kQ8_0}, {30, &kBF16},
};

struct Table {
  const Format* of_id[kMaxFormats] = {};
};
constexpr Table kTable = [] {
  Table table;
  for (const Row& row : kRows) table.of_id[row.id] = row.format;
  return table;
}();

}  // namespace

extern const Format* const* const kFormats;
constexpr const Format* const* const kFormats = kTable.of_id;

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
