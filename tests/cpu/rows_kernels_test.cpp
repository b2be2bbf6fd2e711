// The conversion of rows to and from floats on every usable instruction set: the same bytes as from plain scalar code.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "tessera/base/half.h"
#include "tessera/quant/formats.h"
#include "tessera/tensor/dtype.h"
#include "tests/cpu/kernels_testing.h"

namespace tessera {
namespace {

using cpu::Kernels;
using testing::Guarded;
using testing::kTailLengths;
using testing::random_floats;
using testing::same_bits;
using testing::usable_kernels;

using RowBytes = std::vector<uint8_t>;

constexpr DType kQuantized[] = {DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::iq4_nl};

RowBytes encode(const Kernels& k, DType dtype, const std::vector<float>& x) {
  const auto n = static_cast<int64_t>(x.size());
  Guarded<uint8_t> row(n / info(dtype).block_elements * info(dtype).block_bytes);
  k.from_f32[static_cast<int>(dtype)](x.data(), n, row.data());
  EXPECT_TRUE(row.intact()) << info(dtype).name << " on " << k.isa << " with n " << n;
  return row.values();
}

std::vector<float> decode(const Kernels& k, DType dtype, const RowBytes& row) {
  const int64_t n = static_cast<int64_t>(row.size()) / info(dtype).block_bytes * info(dtype).block_elements;
  Guarded<float> out(n);
  k.to_f32[static_cast<int>(dtype)](row.data(), n, out.data());
  EXPECT_TRUE(out.intact()) << info(dtype).name << " on " << k.isa << " with n " << n;
  return out.values();
}

/// Values of every magnitude that f16 and bf16 can represent, and special values.
std::vector<float> mixed_floats(Rng& rng, int64_t n) {
  std::vector<float> values(static_cast<size_t>(n));
  for (float& v : values) v = std::bit_cast<float>(rng.next_u32());
  for (float& v : values) {
    if (rng.next_u32() % 2 == 0)
      v = rng.next_float(-1, 1) * std::ldexp(1.0f, static_cast<int>(rng.next_u32() % 44) - 27);
  }
  return values;
}

template <class To>
RowBytes encode_words(const std::vector<float>& x, To to_bits) {
  RowBytes bytes;
  for (const float v : x) {
    const uint16_t word = to_bits(v);
    bytes.push_back(static_cast<uint8_t>(word & 0xff));
    bytes.push_back(static_cast<uint8_t>(word >> 8));
  }
  return bytes;
}

/// Every 16-bit pattern, little-endian.
RowBytes all_words() {
  RowBytes bytes;
  for (int i = 0; i < 65536; ++i) {
    bytes.push_back(static_cast<uint8_t>(i & 0xff));
    bytes.push_back(static_cast<uint8_t>(i >> 8));
  }
  return bytes;
}

TEST(ConvertKernels, F32IsACopy) {
  Rng rng(1);
  for (const Kernels* k : usable_kernels()) {
    for (const int64_t n : kTailLengths) {
      const std::vector<float> x = mixed_floats(rng, n);
      EXPECT_TRUE(same_bits(decode(*k, DType::f32, encode(*k, DType::f32, x)), x)) << k->isa << " n " << n;
    }
  }
}

TEST(ConvertKernels, DecodesEveryHalfAndBfloat) {
  std::vector<float> halves, bfloats;
  for (uint32_t i = 0; i < 65536; ++i) {
    halves.push_back(f16_to_f32(static_cast<uint16_t>(i)));
    bfloats.push_back(bf16_to_f32(static_cast<uint16_t>(i)));
  }
  for (const Kernels* k : usable_kernels()) {
    EXPECT_TRUE(same_bits(decode(*k, DType::f16, all_words()), halves)) << k->isa;
    EXPECT_TRUE(same_bits(decode(*k, DType::bf16, all_words()), bfloats)) << k->isa;
  }
}

TEST(ConvertKernels, EncodesHalvesAndBfloatsAtEveryLength) {
  Rng rng(2);
  for (const Kernels* k : usable_kernels()) {
    for (const int64_t n : kTailLengths) {
      const std::vector<float> x = mixed_floats(rng, n);
      EXPECT_EQ(encode(*k, DType::f16, x), encode_words(x, f32_to_f16)) << k->isa << " n " << n;
      EXPECT_EQ(encode(*k, DType::bf16, x), encode_words(x, f32_to_bf16)) << k->isa << " n " << n;
    }
  }
}

TEST(ConvertKernels, DecodesHalvesAtEveryLength) {
  Rng rng(3);
  for (const Kernels* k : usable_kernels()) {
    for (const int64_t n : kTailLengths) {
      const std::vector<float> x = random_floats(rng, n, 4);
      std::vector<float> halves, bfloats;
      for (const float v : x) {
        halves.push_back(f16_to_f32(f32_to_f16(v)));
        bfloats.push_back(bf16_to_f32(f32_to_bf16(v)));
      }
      EXPECT_EQ(decode(*k, DType::f16, encode_words(x, f32_to_f16)), halves) << k->isa << " n " << n;
      EXPECT_EQ(decode(*k, DType::bf16, encode_words(x, f32_to_bf16)), bfloats) << k->isa << " n " << n;
    }
  }
}

RowBytes q8_0_reference(const std::vector<float>& x) {
  RowBytes row;
  for (size_t begin = 0; begin < x.size(); begin += 32) {
    float amax = 0;
    for (size_t i = begin; i < begin + 32; ++i) amax = std::max(amax, std::abs(x[i]));
    const float d = amax / 127.0f, inverse = d == 0 ? 0 : 1.0f / d;
    const uint16_t stored = f32_to_f16(d);
    row.push_back(static_cast<uint8_t>(stored & 0xff));
    row.push_back(static_cast<uint8_t>(stored >> 8));
    for (size_t i = begin; i < begin + 32; ++i) {
      row.push_back(static_cast<uint8_t>(static_cast<int8_t>(std::round(x[i] * inverse))));
    }
  }
  return row;
}

RowBytes q4_0_reference(const std::vector<float>& x) {
  RowBytes row;
  for (size_t begin = 0; begin < x.size(); begin += 32) {
    float extreme = 0;
    for (size_t i = begin; i < begin + 32; ++i) {
      if (std::abs(x[i]) > std::abs(extreme)) extreme = x[i];
    }
    const float d = extreme / -8.0f, inverse = d == 0 ? 0 : 1.0f / d;
    const uint16_t stored = f32_to_f16(d);
    row.push_back(static_cast<uint8_t>(stored & 0xff));
    row.push_back(static_cast<uint8_t>(stored >> 8));
    const auto code = [&](size_t i) { return std::min(15, static_cast<int>(x[i] * inverse + 8.5f)); };
    for (size_t i = begin; i < begin + 16; ++i) row.push_back(static_cast<uint8_t>(code(i) | code(i + 16) << 4));
  }
  return row;
}

TEST(ConvertKernels, QuantizesAsTheFormatsDefine) {
  Rng rng(4);
  for (const Kernels* k : usable_kernels()) {
    for (int round = 0; round < 200; ++round) {
      const float limit = std::ldexp(1.0f, static_cast<int>(rng.next_u32() % 50) - 35);
      std::vector<float> x = random_floats(rng, 64, limit);
      if (round % 4 == 0) std::fill(x.begin(), x.begin() + 32, 0.0f);
      EXPECT_EQ(encode(*k, DType::q8_0, x), q8_0_reference(x)) << k->isa;
      EXPECT_EQ(encode(*k, DType::q4_0, x), q4_0_reference(x)) << k->isa;
    }
  }
}

TEST(ConvertKernels, DecodesAnyBlocksAsTheFormatsDefine) {
  Rng rng(6);
  for (const DType dtype : kQuantized) {
    RowBytes row(static_cast<size_t>(info(dtype).block_bytes) * 2000);
    for (uint8_t& byte : row) byte = static_cast<uint8_t>(rng.next_u32());  // scales of every kind, even NaN
    std::vector<float> want(2000 * 32);
    quant::find_format(dtype)->dequantize_row(row.data(), 2000 * 32, want.data());
    for (const Kernels* k : usable_kernels()) {
      const std::vector<float> got = decode(*k, dtype, row);
      for (size_t i = 0; i < want.size(); ++i) {
        if (std::isnan(want[i]))
          ASSERT_TRUE(std::isnan(got[i])) << info(dtype).name << " on " << k->isa;
        else
          ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(want[i]))
              << info(dtype).name << " on " << k->isa << " element " << i;
      }
    }
  }
}

TEST(ConvertKernels, EncodesAsTheFormatsDoWithoutASearch) {
  Rng rng(7);
  for (const DType dtype : {DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1}) {
    for (int round = 0; round < 300; ++round) {
      std::vector<float> x = random_floats(rng, 32, std::ldexp(1.0f, static_cast<int>(rng.next_u32() % 40) - 30));
      if (round % 5 == 1) std::fill(x.begin() + 3, x.begin() + 29, -0.0f);
      if (round % 5 == 2) std::ranges::for_each(x, [](float& v) { v = std::max(v, 0.0f); });
      if (round % 5 == 3) std::ranges::for_each(x, [](float& v) { v = std::round(v * 4) / 4; });  // equal extremes
      if (round % 50 == 4) std::fill(x.begin(), x.end(), x[0]);
      if (round % 50 == 9) x[static_cast<size_t>(round) % 31] = std::numeric_limits<float>::infinity();
      if (round % 50 == 14 && dtype != DType::q8_0) x[static_cast<size_t>(round / 50) * 5] = std::nanf("");
      RowBytes want(static_cast<size_t>(info(dtype).block_bytes));
      quant::find_format(dtype)->quantize_row_compat(x.data(), nullptr, 32, want.data());
      for (const Kernels* k : usable_kernels())
        ASSERT_EQ(encode(*k, dtype, x), want) << info(dtype).name << " on " << k->isa << " round " << round;
    }
  }
}

constexpr int kIQ4Levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

TEST(ConvertKernels, IQ4TakesTheNearestLevelsAndFitsTheScale) {
  Rng rng(8);
  for (int round = 0; round < 300; ++round) {
    const std::vector<float> x = random_floats(rng, 32, std::ldexp(1.0f, static_cast<int>(rng.next_u32() % 14) - 4));
    double extreme = 0, product = 0, square = 0;
    for (const float v : x) extreme = std::abs(v) > std::abs(extreme) ? double{v} : extreme;
    std::vector<double> levels;
    for (const float v : x) {
      const double scaled = v * -127 / extreme;
      levels.push_back(*std::ranges::min_element(kIQ4Levels, {}, [&](int l) { return std::abs(l - scaled); }));
      product += v * levels.back();
      square += levels.back() * levels.back();
    }
    for (const Kernels* k : usable_kernels()) {
      const std::vector<float> y = decode(*k, DType::iq4_nl, encode(*k, DType::iq4_nl, x));
      for (size_t i = 0; i < 32; ++i) {
        const double want = product / square * levels[i];
        ASSERT_NEAR(y[i], want, std::abs(want) * 0x1p-10) << k->isa << " element " << i;  // the scale is an f16
      }
    }
  }
}

TEST(ConvertKernels, Q8RoundsHalfWayCasesAwayFromZero) {
  std::vector<float> x(32, 0.0f);
  x[0] = 127.0f;  // d = 1
  x[1] = 0.5f, x[2] = -0.5f, x[3] = 1.5f, x[4] = -2.5f, x[5] = std::nextafter(0.5f, 0.0f), x[6] = 126.5f;
  for (const Kernels* k : usable_kernels()) {
    const std::vector<float> y = decode(*k, DType::q8_0, encode(*k, DType::q8_0, x));
    EXPECT_EQ(std::vector<float>(y.begin(), y.begin() + 8), (std::vector<float>{127, 1, -1, 2, -3, 0, 127, 0}));
  }
}

TEST(ConvertKernels, Q4HandCase) {
  std::vector<float> x(32, 0.0f);
  x[0] = -8.0f, x[1] = 7.0f, x[17] = -3.0f, x[31] = 7.9f;  // d = 1; 7.9 is past the largest code
  for (const Kernels* k : usable_kernels()) {
    std::vector<float> want(32, 0.0f);
    want[0] = -8, want[1] = 7, want[17] = -3, want[31] = 7;
    EXPECT_EQ(decode(*k, DType::q4_0, encode(*k, DType::q4_0, x)), want) << k->isa;
  }
}

TEST(ConvertKernels, BlocksOfTinyValuesBecomeZero) {
  const std::vector<float> x(32, 1e-42f);  // 1/d is not finite
  for (const Kernels* k : usable_kernels()) {
    for (const DType dtype : kQuantized) {
      for (const float v : decode(*k, dtype, encode(*k, dtype, x))) EXPECT_EQ(v, 0.0f) << k->isa;
    }
  }
}

TEST(ConvertKernels, NanAndInfinityQuantizeToTheSameBytesEverywhere) {
  Rng rng(5);
  std::vector<float> x = random_floats(rng, 96, 100);
  x[5] = std::numeric_limits<float>::quiet_NaN();
  x[40] = std::numeric_limits<float>::infinity();
  x[70] = 3e38f, x[90] = std::numeric_limits<float>::quiet_NaN();
  const auto all = usable_kernels();
  for (const Kernels* k : all) {
    for (const DType dtype : kQuantized) {
      EXPECT_EQ(encode(*k, dtype, x), encode(*all[0], dtype, x)) << info(dtype).name << " on " << k->isa;
    }
  }
}

TEST(ConvertKernels, OtherDtypesHaveNone) {
  for (const Kernels* k : usable_kernels()) {
    for (const DTypeInfo& type : all_dtypes()) {
      const auto id = static_cast<int>(type.dtype);
      const bool has = type.dtype == DType::f32 || type.dtype == DType::f16 || type.dtype == DType::bf16 ||
                       std::ranges::find(kQuantized, type.dtype) != std::end(kQuantized);
      EXPECT_EQ(k->to_f32[id] != nullptr, has) << type.name;
      EXPECT_EQ(k->from_f32[id] != nullptr, has) << type.name;
    }
  }
}

}  // namespace
}  // namespace tessera
