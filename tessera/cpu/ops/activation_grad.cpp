// Gradients of activations: operands x and dy, element by element. Threads share out pieces of rows.
#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/cpu/step.h"

namespace tessera::cpu {

namespace {

// row_kernel(x, dy, n, out) on every piece of this thread's share.
template <class RowKernel>
void run_pieces(const Step& step, const Worker& worker, RowKernel row_kernel) {
  const int64_t n = step.out.shape()[0];
  const int64_t per_row = std::max<int64_t>(div_ceil(n, kPieceElements), 1);
  const Range share = worker.share(step.out.shape().n_rows() * per_row);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t row = i / per_row, begin = i % per_row * kPieceElements;
    row_kernel(step.in[0].nth_row(row) + begin, step.in[1].nth_row(row) + begin, std::min(kPieceElements, n - begin),
               step.out.nth_row(row) + begin);
  }
}

void run_silu_grad(const Step& step, Worker& worker) { run_pieces(step, worker, worker.kernels.gradients->silu_grad); }
void run_gelu_grad(const Step& step, Worker& worker) { run_pieces(step, worker, worker.kernels.gradients->gelu_grad); }

void run_clamp_grad(const Step& step, Worker& worker) {
  const auto [min, max] = std::get<ClampParams>(step.node->params);
  run_pieces(step, worker,
             [&worker, lowest = min, highest = max](const float* x, const float* dy, int64_t n, float* out) {
               worker.kernels.gradients->clamp_grad(x, dy, lowest, highest, n, out);
             });
}

}  // namespace

extern const OpKernel kSiluGrad, kGeluGrad, kClampGrad;
const OpKernel kSiluGrad{.supports = nullptr, .work_bytes = nullptr, .run = run_silu_grad};
const OpKernel kGeluGrad{.supports = nullptr, .work_bytes = nullptr, .run = run_gelu_grad};
const OpKernel kClampGrad{.supports = nullptr, .work_bytes = nullptr, .run = run_clamp_grad};

}  // namespace tessera::cpu
