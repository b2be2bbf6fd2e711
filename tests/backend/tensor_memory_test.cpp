#include "tessera/backend/tensor_memory.h"

#include <gtest/gtest.h>

#include "tessera/backend/backend.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

// A buffer type with small buffers that only records the requested sizes.
class SmallType final : public BufferType {
 public:
  SmallType(size_t max_size, size_t fail_from = SIZE_MAX) : max_size_(max_size), fail_from_(fail_from) {}
  std::string_view name() const override { return "small"; }
  const Device& device() const override { std::abort(); }  // never called
  size_t alignment() const override { return 32; }
  size_t max_size() const override { return max_size_; }
  Result<size_t> tensor_bytes(DType dtype, const Shape& shape) const override { return nbytes(dtype, shape); }
  bool is_host() const override { return true; }
  Result<std::unique_ptr<Buffer>> allocate(size_t bytes, BufferUsage usage) const override {
    if (sizes.size() >= fail_from_) return fail(ErrorCode::out_of_memory, "no more");
    sizes.push_back(bytes);
    return std::make_unique<Empty>(*this, bytes, usage);
  }

  mutable std::vector<size_t> sizes;
  mutable int n_cleared = 0;

 private:
  class Empty final : public Buffer {
   public:
    using Buffer::Buffer;
    std::byte* base() override { return nullptr; }
    Result<> set(const Tensor&, size_t, std::span<const std::byte>) override { return {}; }
    Result<> get(const Tensor&, size_t, std::span<std::byte>) override { return {}; }
    Result<> clear(std::byte) override {
      ++static_cast<const SmallType&>(type()).n_cleared;
      return {};
    }
    Result<> reset() override { return fail(ErrorCode::io, "cannot"); }
  };
  size_t max_size_;
  size_t fail_from_;
};

Tensor bytes_tensor(const std::string& name, int64_t n) {
  return {{DType::i8, contiguous_layout(DType::i8, {n}).value()}, name};
}

// Memory of tensors in one type, in their order.
TensorMemory memory_of(std::vector<Tensor>& tensors, const BufferType& type) {
  TensorMemory memory;
  for (Tensor& tensor : tensors) memory.add(tensor, type);
  return memory;
}

TEST(TensorMemory, OffsetsAreAlignedAndInOrder) {
  const SmallType type(1000);
  std::vector<Tensor> tensors{bytes_tensor("a", 1), bytes_tensor("b", 33), bytes_tensor("c", 64)};
  TensorMemory memory = memory_of(tensors, type);
  ASSERT_OK(memory.plan());
  EXPECT_EQ(tensors[0].offset, 0u);
  EXPECT_EQ(tensors[1].offset, 32u);
  EXPECT_EQ(tensors[2].offset, 96u);
  EXPECT_EQ(total_bytes(memory.planned()), 160u);
  EXPECT_EQ(tensors[0].buffer_type, &type);
  EXPECT_EQ(tensors[0].buffer, nullptr);
  EXPECT_TRUE(type.sizes.empty());  // planning allocates nothing
}

TEST(TensorMemory, AllocatesExactlyThePlannedBytes) {
  const SmallType type(128);
  std::vector<Tensor> tensors{bytes_tensor("a", 100), bytes_tensor("b", 20), bytes_tensor("c", 128),
                              bytes_tensor("d", 1)};
  TensorMemory memory = memory_of(tensors, type);
  ASSERT_OK(memory.plan());
  ASSERT_OK(memory.allocate(BufferUsage::weights));
  EXPECT_EQ(type.sizes, (std::vector<size_t>{128, 32, 128, 32}));
  EXPECT_EQ(total_bytes(memory.allocated()), total_bytes(memory.planned()));
  ASSERT_EQ(memory.planned().size(), 1u);  // four buffers of one type
}

TEST(TensorMemory, ANewPartBeginsWhereTheLargestBufferIsFull) {
  const SmallType type(96);
  std::vector<Tensor> tensors{bytes_tensor("a", 32), bytes_tensor("b", 64), bytes_tensor("c", 32),
                              bytes_tensor("d", 96)};
  TensorMemory memory = memory_of(tensors, type);
  ASSERT_OK(memory.plan());
  ASSERT_OK(memory.allocate(BufferUsage::weights));
  ASSERT_EQ(memory.buffers().size(), 3u);
  EXPECT_EQ(tensors[0].buffer, memory.buffers()[0].get());
  EXPECT_EQ(tensors[1].buffer, memory.buffers()[0].get());
  EXPECT_EQ(tensors[2].buffer, memory.buffers()[1].get());
  EXPECT_EQ(tensors[3].buffer, memory.buffers()[2].get());
  EXPECT_EQ(tensors[3].offset, 0u);
}

TEST(TensorMemory, RefusesATensorLargerThanTheLargestBuffer) {
  const SmallType type(96);
  std::vector<Tensor> tensors{bytes_tensor("big", 97)};
  EXPECT_ERROR(memory_of(tensors, type).plan(), "tensor big: 97 bytes, the largest small buffer holds 96");
}

TEST(TensorMemory, RefusesASizeThatOverflowsWhenItIsRoundedUp) {
  const SmallType type(SIZE_MAX);
  std::vector<Tensor> tensors{bytes_tensor("a", INT64_MAX), bytes_tensor("b", INT64_MAX)};
  TensorMemory memory = memory_of(tensors, type);
  ASSERT_OK(memory.plan());
  ASSERT_OK(memory.allocate(BufferUsage::any));
  EXPECT_EQ(type.sizes.size(), 2u);  // 2^63 each: both do not fit one size_t
}

TEST(TensorMemory, NamesTheTensorThatTheTypeCannotHold) {
  const SmallType type(1000);
  std::vector<Tensor> tensors{bytes_tensor("odd", 1)};
  tensors[0].dtype = DType::q8_0;
  EXPECT_ERROR(memory_of(tensors, type).plan(), "odd: ");
}

TEST(TensorMemory, AFailedPartLeavesTheTensorsWithoutBuffer) {
  const SmallType type(96, 1);
  std::vector<Tensor> tensors{bytes_tensor("a", 96), bytes_tensor("b", 96)};
  TensorMemory memory = memory_of(tensors, type);
  ASSERT_OK(memory.plan());
  EXPECT_ERROR(memory.allocate(BufferUsage::any), "no more");
  EXPECT_EQ(tensors[0].buffer, nullptr);
}

TEST(TensorMemory, GroupsTensorsByTypeInOrderOfFirstUse) {
  const SmallType first(1000), second(1000);
  std::vector<Tensor> tensors{bytes_tensor("a", 32), bytes_tensor("b", 64), bytes_tensor("c", 96)};
  TensorMemory memory;
  memory.add(tensors[0], first);
  memory.add(tensors[1], second);
  memory.add(tensors[2], first);
  ASSERT_OK(memory.plan());
  const std::vector<TypeBytes> planned = memory.planned();
  ASSERT_EQ(planned.size(), 2u);
  EXPECT_EQ(planned[0].type, &first);
  EXPECT_EQ(planned[0].bytes, 128u);
  EXPECT_EQ(planned[1].bytes, 64u);
  EXPECT_EQ(tensors[2].offset, 32u);
}

TEST(TensorMemory, ClearsEveryBuffer) {
  const SmallType type(96);
  std::vector<Tensor> tensors{bytes_tensor("a", 96), bytes_tensor("b", 96)};
  TensorMemory memory = memory_of(tensors, type);
  ASSERT_OK(memory.plan());
  ASSERT_OK(memory.allocate(BufferUsage::any));
  EXPECT_OK(memory.clear(std::byte{0}));
  EXPECT_EQ(type.n_cleared, 2);
}

TEST(WantRange, RefusesWhatLeavesTheTensor) {
  const Tensor tensor = bytes_tensor("t", 10);
  EXPECT_OK(require_range(tensor, 0, 10, 10));
  EXPECT_OK(require_range(tensor, 10, 0, 10));
  EXPECT_ERROR(require_range(tensor, 1, 10, 10), "tensor t: bytes 1 to 11 are outside its 10 bytes");
  EXPECT_ERROR(require_range(tensor, SIZE_MAX, 2, 10), "outside");
  EXPECT_ERROR(require_range(tensor, 1, SIZE_MAX, 10), "outside");
}

}  // namespace
}  // namespace tessera
