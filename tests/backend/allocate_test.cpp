#include "tessera/backend/allocate.h"

#include <gtest/gtest.h>

#include "tessera/backend/backend.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

// A type with small buffers that keeps nothing but the record of what was asked for.
class SmallType final : public BufferType {
 public:
  SmallType(size_t max_size, size_t fail_from = SIZE_MAX) : max_size_(max_size), fail_from_(fail_from) {}
  std::string_view name() const override { return "small"; }
  const Device& device() const override { std::abort(); }  // nobody asks
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

 private:
  class Empty final : public Buffer {
   public:
    using Buffer::Buffer;
    std::byte* base() override { return nullptr; }
    Result<> set(const Tensor&, size_t, std::span<const std::byte>) override { return {}; }
    Result<> get(const Tensor&, size_t, std::span<std::byte>) override { return {}; }
    Result<> clear(std::byte) override { return {}; }
    Result<> reset() override { return fail(ErrorCode::io, "cannot"); }
  };
  size_t max_size_;
  size_t fail_from_;
};

Tensor bytes_tensor(const std::string& name, int64_t n) {
  return {.name = name, .dtype = DType::i8, .layout = contiguous_layout(DType::i8, {n}).value()};
}

std::vector<Tensor*> pointers(std::vector<Tensor>& tensors) {
  std::vector<Tensor*> all;
  for (Tensor& tensor : tensors) all.push_back(&tensor);
  return all;
}

TEST(TensorPlacement, OffsetsAreAlignedAndInOrder) {
  const SmallType type(1000);
  std::vector<Tensor> tensors{bytes_tensor("a", 1), bytes_tensor("b", 33), bytes_tensor("c", 64)};
  ASSERT_OK_AND_ASSIGN(const auto placement, TensorPlacement::plan(type, pointers(tensors)));
  EXPECT_EQ(tensors[0].offset, 0u);
  EXPECT_EQ(tensors[1].offset, 32u);
  EXPECT_EQ(tensors[2].offset, 96u);
  EXPECT_EQ(placement.bytes(), 160u);
  EXPECT_EQ(tensors[0].buffer_type, &type);
  EXPECT_EQ(tensors[0].buffer, nullptr);
  EXPECT_TRUE(type.sizes.empty());  // planning allocates nothing
}

TEST(TensorPlacement, AllocatesExactlyThePlannedBytes) {
  const SmallType type(128);
  std::vector<Tensor> tensors{bytes_tensor("a", 100), bytes_tensor("b", 20), bytes_tensor("c", 128),
                              bytes_tensor("d", 1)};
  ASSERT_OK_AND_ASSIGN(const auto placement, TensorPlacement::plan(type, pointers(tensors)));
  ASSERT_OK_AND_ASSIGN(const MultiBuffer buffers, placement.allocate(BufferUsage::weights));
  EXPECT_EQ(type.sizes, (std::vector<size_t>{128, 32, 128, 32}));
  EXPECT_EQ(buffers.size(), placement.bytes());
}

TEST(TensorPlacement, ANewPartBeginsWhereTheLargestBufferIsFull) {
  const SmallType type(96);
  std::vector<Tensor> tensors{bytes_tensor("a", 32), bytes_tensor("b", 64), bytes_tensor("c", 32),
                              bytes_tensor("d", 96)};
  ASSERT_OK_AND_ASSIGN(const auto placement, TensorPlacement::plan(type, pointers(tensors)));
  ASSERT_OK_AND_ASSIGN(const MultiBuffer buffers, placement.allocate(BufferUsage::weights));
  ASSERT_EQ(buffers.parts().size(), 3u);
  EXPECT_EQ(tensors[0].buffer, buffers.parts()[0].get());
  EXPECT_EQ(tensors[1].buffer, buffers.parts()[0].get());
  EXPECT_EQ(tensors[2].buffer, buffers.parts()[1].get());
  EXPECT_EQ(tensors[3].buffer, buffers.parts()[2].get());
  EXPECT_EQ(tensors[3].offset, 0u);
}

TEST(TensorPlacement, RefusesATensorLargerThanTheLargestBuffer) {
  const SmallType type(96);
  std::vector<Tensor> tensors{bytes_tensor("big", 97)};
  EXPECT_ERROR(TensorPlacement::plan(type, pointers(tensors)),
               "tensor big: 97 bytes, the largest small buffer holds 96");
}

TEST(TensorPlacement, RefusesASizeThatOverflowsWhenItIsRoundedUp) {
  const SmallType type(SIZE_MAX);
  std::vector<Tensor> tensors{bytes_tensor("a", INT64_MAX), bytes_tensor("b", INT64_MAX)};
  ASSERT_OK_AND_ASSIGN(const auto placement, TensorPlacement::plan(type, pointers(tensors)));
  ASSERT_OK(placement.allocate(BufferUsage::any));
  EXPECT_EQ(type.sizes.size(), 2u);  // 2^63 each: both do not fit one size_t
}

TEST(TensorPlacement, NamesTheTensorThatTheTypeCannotHold) {
  const SmallType type(1000);
  std::vector<Tensor> tensors{bytes_tensor("odd", 1)};
  tensors[0].dtype = DType::q8_0;
  EXPECT_ERROR(TensorPlacement::plan(type, pointers(tensors)), "odd: ");
}

TEST(TensorPlacement, AFailedPartLeavesTheTensorsWithoutBuffer) {
  const SmallType type(96, 1);
  std::vector<Tensor> tensors{bytes_tensor("a", 96), bytes_tensor("b", 96)};
  ASSERT_OK_AND_ASSIGN(const auto placement, TensorPlacement::plan(type, pointers(tensors)));
  EXPECT_ERROR(placement.allocate(BufferUsage::any), "no more");
  EXPECT_EQ(tensors[0].buffer, nullptr);
}

TEST(MultiBuffer, PassesOnWhatAPartRefuses) {
  const SmallType type(96);
  std::vector<Tensor> tensors{bytes_tensor("a", 96)};
  ASSERT_OK_AND_ASSIGN(const auto placement, TensorPlacement::plan(type, pointers(tensors)));
  ASSERT_OK_AND_ASSIGN(MultiBuffer buffers, placement.allocate(BufferUsage::any));
  EXPECT_OK(buffers.clear(std::byte{0}));
  EXPECT_ERROR(buffers.reset(), "cannot");
}

TEST(WantRange, RefusesWhatLeavesTheTensor) {
  const Tensor tensor = bytes_tensor("t", 10);
  EXPECT_OK(want_range(tensor, 0, 10, 10));
  EXPECT_OK(want_range(tensor, 10, 0, 10));
  EXPECT_ERROR(want_range(tensor, 1, 10, 10), "tensor t: bytes 1 to 11 are outside its 10 bytes");
  EXPECT_ERROR(want_range(tensor, SIZE_MAX, 2, 10), "outside");
  EXPECT_ERROR(want_range(tensor, 1, SIZE_MAX, 10), "outside");
}

}  // namespace
}  // namespace tessera
