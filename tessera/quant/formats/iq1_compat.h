// ggml's search for iq1_s and iq1_m (design sheet "quantizers", section 2.6). It sorts the elements of a scale block
// and divides them into ranges of -1, 0 and 1, at every pair of places and for every choice of shifts. The best
// division is then rounded to points of the grid.
#pragma once

#include "tessera/quant/codebooks.h"
#include "tessera/quant/formats/codebook_compat.h"

namespace tessera::quant::TESSERA_ISA_NAMESPACE {

inline constexpr int kIq1Levels[3] = {-1, 0, 1};
inline constexpr Lattice<8, 3, 2048> kIq1Lattice(codebooks::kIq1s, kIq1Levels);

/// A format has kScaleBlock, kDeltaGroups, kMaxScale, and here
///   kTiny, kFudge, kFitsD (d by least squares at the end) and plain_weight(x, sigma2) (the weight without an imatrix).
template <class F>
struct Iq1Compat {
  static constexpr int kSize = F::kScaleBlock, kGroups = kSize / 8, kBlocks = kSuperBlock / kSize;
  static constexpr int kParts = kGroups / F::kDeltaGroups;  // parts, each with one shift
  static constexpr int kSquares = 3;                        // distances in a neighbourhood

  struct Cut {
    int low, high;      // elements before low are -1, before high 0
    uint32_t down = 0;  // bit p: the shift of part p is -1/8
    float a = 0.0f, b = 0.0f;
  };

  const float* x;
  const float* w;
  int order[kSize];  // indices of elements, sorted by value
  // By part: sums of w x and of w over the first elements in sorted order.
  float sums_x[kParts][kSize + 1], sums_w[kParts][kSize + 1];

  static Encoding encode(const float* from, const float* importance) {
    float x[kSuperBlock], w[kSuperBlock];
    const float sigma2 = 2.0f * load_finite(from, x);
    for (int i = 0; i < kSuperBlock; ++i)
      w[i] =
          importance == nullptr ? F::plain_weight(x[i], sigma2) : importance[i] * __builtin_sqrtf(sigma2 + x[i] * x[i]);

    Encoding encoding;
    float scales[kBlocks], largest = 0.0f;
    for (int block = 0; block < kBlocks; ++block) {
      Iq1Compat part;
      part.x = x + block * kSize;
      part.w = w + block * kSize;
      scales[block] = part.search(encoding, block);
      largest = larger(largest, scales[block]);
    }
    float d = largest / static_cast<float>(2 * F::kMaxScale + 1);
    if (!(d > 0.0f)) return Encoding{};
    for (int block = 0; block < kBlocks; ++block) encoding.scales[block] = sub_scale(scales[block], d, F::kMaxScale);
    if (F::kFitsD) d = fitted_d(encoding, x, w, d);
    encoding.d = positive_f16(F::kFudge * d);
    return encoding.d == 0 ? Encoding{} : encoding;
  }

  float search(Encoding& encoding, int block) {
    uint16_t* points = encoding.points + block * kGroups;
    uint8_t* is_down = encoding.is_down + block * kGroups;
    float largest = 0.0f;
    for (int i = 0; i < kSize; ++i) largest = larger(largest, absolute(x[i]));
    if (!(largest > F::kTiny)) return 0.0f;

    sort();
    const Cut cut = best_cut();
    if (!(cut.b > 0.0f)) return 0.0f;
    float scale = cut.a / cut.b;
    uint32_t down = cut.down;
    uint8_t codes[kSize];
    for (int i = 0; i < kSize; ++i) codes[order[i]] = i < cut.low ? 0 : i < cut.high ? 1 : 2;
    if (scale < 0.0f) {
      scale = -scale;
      down = ~down;
      for (uint8_t& code : codes) code = static_cast<uint8_t>(2 - code);
    }
    decltype(kIq1Lattice)::Neighbours neighbours;
    bool is_any_off = false;
    float a = 0.0f, b = 0.0f;
    for (int g = 0; g < kGroups; ++g) {
      const bool is_group_down = (down >> g / F::kDeltaGroups & 1) != 0;
      const float shift = is_group_down ? -kDelta : kDelta;
      int point = kIq1Lattice.find(codes + 8 * g);
      if (point < 0) {
        is_any_off = true;
        kIq1Lattice.find_neighbours(codes + 8 * g, kSquares, neighbours);
        point = kIq1Lattice.best_of(neighbours, x + 8 * g, w + 8 * g, scale, 1.0f, shift - 1.0f);
      }
      points[g] = static_cast<uint16_t>(point);
      is_down[g] = is_group_down ? 1 : 0;
      for (int k = 0; k < 8; ++k) {
        const float v = value(point, k, shift);
        a += w[8 * g + k] * x[8 * g + k] * v;
        b += w[8 * g + k] * v * v;
      }
    }
    return is_any_off && a > 0.0f && b > 0.0f ? a / b : scale;
  }

  static float value(int point, int k, float shift) {
    return static_cast<float>(kIq1Lattice.code[point][k] - 1) + shift;
  }

  /// Insertion sort, which is stable.
  void sort() {
    for (int i = 0; i < kSize; ++i) {
      int at = i;
      for (; at > 0 && x[order[at - 1]] > x[i]; --at) order[at] = order[at - 1];
      order[at] = i;
    }
    for (int p = 0; p < kParts; ++p) {
      sums_x[p][0] = sums_w[p][0] = 0.0f;
      for (int i = 0; i < kSize; ++i) {
        const int e = order[i];
        const float share = e / (8 * F::kDeltaGroups) == p ? w[e] : 0.0f;
        sums_x[p][i + 1] = sums_x[p][i] + share * x[e];
        sums_w[p][i + 1] = sums_w[p][i] + share;
      }
    }
  }

  Cut best_cut() const {
    Cut best = {};
    float best_score = 0.0f;
    for (int low = 0; low <= kSize; ++low) {
      for (int high = low; high <= kSize; ++high) {
        for (uint32_t down = 0; down < 1u << kParts; ++down) {
          float a = 0.0f, b = 0.0f;
          for (int p = 0; p < kParts; ++p) add_cut(p, low, high, (down >> p & 1) != 0 ? -kDelta : kDelta, a, b);
          if (b > 0.0f && a * a > best_score * b) {
            best_score = a * a / b;
            best = {low, high, down, a, b};
          }
        }
      }
    }
    return best;
  }

  void add_cut(int p, int low, int high, float shift, float& a, float& b) const {
    const float* sx = sums_x[p];
    const float* sw = sums_w[p];
    const float bottom = shift - 1.0f, top = shift + 1.0f;
    a += sx[low] * bottom + (sx[high] - sx[low]) * shift + (sx[kSize] - sx[high]) * top;
    b += sw[low] * bottom * bottom + (sw[high] - sw[low]) * shift * shift + (sw[kSize] - sw[high]) * top * top;
  }

  /// The d with the least weighted error for the codes; `d` if there is none.
  static float fitted_d(const Encoding& encoding, const float* x, const float* w, float d) {
    float a = 0.0f, b = 0.0f;
    for (int i = 0; i < kSuperBlock; ++i) {
      const float shift = encoding.is_down[i / 8] != 0 ? -kDelta : kDelta;
      const float v =
          static_cast<float>(2 * encoding.scales[i / kSize] + 1) * value(encoding.points[i / 8], i % 8, shift);
      a += w[i] * v * x[i];
      b += w[i] * v * v;
    }
    return b > 0.0f ? a / b : d;
  }
};

}  // namespace tessera::quant::TESSERA_ISA_NAMESPACE
