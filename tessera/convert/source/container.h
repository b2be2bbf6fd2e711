// The containers of tensors, told apart by the first bytes of a file.
#pragma once

#include "tessera/base/file.h"

namespace tessera::convert {

enum class Container : uint8_t { none, safetensors, torch, ggml, llama2c };

/// Error: io.
Result<Container> container_of(const File& file);

}  // namespace tessera::convert
