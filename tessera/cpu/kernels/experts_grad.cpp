// Outer products of rows, summed over the rows of an expert, with the register tiles of matmul_float.h. The columns of
// a panel there correspond to the rows here, so both operands are packed by plain copies.
#include "tessera/cpu/kernels/experts_grad.h"

#include <string.h>

#include "tessera/cpu/kernels/float_elements.h"
#include "tessera/cpu/kernels/matmul_float.h"

namespace tessera::cpu::TESSERA_ISA_NAMESPACE {

namespace {

constexpr int64_t kRows = 128;  // rows packed at a time: four panels of them fill a first-level cache of 32 KiB
constexpr int kPanels = kOuterColumns / kPanelRows;

/// Rows [begin, begin + n) of a task, packed.
struct Packed {
  alignas(64) float x[kPanels][kRows][kPanelRows];  // zero past the end of x's rows
  alignas(64) float y[kRows * kFloatTokens];        // for one tile
};

void pack_x(const OuterTask& task, int64_t begin, int64_t n, Packed& packed) {
  for (int64_t i = 0; i < n; ++i)
    for (int panel = 0; panel * kPanelRows < task.n_x; ++panel) {
      const int left = task.n_x - panel * kPanelRows;
      const float* from = task.x_rows[begin + i] + panel * kPanelRows;
      (left < kPanelRows ? F32x16::load_partial(from, left) : F32x16::load(from)).store(packed.x[panel][i]);
    }
}

void pack_y(const OuterTask& task, int64_t begin, int64_t n, int64_t first, int64_t n_tile, float* y) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t t = 0; t < n_tile; ++t) y[i * n_tile + t] = task.y_rows[begin + i][first + t];
}

/// Multiplies R whole panels at a time, then fewer.
template <int R>
void multiply_panels(const Packed& packed, int64_t n_tile, int& panel, int n_whole, FloatTile tile, float* out) {
  for (; panel + R <= n_whole; panel += R) {
    tile.weights = reinterpret_cast<const uint8_t*>(packed.x[panel]);
    tile.out = out + panel * kPanelRows;
    float_tile_of<FloatProducts, ElementF32, R>(n_tile, tile);
  }
  if constexpr (R > 1) multiply_panels<R / 2>(packed, n_tile, panel, n_whole, tile, out);
}

void multiply_tile(const OuterTask& task, const Packed& packed, int64_t n, int64_t first, int64_t n_tile,
                   bool from_zero) {
  float* out = task.out + first * task.out_stride;
  FloatTile tile{.weights = nullptr,
                 .panel_stride = sizeof packed.x[0],
                 .x = reinterpret_cast<const uint8_t*>(packed.y),
                 .n_columns = n,
                 .out = nullptr,
                 .out_stride = static_cast<size_t>(task.out_stride) * sizeof(float),
                 .from_zero = from_zero};
  int panel = 0;
  const int n_whole = task.n_x / kPanelRows, rest = task.n_x % kPanelRows;
  multiply_panels<kFloatPanels>(packed, n_tile, panel, n_whole, tile, out);
  if (rest == 0) return;
  // A panel with fewer columns is computed in a buffer for a whole panel.
  alignas(64) float whole[kFloatTokens][kPanelRows] = {};
  const size_t bytes = static_cast<size_t>(rest) * sizeof(float);
  float* last = out + n_whole * kPanelRows;
  if (!from_zero)
    for (int64_t t = 0; t < n_tile; ++t) memcpy(whole[t], last + t * task.out_stride, bytes);
  tile.weights = reinterpret_cast<const uint8_t*>(packed.x[n_whole]);
  tile.out = whole[0];
  tile.out_stride = sizeof whole[0];
  float_tile_of<FloatProducts, ElementF32, 1>(n_tile, tile);
  for (int64_t t = 0; t < n_tile; ++t) memcpy(last + t * task.out_stride, whole[t], bytes);
}

}  // namespace

void outer_product(const OuterTask& task) {
  if (task.n_rows == 0)
    for (int64_t j = 0; j < task.n_y; ++j)
      memset(task.out + j * task.out_stride, 0, static_cast<size_t>(task.n_x) * sizeof(float));
  Packed packed;
  for (int64_t begin = 0; begin < task.n_rows; begin += kRows) {
    const int64_t n = task.n_rows - begin < kRows ? task.n_rows - begin : kRows;
    pack_x(task, begin, n, packed);
    for (int64_t first = 0; first < task.n_y; first += kFloatTokens) {
      const int64_t n_tile = task.n_y - first < kFloatTokens ? task.n_y - first : kFloatTokens;
      pack_y(task, begin, n, first, n_tile, packed.y);
      multiply_tile(task, packed, n, first, n_tile, begin == 0);
    }
  }
}

float dot_rows(const float* a, const float* b, int64_t n) {
  return striped_sum(n, [=](int64_t i, int count) {
    if (count == kLanes) return mul(F32x16::load(a + i), F32x16::load(b + i));
    return mul(F32x16::load_partial(a + i, count), F32x16::load_partial(b + i, count));
  });
}

const ExpertsGradKernels kExpertsGradKernels = {.outer_product = outer_product, .dot = dot_rows};

}  // namespace tessera::cpu::TESSERA_ISA_NAMESPACE
