#include "tessera/cpu/buffers.h"

#include <algorithm>
#include <cstring>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"

namespace tessera::cpu {

namespace {

// The size of a cache line and of the widest vector.
constexpr size_t kAlignment = 64;
// Memory is virtual, so a buffer can be as large as the address space.
constexpr size_t kMaxSize = size_t{1} << 46;

// Allocates memory; an error names the buffer type.
Result<HostMemory> memory_for(const BufferType& type, size_t bytes, BufferUsage usage, Pages pages,
                              const HostAllocator& allocator) {
  auto memory = allocator.allocate == nullptr ? HostMemory::allocate(bytes, pages)
                                              : HostMemory::allocate(allocator, bytes, type.alignment(), usage);
  if (!memory) return forward_error(memory, type.name());
  return memory;
}

class HostBuffer final : public Buffer {
 public:
  HostBuffer(const BufferType& type, HostMemory memory, size_t size, BufferUsage usage)
      : Buffer(type, size, usage), memory_(std::move(memory)), base_(memory_.data()) {}
  HostBuffer(const BufferType& type, std::span<std::byte> wrapped)
      : Buffer(type, wrapped.size(), BufferUsage::any), memory_(*HostMemory::allocate(0)), base_(wrapped.data()) {}

  std::byte* base() override { return base_; }

  Result<> set(const Tensor& tensor, size_t offset, std::span<const std::byte> bytes) override {
    TESSERA_TRY(require_range(tensor, offset, bytes.size(), span_bytes(tensor.dtype, tensor.layout)));
    std::ranges::copy(bytes, base_ + tensor.offset + offset);
    return {};
  }
  Result<> get(const Tensor& tensor, size_t offset, std::span<std::byte> bytes) override {
    TESSERA_TRY(require_range(tensor, offset, bytes.size(), span_bytes(tensor.dtype, tensor.layout)));
    std::copy_n(base_ + tensor.offset + offset, bytes.size(), bytes.data());
    return {};
  }
  Result<> copy(const Tensor& from, const Tensor& to) override {
    const bool direct = from.buffer->type().is_host() && from.dtype == to.dtype && from.layout == to.layout &&
                        is_contiguous(to.dtype, to.layout);
    if (!direct) return Buffer::copy(from, to);
    std::memmove(base_ + to.offset, from.buffer->base() + from.offset, span_bytes(to.dtype, to.layout));
    return {};
  }
  Result<> clear(std::byte value) override {
    std::memset(base_, static_cast<int>(value), size());
    return {};
  }
  Result<> reset() override { return memory_.data() == base_ ? memory_.reset() : clear(std::byte{0}); }

 private:
  HostMemory memory_;
  std::byte* base_;
};

class PackedBuffer final : public Buffer {
 public:
  PackedBuffer(const PackedBufferType& type, HostMemory memory, size_t size, BufferUsage usage)
      : Buffer(type, size, usage), type_(type), memory_(std::move(memory)) {}

  std::byte* base() override { return memory_.data(); }

  Result<> set(const Tensor& tensor, size_t offset, std::span<const std::byte> bytes) override {
    TESSERA_ASSIGN(const Rows rows, rows_of(tensor, offset, bytes.size()));
    for (int64_t row = rows.begin; row < rows.end; row += kPanelRows)
      rows.format->pack(bytes.data() + to_size(row - rows.begin) * rows.row_bytes, rows.row_bytes,
                        panel_rows(rows, row), tensor.shape()[0], panel(tensor, rows, row));
    return {};
  }
  Result<> get(const Tensor& tensor, size_t offset, std::span<std::byte> bytes) override {
    TESSERA_ASSIGN(const Rows rows, rows_of(tensor, offset, bytes.size()));
    for (int64_t row = rows.begin; row < rows.end; row += kPanelRows)
      rows.format->unpack(panel(tensor, rows, row), panel_rows(rows, row), tensor.shape()[0],
                          bytes.data() + to_size(row - rows.begin) * rows.row_bytes, rows.row_bytes);
    return {};
  }
  Result<> clear(std::byte value) override {
    std::memset(memory_.data(), static_cast<int>(value), size());
    return {};
  }
  Result<> reset() override { return memory_.reset(); }

 private:
  struct Rows {
    const PanelFormat* format;
    size_t row_bytes;
    int64_t begin, end;
  };

  Result<Rows> rows_of(const Tensor& tensor, size_t offset, size_t n) const {
    TESSERA_ASSIGN(const PanelFormat* format, type_.format(tensor.dtype));
    TESSERA_ASSIGN(const size_t bytes, nbytes(tensor.dtype, tensor.shape()));
    TESSERA_TRY(require_range(tensor, offset, n, bytes));
    TESSERA_ASSIGN(const size_t row, row_bytes(tensor.dtype, tensor.shape()[0]));
    const bool whole_panels = offset % (row * kPanelRows) == 0 && (n % (row * kPanelRows) == 0 || offset + n == bytes);
    if (!whole_panels)
      return fail(ErrorCode::invalid_argument, "tensor {}: bytes {} to {} are not whole panels of {} rows", tensor.name,
                  offset, offset + n, kPanelRows);
    return Rows{format, row, static_cast<int64_t>(offset / row), static_cast<int64_t>((offset + n) / row)};
  }
  static int panel_rows(const Rows& rows, int64_t row) {
    return static_cast<int>(std::min<int64_t>(kPanelRows, rows.end - row));
  }
  std::byte* panel(const Tensor& tensor, const Rows& rows, int64_t row) const {
    return memory_.data() + tensor.offset + to_size(row / kPanelRows) * rows.format->panel_bytes(tensor.shape()[0]);
  }

  const PackedBufferType& type_;
  HostMemory memory_;
};

}  // namespace

std::string_view HostBufferType::name() const {
  constexpr std::string_view kNames[] = {"cpu", "cpu-huge", "cpu-numa", "cpu-hbm"};
  return kNames[to_size(pages_)];
}
size_t HostBufferType::alignment() const { return kAlignment; }
size_t HostBufferType::max_size() const { return kMaxSize; }

Result<std::unique_ptr<Buffer>> HostBufferType::allocate(size_t bytes, BufferUsage usage) const {
  TESSERA_ASSIGN(HostMemory memory, memory_for(*this, bytes, usage, pages_, allocator_));
  return std::make_unique<HostBuffer>(*this, std::move(memory), bytes, usage);
}

Result<std::unique_ptr<Buffer>> HostBufferType::wrap(std::span<std::byte> memory) const {
  return std::make_unique<HostBuffer>(*this, memory);
}

std::string_view PackedBufferType::name() const {
  constexpr std::string_view kNames[] = {"cpu-packed", "cpu-packed-huge", "cpu-packed-numa", "cpu-packed-hbm"};
  return kNames[to_size(pages_)];
}
size_t PackedBufferType::alignment() const { return kAlignment; }
size_t PackedBufferType::max_size() const { return kMaxSize; }

Result<const PanelFormat*> PackedBufferType::format(DType dtype) const {
  const PanelFormat* format = kernels_.panel_formats[to_size(dtype)];
  if (format == nullptr) return fail(ErrorCode::unsupported, "{} has no packed form", info(dtype).name);
  return format;
}

Result<size_t> PackedBufferType::tensor_bytes(DType dtype, const Shape& shape) const {
  TESSERA_ASSIGN(const PanelFormat* panels, format(dtype));
  TESSERA_TRY(nbytes(dtype, shape));
  // set() and get() number rows across all matrices, so no matrix may begin within a panel of the previous one.
  if (shape[3] != 1 || (shape[2] != 1 && shape[1] % kPanelRows != 0))
    return fail(ErrorCode::unsupported, "shape {}: only matrices have a packed form, or several of whole panels",
                to_string(shape));
  const auto n_panels = to_size(div_ceil<int64_t>(shape[1], kPanelRows) * shape[2]);
  const auto bytes = checked_mul(n_panels, panels->panel_bytes(shape[0]));
  if (!bytes) return fail(ErrorCode::limit, "shape {}: packed size overflows", to_string(shape));
  return *bytes;
}

Result<std::unique_ptr<Buffer>> PackedBufferType::allocate(size_t bytes, BufferUsage usage) const {
  TESSERA_ASSIGN(HostMemory memory, memory_for(*this, bytes, usage, pages_, allocator_));
  return std::make_unique<PackedBuffer>(*this, std::move(memory), bytes, usage);
}

}  // namespace tessera::cpu
