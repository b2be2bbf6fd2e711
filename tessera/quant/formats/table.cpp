// The table of the formats of one instruction set, by GGUF type id.
#include "tessera/quant/formats/table.h"

#include "tessera/tensor/dtype_rows.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

struct Table {
  const Format* of_id[kDTypeLimit] = {};
};
constexpr Table kTable = [] {
  Table table;
#define TESSERA_DTYPE(name, symbol, text, id, elements, bytes) table.of_id[id] = &k##symbol;
#include "tessera/tensor/dtype.def"
  return table;
}();

}  // namespace

extern const Format* const* const kFormats;
constexpr const Format* const* const kFormats = kTable.of_id;

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
