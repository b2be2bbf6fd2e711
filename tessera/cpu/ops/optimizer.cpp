// Steps of an optimizer, in place on contiguous tensors. Pieces of their elements are distributed over the threads.
#include "tessera/graph/ops/optimizer.h"
#include "tessera/base/index.h"

#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/cpu/step.h"

namespace tessera::cpu {

namespace {

// Calls piece(begin, n) for this thread's part of the elements.
template <class Piece>
void for_part(const Step& step, const Worker& worker, Piece piece) {
  const int64_t n = step.out.shape().n_elements();
  const Range share = worker.share(div_ceil(n, kPieceElements));
  const int64_t begin = share.begin * kPieceElements, end = std::min(share.end * kPieceElements, n);
  if (begin < end) piece(begin, end - begin);
}

float* at(const Operand& x, int64_t i) { return x.row(0) + i; }
float number(const Operand& hyper, Hyper which) { return hyper.row(0)[to_size(which)]; }

void run_accumulate(const Step& step, Worker& worker) {
  for_part(step, worker, [&](int64_t i, int64_t n) { worker.add(at(step.in[1], i), n, at(step.in[0], i)); });
}

void run_momentum(const Step& step, Worker& worker) {
  const float beta = number(step.in[2], Hyper::beta1), scale = number(step.in[2], Hyper::gradient_scale);
  for_part(step, worker, [&](int64_t i, int64_t n) {
    worker.kernels.optimizer->momentum(at(step.in[0], i), at(step.in[1], i), beta, scale, n);
  });
}

void run_adam(const Step& step, Worker& worker) {
  const Operand& hyper = step.in[3];
  const AdamNumbers numbers = {.gradient_scale = number(hyper, Hyper::gradient_scale),
                               .beta1 = number(hyper, Hyper::beta1),
                               .beta2 = number(hyper, Hyper::beta2),
                               .epsilon = number(hyper, Hyper::epsilon),
                               .correction1 = number(hyper, Hyper::correction1),
                               .correction2 = number(hyper, Hyper::correction2)};
  for_part(step, worker, [&](int64_t i, int64_t n) {
    worker.kernels.optimizer->adam(at(step.in[0], i), at(step.in[1], i), at(step.in[2], i), numbers, n,
                                   at(step.out, i));
  });
}

void run_descend(const Step& step, Worker& worker) {
  const Operand &hyper = step.in[2], &rounded = step.in[3];
  const float rate = number(hyper, Hyper::learning_rate);
  const bool decays = std::get<DescendParams>(step.node->params).decays;
  const float decay = decays ? number(hyper, Hyper::weight_decay) : 0.0f;
  for_part(step, worker, [&](int64_t i, int64_t n) {
    worker.kernels.optimizer->descend(at(step.in[0], i), at(step.in[1], i), rate, decay, n);
    if (rounded.present())
      worker.kernels.from_f32[to_size(DType::bf16)](at(step.in[0], i), n, rounded.row<uint16_t>(0) + i);
  });
}

}  // namespace

const OpKernel op_kernels::accumulate{.run = run_accumulate};
const OpKernel op_kernels::momentum{.run = run_momentum};
const OpKernel op_kernels::adam{.run = run_adam};
const OpKernel op_kernels::descend{.run = run_descend};

}  // namespace tessera::cpu
