// Mixture of experts. A pair is a token and one of the n_used slots for which the router chose an expert: pair
// token * n_used + slot. Rows of pairs lie in routed order, sorted by expert and within an expert by pair, so that each
// expert's product is one plain matrix product on neighbouring rows.
//
// Routes are one i32 vector of n_experts + 1 + 2 * n_pairs:
//   n_experts + 1: rows [begin[e], begin[e + 1]) are expert e's
//   n_pairs:       the pair of each row
//   n_pairs:       the row of each pair
#pragma once

#include <cstdint>

namespace tessera {

struct TopKParams {
  int64_t k = 0;
};

inline constexpr int64_t kMaxExpertGroups = 512;

struct TopGroupsParams {
  int64_t n_groups = 0;  // to kMaxExpertGroups, of neighbouring experts
  int64_t n_used = 0;    // groups that are kept
};

struct ExpertWeightsParams {
  bool normalize = false;  // divide by the sum of a token's weights, or by kMinExpertWeightSum where that is larger
  float scale = 1.0f;      // then multiply
};

/// The smallest normal f16: what the reference divides by at the least.
inline constexpr float kMinExpertWeightSum = 6.103515625e-5f;

/// Of expert_routes and all that read routes.
struct ExpertRoutesParams {
  int64_t n_experts = 0;
  int64_t n_tokens = 0;  // of an expert_sum without weights
};

/// Which row of x a pair reads: its token's, or the one in its own place of the routed order.
enum class ExpertInput : uint8_t { tokens, routed };

struct ExpertProductParams {
  int64_t n_experts = 0;
  ExpertInput input = ExpertInput::tokens;
};

}  // namespace tessera
