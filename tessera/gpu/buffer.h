// A buffer in the memory of a GPU, which kernels access by address.
#pragma once

#include "tessera/backend/buffer.h"

namespace tessera::gpu {

class GpuBuffer : public Buffer {
 public:
  using Buffer::Buffer;

  /// The address of the first byte on the device.
  virtual uint64_t address() const = 0;

  Result<> copy(const Tensor& from, const Tensor& to) final;

 private:
  /// Copies bytes of a buffer of the same type. The ranges are valid and do not overlap.
  virtual Result<> copy_on_device(const GpuBuffer& from, size_t from_offset, size_t to_offset, size_t bytes) = 0;
};

}  // namespace tessera::gpu
