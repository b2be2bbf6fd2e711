// Operations on rows: cast, get_rows, scatter_rows, add_scaled.
#include "tessera/graph/ops/rows.h"
#include "tessera/base/index.h"

#include <algorithm>
#include <array>

#include "tessera/base/checked.h"
#include "tessera/cpu/ops/experts_routes.h"
#include "tessera/cpu/ops/rows_decode.h"
#include "tessera/cpu/step.h"

namespace tessera::cpu {

namespace {

// --- cast

bool supports_cast(const Kernels& kernels, const Graph& graph, const Node& node) {
  const DType from = graph[node.sources[0]].spec.dtype, to = node.spec.dtype;
  return to == DType::f32 ? decoder_of(kernels, from) != nullptr
                          : from == DType::f32 && kernels.from_f32[to_size(to)] != nullptr;
}

void run_cast(const Step& step, Worker& worker) {
  const Range share = worker.share(step.out.shape().n_rows());
  const int64_t n = step.out.shape()[0];
  const Decode decode = decoder_of(worker.kernels, step.in[0].dtype);
  for (int64_t i = share.begin; i < share.end; ++i) {
    if (step.out.dtype == DType::f32)
      decode(step.in[0].nth_row<const void>(i), n, step.out.nth_row(i));
    else
      worker.kernels.from_f32[to_size(step.out.dtype)](step.in[0].nth_row(i), n, step.out.nth_row<void>(i));
  }
}

// --- get_rows

bool supports_get_rows(const Kernels& kernels, const Graph& graph, const Node& node) {
  const DType dtype = graph[node.sources[0]].spec.dtype;
  return dtype == DType::i32 || decoder_of(kernels, dtype) != nullptr;
}

void run_get_rows(const Step& step, Worker& worker) {
  const Operand& table = step.in[0];
  const auto* ids = step.in[1].row<const int32_t>(0);
  const int64_t n = table.shape()[0], n_rows = table.shape()[1];
  const PanelFormat* panels = worker.kernels.panel_formats[to_size(table.dtype)];
  const Decode decode = decoder_of(worker.kernels, table.dtype);
  const Range share = worker.share(step.out.shape()[1]);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t id = ids[i];
    if (id < 0 || id >= n_rows) {
      worker.fault.report(step, "row", id, n_rows);
      std::fill_n(step.out.row(i), n, 0.0f);
    } else if (table.dtype == DType::i32) {
      std::copy_n(table.row<const int32_t>(id), n, step.out.row<int32_t>(i));
    } else if (table.packed) {
      const std::byte* panel = table.data + to_size(id / kPanelRows) * panels->panel_bytes(n);
      panels->dequantize_row(panel, static_cast<int>(id % kPanelRows), n, step.out.row(i));
    } else {
      decode(table.row<const void>(id), n, step.out.row(i));
    }
  }
}

// --- scatter_rows

// Columns are distributed over the threads, because several rows may be added to the same row of the result.
void run_scatter_rows(const Step& step, Worker& worker) {
  const Operand& rows = step.in[0];
  const auto* ids = step.in[1].row<const int32_t>(0);
  const int64_t n = rows.shape()[0], n_rows = step.out.shape()[1];
  const Range lines = worker.share(div_ceil(n, kLineFloats));
  const int64_t begin = lines.begin * kLineFloats, count = std::min(lines.end * kLineFloats, n) - begin;
  if (count <= 0) return;
  for (int64_t row = 0; row < n_rows; ++row) std::fill_n(step.out.row(row) + begin, count, 0.0f);
  for (int64_t i = 0; i < rows.shape()[1]; ++i) {
    const int64_t id = ids[i];
    if (id < 0 || id >= n_rows) {
      worker.fault.report(step, "row", id, n_rows);
      continue;
    }
    float* sum = step.out.row(id) + begin;
    worker.add(rows.row(i) + begin, count, sum);
  }
}

// --- add_scaled: adds the output of an adapter. A row with scale 0 keeps its bits for any d. So a token without an
// adapter gets the same result as in a graph without adapters.

void run_add_scaled(const Step& step, Worker& worker) {
  const Operand &y = step.in[0], &d = step.in[1], &scales = step.in[2];
  const auto& p = std::get<AddScaledParams>(step.node->params);
  const int64_t n = step.out.shape()[0], n_rows = step.out.shape()[1];
  const int32_t* pairs = step.in[3].present() ? Routes(step.in[3], p.n_experts).pairs : nullptr;
  const int64_t n_used = pairs == nullptr ? 1 : n_rows / std::max<int64_t>(scales.shape()[1], 1);
  const int64_t per_row = div_ceil(n, kPieceElements);
  const Range share = worker.share(n_rows * per_row);
  std::array<float, kPieceElements> product;
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t row = i / per_row, begin = i % per_row * kPieceElements, count = std::min(kPieceElements, n - begin);
    const float scale = *scales.row(pairs == nullptr ? row : pairs[row] / n_used);
    const float* from = y.row(row) + begin;
    float* out = step.out.row(row) + begin;
    if (scale == 0.0f) {
      if (out != from) std::copy_n(from, count, out);
      continue;
    }
    const float factor = scale * p.factor;
    worker.run(Elementwise::scale,
               {.a = d.row(d.shape()[1] == 1 ? 0 : row) + begin, .params = &factor, .n = count, .out = product.data()});
    worker.run(Elementwise::add, {.a = from, .b = product.data(), .n = count, .out = out});
  }
}

}  // namespace

const OpKernel op_kernels::cast{.supports = supports_cast, .run = run_cast};
const OpKernel op_kernels::get_rows{.supports = supports_get_rows, .run = run_get_rows};
const OpKernel op_kernels::scatter_rows{.run = run_scatter_rows, .takes_all_threads = true};
const OpKernel op_kernels::add_scaled{.run = run_add_scaled};

}  // namespace tessera::cpu
