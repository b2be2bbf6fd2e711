#include "tessera/cpu/buffers.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <utility>

#include "tessera/isa/sets.h"
#include "tests/cpu/smaps.h"
#include "tests/support/graph_runner.h"

namespace tessera {
namespace {

using testing::Bytes;
using testing::OwnedTensor;

Bytes random_bytes(size_t n, uint64_t seed) {
  Rng rng(seed);
  Bytes bytes(n);
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng.next_u32());
  return bytes;
}

class CpuBuffers : public ::testing::TestWithParam<std::string> {
 protected:
  CpuBuffers() : device_(cpu::create_device(GetParam()).value()) {}
  const BufferType& host() const { return device_->buffer_type(); }
  const BufferType& packed(DType dtype, const Shape& shape) const {
    return device_->weight_buffer_type(Op::mul_mat, dtype, shape);
  }
  std::unique_ptr<Device> device_;
};
INSTANTIATE_TEST_SUITE_P(Isa, CpuBuffers, ::testing::ValuesIn(isa::usable_isas()));

TEST_P(CpuBuffers, HostMemoryIsZeroedAndAligned) {
  for (const size_t n : {size_t{1}, size_t{4096}, size_t{5} << 20}) {
    ASSERT_OK_AND_ASSIGN(const auto buffer, host().allocate(n, BufferUsage::any));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->base()) % host().alignment(), 0u);
    EXPECT_EQ(buffer->base()[0], std::byte{0});
    EXPECT_EQ(buffer->base()[n - 1], std::byte{0});
    EXPECT_EQ(buffer->size(), n);
  }
}

// Whether the mapping with this address requests large pages: "hg" is among its flags. No value if the system does not
// report flags.
std::optional<bool> asks_for_large_pages(const std::byte* address) {
  const std::string flags = testing::mapping_line(address, "VmFlags:");
  return flags.empty() ? std::nullopt : std::optional(flags.find(" hg") != std::string::npos);
}

TEST_P(CpuBuffers, LargeBuffersAskForLargePagesAndSmallOnesDoNot) {
  ASSERT_OK_AND_ASSIGN(const auto large, host().allocate(size_t{5} << 20, BufferUsage::weights));
  ASSERT_OK_AND_ASSIGN(const auto small, host().allocate(size_t{1} << 20, BufferUsage::compute));
  const std::optional<bool> of_large = asks_for_large_pages(large->base());
  if (!of_large || access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0) GTEST_SKIP() << "no large pages here";
  EXPECT_TRUE(*of_large);
  EXPECT_EQ(asks_for_large_pages(small->base()), false);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large->base()) % (size_t{2} << 20), 0u);
}

// Buffers use exactly the planned bytes: if less than a large page is left, none is started.
TEST_P(CpuBuffers, FilledBuffersTakeTheirBytesOnly) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  for (const size_t n : {(size_t{2} << 20) + page, size_t{5} << 20}) {
    ASSERT_OK_AND_ASSIGN(const auto buffer, host().allocate(n, BufferUsage::any));
    ASSERT_OK(buffer->clear(std::byte{1}));
    unsigned char next_page = 1;  // of the same mapping, which begins up to a large page before the buffer
    ASSERT_EQ(mincore(buffer->base() + n, page, &next_page), 0) << n;
    EXPECT_EQ(next_page & 1, 0) << n;
  }
}

TEST_P(CpuBuffers, RefusesMoreMemoryThanThereIs) {
  for (const size_t n : {size_t{1} << 62, SIZE_MAX}) {
    const auto buffer = host().allocate(n, BufferUsage::any);
    EXPECT_ERROR(buffer, "refuses");
    EXPECT_EQ(buffer.error().code(), ErrorCode::out_of_memory);
  }
}

TEST_P(CpuBuffers, HostSetAndGetAnyRangeOfATensor) {
  const Bytes data = random_bytes(100, 1);
  OwnedTensor t(host(), "t", DType::i8, {100}, data);
  EXPECT_EQ(t.read(), data);
  Bytes part(7);
  ASSERT_OK(t.buffer->get(t.tensor, 93, part));
  EXPECT_TRUE(std::equal(part.begin(), part.end(), data.begin() + 93));
  EXPECT_ERROR(t.buffer->get(t.tensor, 94, part), "tensor t: bytes 94 to 101 are outside its 100 bytes");
  EXPECT_ERROR(t.buffer->set(t.tensor, 101, {}), "outside");
}

TEST_P(CpuBuffers, HostCopyMovesOneTensorToAnother) {
  const Bytes data = random_bytes(64, 2);
  const OwnedTensor from(host(), "a", DType::f32, {4, 4}, data);
  const OwnedTensor to(host(), "b", DType::f32, {4, 4}, Bytes(64));
  const OwnedTensor other(host(), "c", DType::f32, {2, 8}, Bytes(64));
  ASSERT_OK(to.buffer->copy(from.tensor, to.tensor));
  EXPECT_EQ(to.read(), data);
  EXPECT_ERROR(other.buffer->copy(from.tensor, other.tensor), "copy of a f32 [4, 4] to c f32 [2, 8]");
}

TEST_P(CpuBuffers, ClearSetsEveryByteAndResetMakesZeros) {
  ASSERT_OK_AND_ASSIGN(const auto buffer, host().allocate(10000, BufferUsage::any));
  const std::byte* base = buffer->base();
  ASSERT_OK(buffer->clear(std::byte{7}));
  EXPECT_EQ(buffer->base()[0], std::byte{7});
  EXPECT_EQ(buffer->base()[9999], std::byte{7});
  ASSERT_OK(buffer->reset());
  EXPECT_EQ(buffer->base(), base);
  EXPECT_EQ(buffer->base()[0], std::byte{0});
  EXPECT_EQ(buffer->base()[9999], std::byte{0});
}

TEST_P(CpuBuffers, WrappedMemoryIsTheCallersOwn) {
  Bytes memory = random_bytes(64, 3);
  const Bytes before = memory;
  ASSERT_OK_AND_ASSIGN(const auto buffer, device_->wrap_host(memory));
  EXPECT_EQ(buffer->base(), memory.data());
  EXPECT_EQ(memory, before);
  ASSERT_OK(buffer->reset());
  EXPECT_EQ(memory, Bytes(64));
}

TEST_P(CpuBuffers, PackedReturnsTheFilesBytesExactly) {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0})
    for (const int64_t n_rows : {1, 15, 16, 17, 48, 50}) {
      const Shape shape{96, n_rows};
      ASSERT_FALSE(packed(dtype, shape).is_host());
      const Bytes data = random_bytes(nbytes(dtype, shape).value(), 4);
      const OwnedTensor t(packed(dtype, shape), "w", dtype, shape, data);
      EXPECT_EQ(t.read(), data) << info(dtype).name << " " << n_rows;
    }
}

TEST_P(CpuBuffers, PackedHoldsSeveralMatricesOfWholePanels) {
  const Shape shape{32, 48, 3};
  const BufferType& type = device_->weight_buffer_type(Op::mul_mat_experts, DType::q8_0, shape);
  ASSERT_FALSE(type.is_host());
  EXPECT_EQ(type.tensor_bytes(DType::q8_0, shape).value(), 3 * type.tensor_bytes(DType::q8_0, {32, 48}).value());
  const size_t n_bytes = nbytes(DType::q8_0, shape).value(), half = n_bytes / 9 * 5;  // in the second matrix
  const Bytes data = random_bytes(n_bytes, 8);
  const OwnedTensor t(type, "w", DType::q8_0, shape, {});
  ASSERT_OK(t.buffer->set(t.tensor, half, std::span(data).subspan(half)));
  ASSERT_OK(t.buffer->set(t.tensor, 0, std::span(data).first(half)));
  EXPECT_EQ(t.read(), data);
}

TEST_P(CpuBuffers, PackedTakesWholePanelsOnly) {
  const Shape shape{32, 40};  // panels of 16, 16 and 8 rows
  const size_t row = row_bytes(DType::q8_0, 32).value();
  const OwnedTensor t(packed(DType::q8_0, shape), "w", DType::q8_0, shape, random_bytes(40 * row, 5));
  const Bytes expected = t.read();
  Bytes part(16 * row);
  ASSERT_OK(t.buffer->get(t.tensor, 16 * row, part));
  EXPECT_TRUE(std::equal(part.begin(), part.end(), expected.begin() + static_cast<ptrdiff_t>(16 * row)));
  part.resize(8 * row);
  EXPECT_OK(t.buffer->get(t.tensor, 32 * row, part));
  EXPECT_ERROR(t.buffer->get(t.tensor, 0, part), "are not whole panels of 16 rows");
  EXPECT_ERROR(t.buffer->set(t.tensor, 8 * row, part), "are not whole panels of 16 rows");
  EXPECT_ERROR(t.buffer->set(t.tensor, 33 * row, part), "outside");
}

TEST_P(CpuBuffers, PackedCopiesFromPlainMemory) {
  const Shape shape{32, 20};
  const Bytes data = random_bytes(nbytes(DType::q4_0, shape).value(), 6);
  const OwnedTensor plain(host(), "a", DType::q4_0, shape, data);
  const OwnedTensor panels(packed(DType::q4_0, shape), "b", DType::q4_0, shape, {});
  ASSERT_OK(panels.buffer->copy(plain.tensor, panels.tensor));
  EXPECT_EQ(panels.read(), data);
  const OwnedTensor back(host(), "c", DType::q4_0, shape, {});
  ASSERT_OK(back.buffer->copy(panels.tensor, back.tensor));
  EXPECT_EQ(back.read(), data);
}

TEST_P(CpuBuffers, PackedRefusesWhatHasNoPanels) {
  const BufferType& type = packed(DType::f32, {32, 16});
  EXPECT_ERROR(type.tensor_bytes(DType::f32, {32, 17, 2}), "only matrices");
  EXPECT_ERROR(type.tensor_bytes(DType::f32, {32, 16, 1, 2}), "only matrices");
  EXPECT_ERROR(type.tensor_bytes(DType::i32, {32, 16}), "i32 has no packed form");
  EXPECT_ERROR(type.tensor_bytes(DType::q8_0, {33, 16}), "33");
  EXPECT_ERROR(type.tensor_bytes(DType::f32, {-1, 16}), "");
  EXPECT_EQ(&packed(DType::i32, {32, 16}), &host());
  EXPECT_EQ(&packed(DType::f32, {32, 16, 2}), &host());  // mul_mat does not support several
  EXPECT_EQ(&device_->weight_buffer_type(Op::mul_mat_experts, DType::f32, {32, 17, 2}), &host());
  EXPECT_EQ(&device_->weight_buffer_type(Op::get_rows, DType::f32, {32, 16}), &host());
}

TEST_P(CpuBuffers, PanelsAreReadByTheOperationsThatKnowThemOnly) {
  const Shape shape{32, 16};
  const OwnedTensor w(packed(DType::f32, shape), "w", DType::f32, shape, random_bytes(32 * 16 * 4, 7));
  const auto build = [&](auto use) {
    GraphBuilder b;
    use(b, b.tensor(w.tensor), b.input("x", DType::f32, shape));
    return std::move(b).finish().value();
  };
  const auto last_runs = [&](const Graph& graph) { return device_->supports(graph, graph.size() - 1); };
  EXPECT_TRUE(last_runs(build([](auto& b, Value weights, Value x) { b.mul_mat(weights, x); })));
  EXPECT_FALSE(last_runs(build([](auto& b, Value weights, Value x) { b.mul_mat(x, weights); })));
  EXPECT_FALSE(last_runs(build([](auto& b, Value weights, Value x) { b.add(x, weights); })));
  EXPECT_FALSE(last_runs(build([](auto& b, Value weights, Value x) { b.mul_mat(b.reshape(weights, {32, 16}), x); })));
}

// A program's allocator: what it has given and not taken back, by use. Each address is no multiple of more than wanted.
struct ProgramMemory {
  std::map<void*, std::pair<size_t, BufferUsage>> given;
  size_t at_most = SIZE_MAX;
  size_t shift = 0;  // of addresses

  HostAllocator allocator() {
    return {.allocate = [this](size_t bytes, size_t alignment, BufferUsage usage) -> void* {
              if (bytes > at_most) return nullptr;
              auto* memory =
                  static_cast<std::byte*>(std::aligned_alloc(alignment, (bytes / alignment + 2) * alignment));
              std::fill_n(memory, bytes, std::byte{0xa5});
              given[memory + shift] = {bytes, usage};
              return memory + shift;
            },
            .free =
                [this](void* memory, size_t bytes, BufferUsage usage) {
                  EXPECT_EQ(given.at(memory), std::pair(bytes, usage));
                  given.erase(memory);
                  std::free(static_cast<std::byte*>(memory) - shift);
                }};
  }
};

TEST(CpuAllocator, GivesTheMemoryOfPlainAndPackedBuffers) {
  ProgramMemory program;
  ASSERT_OK_AND_ASSIGN(const auto device, cpu::create_device("", program.allocator()));
  const BufferType& packed = device->weight_buffer_type(Op::mul_mat, DType::q8_0, {64, 32});
  EXPECT_EQ(packed.name(), "cpu-packed");
  for (const BufferType* type : {&device->buffer_type(), &packed})
    for (const BufferUsage usage : {BufferUsage::any, BufferUsage::weights, BufferUsage::cache, BufferUsage::compute}) {
      {
        ASSERT_OK_AND_ASSIGN(const auto buffer, type->allocate(1000, usage));
        ASSERT_EQ(program.given.size(), 1u);
        EXPECT_EQ(program.given.begin()->first, buffer->base());
        EXPECT_EQ(program.given.begin()->second, std::pair(size_t{1000}, usage));
        const auto is_zero = [&] {
          return std::all_of(buffer->base(), buffer->base() + 1000, [](std::byte b) { return b == std::byte{0}; });
        };
        EXPECT_TRUE(is_zero());
        EXPECT_OK(buffer->clear(std::byte{7}));
        EXPECT_OK(buffer->reset());
        EXPECT_TRUE(is_zero());
      }
      EXPECT_TRUE(program.given.empty());
    }
  ASSERT_OK_AND_ASSIGN(const auto empty, device->buffer_type().allocate(0, BufferUsage::any));
  EXPECT_TRUE(program.given.empty());
  // Other pages come from the system.
  for (const BufferType* type : device->buffer_types())
    if (type->name() == "cpu-numa") {
      const auto buffer = type->allocate(1000, BufferUsage::any);  // or an error, on a machine without nodes
      EXPECT_TRUE(program.given.empty());
    }
}

TEST(CpuAllocator, MayRefuse) {
  ProgramMemory program;
  ASSERT_OK_AND_ASSIGN(const auto device, cpu::create_device("", program.allocator()));
  program.at_most = 999;
  const auto refused = device->buffer_type().allocate(1000, BufferUsage::cache);
  EXPECT_ERROR(refused, "cpu: the program's allocator refuses 1000 bytes");
  EXPECT_EQ(refused.error().code(), ErrorCode::out_of_memory);
  program.shift = 32;
  EXPECT_ERROR(device->buffer_type().allocate(900, BufferUsage::cache),
               "cpu: the program's allocator returned an address that is no multiple of 64");
  EXPECT_TRUE(program.given.empty());
}

}  // namespace
}  // namespace tessera
