// A buffer in the memory of a GPU, which kernels access by address.
#pragma once

#include "tessera/backend/buffer.h"

namespace tessera::gpu {

class GpuBuffer : public Buffer {
 public:
  using Buffer::Buffer;

  /// The address of the first byte on the device.
  virtual uint64_t address() const = 0;
};

}  // namespace tessera::gpu
