// The keys that tokens see in a window and among compressed entries, on the device compared with the CPU: equal bits.
#include "tests/gpu/gpu_support.h"

namespace tessera {
namespace {

using namespace testing;

using GpuKeyWindow = GpuTest;

struct WindowScene {
  KeyWindowParams params{.window = 64, .ratio = 4, .n_entry_blocks = 2};
  int64_t n_max_blocks = 7;
  bool has_chosen = false;
  std::vector<int32_t> positions{0, 2, 3, 4, 63, 64, 127, 128, 200, 319};

  TestGraph graph() const {
    const WindowScene s = *this;
    const auto n_tokens = std::ssize(positions);
    Rng rng(4);
    std::vector<uint64_t> chosen;
    for (int64_t i = 0; i < n_max_blocks * n_tokens; ++i)
      chosen.push_back(uint64_t{rng.next_u32()} << 32 | rng.next_u32());
    TestGraph test;
    test.build = [=](GraphBuilder& b, const auto&) {
      const Value bits = b.input("chosen", DType::i64, {s.n_max_blocks, 1, n_tokens});
      b.output(b.window_keys(s.has_chosen ? bits : Value(), b.input("positions", DType::i32, {n_tokens}),
                             b.input("blocks", DType::i32, {s.n_max_blocks, 2}), s.params),
               "y");
    };
    test.inputs = {{"chosen", bytes_of(chosen)},
                   {"positions", bytes_of(positions)},
                   {"blocks", bytes_of(std::vector<int32_t>(static_cast<size_t>(2 * n_max_blocks), -1))}};
    return test;
  }

  std::vector<uint64_t> keys_on(const Device& device) const {
    const auto got = run_on(device, graph());
    EXPECT_OK(got);
    return got ? values_of<uint64_t>(got->outputs.at("y")) : std::vector<uint64_t>();
  }

  void expect_as_on_cpu() const {
    static const std::unique_ptr<Device> cpu = cpu::create_device("").value();
    const std::string what = fmt::format("window {}, ratio {}, {} of {} blocks, chosen: {}", params.window,
                                         params.ratio, params.n_entry_blocks, n_max_blocks, has_chosen);
    const std::vector<uint64_t> expected = keys_on(*cpu);
    ASSERT_FALSE(expected.empty()) << what;
    EXPECT_EQ(keys_on(*gpu_device()), expected) << what;
    EXPECT_EQ(keys_on(*gpu_device_of_64_lanes()), expected) << what << ", 64 lanes";
  }
};

TEST_F(GpuKeyWindow, IsTheCpus) {
  WindowScene scene;
  for (const int64_t window : {int64_t{0}, int64_t{1}, int64_t{5}, int64_t{64}, int64_t{100}, int64_t{1} << 32})
    for (const int64_t ratio : {int64_t{3}, int64_t{4}, int64_t{128}, int64_t{1} << 32})
      for (const bool has_chosen : {false, true}) {
        scene.params.window = window;
        scene.params.ratio = ratio;
        scene.has_chosen = has_chosen;
        scene.expect_as_on_cpu();
      }
}

// Several workgroups compute the words of a token; also without entries.
TEST_F(GpuKeyWindow, TakesTablesOfAnyLength) {
  WindowScene scene;
  scene.has_chosen = true;
  scene.n_max_blocks = 1031;
  scene.positions = {0, 5000, 51, 12345, 44000};
  for (const int64_t n_entry_blocks : {0, 30, 333}) {
    scene.params = {.window = 3000, .ratio = 1, .n_entry_blocks = n_entry_blocks};
    scene.expect_as_on_cpu();
  }
  scene.positions.clear();
  const auto none = run_on(*gpu_device(), scene.graph());
  EXPECT_OK(none);
}

TEST_F(GpuKeyWindow, APositionOutOfRangeFailsTheRun) {
  for (const int32_t position : {-1, 320}) {
    WindowScene scene;
    scene.positions[3] = position;
    EXPECT_ERROR(run_on(*gpu_device(), scene.graph()), fmt::format("position {}, want 0 to 319", position));
  }
}

}  // namespace
}  // namespace tessera
