// cross_entropy and its gradient. Each row of logits is computed by one thread.
#include <algorithm>
#include <cmath>

#include "tessera/cpu/step.h"

namespace tessera::cpu {

namespace {

// A target of -1 is ignored. Any other target out of range fails the run.
bool is_target(const Step& step, Worker& worker, int64_t target) {
  const int64_t n = step.in[0].shape()[0];
  if (target >= 0 && target < n) return true;
  if (target != -1) worker.fault.report(step, "target", target, n);
  return false;
}

void run_cross_entropy(const Step& step, Worker& worker) {
  const Operand& logits = step.in[0];
  const auto* targets = step.in[1].row<const int32_t>(0);
  const Range share = worker.share(logits.shape()[1]);
  for (int64_t i = share.begin; i < share.end; ++i) {
    float& loss = *step.out.row(i);
    loss = 0.0f;
    if (!is_target(step, worker, targets[i])) continue;
    const float* x = logits.row(i);
    const ExpSums sums = worker.kernels.loss->exp_sums(x, logits.shape()[0], targets[i]);
    // log1p of the sum's excess over 1 keeps the precision of the loss of a nearly certain target.
    const double beyond_one = sums.others + (static_cast<double>(sums.target) - 1.0);
    loss = static_cast<float>(std::log1p(beyond_one) + (static_cast<double>(sums.largest) - x[targets[i]]));
  }
}

// At the target, softmax - 1 is computed as the negated share of all other tokens.
void run_cross_entropy_grad(const Step& step, Worker& worker) {
  const Operand& logits = step.in[0];
  const auto* targets = step.in[1].row<const int32_t>(0);
  const int64_t n = logits.shape()[0];
  const Range share = worker.share(logits.shape()[1]);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const float* x = logits.row(i);
    const float d_loss = *step.in[2].row(i);
    float* out = step.out.row(i);
    if (!is_target(step, worker, targets[i])) {
      std::fill_n(out, n, 0.0f);
      continue;
    }
    const ExpSums sums = worker.kernels.loss->exp_sums(x, n, targets[i]);
    const double factor = static_cast<double>(d_loss) / (sums.others + static_cast<double>(sums.target));
    worker.kernels.loss->scaled_exp(x, sums.largest, static_cast<float>(factor), n, out);
    out[targets[i]] = static_cast<float>(-factor * sums.others);
  }
}

}  // namespace

const OpKernel op_kernels::cross_entropy{.run = run_cross_entropy, .takes_all_threads = true};
const OpKernel op_kernels::cross_entropy_grad{.run = run_cross_entropy_grad};

}  // namespace tessera::cpu
