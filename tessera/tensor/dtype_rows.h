// The types of dtype.def and the sizes of their blocks: plain declarations, compiled for every instruction set
// (cmake/isa.cmake). A type's value is its GGUF id.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace tessera {

enum class DType : uint8_t {
#define TESSERA_DTYPE(name, symbol, text, id, elements, bytes) name = id,
#include "tessera/tensor/dtype.def"
};

/// All ids are below this limit.
inline constexpr int kDTypeLimit = 64;

struct BlockSize {
  int elements;
  size_t bytes;
};

/// For constants and assertions in the code of a format; info() has the sizes at run time.
consteval BlockSize block_size(DType dtype) {
  switch (dtype) {  // NOLINT(bugprone-branch-clone): some have the same size
#define TESSERA_DTYPE(name, symbol, text, id, elements, bytes) \
  case DType::name:                                            \
    return {elements, bytes};
#include "tessera/tensor/dtype.def"
  }
}

}  // namespace tessera
