// The small operations of a mixture of experts: choosing experts, sorting pairs by expert, and adding up the outputs of
// experts. Their products are in experts_matmul.cpp.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/cpu/ops/experts_routes.h"

namespace tessera::cpu {

namespace {

// NaN is lower than any number.
bool is_higher(float a, float b) { return !std::isnan(a) && (std::isnan(b) || a > b); }

void run_top_k(const Step& step, Worker& worker) {
  const int64_t k = step.out.shape()[0];
  const auto divisor = static_cast<int32_t>(std::get<TopKParams>(step.node->params).divisor);
  const Range share = worker.share(step.out.shape()[1]);
  for (int64_t t = share.begin; t < share.end; ++t) {
    auto* ids = step.out.row<int32_t>(t);
    top_k_of_row(step.in[0].row(t), step.in[0].shape()[0], k, ids);
    for (int64_t i = 0; i < k && divisor != 1; ++i) ids[i] /= divisor;
  }
}

// Returns the sum of the two highest scores of a group, or the score if there is only one.
float best_two(const float* scores, int64_t n) {
  float first = -std::numeric_limits<float>::infinity(), second = first;
  for (int64_t i = 0; i < n; ++i) {
    if (is_higher(scores[i], first)) {
      second = first;
      first = scores[i];
    } else if (is_higher(scores[i], second)) {
      second = scores[i];
    }
  }
  return n == 1 ? first : first + second;
}

void run_top_groups(const Step& step, Worker& worker) {
  const auto& params = std::get<TopGroupsParams>(step.node->params);
  const int64_t n = step.out.shape()[0], size = n / params.n_groups;
  std::array<float, kMaxExpertGroups> sums;
  std::array<int32_t, kMaxExpertGroups> ids;
  const auto chosen = std::span(ids).first(to_size(params.n_used));
  const Range share = worker.share(step.out.shape()[1]);
  for (int64_t t = share.begin; t < share.end; ++t) {
    const float* scores = step.in[0].row(t);
    float* out = step.out.row(t);
    for (int64_t g = 0; g < params.n_groups; ++g) sums[to_size(g)] = best_two(scores + g * size, size);
    top_k_of_row(sums.data(), params.n_groups, params.n_used, ids.data());
    for (int64_t g = 0; g < params.n_groups; ++g) {
      if (std::ranges::find(chosen, static_cast<int32_t>(g)) == chosen.end())
        std::fill_n(out + g * size, size, -std::numeric_limits<float>::infinity());
      else if (out != scores)
        std::copy_n(scores + g * size, size, out + g * size);
    }
  }
}

void run_expert_weights(const Step& step, Worker& worker) {
  const auto& params = std::get<ExpertWeightsParams>(step.node->params);
  const int64_t n = step.in[0].shape()[0], n_used = step.out.shape()[0];
  const Range share = worker.share(step.out.shape()[1]);
  for (int64_t t = share.begin; t < share.end; ++t) {
    const float* scores = step.in[0].row(t);
    const auto* ids = step.in[1].row<const int32_t>(t);
    float* weights = step.out.row(t);
    float sum = 0;
    for (int64_t slot = 0; slot < n_used; ++slot) {
      const bool exists = ids[slot] >= 0 && ids[slot] < n;
      if (!exists) worker.fault.report(step, "expert", ids[slot], n);
      weights[slot] = exists ? scores[ids[slot]] : 0.0f;
      sum += weights[slot];
    }
    const float divisor = params.normalize ? std::max(sum, kMinExpertWeightSum) : 1.0f;
    for (int64_t slot = 0; slot < n_used; ++slot) weights[slot] = weights[slot] / divisor * params.scale;
  }
}

// A counting sort on one thread: a few microseconds for the largest micro-batch.
void run_expert_routes(const Step& step, Worker& worker) {
  if (worker.thread.index != 0) return;
  const Routes routes(step.out, std::get<ExpertRoutesParams>(step.node->params).n_experts);
  const auto* ids = step.in[0].row<const int32_t>(0);
  const auto expert_of = [&](int64_t pair) -> int64_t {
    if (ids[pair] >= 0 && ids[pair] < routes.n_experts) return ids[pair];
    worker.fault.report(step, "expert", ids[pair], routes.n_experts);
    return 0;  // the run fails, but the routes stay valid for later steps
  };
  std::fill_n(routes.begins, routes.n_experts + 1, 0);
  for (int64_t pair = 0; pair < routes.n_pairs; ++pair) ++routes.begins[expert_of(pair)];
  int32_t end = 0;
  for (int64_t e = 0; e <= routes.n_experts; ++e) routes.begins[e] = end += routes.begins[e];
  // Filling backwards from each expert's end turns the ends into begins.
  for (int64_t pair = routes.n_pairs; pair-- > 0;) {
    const int32_t row = --routes.begins[expert_of(pair)];
    routes.pairs[row] = static_cast<int32_t>(pair);
    routes.rows[pair] = row;
  }
}

void run_expert_rows(const Step& step, Worker& worker) {
  const Routes routes(step.in[1], step.in[0].shape()[1]);
  const auto n_bytes = to_size(step.out.shape()[0]) * sizeof(float);
  const Range share = worker.share(routes.n_pairs);
  int64_t expert = 0;
  for (int64_t row = share.begin; row < share.end; ++row) {
    while (routes.of(expert).end <= row) ++expert;
    if (n_bytes > 0) std::memcpy(step.out.row(row), step.in[0].row(expert), n_bytes);
  }
}

// Columns of a piece: a multiple of a cache line, and a constant, so that the compiler vectorizes the loops.
constexpr int64_t kExpertColumns = 64;

void run_expert_sum(const Step& step, Worker& worker) {
  const Operand &y = step.in[0], &weights = step.in[1];
  const Routes routes(step.in[2], std::get<ExpertRoutesParams>(step.node->params).n_experts);
  const int64_t n = step.out.shape()[0], n_used = routes.n_pairs / std::max<int64_t>(step.out.shape()[1], 1);
  const int64_t per_token = div_ceil(n, kExpertColumns);
  const Range share = worker.share(step.out.shape()[1] * per_token);
  for (int64_t i = share.begin; i < share.end; ++i) {
    const int64_t token = i / per_token, begin = i % per_token * kExpertColumns,
                  count = std::min(kExpertColumns, n - begin);
    std::array<float, kExpertColumns> sums{};
    for (int64_t slot = 0; slot < n_used; ++slot) {
      const float weight = weights.present() ? weights.row(token)[slot] : 1.0f;
      const float* values = y.row(routes.rows[token * n_used + slot]) + begin;
      if (count == kExpertColumns) {
        for (size_t c = 0; c < kExpertColumns; ++c) sums[c] += weight * values[c];
      } else {
        for (int64_t c = 0; c < count; ++c) sums[to_size(c)] += weight * values[c];
      }
    }
    std::copy_n(sums.begin(), count, step.out.row(token) + begin);
  }
}

}  // namespace

// Ids are visited in ascending order, so an equal score is inserted after earlier ones.
void top_k_of_row(const float* scores, int64_t n, int64_t k, int32_t* ids) {
  for (int64_t id = 0; id < n; ++id) {
    int64_t place = std::min(id, k);
    if (place == k && !is_higher(scores[id], scores[ids[k - 1]])) continue;
    place = std::min(place, k - 1);
    for (; place > 0 && is_higher(scores[id], scores[ids[place - 1]]); --place) ids[place] = ids[place - 1];
    ids[place] = static_cast<int32_t>(id);
  }
}

const OpKernel op_kernels::top_groups{.run = run_top_groups};
const OpKernel op_kernels::top_k{.run = run_top_k};
const OpKernel op_kernels::expert_weights{.run = run_expert_weights};
const OpKernel op_kernels::expert_routes{.run = run_expert_routes};
const OpKernel op_kernels::expert_rows{.run = run_expert_rows};
const OpKernel op_kernels::expert_sum{.run = run_expert_sum};

}  // namespace tessera::cpu
