// The compiled kernels, embedded in the program.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace tessera::cuda {

/// One fat binary for each file of kernels, with machine code for several devices; none if the program was built
/// without nvcc.
std::vector<std::span<const std::byte>> kernel_images();

}  // namespace tessera::cuda
