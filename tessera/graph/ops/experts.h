// Mixture of experts. The router chooses n_used experts per token, one for each slot. A pair is a token and one of its
// slots, with number token * n_used + slot. Rows of pairs are in routed order: sorted by expert, and within an expert
// by pair. The product of each expert is therefore one plain matrix product on adjacent rows.
//
// Routes are one i32 vector of n_experts + 1 + 2 * n_pairs:
//   n_experts + 1: rows [begin[e], begin[e + 1]) belong to expert e
//   n_pairs:       the pair of each row
//   n_pairs:       the row of each pair
#pragma once

#include <cstdint>

#include "tessera/graph/params.h"
#include "tessera/graph/value.h"

namespace tessera {

class Graph;
struct Node;

struct TopKParams {
  int64_t k = 0;
  int64_t divisor = 1;  // ids are divided by it, rounding down: experts that share something have the same number
  void list(ParamList& params) const {
    params.integer("k", k);
    // Plugins that do not know it get it only where it has an effect.
    if (divisor != 1) params.integer("divisor", divisor);
  }
};

inline constexpr int64_t kMaxExpertGroups = 512;

struct TopGroupsParams {
  int64_t n_groups = 0;  // at most kMaxExpertGroups, of consecutive experts
  int64_t n_used = 0;    // number of groups that are kept
  void list(ParamList& params) const {
    params.integer("n_groups", n_groups);
    params.integer("n_used", n_used);
  }
};

struct ExpertWeightsParams {
  bool normalize = false;  // divide by the sum of a token's weights, but at least by kMinExpertWeightSum
  float scale = 1.0f;      // factor applied after that
  void list(ParamList& params) const {
    params.integer("normalize", normalize);
    params.number("scale", scale);
  }
};

/// The smallest normal f16. llama.cpp uses it as the smallest divisor.
inline constexpr float kMinExpertWeightSum = 6.103515625e-5f;

/// Parameters of expert_routes and of operations that read routes.
struct ExpertRoutesParams {
  int64_t n_experts = 0;
  int64_t n_tokens = 0;  // of an expert_sum without weights
  void list(ParamList& params) const {
    params.integer("n_experts", n_experts);
    params.integer("n_tokens", n_tokens);
  }
};

/// The row of x for a pair: that of its token, or that of its own position in the routed order.
enum class ExpertInput : uint8_t { tokens, routed };

struct ExpertProductParams {
  int64_t n_experts = 0;
  ExpertInput input = ExpertInput::tokens;
  void list(ParamList& params) const {
    params.integer("n_experts", n_experts);
    params.integer("routed", input == ExpertInput::routed);
  }
};

/// The assignment of rows to experts. Only expert_routes() creates it, so that its readers may trust it.
class ExpertRoutes {
 public:
  ExpertRoutes() = default;
  Value value() const { return value_; }
  int64_t n_experts() const { return n_experts_; }
  int64_t n_tokens() const { return n_tokens_; }

 private:
  friend class ExpertOps;
  friend class Gradient;
  ExpertRoutes(Value value, int64_t n_experts, int64_t n_tokens)
      : value_(value), n_experts_(n_experts), n_tokens_(n_tokens) {}
  Value value_;
  int64_t n_experts_ = 0;
  int64_t n_tokens_ = 0;
};

/// The part of GraphBuilder that adds mixtures of experts.
class ExpertOps {
 public:
  /// The ids of the k largest elements of each row of scores [n, t], largest first: i32 [k, t]. Among equals the lower
  /// id comes first. NaN counts as lower than any number. The ids are divided by `divisor`, rounding down.
  Value top_k(Value scores, int64_t k, int64_t divisor = 1);
  /// Scores [n, t] in which all but params.n_used groups are set to -inf. The groups with the highest sum of their two
  /// best scores are kept (DeepSeek-V3 2024). Among equals the lower group is kept.
  Value top_groups(Value scores, const TopGroupsParams& params);
  /// scores[id] for the ids [k, t] of each row of scores [n, t], normalized and scaled by params.
  Value expert_weights(Value scores, Value ids, const ExpertWeightsParams& params);
  /// Sorts the pairs of ids [n_used, t] (token and slot) by expert. An id outside [0, n_experts) fails the run.
  ExpertRoutes expert_routes(Value ids, int64_t n_experts);
  /// Each pair's row of x times its expert's matrix in weights [k, n, n_experts]: [n, n_pairs], in routed order. x is
  /// [k, t] with one row per token, or [k, n_pairs] in routed order.
  Value mul_mat_experts(Value weights, Value x, ExpertRoutes routes, ExpertInput input);
  /// Row e of rows [n, n_experts] for each pair of expert e: [n, n_pairs], in routed order.
  Value expert_rows(Value rows, ExpertRoutes routes);
  /// Sum over a token's slots, in their order, of its pairs' rows of y [n, n_pairs] times weights [n_used, t] (absent:
  /// 1): [n, t].
  Value expert_sum(Value y, Value weights, ExpertRoutes routes);
  /// Sum over an expert's pairs of (row of x) (row of y)^T: [k, n, n_experts]. x is as in mul_mat_experts, and y [n,
  /// n_pairs].
  Value expert_outer(Value x, Value y, ExpertRoutes routes, ExpertInput input);
  /// Sum over an expert's pairs of their rows of y [n, n_pairs]: [n, n_experts].
  Value expert_totals(Value y, ExpertRoutes routes);
  /// Each pair's weight in weights [n_used, t] (absent: 1) times its token's row of x [n, t]: [n, n_pairs].
  Value expert_spread(Value x, Value weights, ExpertRoutes routes);
  /// The dot product of each pair's row of y [n, n_pairs] and its token's row of x [n, t]: [n_used, t].
  Value expert_dot(Value y, Value x, ExpertRoutes routes);
  /// The gradient of expert_weights with respect to scores, for dy [k, t].
  Value expert_weights_grad(Value scores, Value ids, Value dy, const ExpertWeightsParams& params);
};

/// Bytes of the weights that a mul_mat_experts reads: those of at most as many experts as it has rows.
int64_t used_expert_bytes(const Graph& graph, const Node& node);

}  // namespace tessera
