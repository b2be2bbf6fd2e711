#include "tessera/cuda/kernel_image.h"

#include <cstdint>

#ifdef TESSERA_HAVE_CUDA_KERNELS
// Defined by images.S, which cmake/cuda.cmake writes: begin and end of each image.
extern "C" const std::byte* const tessera_cuda_images[];
extern "C" const uint64_t tessera_cuda_n_images;
#endif

namespace tessera::cuda {

std::vector<std::span<const std::byte>> kernel_images() {
  std::vector<std::span<const std::byte>> images;
#ifdef TESSERA_HAVE_CUDA_KERNELS
  for (uint64_t i = 0; i < tessera_cuda_n_images; ++i)
    images.emplace_back(tessera_cuda_images[2 * i], tessera_cuda_images[2 * i + 1]);
#endif
  return images;
}

}  // namespace tessera::cuda
