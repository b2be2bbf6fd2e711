// The codebooks of the weight formats, in the layout that shaders read.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::gpu {

/// Returns the words in the order that shaders/formats.glsl expects.
std::vector<uint32_t> codebook_words();

}  // namespace tessera::gpu
