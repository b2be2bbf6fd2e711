// Products of F16 and BF16 weights in 16-bit integers: values, sums at the limit of 32 bits, and numbers that have no
// code. matmul_kernels_test.cpp divides the same products into calls, and compares instruction sets.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/checked.h"
#include "tessera/cpu/dispatch.h"
#include "tessera/quant/formats.h"
#include "tests/cpu/kernels_testing.h"

namespace tessera {
namespace {

constexpr int64_t kGroup = 64;
constexpr float kLargestCode = 5792;  // the root of 2^31 / 64
constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNaN = std::numeric_limits<float>::quiet_NaN();

struct HalfCase {
  const cpu::Kernels* kernels;
  DType dtype;

  std::string name() const { return std::string(kernels->isa) + "_" + std::string(info(dtype).name); }
};

std::vector<HalfCase> half_cases() {
  std::vector<HalfCase> cases;
  for (const cpu::Kernels* kernels : testing::usable_kernels())
    for (const DType dtype : {DType::f16, DType::bf16}) cases.push_back({kernels, dtype});
  return cases;
}

class MatmulInt16 : public ::testing::TestWithParam<HalfCase> {
 protected:
  /// Values as the weights can have them.
  static std::vector<float> rounded(const std::vector<float>& values) {
    std::vector<uint16_t> halves(values.size());
    std::vector<float> result(values.size());
    const auto* format = quant::find_format(GetParam().dtype);
    const auto n = static_cast<int64_t>(values.size());
    auto* bytes = reinterpret_cast<std::byte*>(halves.data());
    format->quantize_row_compat(values.data(), nullptr, n, bytes);
    format->dequantize_row(bytes, n, result.data());
    return result;
  }

  /// The product of one row of weights and n tokens of x.
  static std::vector<float> multiply(const std::vector<float>& w, const std::vector<float>& x) {
    const auto k = static_cast<int64_t>(w.size());
    const cpu::PanelFormat& format = *GetParam().kernels->int16_panel_formats[static_cast<int>(GetParam().dtype)];
    std::vector<uint16_t> row(w.size());
    quant::find_format(GetParam().dtype)
        ->quantize_row_compat(w.data(), nullptr, k, reinterpret_cast<std::byte*>(row.data()));
    std::vector<uint8_t> panel(format.panel_bytes(k));
    format.pack(row.data(), 0, 1, k, panel.data());
    const cpu::ActivationShape shape{.k = k, .n_tokens = static_cast<int64_t>(x.size()) / k};
    std::vector<uint8_t> packed(format.activation_bytes(shape));
    format.pack_activations(x.data(), w.size() * sizeof(float), shape, 0, shape.n_tokens, packed.data());
    std::vector<float> out(static_cast<size_t>(shape.n_tokens));
    format.multiply(panel.data(), 1, shape, packed.data(), 0, shape.n_tokens, out.data(), sizeof(float));
    return out;
  }

  /// A group of at most 64 values as codes.
  struct Codes {
    explicit Codes(std::span<const float> values) {
      float largest = 0;
      for (const float v : values) largest = std::max(largest, std::fabs(v));
      unit = largest / kLargestCode;
      const float inverse = kLargestCode / largest;
      // The scalar set has no fused multiply-add.
      const bool rounds_twice = std::string_view(GetParam().kernels->isa) == "scalar";
      for (const float v : values)
        codes.push_back(std::nearbyint(rounds_twice ? double{v * inverse} : double{v} * inverse));
    }
    float unit;
    std::vector<double> codes;
  };

  struct Product {
    double value = 0, magnitude = 0;
  };
  static Product product_of_codes(std::span<const float> w, std::span<const float> x) {
    Product product;
    for (size_t g = 0; g < w.size(); g += kGroup) {
      const size_t n = std::min<size_t>(kGroup, w.size() - g);
      const Codes of_w(w.subspan(g, n)), of_x(x.subspan(g, n));
      double sum = 0;
      for (size_t i = 0; i < n; ++i) sum += of_w.codes[i] * of_x.codes[i];
      product.value += sum * of_w.unit * of_x.unit;
      product.magnitude += std::fabs(sum * of_w.unit * of_x.unit);
    }
    return product;
  }
};

INSTANTIATE_TEST_SUITE_P(Isas, MatmulInt16, ::testing::ValuesIn(half_cases()),
                         [](const auto& test) { return test.param.name(); });

TEST_P(MatmulInt16, IsTheProductOfCodesInGroupsOf64) {
  Rng rng(1);
  for (const int64_t k : {1, 2, 3, 31, 63, 64, 65, 127, 130, 256, 300, 321, 1000}) {
    constexpr int64_t kTokens = 15;
    auto w = testing::random_floats(rng, k, 1.0f), x = testing::random_floats(rng, k * kTokens, 2.0f);
    // Groups of different sizes of values.
    for (size_t i = 0; i < w.size(); ++i) w[i] = std::ldexp(w[i], static_cast<int>(i / kGroup) % 5);
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::ldexp(x[i], static_cast<int>(i / kGroup) % 7 - 3);
    w = rounded(w);
    const auto out = multiply(w, x);
    for (size_t t = 0; t < kTokens; ++t) {
      const Product want = product_of_codes(w, std::span(x).subspan(t * w.size(), w.size()));
      ASSERT_NEAR(out[t], want.value, want.magnitude * static_cast<double>(k / kGroup + 4) * 0x1p-23)
          << "k " << k << " token " << t;
    }
  }
}

// Units are powers of two, and sums are below 2^24, so no operation rounds.
TEST_P(MatmulInt16, IsExactWhereUnitsArePowersOfTwo) {
  Rng rng(2);
  constexpr int64_t kColumns = 192;
  std::vector<float> w(kColumns), x(kColumns);
  double want = 0;
  for (size_t i = 0; i < w.size(); ++i) {
    w[i] = 0.125f * (i % kGroup == 9 ? kLargestCode : static_cast<float>(rng.next_u32() % 15) - 7);
    x[i] = i % kGroup == 5 ? -kLargestCode : static_cast<float>(rng.next_u32() % 7) - 3;
    want += double{w[i]} * x[i];
  }
  ASSERT_EQ(rounded(w), w);
  EXPECT_EQ(multiply(w, x), std::vector<float>{static_cast<float>(want)});
}

TEST_P(MatmulInt16, LargestSumsFitIn32Bits) {
  for (const float sign : {1.0f, -1.0f})
    for (const int64_t k : {64, 63, 256}) {
      const std::vector<float> w(static_cast<size_t>(k), kLargestCode), x(static_cast<size_t>(k), sign * kLargestCode);
      const double want = sign * static_cast<double>(k) * kLargestCode * kLargestCode;
      EXPECT_NEAR(multiply(w, x)[0], want, std::fabs(want) * 8 * 0x1p-24) << k;
    }
}

// A value that is 1000 times as large takes three digits of its group, and nothing of the others.
TEST_P(MatmulInt16, AnOutlierCostsOnlyItsGroup) {
  std::vector<float> w(3 * kGroup, 0.25f), x(3 * kGroup, 1.0f);
  const auto out = multiply(w, x);
  EXPECT_NEAR(out[0], 48, 1e-4);
  x[kGroup + 3] = 1000;
  const double error = 63 * 0.25 * 0.5 * (1000 / kLargestCode);
  EXPECT_NEAR(multiply(w, x)[0], 48 + 999 * 0.25, error);
  x[kGroup + 3] = 1;
  w[2 * kGroup] = 250;
  EXPECT_NEAR(multiply(w, x)[0], 48 + 249.75, error);
}

TEST_P(MatmulInt16, AWeightOrActivationThatIsNoNumberGivesNaN) {
  for (const float bad : {kInfinity, -kInfinity, kNaN})
    for (const size_t at : {size_t{0}, size_t{63}, size_t{64}, size_t{99}})
      for (const bool is_weight : {true, false}) {
        std::vector<float> w(100, 0.5f), x(100, 1.0f);
        (is_weight ? w : x)[at] = bad;
        EXPECT_TRUE(std::isnan(multiply(w, x)[0])) << bad << " at " << at << ", weight " << is_weight;
        // The same among zeros.
        std::ranges::fill(is_weight ? x : w, 0.0f);
        EXPECT_TRUE(std::isnan(multiply(w, x)[0])) << bad << " at " << at << ", weight " << is_weight;
      }
}

TEST_P(MatmulInt16, ValuesWithoutAFiniteInverseCountAsZero) {
  const std::vector<float> w(kGroup, 1.0f);
  EXPECT_EQ(multiply(w, std::vector<float>(kGroup, 0x1p-127f)), std::vector<float>{0});
  // 5792 / 2^-115 is finite.
  EXPECT_NEAR(multiply(w, std::vector<float>(kGroup, 0x1p-115f))[0] * 0x1p115f, kGroup, 1e-4);
  EXPECT_EQ(multiply(w, std::vector<float>(kGroup, 0.0f)), std::vector<float>{0});
  EXPECT_EQ(multiply(std::vector<float>(kGroup, 0.0f), w), std::vector<float>{0});
}

}  // namespace
}  // namespace tessera
