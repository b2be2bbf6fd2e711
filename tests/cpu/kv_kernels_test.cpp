// The KV formats of every usable instruction set: round trips of rows, and the layout of the bytes.
#include <algorithm>

#include "tests/cpu/kernels_testing.h"
#include "tests/cpu/kv_testing.h"

namespace tessera {
namespace {

using cpu::kBlockTokens;
using cpu::Kernels;
using cpu::kTileTokens;
using testing::Guarded;
using testing::kCacheTypes;
using testing::kv_row_bytes;
using testing::random_floats;
using testing::usable_kernels;

TEST(KvFormat, RowsComeBackAsTheyWereStored) {
  Rng rng(1);
  for (const Kernels* k : usable_kernels()) {
    for (const DType dtype : kCacheTypes) {
      for (const int dim : {1, 7, 32, 64, 80, 96, 256}) {
        if (dim % info(dtype).block_elements != 0) continue;
        const cpu::KvFormat& format = *k->kv_formats[static_cast<int>(dtype)];
        const size_t bytes = kv_row_bytes(dtype, dim);
        Guarded<uint8_t> k_block(static_cast<int64_t>(bytes) * kBlockTokens),
            v_block(static_cast<int64_t>(bytes) * kBlockTokens);
        std::vector<std::vector<uint8_t>> rows;
        for (int slot = 0; slot < kBlockTokens; ++slot) {
          const std::vector<float> x = random_floats(rng, dim, 3);
          rows.emplace_back(bytes);
          k->from_f32[static_cast<int>(dtype)](x.data(), dim, rows.back().data());
          format.store_k(x.data(), dim, slot, k_block.data());
          format.store_v(x.data(), dim, slot, v_block.data());
        }
        Guarded<uint8_t> k_copy(static_cast<int64_t>(bytes) * kBlockTokens),
            v_copy(static_cast<int64_t>(bytes) * kBlockTokens);
        for (int slot = 0; slot < kBlockTokens; ++slot) {
          Guarded<uint8_t> row(static_cast<int64_t>(bytes));
          format.load_k(k_block.data(), dim, slot, row.data());
          EXPECT_EQ(row.values(), rows[static_cast<size_t>(slot)]) << info(dtype).name << " K, dim " << dim;
          format.store_k_row(row.data(), dim, slot, k_copy.data());
          format.load_v(v_block.data(), dim, slot, row.data());
          EXPECT_EQ(row.values(), rows[static_cast<size_t>(slot)]) << info(dtype).name << " V, dim " << dim;
          format.store_v_row(row.data(), dim, slot, v_copy.data());
          EXPECT_TRUE(row.intact());
        }
        EXPECT_TRUE(k_block.intact() && v_block.intact() && k_copy.intact() && v_copy.intact()) << info(dtype).name;
        EXPECT_EQ(k_copy.values(), k_block.values()) << info(dtype).name << " dim " << dim;
        EXPECT_EQ(v_copy.values(), v_block.values()) << info(dtype).name << " dim " << dim;
      }
    }
  }
}

TEST(KvFormat, KeysOfAnElementLieSideBySide) {
  for (const Kernels* k : usable_kernels()) {
    const int dim = 5;
    std::vector<float> block(static_cast<size_t>(dim * kBlockTokens));
    for (int slot = 0; slot < kBlockTokens; ++slot) {
      std::vector<float> x(dim);
      for (int e = 0; e < dim; ++e) x[static_cast<size_t>(e)] = static_cast<float>(100 * e + slot);
      k->kv_formats[0]->store_k(x.data(), dim, slot, block.data());
    }
    for (size_t tile = 0; tile < 4; ++tile)
      for (size_t e = 0; e < dim; ++e)
        for (size_t lane = 0; lane < kTileTokens; ++lane)
          ASSERT_EQ(block[(tile * dim + e) * kTileTokens + lane],
                    static_cast<float>(100 * e + tile * kTileTokens + lane));
  }
}

// Threads store adjacent tokens at the same time.
TEST(KvFormat, TokensShareNoByte) {
  constexpr int kDim = 64;
  Rng rng(2);
  const std::vector<float> x = random_floats(rng, kDim, 3);
  for (const Kernels* k : usable_kernels()) {
    for (const DType dtype : kCacheTypes) {
      const cpu::KvFormat& format = *k->kv_formats[static_cast<int>(dtype)];
      for (const auto store : {format.store_k, format.store_v}) {
        const size_t bytes = kv_row_bytes(dtype, kDim);
        std::vector<int> n_writers(bytes * kBlockTokens, 0);
        for (int slot = 0; slot < kBlockTokens; ++slot) {
          std::vector<uint8_t> over_zeros(n_writers.size(), 0), over_ones(n_writers.size(), 0xff);
          store(x.data(), kDim, slot, over_zeros.data());
          store(x.data(), kDim, slot, over_ones.data());
          for (size_t i = 0; i < n_writers.size(); ++i) {
            if (over_zeros[i] == over_ones[i])
              ++n_writers[i];
            else
              ASSERT_TRUE(over_zeros[i] == 0 && over_ones[i] == 0xff) << "bits of byte " << i << " are kept";
          }
        }
        ASSERT_EQ(n_writers, std::vector<int>(n_writers.size(), 1)) << k->isa << " " << info(dtype).name;
      }
    }
  }
}

TEST(KvFormat, OtherDtypesHaveNone) {
  for (const Kernels* k : usable_kernels()) {
    for (const DTypeInfo& type : all_dtypes()) {
      const bool has = std::find(std::begin(kCacheTypes), std::end(kCacheTypes), type.dtype) != std::end(kCacheTypes);
      EXPECT_EQ(k->kv_formats[static_cast<int>(type.dtype)] != nullptr, has) << type.name;
    }
  }
}

}  // namespace
}  // namespace tessera
