// What adapters add: rows of y plus their token's scale times rows of d. A row of scale 0 keeps its bits, whatever d
// holds: a token that no adapter is meant for gets what a graph without adapters gives it.
#include <algorithm>
#include <array>

#include "tessera/base/checked.h"
#include "tessera/cpu/ops/routes.h"

namespace tessera::cpu {

namespace {

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
    worker.kernels.scale(d.row(d.shape()[1] == 1 ? 0 : row) + begin, scale * p.factor, count, product.data());
    worker.kernels.add(from, product.data(), count, out);
  }
}

}  // namespace

extern const OpKernel kAddScaled;
const OpKernel kAddScaled{.supports = nullptr, .work_bytes = nullptr, .run = run_add_scaled};

}  // namespace tessera::cpu
