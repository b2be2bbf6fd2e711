#include "tessera/app/bundled_model.h"

// bundled_model.S places the file between these symbols.
extern "C" const std::byte tessera_bundled_model_begin[], tessera_bundled_model_end[];

namespace tessera {

std::span<const std::byte> bundled_model() { return {tessera_bundled_model_begin, tessera_bundled_model_end}; }

}  // namespace tessera
