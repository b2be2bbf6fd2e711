// Memory of a device. A BufferType says how tensors lie in it (its rules are known before anything is allocated); a
// Buffer is a piece of it. Data enters and leaves in the form that files have; a type may store it otherwise (packed).
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tessera/base/result.h"
#include "tessera/tensor/tensor.h"

namespace tessera {

class Device;

enum class BufferUsage : uint8_t { any, weights, cache, compute };

class Buffer {
 public:
  Buffer(const BufferType& type, size_t size, BufferUsage usage) : type_(type), size_(size), usage_(usage) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  virtual ~Buffer() = default;

  const BufferType& type() const { return type_; }
  size_t size() const { return size_; }
  BufferUsage usage() const { return usage_; }

  /// The address of the first byte, or null where the host cannot address this memory.
  virtual std::byte* base() = 0;

  /// Bytes [offset, offset + bytes.size()) of a tensor in file form. The tensor lies in this buffer.
  /// Errors: the range leaves the tensor, or (packed types) does not start and end on whole panels of rows.
  virtual Result<> set(const Tensor& tensor, size_t offset, std::span<const std::byte> bytes) = 0;
  virtual Result<> get(const Tensor& tensor, size_t offset, std::span<std::byte> bytes) = 0;

  /// All of `from` (any buffer) into `to` (in this one), both contiguous. Errors: types or shapes differ.
  virtual Result<> copy(const Tensor& from, const Tensor& to);

  /// Sets every byte.
  virtual Result<> clear(std::byte value) = 0;
  /// Gives the pages back to the system: contents become zero, the address stays.
  virtual Result<> reset() = 0;

 private:
  const BufferType& type_;
  size_t size_;
  BufferUsage usage_;
};

/// Bytes of a buffer.
struct BufferRange {
  Buffer* buffer = nullptr;  // null: none
  size_t offset = 0;
  size_t bytes = 0;
};

class BufferType {
 public:
  virtual ~BufferType() = default;

  virtual std::string_view name() const = 0;
  virtual const Device& device() const = 0;
  /// Offsets of tensors are multiples of this.
  virtual size_t alignment() const = 0;
  /// The largest buffer that can be allocated at once.
  virtual size_t max_size() const = 0;
  /// Bytes that a tensor occupies. Errors: this type cannot hold it; overflow.
  virtual Result<size_t> tensor_bytes(DType dtype, const Shape& shape) const = 0;
  /// The host can read the tensors' file form at base() + offset.
  virtual bool is_host() const = 0;
  /// What there is of such memory now, for people ("pages of 2 MiB: 64 of 64 free"); "" where nothing is worth telling.
  /// Errors: unsupported, out_of_memory (none can be had), with the reason.
  virtual Result<std::string> availability() const { return std::string(); }
  /// Zeroed memory. Errors: out_of_memory.
  virtual Result<std::unique_ptr<Buffer>> allocate(size_t bytes, BufferUsage usage) const = 0;
};

/// Whether [offset, offset + n) lies within the tensor's `tensor_bytes` bytes; names the tensor if not.
Result<> want_range(const Tensor& tensor, size_t offset, size_t n, size_t tensor_bytes);

}  // namespace tessera
