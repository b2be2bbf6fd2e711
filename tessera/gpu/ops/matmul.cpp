// Products with weights: what they multiply.
#include "tessera/gpu/ops/matmul.h"

#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/graph/ops/experts.h"

namespace tessera::gpu {

namespace {

Product of_rows(const Layout& x, const Layout& y) {
  const int64_t n = x.shape[1];
  return {.n_tokens = n, .n_at_a_time = n, .shares_tokens = true, .x_token = x.nb[1], .y_token = y.nb[1]};
}

Product of_heads(const Layout& x, const Layout& y) {
  const int64_t n = x.shape[2];
  return {.n_matrices = x.shape[1],
          .n_tokens = n,
          .n_at_a_time = n,
          .shares_tokens = true,
          .x_token = x.nb[2],
          .y_token = y.nb[2],
          .x_head = x.nb[1],
          .y_head = y.nb[1]};
}

// The number of rows per expert is not known before the run: the kernel reads it from the routes.
Product of_experts(const ExpertProductParams& params, const Layout& x, const Layout& y) {
  const int64_t n_pairs = y.shape[1];
  const bool reads_tokens = params.input == ExpertInput::tokens;
  return {.n_matrices = params.n_experts,
          .n_tokens = n_pairs,
          .n_at_a_time = div_ceil(n_pairs, params.n_experts),
          .x_token = x.nb[1],
          .y_token = y.nb[1],
          .pairs_per_token = reads_tokens ? n_pairs / std::max<int64_t>(x.shape[1], 1) : 0};
}

}  // namespace

bool supports_product(const Graph& graph, const Node& node) {
  return info(graph[node.sources[0]].spec.dtype).is_format;
}

Product product_of(const Graph& graph, const Node& node) {
  const Layout &x = graph[node.sources[1]].spec.layout, &y = node.spec.layout;
  if (node.op == Op::mul_mat) return of_rows(x, y);
  if (node.op == Op::mul_mat_heads) return of_heads(x, y);
  return of_experts(std::get<ExpertProductParams>(node.params), x, y);
}

const OpKernel op_kernels::mul_mat{.own = OwnKernel::product};
const OpKernel op_kernels::mul_mat_heads{.own = OwnKernel::product};

}  // namespace tessera::gpu
