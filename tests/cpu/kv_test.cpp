// kv_store and kv_load in graphs over a paged cache.
#include <gtest/gtest.h>

#include "tests/cpu/kv_testing.h"
#include "tests/support/graph_runner.h"

namespace tessera {
namespace {

using namespace testing;

TEST(KvOps, LoadReturnsWhatStoreWrote) {
  const std::vector<int32_t> cells{130, 0, 63, -1, 64, 191};  // -1 is skipped
  const std::vector<int32_t> stored{130, 0, 63, 64, 191};
  Rng rng(1);
  const std::vector<float> x = random_values(rng, 32 * 2 * 6, 2.0f);
  for (const DType dtype : kCacheTypes)
    for (const KvSide side : {KvSide::k, KvSide::v})
      run_everywhere(
          [&](const Device&) {
            GraphBuilder b;
            const Value cache =
                b.kv_store(b.input("cache", dtype, {32, 64, 2, 3}), b.input("x", DType::f32, {32, 2, 6}),
                           b.input("cells", DType::i32, {6}), side);
            const Value rows = b.kv_load(cache, b.input("stored", DType::i32, {5}), side);
            b.output(b.cast(rows, DType::f32), "y");
            return std::move(b).finish().value();
          },
          {{"cache", Bytes(nbytes(dtype, {32, 64, 2, 3}).value())},
           {"x", bytes_of(x)},
           {"cells", bytes_of(cells)},
           {"stored", bytes_of(stored)}},
          [&](const std::vector<float>& y) {
            const std::vector<float> rounded = as_cached(dtype, x);
            std::vector<double> expected;
            for (const int token : {0, 1, 2, 4, 5})
              expected.insert(expected.end(), rounded.begin() + token * 64, rounded.begin() + (token + 1) * 64);
            expect_near(y, expected, 0);
          });
}

TEST(KvOps, RowsMoveBetweenCachesUnchanged) {
  Rng rng(2);
  for (const DType dtype : kCacheTypes)
    for (const KvSide side : {KvSide::k, KvSide::v}) {
      GraphRunner runner;
      const Shape shape{32, 64, 2, 2};
      GraphBuilder b;
      const Value cells = b.input("cells", DType::i32, {3});
      const Value a = b.kv_store(b.input("a", dtype, shape), b.input("x", DType::f32, {32, 2, 3}), cells, side);
      const Value rows = b.output(b.kv_load(a, cells, side), "rows");
      const Value other = b.input("other", DType::i32, {3});
      const Value moved = b.kv_store(b.input("b", dtype, shape), rows, other, side);
      b.output(b.kv_load(moved, other, side), "back");
      const Bytes empty(nbytes(dtype, shape).value());
      ASSERT_OK_AND_ASSIGN(const auto out,
                           runner.run(std::move(b).finish().value(), {{"a", empty},
                                                                      {"b", empty},
                                                                      {"x", bytes_of(random_values(rng, 192))},
                                                                      {"cells", bytes_of<int32_t>({1, 66, 127})},
                                                                      {"other", bytes_of<int32_t>({127, 3, 64})}}));
      EXPECT_EQ(out.at("rows"), out.at("back")) << info(dtype).name;
    }
}

TEST(KvOps, ACellOutOfRangeIsAnError) {
  for (const int32_t bad : {-2, 128, 1 << 30}) {
    GraphRunner runner("", 2);
    const auto run = [&](bool is_store) {
      GraphBuilder b;
      const Value cache = b.input("c", DType::f32, {8, 64, 1, 2}), cells = b.input("cells", DType::i32, {2});
      if (is_store)
        b.output(b.kv_store(cache, b.input("x", DType::f32, {8, 1, 2}), cells, KvSide::k), "y");
      else
        b.output(b.kv_load(cache, cells, KvSide::k), "y");
      return runner.run(std::move(b).finish().value(),
                        {{"c", Bytes(8 * 64 * 2 * 4)}, {"x", Bytes(64)}, {"cells", bytes_of<int32_t>({0, bad})}});
    };
    EXPECT_ERROR(run(true), "cell " + std::to_string(bad) + ", want 0 to 127");
    EXPECT_ERROR(run(false), "cell " + std::to_string(bad) + ", want 0 to 127");
  }
}

}  // namespace
}  // namespace tessera
