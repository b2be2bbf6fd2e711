// get_rows and cast: rows of any type to floats, and floats to rows.
#include <algorithm>

#include "tessera/cpu/ops/decode.h"
#include "tessera/cpu/step.h"

namespace tessera::cpu {

namespace {

size_t index(DType dtype) { return static_cast<size_t>(dtype); }

bool supports_get_rows(const Kernels& kernels, const Graph& graph, const Node& node) {
  const DType dtype = graph[node.sources[0]].spec.dtype;
  return decoder_of(kernels, dtype) != nullptr;
}

void run_get_rows(const Step& step, Worker& worker) {
  const Operand& table = step.in[0];
  const auto* ids = step.in[1].row<const int32_t>(0);
  const int64_t n = table.shape()[0], n_rows = table.shape()[1];
  const PanelFormat* panels = worker.kernels.panel_formats[index(table.dtype)];
  const Decode decode = decoder_of(worker.kernels, table.dtype);
  const Range share = worker.share(step.out.shape()[1]);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t id = ids[i];
    if (id < 0 || id >= n_rows) {
      worker.fault.report(step, "row", id, n_rows);
      std::fill_n(step.out.row(i), n, 0.0f);
    } else if (table.packed) {
      const std::byte* panel = table.data + static_cast<size_t>(id / kPanelRows) * panels->panel_bytes(n);
      panels->dequantize_row(panel, static_cast<int>(id % kPanelRows), n, step.out.row(i));
    } else {
      decode(table.row<const void>(id), n, step.out.row(i));
    }
  }
}

bool supports_cast(const Kernels& kernels, const Graph& graph, const Node& node) {
  const DType from = graph[node.sources[0]].spec.dtype, to = node.spec.dtype;
  return to == DType::f32 ? decoder_of(kernels, from) != nullptr
                          : from == DType::f32 && kernels.from_f32[index(to)] != nullptr;
}

void run_cast(const Step& step, Worker& worker) {
  const Range share = worker.share(step.out.shape().n_rows());
  const int64_t n = step.out.shape()[0];
  const Decode decode = decoder_of(worker.kernels, step.in[0].dtype);
  for (int64_t i = share.begin; i < share.end; ++i) {
    if (step.out.dtype == DType::f32)
      decode(step.in[0].nth_row<const void>(i), n, step.out.nth_row(i));
    else
      worker.kernels.from_f32[index(step.out.dtype)](step.in[0].nth_row(i), n, step.out.nth_row<void>(i));
  }
}

}  // namespace

extern const OpKernel kGetRows, kCast;
const OpKernel kGetRows{.supports = supports_get_rows, .work_bytes = nullptr, .run = run_get_rows};
const OpKernel kCast{.supports = supports_cast, .work_bytes = nullptr, .run = run_cast};

}  // namespace tessera::cpu
