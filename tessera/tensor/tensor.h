// A tensor: an element type, a layout, and the location of its bytes. Operations on tensors are graph nodes.
#pragma once

#include <string>
#include <vector>

#include "tessera/tensor/shape.h"

namespace tessera {

class Buffer;      // backend/buffer.h
class BufferType;  // backend/buffer.h

/// Element type and layout of a tensor, or of a value of a graph.
struct TensorSpec {
  DType dtype = DType::f32;
  Layout layout;

  const Shape& shape() const { return layout.shape; }
};

struct Tensor : TensorSpec {
  std::string name;
  const BufferType* buffer_type = nullptr;  // its buffer type, known after planning
  Buffer* buffer = nullptr;                 // null until allocated, so that planning needs no memory
  size_t offset = 0;                        // bytes from the start of the buffer
  // The parts of a matrix whose rows are in several memories, in row order. Such a matrix has no buffer of its own.
  const std::vector<Tensor>* row_parts = nullptr;
  int layer = -1;  // the layer of the model that it belongs to; -1: none
};

}  // namespace tessera
