// Memory of a device. A BufferType defines the layout of tensors in memory, known before anything is allocated. A
// Buffer is an allocation of that type. Data is written and read in the layout of model files; a type may store it in
// another layout (packed).
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

/// A range of bytes of a file that is mapped in this process.
struct FileBytes {
  std::string_view path;
  std::span<const std::byte> file;  // all of it
  size_t offset = 0;
  size_t n = 0;

  std::span<const std::byte> bytes() const { return file.subspan(offset, n); }
};

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

  /// Returns the address of the first byte, or null if the host cannot address this memory.
  virtual std::byte* base() = 0;

  /// Writes or reads bytes [offset, offset + bytes.size()) of a tensor in file layout. The tensor is in this buffer.
  /// Errors: the range exceeds the tensor, or (packed types) does not start and end at a panel of rows.
  virtual Result<> set(const Tensor& tensor, size_t offset, std::span<const std::byte> bytes) = 0;
  virtual Result<> get(const Tensor& tensor, size_t offset, std::span<std::byte> bytes) = 0;

  /// Like set(), with bytes of a file, which memory of another process may read from its own copy of the file. Errors:
  /// also io (the file cannot be read).
  virtual Result<> load(const Tensor& tensor, size_t offset, const FileBytes& from) {
    return set(tensor, offset, from.bytes());
  }

  /// Copies all of `from` (in any buffer) to `to` (in this buffer), both contiguous. Errors: types or shapes differ.
  virtual Result<> copy(const Tensor& from, const Tensor& to);

  /// Sets every byte.
  virtual Result<> clear(std::byte value) = 0;
  /// Returns the pages to the operating system. Contents become zero, the address stays the same.
  virtual Result<> reset() = 0;

 private:
  const BufferType& type_;
  size_t size_;
  BufferUsage usage_;
};

/// A range of bytes in a buffer.
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
  /// Bytes of the largest buffer that can be allocated at once.
  virtual size_t max_size() const = 0;
  /// Returns the bytes that a tensor occupies. Errors: this type cannot hold it; overflow.
  virtual Result<size_t> tensor_bytes(DType dtype, const Shape& shape) const = 0;
  /// Whether the host can read tensors in file layout at base() + offset.
  virtual bool is_host() const = 0;
  /// Returns a readable summary of the memory available now ("pages of 2 MiB: 64 of 64 free"), or "" if there is
  /// nothing to report. Errors: unsupported, out_of_memory (nothing can be allocated), with the reason.
  virtual Result<std::string> availability() const { return std::string(); }
  /// Allocates zeroed memory. Errors: out_of_memory.
  virtual Result<std::unique_ptr<Buffer>> allocate(size_t bytes, BufferUsage usage) const = 0;
};

/// Checks that one tensor can be copied to the other. Errors: mismatch (types or shapes differ).
Result<> require_alike(const Tensor& from, const Tensor& to);
/// Checks that [offset, offset + n) is within the tensor's `tensor_bytes` bytes. The error names the tensor.
Result<> require_range(const Tensor& tensor, size_t offset, size_t n, size_t tensor_bytes);

}  // namespace tessera
