// Memory of a worker, as rank 0 sees it.
#pragma once

#include <memory>
#include <string>

#include "tessera/backend/buffer.h"
#include "tessera/mpi/client.h"

namespace tessera::mpi {

/// A device of a worker, for requests.
struct RemoteDevice {
  std::shared_ptr<Client> client;
  int rank = 0;
  uint32_t index = 0;  // among the devices of the rank
};

class RemoteBuffer final : public Buffer {
 public:
  /// twin: the type of the same memory in this process.
  RemoteBuffer(const BufferType& type, const BufferType& twin, RemoteDevice remote, uint64_t number, size_t size,
               BufferUsage usage)
      : Buffer(type, size, usage), twin_(twin), remote_(std::move(remote)), number_(number) {}
  ~RemoteBuffer() override { remote_.client->post(remote_.rank, FreeRequest{number_}); }

  uint64_t number() const { return number_; }

  std::byte* base() override { return nullptr; }
  Result<> set(const Tensor& tensor, size_t offset, std::span<const std::byte> bytes) override;
  Result<> get(const Tensor& tensor, size_t offset, std::span<std::byte> bytes) override;
  Result<> load(const Tensor& tensor, size_t offset, const FileBytes& from) override;
  Result<> copy(const Tensor& from, const Tensor& to) override;
  Result<> clear(std::byte value) override;
  Result<> reset() override;

 private:
  WireTensor wire(const Tensor& tensor) const;
  Result<> copy_between_workers(const RemoteBuffer& source, const Tensor& from, const Tensor& to);

  const BufferType& twin_;
  RemoteDevice remote_;
  uint64_t number_;
};

class RemoteBufferType final : public BufferType {
 public:
  /// twin: the type of the same memory in this process.
  RemoteBufferType(const Device& device, RemoteDevice remote, uint32_t index, std::string name,
                   const WireBufferType& wire, const BufferType& twin)
      : device_(device),
        remote_(std::move(remote)),
        index_(index),
        name_(std::move(name)),
        alignment_(wire.alignment),
        max_size_(wire.max_size),
        twin_(twin) {}

  uint32_t index() const { return index_; }
  const BufferType& twin() const { return twin_; }

  std::string_view name() const override { return name_; }
  const Device& device() const override { return device_; }
  size_t alignment() const override { return alignment_; }
  size_t max_size() const override { return max_size_; }
  bool is_host() const override { return false; }
  Result<size_t> tensor_bytes(DType dtype, const Shape& shape) const override {
    return twin_.tensor_bytes(dtype, shape);
  }
  Result<std::unique_ptr<Buffer>> allocate(size_t bytes, BufferUsage usage) const override;

 private:
  const Device& device_;
  RemoteDevice remote_;
  uint32_t index_;
  std::string name_;
  size_t alignment_, max_size_;
  const BufferType& twin_;
};

}  // namespace tessera::mpi
