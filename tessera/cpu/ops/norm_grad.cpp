// Gradients of rms_norm, layer_norm, l2_norm and soft_max. One thread computes a whole row, so that its sums have a
// fixed order.
#include "tessera/cpu/step.h"

namespace tessera::cpu {

namespace {

// Calls kernel(x, weight, dy, n, eps, out) on every row of this thread's share.
template <class Kernel>
void run_weighted(const Step& step, const Worker& worker, float eps, Kernel kernel) {
  const float* weight = step.in[1].present() ? step.in[1].row(0) : nullptr;
  const Range share = worker.share(step.out.shape().n_rows());
  for (int64_t i = share.begin; i < share.end; ++i)
    kernel(step.in[0].nth_row(i), weight, step.in[2].nth_row(i), step.out.shape()[0], eps, step.out.nth_row(i));
}

void run_rms_norm_grad(const Step& step, Worker& worker) {
  run_weighted(step, worker, std::get<NormParams>(step.node->params).eps, worker.kernels.norm->rms_norm_grad);
}

void run_layer_norm_grad(const Step& step, Worker& worker) {
  run_weighted(step, worker, std::get<NormParams>(step.node->params).eps, worker.kernels.norm->layer_norm_grad);
}

void run_l2_norm_grad(const Step& step, Worker& worker) {
  const float eps = std::get<NormParams>(step.node->params).eps;
  const Range share = worker.share(step.out.shape().n_rows());
  for (int64_t i = share.begin; i < share.end; ++i)
    worker.kernels.norm->l2_norm_grad(step.in[0].nth_row(i), step.in[1].nth_row(i), step.out.shape()[0], eps,
                                      step.out.nth_row(i));
}

void run_soft_max_grad(const Step& step, Worker& worker) {
  const Range share = worker.share(step.out.shape().n_rows());
  for (int64_t i = share.begin; i < share.end; ++i)
    worker.kernels.norm->soft_max_grad(step.in[0].nth_row(i), step.in[1].nth_row(i), step.out.shape()[0],
                                       step.out.nth_row(i));
}

}  // namespace

const OpKernel op_kernels::rms_norm_grad{.run = run_rms_norm_grad};
const OpKernel op_kernels::layer_norm_grad{.run = run_layer_norm_grad};
const OpKernel op_kernels::l2_norm_grad{.run = run_l2_norm_grad};
const OpKernel op_kernels::soft_max_grad{.run = run_soft_max_grad};

}  // namespace tessera::cpu
