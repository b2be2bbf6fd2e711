// Writes the bytes that come as its argument: the inputs of a step, which are small, with one command.
#include "tessera/cuda/kernels/device.cuh"

namespace tessera::cuda {

/// One block. A later range may overlap an earlier one.
TESSERA_KERNEL_OF(Writes, writes, writes, 128) {
  for (uint32_t r = 0; r < writes.n; ++r) {
    const Writes::Range& range = writes.ranges[r];
    const unsigned char* from = writes.bytes + range.begin;
    if ((range.to | range.n_bytes) % 4 == 0) {  // begin is a multiple of 8
      for (uint32_t i = lane(); i < range.n_bytes / 4; i += n_lanes())
        words(range.to)[i] = reinterpret_cast<const uint32_t*>(from)[i];
    } else {
      for (uint32_t i = lane(); i < range.n_bytes; i += n_lanes()) at<unsigned char>(range.to)[i] = from[i];
    }
    sync_group();
  }
}

}  // namespace tessera::cuda
