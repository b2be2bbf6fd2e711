// ggml's search for the codebook formats (design sheet "quantizers", section 2.6). Values are rounded to codes
// c = 0, 1, ... which mean 2c + 1 (iq1: c - 1 plus the shift). Codes that are not a point of the grid are replaced by
// the best of the nearest points. The search does not use the values that decoding really gives; a factor on d
// compensates for that.
//
// In addition to the list in codebook.h, a format has here
//   lattice() and kCodes, kSquares (number of distances in a neighbourhood), kSigmaFactor, kTiny (a block whose largest
//   magnitude is at most this counts as zero), kSteps and kStep (tried scales), kFudge, kResnap, kFitsMaximum, and
//   plain_weight(x, sigma2) (the weight without an imatrix).
#pragma once

#include "tessera/quant/formats/codebook.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

enum class Resnap { all, off_grid_groups, all_if_any_off_grid };  // applied once the best scale is known

// One register of bytes. Results do not depend on the width.
#if defined(__AVX512BW__)
inline constexpr int kByteLanes = 64;
#elif defined(__AVX2__)
inline constexpr int kByteLanes = 32;
#else
inline constexpr int kByteLanes = 16;
#endif
using Bytes [[gnu::vector_size(kByteLanes)]] = uint8_t;

[[gnu::always_inline]] inline Bytes load_bytes(const uint8_t* p) {
  Bytes v;
  memcpy(&v, p, sizeof v);
  return v;
}
[[gnu::always_inline]] inline uint8_t least_byte(Bytes v) {
  using Part [[gnu::vector_size(16)]] = uint8_t;
  Part parts[kByteLanes / 16];
  memcpy(parts, &v, sizeof v);
  for (int i = 1; i < kByteLanes / 16; ++i) parts[0] = parts[i] < parts[0] ? parts[i] : parts[0];
  const auto fold = [](Part a, Part b) __attribute__((always_inline)) { return b < a ? b : a; };
  Part least = parts[0];
  least = fold(least, __builtin_shufflevector(least, least, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7));
  least = fold(least, __builtin_shufflevector(least, least, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3));
  least = fold(least, __builtin_shufflevector(least, least, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1));
  least = fold(least, __builtin_shufflevector(least, least, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0));
  return least[0];
}

/// A grid by codes instead of values.
template <int kDim, int kCodes, int kPoints>
struct Lattice {
  static constexpr int kCells = [] {
    int cells = 1;
    for (int k = 0; k < kDim; ++k) cells *= kCodes;
    return cells;
  }();

  uint8_t code[kPoints][kDim];
  alignas(64) uint8_t distance[kCodes][kDim][kPoints];  // (c - code)^2, by element
  int16_t point[kCells];                                // index: codes as digits, the first lowest; -1: none

  template <class Packed>
  constexpr Lattice(const Packed (&points)[kPoints], const int (&levels)[kCodes]) : code{}, distance{}, point{} {
    for (int16_t& p : point) p = -1;
    for (int i = 0; i < kPoints; ++i) {
      int cell = 0;
      for (int k = kDim - 1; k >= 0; --k) {
        const int value = static_cast<int8_t>(static_cast<uint8_t>(points[i] >> 8 * k));
        int c = 0;
        while (levels[c] != value) ++c;
        code[i][k] = static_cast<uint8_t>(c);
        cell = cell * kCodes + c;
        for (int other = 0; other < kCodes; ++other)
          distance[other][k][i] = static_cast<uint8_t>((other - c) * (other - c));
      }
      point[cell] = static_cast<int16_t>(i);
    }
  }

  int find(const uint8_t* codes) const {
    int cell = 0;
    for (int k = kDim - 1; k >= 0; --k) cell = cell * kCodes + codes[k];
    return point[cell];
  }

  /// The points at the n_squares smallest distances from codes that are not a point, nearest first, then by index.
  struct Neighbours {
    int n = 0;
    uint8_t codes[kDim];  // the codes whose neighbours these are
    uint16_t points[kPoints];
  };

  void find_neighbours(const uint8_t* codes, int n_squares, Neighbours& to) const {
    memcpy(to.codes, codes, kDim);
    to.n = 0;
    uint8_t squares[kPoints];
    for (int at = 0; at < kPoints; at += kByteLanes) {
      Bytes sum = {};
      for (int k = 0; k < kDim; ++k) sum += load_bytes(distance[codes[k]][k] + at);
      memcpy(squares + at, &sum, sizeof sum);
    }
    Bytes limit = {};  // no point has distance 0
    for (int n = 0; n < n_squares; ++n) {
      Bytes next = 255 - Bytes{};
      for (int at = 0; at < kPoints; at += kByteLanes) {
        const Bytes all = load_bytes(squares + at);
        const Bytes beyond = all > limit ? all : 255 - Bytes{};
        next = beyond < next ? beyond : next;
      }
      limit = least_byte(next) - Bytes{};
      for (int at = 0; at < kPoints; at += kByteLanes) {
        const Bytes is_there = load_bytes(squares + at) == limit ? 1 - Bytes{} : Bytes{};
        uint64_t eights[kByteLanes / 8];
        memcpy(eights, &is_there, sizeof is_there);
        for (int e = 0; e < kByteLanes / 8; ++e)
          for (uint64_t eight = eights[e]; eight != 0; eight &= eight - 1)
            to.points[to.n++] = static_cast<uint16_t>(at + 8 * e + __builtin_ctzll(eight) / 8);
      }
    }
  }

  /// The neighbour with the least sum u (scale (slope c + offset) - x)^2; the first one on ties.
  int best_of(const Neighbours& neighbours, const float* x, const float* u, float scale, float slope,
              float offset) const {
    float errors[kDim][kCodes];
    for (int k = 0; k < kDim; ++k) {
      for (int c = 0; c < kCodes; ++c) {
        const float e = scale * (slope * static_cast<float>(c) + offset) - x[k];
        errors[k][c] = u[k] * e * e;
      }
    }
    int best = neighbours.points[0];
    float least = __builtin_inff();
    for (int j = 0; j < neighbours.n; ++j) {
      const int i = neighbours.points[j];
      float error = 0.0f;
      for (int k = 0; k < kDim; ++k) error += errors[k][code[i][k]];
      if (error < least) best = i, least = error;
    }
    return best;
  }
};

/// Copies x, with 0 for values that are not finite. Returns the mean of x^2.
inline float load_finite(const float* from, float (&x)[kSuperBlock]) {
  float sum = 0.0f;
  for (int i = 0; i < kSuperBlock; ++i) {
    x[i] = is_finite(from[i]) ? from[i] : 0.0f;
    sum += x[i] * x[i];
  }
  return sum / static_cast<float>(kSuperBlock);
}

/// d as f16; 0 if d is not a positive number.
inline uint16_t positive_f16(float d) { return d > 0.0f ? finite_f16(d) : uint16_t{0}; }

/// s such that (2s + 1) * unit is nearest to scale.
inline uint8_t sub_scale(float scale, float unit, int max) {
  return static_cast<uint8_t>(round_clamped(0.5f * (scale / unit - 1.0f), 0, max));
}

/// The iq2 and iq3 formats.
template <class F>
struct Compat {
  static constexpr int kSize = F::kScaleBlock, kGroups = kSize / F::kDim;
  static constexpr int kCodes = F::kCodes;
  static constexpr int kTop = 2 * kCodes - 1;  // the value of the largest code

  struct Snapped {
    int points[kGroups];
    bool is_off_grid[kGroups];
    float a, b;  // sums of w x v and w v^2
  };

  float x[kSize], w[kSize], u[kSize];                 // magnitudes, weights and their roots
  typename F::Codes::Neighbours neighbours[kGroups];  // the last result: the next scale often has the same codes

  static Encoding encode(const float* from, const float* importance) {
    float values[kSuperBlock];
    const float mean = load_finite(from, values);
    Encoding encoding;
    float scales[kSuperBlock / kSize], largest = 0.0f;
    for (int block = 0; block < kSuperBlock / kSize; ++block) {
      Compat part;
      const float* q = importance == nullptr ? nullptr : importance + block * kSize;
      part.weigh(values + block * kSize, q, F::kSigmaFactor * mean);
      scales[block] = part.search(encoding, block);
      largest = larger(largest, scales[block]);
    }
    const float unit = largest / static_cast<float>(2 * F::kMaxScale + 1);
    encoding.d = positive_f16(unit * F::kFudge);
    if (encoding.d == 0) return Encoding{};
    for (int block = 0; block < kSuperBlock / kSize; ++block)
      encoding.scales[block] = sub_scale(scales[block], unit, F::kMaxScale);
    return encoding;
  }

  void weigh(const float* values, const float* q, float sigma2) {
    for (int i = 0; i < kSize; ++i) {
      x[i] = values[i];
      w[i] = q == nullptr ? F::plain_weight(x[i], sigma2) : q[i] * __builtin_sqrtf(sigma2 + x[i] * x[i]);
      u[i] = __builtin_sqrtf(w[i]);
    }
  }

  /// Stores the points and signs of a scale block. Returns its scale, in units of the codes' values.
  float search(Encoding& encoding, int block) {
    uint8_t* signs = encoding.signs + block * kSize / 8;
    for (int g = 0; g < kSize / 8; ++g) signs[g] = split_signs(8 * g);
    float largest = x[0];
    for (int i = 1; i < kSize; ++i) largest = larger(largest, x[i]);
    if (!(largest > F::kTiny)) return 0.0f;
    const float maximum = F::kFitsMaximum ? fitted_maximum(largest) : largest;

    Snapped best = {};
    float best_score = 0.0f, scale = maximum / static_cast<float>(kTop);
    for (int t = -F::kSteps; t <= F::kSteps; ++t) {
      const float inverse = (static_cast<float>(kTop) + F::kStep * static_cast<float>(t)) / maximum;
      Snapped tried;
      for (int g = 0; g < kGroups; ++g) snap(g, 1.0f / inverse, tried);
      fit(tried);
      if (tried.b > 0.0f && tried.a * tried.a > best_score * tried.b) {
        scale = tried.a / tried.b;
        best_score = scale * tried.a;
        best = tried;
      }
    }
    bool is_any_off = false;
    for (const bool is_off : best.is_off_grid) is_any_off |= is_off;
    if (scale > 0.0f && (is_any_off || F::kResnap == Resnap::all)) {
      for (int g = 0; g < kGroups; ++g)
        if (F::kResnap != Resnap::off_grid_groups || best.is_off_grid[g]) snap(g, scale, best);
      fit(best);
      if (best.b > 0.0f) scale = best.a / best.b;
    }
    if (scale < 0.0f) {
      scale = -scale;
      for (int g = 0; g < kSize / 8; ++g) signs[g] = static_cast<uint8_t>(~signs[g]);
    }
    for (int g = 0; g < kGroups; ++g) encoding.points[block * kGroups + g] = static_cast<uint16_t>(best.points[g]);
    return scale;
  }

  /// Replaces eight elements by their magnitudes and returns their signs. If the number of signs must be even but is
  /// odd, the sign of the element with the least energy is flipped.
  uint8_t split_signs(int first) {
    uint32_t negative = 0;
    int least = first;
    for (int i = first; i < first + 8; ++i) {
      if (w[i] * x[i] * x[i] < w[least] * x[least] * x[least]) least = i;
    }
    for (int i = first; i < first + 8; ++i) {
      if (x[i] < 0.0f) negative |= 1u << (i - first);
      x[i] = absolute(x[i]);
    }
    if (F::kSigns == Signs::even && __builtin_parity(negative) != 0) {
      x[least] = -x[least];
      negative ^= 1u << (least - first);
    }
    return static_cast<uint8_t>(negative);
  }

  void snap(int g, float scale, Snapped& to) {
    const float* values = x + g * F::kDim;
    uint8_t codes[F::kDim];
    for (int k = 0; k < F::kDim; ++k)
      codes[k] = static_cast<uint8_t>(round_clamped(0.5f * (values[k] / scale - 1.0f), 0, kCodes - 1));
    int point = F::lattice().find(codes);
    to.is_off_grid[g] = point < 0;
    if (point < 0) {
      auto& list = neighbours[g];
      if (list.n == 0 || memcmp(list.codes, codes, sizeof codes) != 0)
        F::lattice().find_neighbours(codes, F::kSquares, list);
      point = F::lattice().best_of(list, values, u + g * F::kDim, scale, 2.0f, 1.0f);
    }
    to.points[g] = point;
  }

  void fit(Snapped& snapped) const {
    snapped.a = snapped.b = 0.0f;
    for (int i = 0; i < kSize; ++i) {
      const float v = static_cast<float>(2 * F::lattice().code[snapped.points[i / F::kDim]][i % F::kDim] + 1);
      snapped.a += w[i] * x[i] * v;
      snapped.b += w[i] * v * v;
    }
  }

  /// The maximum that maps to the largest code, by a fit of x to codes 0..kCodes (POS in the sheet).
  float fitted_maximum(float largest) const {
    constexpr int kMax = kCodes + 1;
    constexpr int kTries[] = {0, -4, -3, -2, -1, 1, 2, 3, 4};
    int codes[kSize];
    float least = 0.0f, best = 0.0f;
    for (const int t : kTries) {
      const float inverse = (static_cast<float>(kMax) + 0.1f * static_cast<float>(t)) / largest;
      float error = 0.0f;
      for (int i = 0; i < kSize; ++i) {
        const float e = x[i] - static_cast<float>(round_clamped(inverse * x[i], 0, kMax)) / inverse;
        error += w[i] * e * e;
      }
      if (t == 0 || error < least) least = error, best = inverse;
    }
    float a = 0.0f, b = 0.0f;
    for (int i = 0; i < kSize; ++i) {
      codes[i] = round_clamped(best * x[i], 0, kMax);
      const auto c = static_cast<float>(codes[i]);
      a += w[i] * x[i] * c;
      b += w[i] * c * c;
    }
    for (int sweep = 0, n_changed = 1; sweep < 5 && n_changed > 0; ++sweep) {
      n_changed = 0;
      for (int i = 0; i < kSize; ++i) {
        const auto c = static_cast<float>(codes[i]);
        const float a_rest = a - w[i] * x[i] * c, b_rest = b - w[i] * c * c;
        if (!(a_rest > 0.0f && b_rest > 0.0f)) continue;
        const int code = round_clamped(x[i] * b_rest / a_rest, 0, kMax);
        const auto v = static_cast<float>(code);
        const float a_new = a_rest + w[i] * x[i] * v, b_new = b_rest + w[i] * v * v;
        if (code == codes[i] || !(a_new * a_new * b > a * a * b_new)) continue;
        codes[i] = code, a = a_new, b = b_new;
        ++n_changed;
      }
    }
    const float maximum = static_cast<float>(kCodes) * (a / b);
    return maximum > 0.0f && is_finite(maximum) ? maximum : largest;
  }
};

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
