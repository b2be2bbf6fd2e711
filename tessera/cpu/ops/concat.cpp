// concat: rows of two operands, one behind the other.
#include <algorithm>

#include "tessera/cpu/step.h"

namespace tessera::cpu {

namespace {

void run_concat(const Step& step, Worker& worker) {
  const Operand &a = step.in[0], &b = step.in[1];
  const Range share = worker.share(step.out.shape().n_rows());
  for (int64_t i = share.begin; i < share.end; ++i) {
    float* end = std::copy_n(a.nth_row(i), a.shape()[0], step.out.nth_row(i));
    std::copy_n(b.nth_row(i), b.shape()[0], end);
  }
}

}  // namespace

extern const OpKernel kConcat;
const OpKernel kConcat{.supports = nullptr, .work_bytes = nullptr, .run = run_concat};

}  // namespace tessera::cpu
