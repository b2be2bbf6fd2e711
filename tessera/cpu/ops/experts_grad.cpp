// Gradients of a mixture of experts. The rows of pairs are sorted by expert (graph/ops/experts.h).
#include <algorithm>
#include <array>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/cpu/ops/experts_routes.h"

namespace tessera::cpu {

namespace {

// Columns of a piece: a multiple of a cache line, and a constant, so that the compiler vectorizes the loops.
constexpr int64_t kGradColumns = 64;

const float** row_pointers(const Step& step, int64_t n_pairs, int thread) {
  return reinterpret_cast<const float**>(step.work) + 2 * n_pairs * thread;
}

// Scratch memory: for each thread, the addresses of an expert's rows of both operands.
size_t expert_outer_work_bytes(const Kernels&, const Step& step) {
  return 2 * sizeof(float*) * to_size(step.in[1].shape()[1]) * to_size(step.n_threads);
}

// Experts have different numbers of rows, so free threads take columns of x of an expert dynamically.
void run_expert_outer(const Step& step, Worker& worker) {
  const Operand &x = step.in[0], &y = step.in[1];
  const auto& params = std::get<ExpertProductParams>(step.node->params);
  const Routes routes(step.in[2], params.n_experts);
  const int64_t n_x = x.shape()[0], per_expert = div_ceil<int64_t>(n_x, kOuterColumns);
  const int64_t n_used = params.input == ExpertInput::routed ? 1 : routes.n_pairs / std::max<int64_t>(x.shape()[1], 1);
  const float** x_rows = row_pointers(step, routes.n_pairs, worker.thread.index);
  const float** y_rows = x_rows + routes.n_pairs;
  for (int64_t i = worker.thread.next_chunk(); i < params.n_experts * per_expert && !worker.thread.cancelled();
       i = worker.thread.next_chunk()) {
    const int64_t expert = i / per_expert, begin = i % per_expert * kOuterColumns;
    const Range rows = routes.of(expert);
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const int64_t x_row = params.input == ExpertInput::routed ? row : routes.pairs[row] / n_used;
      x_rows[row - rows.begin] = x.row(x_row) + begin;
      y_rows[row - rows.begin] = y.row(row);
    }
    worker.kernels.experts_grad->outer_product({.x_rows = x_rows,
                                                .y_rows = y_rows,
                                                .n_rows = rows.end - rows.begin,
                                                .n_x = static_cast<int>(std::min<int64_t>(kOuterColumns, n_x - begin)),
                                                .n_y = y.shape()[0],
                                                .out = step.out.row(0, expert) + begin,
                                                .out_stride = n_x});
  }
}

void run_expert_totals(const Step& step, Worker& worker) {
  const Routes routes(step.in[1], std::get<ExpertRoutesParams>(step.node->params).n_experts);
  const int64_t n = step.out.shape()[0], per_expert = div_ceil(n, kGradColumns);
  const Range share = worker.share(routes.n_experts * per_expert);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t expert = i / per_expert, begin = i % per_expert * kGradColumns,
                  count = std::min(kGradColumns, n - begin);
    const Range rows = routes.of(expert);
    float* out = step.out.row(expert) + begin;
    std::fill_n(out, count, 0.0f);
    for (int64_t row = rows.begin; row < rows.end; ++row) worker.add(step.in[0].row(row) + begin, count, out);
  }
}

void run_expert_spread(const Step& step, Worker& worker) {
  const Operand &x = step.in[0], &weights = step.in[1];
  const Routes routes(step.in[2], std::get<ExpertRoutesParams>(step.node->params).n_experts);
  const int64_t n_used = routes.n_pairs / std::max<int64_t>(x.shape()[1], 1);
  const Range share = worker.share(routes.n_pairs);
  for (int64_t row = share.begin; row < share.end; ++row) {
    const int64_t token = routes.pairs[row] / n_used, slot = routes.pairs[row] % n_used;
    const float weight = weights.present() ? weights.row(token)[slot] : 1.0f;
    worker.run(Elementwise::scale, {.a = x.row(token), .params = &weight, .n = x.shape()[0], .out = step.out.row(row)});
  }
}

void run_expert_dot(const Step& step, Worker& worker) {
  const Operand &y = step.in[0], &x = step.in[1];
  const Routes routes(step.in[2], std::get<ExpertRoutesParams>(step.node->params).n_experts);
  const int64_t n_used = step.out.shape()[0];
  const Range share = worker.share(routes.n_pairs);
  for (int64_t pair = share.begin; pair < share.end; ++pair)
    step.out.row(0)[pair] =
        worker.kernels.experts_grad->dot(y.row(routes.rows[pair]), x.row(pair / n_used), x.shape()[0]);
}

// w[s] = scale * score[s] / sum. With d = dy * scale / sum, the gradient of score s is
// d[s] - sum over the slots of d * score / sum. A sum below the minimum was replaced by a constant and has no gradient.
void run_expert_weights_grad(const Step& step, Worker& worker) {
  const auto& params = std::get<ExpertWeightsParams>(step.node->params);
  const int64_t n = step.in[0].shape()[0], n_used = step.in[1].shape()[0];
  const Range share = worker.share(step.out.shape()[1]);
  for (int64_t t = share.begin; t < share.end; ++t) {
    const float *scores = step.in[0].row(t), *dy = step.in[2].row(t);
    const auto* ids = step.in[1].row<const int32_t>(t);
    float* out = step.out.row(t);
    float sum = 0, weighted = 0;
    for (int64_t slot = 0; slot < n_used; ++slot) {
      if (ids[slot] < 0 || ids[slot] >= n) return worker.fault.report(step, "expert", ids[slot], n);
      sum += scores[ids[slot]];
      weighted += dy[slot] * scores[ids[slot]];
    }
    const bool divides = params.normalize && sum > kMinExpertWeightSum;
    const float divisor = params.normalize ? std::max(sum, kMinExpertWeightSum) : 1.0f;
    const float shared = divides ? weighted / divisor : 0.0f;
    std::fill_n(out, n, 0.0f);
    for (int64_t slot = 0; slot < n_used; ++slot) out[ids[slot]] += (dy[slot] - shared) / divisor * params.scale;
  }
}

}  // namespace

const OpKernel op_kernels::expert_outer{
    .work_bytes = expert_outer_work_bytes, .run = run_expert_outer, .takes_all_threads = true};
const OpKernel op_kernels::expert_totals{.run = run_expert_totals, .takes_all_threads = true};
const OpKernel op_kernels::expert_spread{.run = run_expert_spread};
const OpKernel op_kernels::expert_dot{.run = run_expert_dot, .takes_all_threads = true};
const OpKernel op_kernels::expert_weights_grad{.run = run_expert_weights_grad};

}  // namespace tessera::cpu
