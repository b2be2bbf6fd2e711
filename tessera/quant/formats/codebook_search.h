// The search of the codebook formats. It tries every point of the grid for every group, with the values that decoding
// gives. For a group, the error of point v at scale s is sum w x^2 - 2 s A(v) + s^2 B(v) with A = sum w x v and
// B = sum w v^2. So a scale costs two operations per point once A and B are known, with a register of points at a time.
// First, each scale block gets its own best scale. Then d and the multipliers are chosen together, and codes are
// searched again at the scales that are stored.
//
// x and w are first multiplied by powers of two, so that no sum overflows.
//
// In addition to the list in codebook.h, a format has kLargest (grid value plus shift) and the range of first tries:
// kFirstTries scales from kLowTry to kHighTry times (largest magnitude / kLargest).
#pragma once

#include "tessera/quant/formats/codebook.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

// One register of values. Points are independent of one another, so results do not depend on the width.
#if defined(__AVX512F__)
inline constexpr int kPointLanes = 16;
#elif defined(__AVX2__)
inline constexpr int kPointLanes = 8;
#else
inline constexpr int kPointLanes = 4;
#endif
using Values [[gnu::vector_size(4 * kPointLanes)]] = float;
using Indices [[gnu::vector_size(4 * kPointLanes)]] = int32_t;

/// The smallest lane, of 32-bit floats (no NaN) or integers.
template <class Element, class Vector>
[[gnu::always_inline]] inline Element least_lane(Vector v) {
  using Quarter [[gnu::vector_size(16)]] = Element;
  constexpr int kParts = kPointLanes / 4;
  Quarter parts[kParts];
  memcpy(parts, &v, sizeof v);
  for (int stride = kParts / 2; stride > 0; stride /= 2)
    for (int i = 0; i < stride; ++i) parts[i] = parts[i] < parts[i + stride] ? parts[i] : parts[i + stride];
  const Element a = parts[0][0] < parts[0][1] ? parts[0][0] : parts[0][1];
  const Element b = parts[0][2] < parts[0][3] ? parts[0][2] : parts[0][3];
  return a < b ? a : b;
}

template <class F>
struct Search {
  static constexpr int kBlocks = kSuperBlock / F::kScaleBlock;
  static constexpr int kGroups = F::kScaleBlock / F::kDim;  // of a scale block
  static constexpr int kChunks = F::kPoints / kPointLanes;
  static constexpr bool kHasDeltas = F::kDeltaGroups != 0;
  static constexpr int kDeltas = kHasDeltas ? 2 : 1;                   // up, down
  static constexpr int kSet = kHasDeltas ? F::kDeltaGroups : kGroups;  // groups that share a shift
  static constexpr int kTries = 4;                                     // scales that are evaluated together

  /// A and B of every point for the groups of one scale block.
  struct Projections {
    Values twice_a[kGroups][kChunks];     // without the part of the shift
    float twice_shift[kGroups][kDeltas];  // the part of the shift, the same for all points
    Values b[kGroups][kDeltas][kChunks];
  };

  struct Picked {
    uint16_t points[kGroups];
    uint8_t is_down[kGroups];
    float a, b;  // sums over the groups
  };

  struct Candidate {
    Encoding encoding;
    float error = 0.0f;   // minus the error of zeros
    float best_d = 0.0f;  // the d with the least error for these codes
  };

  float x[kSuperBlock], w[kSuperBlock];
  int exponent;  // x is in units of 2^exponent
  uint8_t signs[kSuperBlock / 8] = {};
  Projections projections[kBlocks];
  float scales[kBlocks];  // the best one of each scale block, in units of its grid

  static Encoding encode(const float* x, const float* weights) {
    Search search;
    return search.prepare(x, weights) ? search.run() : Encoding{};
  }

  /// Returns false if the block is encoded as zeros, because it is too small for an f16 scale.
  bool prepare(const float* from, const float* weights) {
    float largest = 0.0f, heaviest = weights == nullptr ? 1.0f : 0.0f;
    for (int i = 0; i < kSuperBlock; ++i) {
      x[i] = is_finite(from[i]) ? from[i] : 0.0f;
      largest = larger(largest, absolute(x[i]));
      if (weights != nullptr) heaviest = larger(heaviest, weights[i]);
    }
    if (!(largest >= 0x1p-40f)) return false;
    exponent = exponent_of(largest) - 1;
    const float scale = power_of_two(-exponent);
    const int weight_exponent = heaviest >= 0x1p-120f ? exponent_of(heaviest) : -120;
    const float weight_scale = power_of_two(weight_exponent == 127 ? -126 : -weight_exponent);
    for (int i = 0; i < kSuperBlock; ++i) {
      x[i] *= scale;
      w[i] = weights == nullptr ? 1.0f : weights[i] * weight_scale;
    }
    if constexpr (F::kSigns != Signs::none) split_signs();
    return true;
  }

  /// Replaces x by its magnitudes. If the number of signs must be even but is odd, the least important element keeps a
  /// negative magnitude, and its sign is stored flipped.
  void split_signs() {
    for (int g = 0; g < kSuperBlock / 8; ++g) {
      float* values = x + 8 * g;
      uint32_t negative = 0;
      int least = 0;
      float least_energy = __builtin_inff();
      for (int i = 0; i < 8; ++i) {
        const float energy = w[8 * g + i] * values[i] * values[i];
        if (energy < least_energy) least_energy = energy, least = i;
        if (values[i] < 0.0f) negative |= 1u << i;
        values[i] = absolute(values[i]);
      }
      if (F::kSigns == Signs::even && __builtin_parity(negative) != 0) {
        negative ^= 1u << least;
        values[least] = -values[least];
      }
      signs[g] = static_cast<uint8_t>(negative);
    }
  }

  void project(int block) {
    Projections& p = projections[block];
    const float* xs = x + block * F::kScaleBlock;
    const float* ws = w + block * F::kScaleBlock;
    float weight[kGroups] = {};
    for (int g = 0; g < kGroups; ++g) {
      p.twice_shift[g][0] = 0.0f;
      if constexpr (!kHasDeltas) continue;
      float sum = 0.0f;
      for (int k = 0; k < F::kDim; ++k) {
        weight[g] += ws[g * F::kDim + k];
        sum += ws[g * F::kDim + k] * xs[g * F::kDim + k];
      }
      p.twice_shift[g][0] = 2.0f * kDelta * sum;
      p.twice_shift[g][kDeltas - 1] = -2.0f * kDelta * sum;
    }
    for (int c = 0; c < kChunks; ++c) {
      Values v[F::kDim];
      for (int k = 0; k < F::kDim; ++k) memcpy(&v[k], F::grid().value[k] + c * kPointLanes, sizeof v[k]);
      for (int g = 0; g < kGroups; ++g) {
        Values a = {}, b = {}, sum = {};
        for (int k = 0; k < F::kDim; ++k) {
          const float weight_k = ws[g * F::kDim + k];
          const Values weighted = weight_k * v[k];
          a += 2.0f * xs[g * F::kDim + k] * weighted;
          b += weighted * v[k];
          if constexpr (kHasDeltas) sum += weighted;
        }
        p.twice_a[g][c] = a;
        if constexpr (kHasDeltas) {
          const float constant = kDelta * kDelta * weight[g];
          p.b[g][0][c] = b + 2.0f * kDelta * sum + constant;
          p.b[g][1][c] = b - 2.0f * kDelta * sum + constant;
        } else {
          p.b[g][0][c] = b;
        }
      }
    }
  }

  /// Adds to costs[t] the minimum of s B - 2 A over the points of a group, for s = tries[t].
  static void add_least(const Projections& p, int g, int delta, const float (&tries)[kTries], float (&costs)[kTries]) {
    Values least[kTries];
    for (int t = 0; t < kTries; ++t) least[t] = tries[t] * p.b[g][delta][0] - p.twice_a[g][0];
    for (int c = 1; c < kChunks; ++c)
      for (int t = 0; t < kTries; ++t) {
        const Values costs = tries[t] * p.b[g][delta][c] - p.twice_a[g][c];
        least[t] = costs < least[t] ? costs : least[t];
      }
    for (int t = 0; t < kTries; ++t) costs[t] += least_lane<float>(least[t]) - p.twice_shift[g][delta];
  }

  /// Returns the try with the least error of a scale block. *error is that error minus the error of zeros.
  static int best_try(const Projections& p, const float (&tries)[kTries], float* error) {
    float costs[kTries] = {};
    for (int first = 0; first < kGroups; first += kSet) {
      float of_delta[kDeltas][kTries] = {};
      for (int delta = 0; delta < kDeltas; ++delta)
        for (int g = first; g < first + kSet; ++g) add_least(p, g, delta, tries, of_delta[delta]);
      for (int t = 0; t < kTries; ++t) {
        float least = of_delta[0][t];
        if (kDeltas == 2 && of_delta[kDeltas - 1][t] < least) least = of_delta[kDeltas - 1][t];
        costs[t] += least;
      }
    }
    int best = 0;
    for (int t = 0; t < kTries; ++t) {
      costs[t] *= tries[t];
      if (costs[t] < costs[best]) best = t;
    }
    *error = costs[best];
    return best;
  }

  /// Returns the point of least cost, the first one on ties, and sets its cost.
  static int best_point(const Projections& p, int g, int delta, float scale, float* cost) {
    constexpr int kChains = 4;  // independent chains of comparisons
    Values least[kChains];
    Indices chunk[kChains];
    for (int u = 0; u < kChains; ++u) {
      least[u] = scale * p.b[g][delta][u] - p.twice_a[g][u];
      chunk[u] = u - Indices{};
    }
    Indices current[kChains];
    memcpy(current, chunk, sizeof current);
    for (int c = kChains; c < kChunks; c += kChains) {
      for (int u = 0; u < kChains; ++u) {
        current[u] += kChains;
        const Values costs = scale * p.b[g][delta][c + u] - p.twice_a[g][c + u];
        chunk[u] = costs < least[u] ? current[u] : chunk[u];
        least[u] = costs < least[u] ? costs : least[u];
      }
    }
    Values of_lane = least[0];
    for (int u = 1; u < kChains; ++u) of_lane = least[u] < of_lane ? least[u] : of_lane;
    const float smallest = least_lane<float>(of_lane);
    *cost = smallest - p.twice_shift[g][delta];

    Indices lane;
    for (int l = 0; l < kPointLanes; ++l) lane[l] = l;
    Indices first = F::kPoints - Indices{};
    for (int u = 0; u < kChains; ++u) {
      const Indices point = chunk[u] * kPointLanes + lane;
      first = (least[u] == smallest - Values{}) & (point < first) ? point : first;
    }
    return least_lane<int32_t>(first);
  }

  static Picked pick(const Projections& p, float scale) {
    Picked picked;
    picked.a = picked.b = 0.0f;
    for (int first = 0; first < kGroups; first += kSet) {
      int points[kDeltas][kSet];
      float costs[kDeltas] = {};
      for (int delta = 0; delta < kDeltas; ++delta) {
        for (int g = 0; g < kSet; ++g) {
          float cost;
          points[delta][g] = best_point(p, first + g, delta, scale, &cost);
          costs[delta] += cost;
        }
      }
      const int delta = costs[kDeltas - 1] < costs[0] ? kDeltas - 1 : 0;
      for (int g = 0; g < kSet; ++g) {
        const int point = points[delta][g], c = point / kPointLanes, l = point % kPointLanes;
        picked.points[first + g] = static_cast<uint16_t>(point);
        picked.is_down[first + g] = static_cast<uint8_t>(delta);
        picked.a += 0.5f * (p.twice_a[first + g][c][l] + p.twice_shift[first + g][delta]);
        picked.b += p.b[first + g][delta][c][l];
      }
    }
    return picked;
  }

  /// The best scale of a scale block by itself: the best of the first tries, then two refits to the chosen points.
  float best_scale(int block) const {
    float largest = 0.0f;
    for (int i = 0; i < F::kScaleBlock; ++i) largest = larger(largest, absolute(x[block * F::kScaleBlock + i]));
    if (largest == 0.0f) return 0.0f;
    float scale = 0.0f, least = 0.0f;
    for (int at = 0; at < F::kFirstTries; at += kTries) {
      float tries[kTries], error;
      for (int t = 0; t < kTries; ++t) {
        const float share = static_cast<float>(at + t) / static_cast<float>(F::kFirstTries - 1);
        tries[t] = largest / F::kLargest * (F::kLowTry + share * (F::kHighTry - F::kLowTry));
      }
      const int best = best_try(projections[block], tries, &error);
      if (error < least) least = error, scale = tries[best];
    }
    if (scale == 0.0f) return 0.0f;
    for (int i = 0; i < 2; ++i) {
      const Picked picked = pick(projections[block], scale);
      if (!(picked.a > 0.0f && picked.b > 0.0f)) break;
      scale = picked.a / picked.b;
    }
    return scale;
  }

  /// The f16 nearest to d (in units of 2^exponent), at least the smallest one above zero.
  uint16_t stored(float d) const {
    const uint16_t bits = finite_f16(d * power_of_two(exponent));
    return bits == 0 ? uint16_t{1} : bits;
  }

  /// Multipliers and codes for a given d.
  Candidate with_d(uint16_t d_bits) const {
    Candidate candidate;
    candidate.encoding.d = d_bits;
    const float d = f16_to_f32(d_bits) * power_of_two(-exponent) * F::kUnit;
    float a = 0.0f, b = 0.0f;
    for (int block = 0; block < kBlocks; ++block) {
      const int nearest = round_clamped((scales[block] / d - 2.0f) * 0.5f, 0, F::kMaxScale);
      const int first = nearest < 1 ? 0 : nearest > F::kMaxScale - 2 ? F::kMaxScale - 3 : nearest - 1;
      float tries[kTries], error;
      for (int t = 0; t < kTries; ++t) tries[t] = d * static_cast<float>(2 * (first + t) + 1);
      const int best = best_try(projections[block], tries, &error);
      const Picked picked = pick(projections[block], tries[best]);
      for (int g = 0; g < kGroups; ++g) {
        candidate.encoding.points[block * kGroups + g] = picked.points[g];
        if constexpr (kHasDeltas) candidate.encoding.is_down[block * kGroups + g] = picked.is_down[g];
      }
      candidate.encoding.scales[block] = static_cast<uint8_t>(first + best);
      const auto multiplier = static_cast<float>(2 * (first + best) + 1);
      candidate.error += tries[best] * (tries[best] * picked.b - 2.0f * picked.a);
      a += multiplier * picked.a;
      b += multiplier * multiplier * picked.b;
    }
    candidate.best_d = b > 0.0f ? a / b / F::kUnit : 0.0f;
    memcpy(candidate.encoding.signs, signs, sizeof signs);
    return candidate;
  }

  Encoding run() {
    float largest = 0.0f;
    for (int block = 0; block < kBlocks; ++block) {
      project(block);
      scales[block] = best_scale(block);
      largest = larger(largest, scales[block]);
    }
    Candidate best;
    uint16_t d = stored(largest / (F::kUnit * static_cast<float>(2 * F::kMaxScale + 1)));
    for (int i = 0; i < 3; ++i) {
      const Candidate candidate = with_d(d);
      if (!(candidate.error < best.error)) break;
      best = candidate;
      const uint16_t next = stored(candidate.best_d);
      if (next == d) break;
      d = next;
    }
    return best.encoding;
  }
};

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
