// The codebooks of the formats as shaders read them.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::vulkan {

/// Words in the order that shaders/formats.glsl counts on.
std::vector<uint32_t> codebook_words();

}  // namespace tessera::vulkan
