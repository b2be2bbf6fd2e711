// A tensor: a type, a layout, and where its bytes are. It has no operations: those are graph nodes.
#pragma once

#include <string>
#include <vector>

#include "tessera/tensor/shape.h"

namespace tessera {

class Buffer;      // backend/buffer.h
class BufferType;  // backend/buffer.h

struct Tensor {
  std::string name;
  DType dtype = DType::f32;
  Layout layout;
  const BufferType* buffer_type = nullptr;  // where it will be: known when planned
  Buffer* buffer = nullptr;                 // where it is: null until allocated, so that planning needs no memory
  size_t offset = 0;                        // bytes from the buffer's base
  // A matrix whose rows lie in several memories: its parts in the order of the rows. Then it has no buffer itself.
  const std::vector<Tensor>* row_parts = nullptr;

  const Shape& shape() const { return layout.shape; }
};

}  // namespace tessera
