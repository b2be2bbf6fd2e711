// The CPU's two memory layouts, each available in every kind of pages (memory.h). Plain memory has the layout of model
// files. Packed memory stores matrices in the panels that the matrix multiplication reads (docs/kernels.md).
#pragma once

#include "tessera/backend/buffer.h"
#include "tessera/cpu/kernels/kernels.h"
#include "tessera/cpu/memory.h"

namespace tessera::cpu {

class HostBufferType final : public BufferType {
 public:
  /// allocator: used instead of `pages` unless it is empty.
  explicit HostBufferType(const Device& device, Pages pages = Pages::plain, HostAllocator allocator = {})
      : device_(device), pages_(pages), allocator_(std::move(allocator)) {}
  std::string_view name() const override;  // "cpu", "cpu-huge", "cpu-numa", "cpu-hbm"
  const Device& device() const override { return device_; }
  size_t alignment() const override;
  size_t max_size() const override;
  Result<size_t> tensor_bytes(DType dtype, const Shape& shape) const override { return nbytes(dtype, shape); }
  bool is_host() const override { return true; }
  Result<std::string> availability() const override { return cpu::availability(pages_); }
  Result<std::unique_ptr<Buffer>> allocate(size_t bytes, BufferUsage usage) const override;

  /// Creates a buffer over memory of the caller. The buffer is writable only if the memory is.
  Result<std::unique_ptr<Buffer>> wrap(std::span<std::byte> memory) const;

 private:
  const Device& device_;
  Pages pages_;
  HostAllocator allocator_;
};

/// Holds only matrices [k, n_rows], or several matrices [k, n_rows, n] if n_rows is a multiple of 16. set() and get()
/// require whole panels of 16 rows (the last may be partial).
class PackedBufferType final : public BufferType {
 public:
  /// allocator: used instead of `pages` unless it is empty.
  PackedBufferType(const Device& device, const Kernels& kernels, Pages pages = Pages::plain,
                   HostAllocator allocator = {})
      : device_(device), kernels_(kernels), pages_(pages), allocator_(std::move(allocator)) {}
  std::string_view name() const override;  // "cpu-packed", "cpu-packed-huge", ...
  const Device& device() const override { return device_; }
  size_t alignment() const override;
  size_t max_size() const override;
  Result<size_t> tensor_bytes(DType dtype, const Shape& shape) const override;
  bool is_host() const override { return false; }
  Result<std::string> availability() const override { return cpu::availability(pages_); }
  Result<std::unique_ptr<Buffer>> allocate(size_t bytes, BufferUsage usage) const override;

  /// Returns the panel format of a dtype. Errors: unsupported.
  Result<const PanelFormat*> format(DType dtype) const;

 private:
  const Device& device_;
  const Kernels& kernels_;
  Pages pages_;
  HostAllocator allocator_;
};

}  // namespace tessera::cpu
