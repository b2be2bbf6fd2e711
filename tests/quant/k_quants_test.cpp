// Q2_K to Q6_K: the layout of a block, and guarantees of the search in addition to the tests of all formats.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "tessera/base/rng.h"
#include "tessera/quant/formats.h"

namespace tessera {
namespace {

constexpr size_t kElements = 256;

using Bytes = std::vector<uint8_t>;
using Floats = std::vector<float>;

/// A block whose every field is a rule of its index: element e has code code(e), sub-block b the scales ls(b), lm(b).
struct Known {
  DType dtype;
  size_t sub_elements;
  int n_codes, code_low;
  size_t d_at, dmin_at;  // bytes of d and dmin; npos: no dmin
  Bytes (*block)();

  // Every sub-block contains the least code, which determines the sign of the scale of symmetric codes.
  int code(size_t e) const {
    return e % 16 == 0 ? code_low : static_cast<int>(e * 7 % static_cast<size_t>(n_codes)) + code_low;
  }
};

constexpr size_t kNone = std::string::npos;
constexpr float kD = 0.5f, kDmin = 0.25f;
constexpr uint8_t kHalfD[] = {0x00, 0x38}, kHalfDmin[] = {0x00, 0x34};  // f16, little-endian

int ls_of(DType dtype, int b) {
  if (dtype == DType::q2_k) return 15 - b / 2;
  if (dtype == DType::q3_k) return b % 2 == 0 ? -32 + b : 31 - b;
  if (dtype == DType::q6_k) return b % 2 == 0 ? -128 + 5 * b : 127 - 3 * b;
  return 63 - 5 * b;
}
int lm_of(DType dtype, int b) {
  if (dtype == DType::q2_k) return b;
  return dtype == DType::q4_k || dtype == DType::q5_k ? 14 + 7 * b : 0;
}

void put_scales_of_d(Bytes& block, size_t d_at, size_t dmin_at) {
  std::memcpy(block.data() + d_at, kHalfD, 2);
  if (dmin_at != kNone) std::memcpy(block.data() + dmin_at, kHalfDmin, 2);
}
void set_bits(uint8_t& byte, int value, size_t shift) { byte = static_cast<uint8_t>(byte | value << shift); }

extern const Known kKnown[5];
const Known& known(DType dtype);

Bytes q2_k_block() {
  Bytes block(84);
  put_scales_of_d(block, 80, 82);
  for (int b = 0; b < 16; ++b) {
    set_bits(block[static_cast<size_t>(b)], ls_of(DType::q2_k, b), 0);
    set_bits(block[static_cast<size_t>(b)], lm_of(DType::q2_k, b), 4);
  }
  for (size_t e = 0; e < kElements; ++e)
    set_bits(block[16 + e / 128 * 32 + e % 32], known(DType::q2_k).code(e), e % 128 / 32 * 2);
  return block;
}

Bytes q3_k_block() {
  Bytes block(110);
  put_scales_of_d(block, 108, kNone);
  for (size_t b = 0; b < 16; ++b) {
    const int u = ls_of(DType::q3_k, static_cast<int>(b)) + 32;
    set_bits(block[96 + b % 8], u & 15, b / 8 * 4);
    set_bits(block[104 + b % 4], u >> 4, b / 4 * 2);
  }
  for (size_t e = 0; e < kElements; ++e) {
    const int u = known(DType::q3_k).code(e) + 4;
    set_bits(block[32 + e / 128 * 32 + e % 32], u & 3, e % 128 / 32 * 2);
    set_bits(block[e % 32], u >> 2, e / 32);
  }
  return block;
}

void put_6_bit_scales(Bytes& block, DType dtype) {
  uint8_t* s = block.data() + 4;
  for (int b = 0; b < 8; ++b) {
    const int ls = ls_of(dtype, b), lm = lm_of(dtype, b);
    if (b < 4) {
      set_bits(s[b], ls, 0);
      set_bits(s[b + 4], lm, 0);
    } else {
      set_bits(s[b + 4], ls & 15, 0);
      set_bits(s[b + 4], lm & 15, 4);
      set_bits(s[b - 4], ls >> 4, 6);
      set_bits(s[b], lm >> 4, 6);
    }
  }
}

Bytes q4_k_block() {
  Bytes block(144);
  put_scales_of_d(block, 0, 2);
  put_6_bit_scales(block, DType::q4_k);
  for (size_t e = 0; e < kElements; ++e)
    set_bits(block[16 + e / 64 * 32 + e % 32], known(DType::q4_k).code(e), e % 64 / 32 * 4);
  return block;
}

Bytes q5_k_block() {
  Bytes block(176);
  put_scales_of_d(block, 0, 2);
  put_6_bit_scales(block, DType::q5_k);
  for (size_t e = 0; e < kElements; ++e) {
    const int code = known(DType::q5_k).code(e);
    set_bits(block[48 + e / 64 * 32 + e % 32], code & 15, e % 64 / 32 * 4);
    set_bits(block[16 + e % 32], code >> 4, e / 32);
  }
  return block;
}

Bytes q6_k_block() {
  Bytes block(210);
  put_scales_of_d(block, 208, kNone);
  for (int b = 0; b < 16; ++b) block[192 + static_cast<size_t>(b)] = static_cast<uint8_t>(ls_of(DType::q6_k, b));
  for (size_t e = 0; e < kElements; ++e) {
    const int u = known(DType::q6_k).code(e) + 32;
    const size_t half = e / 128, g = e % 128 / 32, l = e % 32;
    set_bits(block[64 * half + g % 2 * 32 + l], u & 15, g / 2 * 4);
    set_bits(block[128 + 32 * half + l], u >> 4, 2 * g);
  }
  return block;
}

constexpr Known kKnown[5] = {
    {DType::q2_k, 16, 4, 0, 80, 82, q2_k_block},        {DType::q3_k, 16, 8, -4, 108, kNone, q3_k_block},
    {DType::q4_k, 32, 16, 0, 0, 2, q4_k_block},         {DType::q5_k, 32, 32, 0, 0, 2, q5_k_block},
    {DType::q6_k, 16, 64, -32, 208, kNone, q6_k_block},
};
const Known& known(DType dtype) { return kKnown[static_cast<size_t>(dtype) - static_cast<size_t>(DType::q2_k)]; }

Floats known_values(const Known& k) {
  Floats x(kElements);
  for (size_t e = 0; e < kElements; ++e) {
    const int b = static_cast<int>(e / k.sub_elements);
    x[e] = kD * static_cast<float>(ls_of(k.dtype, b)) * static_cast<float>(k.code(e)) -
           kDmin * static_cast<float>(lm_of(k.dtype, b));
  }
  return x;
}

/// Returns roughly normal values, each the sum of four uniform ones.
Floats bell(uint64_t seed, size_t n, float scale = 1.0f) {
  Rng rng(seed);
  Floats x(n);
  for (float& v : x)
    for (int i = 0; i < 4; ++i) v += rng.next_float(-scale, scale);
  return x;
}

class KQuants : public ::testing::TestWithParam<Known> {
 protected:
  const quant::Format& format() const { return *quant::find_format(GetParam().dtype); }
  size_t block_bytes() const { return static_cast<size_t>(info(GetParam().dtype).block_bytes); }

  Bytes search(const Floats& x, const float* weights = nullptr) const {
    return encode(format().quantize_row, x, weights);
  }
  Bytes compat(const Floats& x, const float* q = nullptr) const { return encode(format().quantize_row_compat, x, q); }
  Floats decode(const Bytes& row) const {
    Floats out(row.size() / block_bytes() * kElements);
    format().dequantize_row(row.data(), static_cast<int64_t>(out.size()), out.data());
    return out;
  }
  Bytes encode(decltype(quant::Format::quantize_row) encoder, const Floats& x, const float* weights) const {
    Bytes row(x.size() / kElements * block_bytes(), 0xff);
    encoder(x.data(), weights, static_cast<int64_t>(x.size()), row.data());
    return row;
  }
};
INSTANTIATE_TEST_SUITE_P(Formats, KQuants, ::testing::ValuesIn(kKnown),
                         [](const auto& test) { return std::string(tessera::info(test.param.dtype).name); });

double squared_error(const Floats& x, const Floats& value, size_t first = 0, size_t step = 1) {
  double sum = 0;
  for (size_t i = first; i < x.size(); i += step) sum += (double{x[i]} - value[i]) * (double{x[i]} - value[i]);
  return sum;
}

TEST_P(KQuants, ABlockOfKnownFieldsHasTheValuesOfTheirFormula) {
  const Floats want = known_values(GetParam()), got = decode(GetParam().block());
  for (size_t e = 0; e < kElements; ++e) ASSERT_EQ(got[e], want[e]) << "element " << e;
}

TEST_P(KQuants, SearchFindsTheFieldsOfValuesThatTheFormatHoldsExactly) {
  const Bytes want = GetParam().block(), got = search(known_values(GetParam()));
  EXPECT_EQ(decode(got), known_values(GetParam()));
  for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ(got[i], want[i]) << "byte " << i;
}

TEST_P(KQuants, ZerosAreZeroBytes) {
  const Bytes want(2 * block_bytes(), 0);
  EXPECT_EQ(search(Floats(2 * kElements)), want);
  EXPECT_EQ(compat(Floats(2 * kElements)), want);
}

// Neighbouring super-blocks share the lanes of a vector, and the end of a row is padded.
TEST_P(KQuants, ASuperBlockDoesNotDependOnItsNeighbours) {
  constexpr size_t kSupers = 101;
  Floats x = bell(1, kSupers * kElements);
  for (size_t i = kElements; i < 2 * kElements; ++i) x[i] *= 1000.0f;
  const Floats weights = [] {
    Floats w(kSupers * kElements);
    Rng rng(2);
    for (float& v : w) v = rng.next_float(0.01f, 10.0f);
    return w;
  }();
  for (const auto encoder : {format().quantize_row, format().quantize_row_compat}) {
    const Bytes row = encode(encoder, x, weights.data());
    for (size_t b = 0; b < kSupers; ++b) {
      const auto at = static_cast<std::ptrdiff_t>(b * kElements);
      const Bytes alone = encode(encoder, Floats(x.begin() + at, x.begin() + at + kElements), weights.data() + at);
      EXPECT_EQ(std::memcmp(alone.data(), row.data() + b * block_bytes(), block_bytes()), 0) << b;
    }
  }
}

TEST_P(KQuants, AnOutlierCostsAtMostTheOtherValues) {
  Floats x = bell(3, kElements);
  x[100] = 1e4f;
  double others = 0;
  for (size_t i = 0; i < kElements; ++i) others += i == 100 ? 0.0 : double{x[i]} * x[i];
  const double rounding_of_d = 1e4 * 0x1p-11;  // f16
  EXPECT_LE(squared_error(x, decode(search(x))), others + rounding_of_d * rounding_of_d);
}

TEST_P(KQuants, ValuesWhoseScaleIsBelowF16UseItsLeastStep) {
  // With rounding to nearest, all of these scales would be 0 and the error 1 or, with only mins, more.
  const double limit = GetParam().dtype == DType::q2_k ? 0.3 : 0.1;
  const Floats x = bell(4, kElements, 4e-7f);
  EXPECT_LT(squared_error(x, decode(search(x))), limit * squared_error(x, Floats(kElements)));
  for (float magnitude = 4e-9f; magnitude < 4e-7f; magnitude *= 1.1f) {
    const Floats y = bell(5, kElements, magnitude);
    EXPECT_LE(squared_error(y, decode(search(y))), squared_error(y, Floats(kElements))) << magnitude;
  }
}

TEST_P(KQuants, ValuesNearerToZeroThanToTheLeastStepAreZeroBytes) {
  Floats x(kElements, 0x1p-26f);  // the least step of d is 2^-24
  x[1] = -0x1.8p-26f;
  EXPECT_EQ(search(x), Bytes(block_bytes(), 0));
}

TEST_P(KQuants, WeightsMoveTheErrorAway) {
  const Floats x = bell(6, 64 * kElements);
  Floats weights(x.size(), 1.0f);
  for (size_t i = 3; i < weights.size(); i += 8) weights[i] = 100.0f;
  const Floats plain = decode(search(x)), weighted = decode(search(x, weights.data()));
  EXPECT_LT(squared_error(x, weighted, 3, 8), 0.6 * squared_error(x, plain, 3, 8));
  EXPECT_LT(squared_error(x, plain), squared_error(x, weighted));
}

TEST_P(KQuants, ScalesOfFormatsWithMinsAreNotNegative) {
  if (GetParam().dmin_at == kNone) GTEST_SKIP() << "no mins";
  Floats x = bell(7, 32 * kElements);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] += static_cast<float>(i / (4 * kElements)) - 4.0f;  // some blocks have one sign
  for (const auto encoder : {format().quantize_row, format().quantize_row_compat}) {
    const Bytes row = encode(encoder, x, nullptr);
    for (size_t at = 0; at < row.size(); at += block_bytes()) {
      EXPECT_EQ(row[at + GetParam().d_at + 1] & 0x80, 0);
      EXPECT_EQ(row[at + GetParam().dmin_at + 1] & 0x80, 0);
    }
  }
}

TEST_P(KQuants, CompatTakesImportancesThatAreAllZero) {
  const Floats x = bell(8, kElements), q(kElements, 0.0f);
  for (const float value : decode(compat(x, q.data()))) EXPECT_TRUE(std::isfinite(value));
}

TEST_P(KQuants, HugeValuesAreCutAtTheLargestScale) {
  const Floats x = bell(9, kElements, 1e12f);
  for (const auto encoder : {format().quantize_row, format().quantize_row_compat})
    for (const float value : decode(encode(encoder, x, nullptr))) EXPECT_TRUE(std::isfinite(value));
  EXPECT_LT(squared_error(x, decode(search(x))), squared_error(x, Floats(kElements)));
}

}  // namespace
}  // namespace tessera
