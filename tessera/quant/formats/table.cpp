// One instruction set's formats by GGUF type id (tensor/dtype.def, which this source does not include).
#include "tessera/quant/formats/table.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

namespace {

struct Row {
  int id;
  const Format* format;
};

constexpr Row kRows[] = {
    {0, &kF32},      {1, &kF16},     {2, &kQ4_0},     {8, &kQ8_0},   {30, &kBF16},  {3, &kQ4_1},   {6, &kQ5_0},
    {7, &kQ5_1},     {20, &kIQ4_NL}, {23, &kIQ4_XS},  {39, &kMXFP4}, {40, &kNVFP4}, {34, &kTQ1_0}, {35, &kTQ2_0},
    {41, &kQ1_0},    {42, &kQ2_0},   {10, &kQ2_K},    {11, &kQ3_K},  {12, &kQ4_K},  {13, &kQ5_K},  {14, &kQ6_K},
    {16, &kIQ2_XXS}, {17, &kIQ2_XS}, {18, &kIQ3_XXS}, {19, &kIQ1_S}, {21, &kIQ3_S}, {22, &kIQ2_S}, {29, &kIQ1_M},
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
