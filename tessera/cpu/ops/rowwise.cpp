// rms_norm, layer_norm, soft_max: a row is one thread's, so that its sums run in one order.
#include "tessera/cpu/step.h"

namespace tessera::cpu {

namespace {

void run_rms_norm(const Step& step, Worker& worker) {
  const float eps = std::get<RmsNormParams>(step.node->params).eps;
  const float* weight = step.in[1].present() ? step.in[1].row(0) : nullptr;
  const Range share = worker.share(step.out.shape().n_rows());
  for (int64_t i = share.begin; i < share.end; ++i)
    worker.kernels.rms_norm(step.in[0].nth_row(i), weight, step.out.shape()[0], eps, step.out.nth_row(i));
}

void run_layer_norm(const Step& step, Worker& worker) {
  const float eps = std::get<LayerNormParams>(step.node->params).eps;
  const float* weight = step.in[1].present() ? step.in[1].row(0) : nullptr;
  const float* bias = step.in[2].present() ? step.in[2].row(0) : nullptr;
  const Range share = worker.share(step.out.shape().n_rows());
  for (int64_t i = share.begin; i < share.end; ++i)
    worker.kernels.layer_norm(step.in[0].nth_row(i), weight, bias, step.out.shape()[0], eps, step.out.nth_row(i));
}

void run_soft_max(const Step& step, Worker& worker) {
  const Range share = worker.share(step.out.shape().n_rows());
  for (int64_t i = share.begin; i < share.end; ++i)
    worker.kernels.softmax(step.in[0].nth_row(i), step.out.shape()[0], step.out.nth_row(i));
}

}  // namespace

extern const OpKernel kRmsNorm, kLayerNorm, kSoftMax;
const OpKernel kRmsNorm{.supports = nullptr, .work_bytes = nullptr, .run = run_rms_norm};
const OpKernel kLayerNorm{.supports = nullptr, .work_bytes = nullptr, .run = run_layer_norm};
const OpKernel kSoftMax{.supports = nullptr, .work_bytes = nullptr, .run = run_soft_max};

}  // namespace tessera::cpu
