// Copies between the host and the device and within the device, alone and while graphs run.
#include <atomic>
#include <thread>

#include "tests/gpu/gpu_support.h"

namespace tessera {
namespace {

using namespace testing;

using GpuTransfers = GpuTest;

struct Memory {
  std::unique_ptr<Buffer> buffer;

  Memory(const Device& device, size_t bytes) : buffer(device.buffer_type().allocate(bytes, BufferUsage::any).value()) {}

  Tensor tensor(size_t offset, size_t bytes) const {
    return {{DType::i8, contiguous_layout(DType::i8, {static_cast<int64_t>(bytes)}).value()},
            "t",
            &buffer->type(),
            buffer.get(),
            offset};
  }
  Bytes read(size_t offset, size_t bytes) const {
    Bytes data(bytes);
    EXPECT_OK(buffer->get(tensor(offset, bytes), 0, data));
    return data;
  }
  void write(size_t offset, const Bytes& data) const { EXPECT_OK(buffer->set(tensor(offset, data.size()), 0, data)); }
};

Bytes pattern(size_t bytes, size_t seed) {
  Bytes data(bytes);
  for (size_t i = 0; i < bytes; ++i) data[i] = static_cast<std::byte>((i * 7 + i / 251 + seed * 31) & 0xff);
  return data;
}

TEST_F(GpuTransfers, CopiesWithinTheDevice) {
  constexpr size_t kBytes = 3'000'003;
  for (const bool maps_memory : {true, false}) {
    const Device& device = *gpu_device(maps_memory);
    const Memory a(device, kBytes + 64), b(device, kBytes + 64);
    const Bytes data = pattern(kBytes, 1);
    a.write(17, data);
    ASSERT_OK(b.buffer->copy(a.tensor(17, kBytes), b.tensor(40, kBytes)));
    EXPECT_EQ(b.read(40, kBytes), data);
    EXPECT_EQ(b.read(0, 40), Bytes(40));
    EXPECT_EQ(b.read(40 + kBytes, 24), Bytes(24));
    // Overlapping ranges, and adjacent ranges in one buffer.
    ASSERT_OK(b.buffer->copy(b.tensor(40, kBytes), b.tensor(41, kBytes)));
    EXPECT_EQ(b.read(41, kBytes), data);
    ASSERT_OK(b.buffer->copy(b.tensor(41, 1000), b.tensor(1041, 1000)));
    EXPECT_EQ(b.read(1041, 1000), pattern(1000, 1));
    EXPECT_ERROR(b.buffer->copy(a.tensor(0, kBytes), b.tensor(65, kBytes)), "outside");
    EXPECT_ERROR(b.buffer->copy(a.tensor(65, kBytes), b.tensor(0, kBytes)), "outside");
    EXPECT_ERROR(b.buffer->copy(a.tensor(0, 3), b.tensor(0, 4)), "copy of");
    ASSERT_OK(b.buffer->copy(a.tensor(0, 0), b.tensor(0, 0)));
  }
}

// More than the ring of staging memory holds, in parts that are not multiples of its slots.
TEST_F(GpuTransfers, LongTransfersComeInOrder) {
  const Device& device = *gpu_device(false);
  constexpr size_t kBytes = (size_t{9} << 20) + 12345;
  const Memory memory(device, kBytes);
  const Bytes data = pattern(kBytes, 2);
  memory.write(0, data);
  EXPECT_EQ(memory.read(0, kBytes), data);
  EXPECT_EQ(memory.read(kBytes - 5, 5), Bytes(data.end() - 5, data.end()));
}

// Writes of up to 512 bytes wait for the next command (cuda). More of them than one command takes, some over others.
TEST_F(GpuTransfers, SmallWritesComeInOrder) {
  constexpr size_t kBytes = 5000;
  const Memory memory(*gpu_device(), kBytes), other(*gpu_device(), kBytes);
  Bytes expected(kBytes);
  Rng rng(4);
  for (size_t i = 0; i < 200; ++i) {
    const size_t n = i % 9 == 0 ? 1 : 1 + rng.next_u32() % (i % 7 == 0 ? 3000 : 520),
                 at = rng.next_u32() % (kBytes - n);
    const Bytes data = pattern(n, i);
    memory.write(at, data);
    std::ranges::copy(data, expected.begin() + static_cast<ptrdiff_t>(at));
    if (i == 60) {
      ASSERT_OK(other.buffer->copy(memory.tensor(0, kBytes), other.tensor(0, kBytes)));
      EXPECT_EQ(other.read(0, kBytes), expected);
    }
    if (i == 90) {
      ASSERT_OK(memory.buffer->clear(std::byte{7}));
      expected.assign(kBytes, std::byte{7});
    }
  }
  EXPECT_EQ(memory.read(0, kBytes), expected);
}

// Memory that is freed while a write to it waits.
TEST_F(GpuTransfers, MemoryIsFreedAfterItsWrites) {
  const Memory memory(*gpu_device(), 64);
  {
    const Memory freed(*gpu_device(), 64);
    freed.write(0, pattern(64, 1));
  }
  const Memory next(*gpu_device(), 64);  // may have the same address
  memory.write(0, pattern(64, 2));
  EXPECT_EQ(memory.read(0, 64), pattern(64, 2));
  EXPECT_EQ(next.read(0, 64), Bytes(64));
}

// Two backends run graphs while buffers are written, read and copied by other threads.
TEST_F(GpuTransfers, GoOnBesideGraphsThatRun) {
  constexpr int kRounds = 20;
  for (const bool maps_memory : {true, false}) {
    const Device& device = *gpu_device(maps_memory);
    std::atomic<int> n_wrong{0};
    const auto expect = [&](bool is_so) { n_wrong += is_so ? 0 : 1; };
    const auto run_graphs = [&](float factor) {
      const auto backend = device.create_backend({});
      GraphBuilder b;
      Value y = b.input("x", DType::f32, {1000});
      const Value x = y;
      for (int i = 0; i < 5; ++i) y = b.scale(y, factor);
      y = b.output(y, "y");
      Graph graph = std::move(b).finish().value();
      Executor executor(**backend);
      expect(executor.reserve({&graph, 1}).has_value());
      const auto prepared = executor.prepare(std::move(graph));
      for (int round = 0; round < kRounds; ++round) {
        const std::vector<float> values(1000, static_cast<float>(round));
        expect(set_input(**prepared, x, values).has_value());
        expect(executor.run(**prepared).has_value());
        const Tensor& tensor = (*prepared)->tensor(y.id());
        std::vector<float> got(1000);
        expect(tensor.buffer->get(tensor, 0, std::as_writable_bytes(std::span(got))).has_value());
        const float power = factor * factor * factor * factor * factor;
        expect(got == std::vector<float>(1000, static_cast<float>(round) * power));
      }
    };
    const auto move_bytes = [&](size_t seed) {
      constexpr size_t kBytes = 1'500'000;
      const Memory a(device, kBytes), c(device, kBytes);
      for (size_t round = 0; round < kRounds; ++round) {
        const Bytes data = pattern(kBytes, seed + round);
        a.write(0, data);
        expect(c.buffer->copy(a.tensor(0, kBytes), c.tensor(0, kBytes)).has_value());
        expect(c.read(0, kBytes) == data);
      }
    };
    std::vector<std::jthread> threads;
    threads.emplace_back(run_graphs, 2.0f);
    threads.emplace_back(run_graphs, 0.5f);
    threads.emplace_back(move_bytes, size_t{3});
    threads.emplace_back(move_bytes, size_t{100});
    threads.clear();
    EXPECT_EQ(n_wrong, 0) << maps_memory;
  }
}

}  // namespace
}  // namespace tessera
