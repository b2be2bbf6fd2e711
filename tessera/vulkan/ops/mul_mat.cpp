// Products with weights. One shader serves any number of tokens, so that a token's bits do not depend on how many there
// are beside it; it is specialized for how many it takes at a time.
#include <algorithm>

#include "tessera/vulkan/ops/dispatch.h"

namespace tessera::vulkan {

namespace {

constexpr int64_t kRows = 4;  // of a workgroup, as in mul_mat.comp
constexpr int64_t kMaxTokens = 8;

bool supports_product(const Graph& graph, const Node& node) { return has_decoder(graph[node.sources[0]].spec.dtype); }

// The smallest power of two that holds n tokens, or the most that a workgroup takes.
uint32_t tokens_at_a_time(int64_t n) {
  uint32_t tokens = 1;
  while (tokens < n && tokens < kMaxTokens) tokens *= 2;
  return tokens;
}

struct Product {
  int64_t n_matrices = 1;
  int64_t n_tokens = 0;
  int64_t n_at_a_time = 0;                                   // tokens of one matrix that are to be expected together
  int64_t n_shares = 1;                                      // workgroups that share out a matrix's tokens
  int64_t x_token = 0, y_token = 0, x_head = 0, y_head = 0;  // bytes
  int64_t pairs_per_token = 0;
};

Result<> prepare_product(const StepContext& context, const Product& product, Step& step) {
  const int64_t row_groups = div_ceil(context.spec(0).shape()[1], kRows);
  step.shader = Shader::mul_mat;
  step.variant = tokens_at_a_time(product.n_at_a_time);
  step.format = context.spec(0).dtype;
  const int64_t values[] = {row_groups,       product.n_shares, product.n_matrices,
                            product.n_tokens, product.x_token,  product.y_token,
                            product.x_head,   product.y_head,   product.pairs_per_token};
  for (size_t i = 0; i < std::size(values); ++i) step.params.u[i] = count(values[i]);
  return set_groups(step, row_groups * product.n_shares * product.n_matrices);
}

Result<> prepare_mul_mat(const StepContext& context, Step& step) {
  const Layout& x = context.spec(1).layout;
  const int64_t n = x.shape[1];
  return prepare_product(context,
                         {.n_tokens = n,
                          .n_at_a_time = n,
                          .n_shares = div_ceil<int64_t>(n, tokens_at_a_time(n)),
                          .x_token = x.nb[1],
                          .y_token = context.node.spec.layout.nb[1]},
                         step);
}

Result<> prepare_mul_mat_heads(const StepContext& context, Step& step) {
  const Layout &x = context.spec(1).layout, &y = context.node.spec.layout;
  const int64_t n = x.shape[2];
  return prepare_product(context,
                         {.n_matrices = x.shape[1],
                          .n_tokens = n,
                          .n_at_a_time = n,
                          .n_shares = div_ceil<int64_t>(n, tokens_at_a_time(n)),
                          .x_token = x.nb[2],
                          .y_token = y.nb[2],
                          .x_head = x.nb[1],
                          .y_head = y.nb[1]},
                         step);
}

// How many rows an expert gets, only the routes know.
Result<> prepare_mul_mat_experts(const StepContext& context, Step& step) {
  const auto& params = std::get<ExpertProductParams>(context.node.params);
  const Layout &x = context.spec(1).layout, &y = context.node.spec.layout;
  const int64_t n_pairs = y.shape[1];
  const bool reads_tokens = params.input == ExpertInput::tokens;
  if (n_pairs == 0) return {};
  return prepare_product(context,
                         {.n_matrices = params.n_experts,
                          .n_tokens = n_pairs,
                          .n_at_a_time = div_ceil(n_pairs, params.n_experts),
                          .x_token = x.nb[1],
                          .y_token = y.nb[1],
                          .pairs_per_token = reads_tokens ? n_pairs / std::max<int64_t>(x.shape[1], 1) : 0},
                         step);
}

}  // namespace

extern const OpKernel kMulMat, kMulMatHeads, kMulMatExperts;
const OpKernel kMulMat{.supports = supports_product, .prepare = prepare_mul_mat};
const OpKernel kMulMatHeads{.supports = supports_product, .prepare = prepare_mul_mat_heads};
const OpKernel kMulMatExperts{.supports = supports_product, .prepare = prepare_mul_mat_experts};

}  // namespace tessera::vulkan
