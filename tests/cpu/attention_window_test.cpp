// The entries and tokens that each token sees, bit by bit.
#include <gtest/gtest.h>

#include "tests/support/graph_runner.h"

namespace tessera {
namespace {

using namespace testing;

struct WindowScene {
  int64_t n_max_blocks = 6;
  KeyWindowParams params{.window = 70, .ratio = 4, .n_entry_blocks = 2};
  std::vector<int32_t> positions{0, 2, 3, 63, 64, 69, 70, 71, 200, 255};
  bool has_chosen = true;

  int64_t n_tokens() const { return static_cast<int64_t>(positions.size()); }

  /// Many bits, also of entries that are not visible and of tokens.
  std::vector<uint64_t> chosen() const {
    Rng rng(8);
    std::vector<uint64_t> words;
    for (int64_t i = 0; i < n_max_blocks * n_tokens(); ++i) {
      const uint64_t high = rng.next_u32();
      words.push_back(high << 32 | rng.next_u32());
    }
    return words;
  }

  bool is_seen(size_t t, int64_t at, const std::vector<uint64_t>& bits) const {
    const int64_t p = positions[t], first = 64 * params.n_entry_blocks;
    if (at >= first) return at - first <= p && (params.window == 0 || at - first > p - params.window);
    const uint64_t word = bits[t * static_cast<size_t>(n_max_blocks) + static_cast<size_t>(at / 64)];
    return at < (p + 1) / params.ratio && (!has_chosen || (word >> at % 64 & 1) != 0);
  }

  std::vector<uint64_t> reference() const {
    const std::vector<uint64_t> bits = chosen();
    std::vector<uint64_t> words(bits.size());
    for (size_t t = 0; t < positions.size(); ++t)
      for (int64_t at = 0; at < n_max_blocks * 64; ++at)
        if (is_seen(t, at, bits))
          words[t * static_cast<size_t>(n_max_blocks) + static_cast<size_t>(at / 64)] |= uint64_t{1} << at % 64;
    return words;
  }

  Graph graph() const {
    GraphBuilder b;
    const Value bits = b.input("chosen", DType::i64, {n_max_blocks, 1, n_tokens()});
    b.output(b.window_keys(has_chosen ? bits : Value(), b.input("positions", DType::i32, {n_tokens()}),
                           b.input("blocks", DType::i32, {n_max_blocks, 2}), params),
             "y");
    return std::move(b).finish().value();
  }

  NamedBytes inputs() const {
    return {{"chosen", bytes_of(chosen())},
            {"positions", bytes_of(positions)},
            {"blocks", bytes_of(std::vector<int32_t>(static_cast<size_t>(2 * n_max_blocks), -1))}};
  }

  void expect_reference(const std::string& name) const {
    for (Setting& setting : all_settings()) {
      ASSERT_OK_AND_ASSIGN(const NamedBytes y, setting.runner.run(graph(), inputs()));
      ASSERT_EQ(values_of<uint64_t>(y.at("y")), reference())
          << name << ", " << setting.isa << ", " << setting.n_threads << " threads";
    }
  }
};

TEST(WindowKeys, AreChosenEntriesAndTokensInTheWindow) {
  WindowScene scene;
  for (const int64_t window : {0, 1, 64, 70, 1000})
    for (const int64_t ratio : {1, 4, 128, 1000}) {
      scene.params.window = window, scene.params.ratio = ratio;
      for (const bool has_chosen : {false, true}) {
        scene.has_chosen = has_chosen;
        scene.expect_reference(std::to_string(window) + ", " + std::to_string(ratio));
      }
    }
}

TEST(WindowKeys, ALayerMayHaveNoEntries) {
  WindowScene scene;
  scene.params.n_entry_blocks = 0;
  scene.positions.push_back(383);
  scene.expect_reference("only tokens");
}

// More words per token than one thread computes at a time.
TEST(WindowKeys, OfALongTable) {
  WindowScene scene;
  scene.n_max_blocks = 1300;
  scene.params = {.window = 40000, .ratio = 4, .n_entry_blocks = 260};
  scene.positions = {66559, 5, 32767};
  scene.expect_reference("long");
}

TEST(WindowKeys, APositionOutsideTheTableFailsTheRun) {
  for (const int32_t bad : {-1, 256, 1 << 30}) {
    WindowScene scene;
    scene.positions[4] = bad;
    const std::string why = "position " + std::to_string(bad) + ", want 0 to 255";
    for (Setting& setting : all_settings()) EXPECT_ERROR(setting.runner.run(scene.graph(), scene.inputs()), why);
  }
}

}  // namespace
}  // namespace tessera
