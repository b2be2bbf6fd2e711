// The operands of one operation that `tessera bench --ops` runs, in the same memory as a model's operands. Weights and
// KV caches have many copies, one for each graph of a ring. Each run then reads its copy from memory and not from a CPU
// cache, as a layer of a model does. Bytes are finite, normal numbers in every type, because others are slow on some
// CPUs.
#pragma once

#include <span>
#include <vector>

#include "tessera/backend/backend.h"
#include "tessera/backend/tensor_memory.h"
#include "tessera/base/index.h"

namespace tessera::observe {

enum class OperandContent : uint8_t {
  codes,    // random bytes of any type
  values,   // random f32 in [-1, 1]
  k_cache,  // a KV cache [dim, 64, n_heads_kv, n_blocks] with random values at every position
  v_cache,
  given,
};

struct OperandSpec {
  DType dtype = DType::f32;
  Shape shape;
  OperandContent content = OperandContent::values;
  std::vector<std::byte> given{};

  bool operator==(const OperandSpec&) const = default;
};

class OperandCopies {
 public:
  OperandCopies() = default;

  /// Allocates and fills n_copies of all operands in memory of the buffer type. The backend stores values into caches.
  /// Errors: out_of_memory; unsupported (a cache of this type).
  static Result<OperandCopies> create(const BufferType& type, std::span<const OperandSpec> specs, int64_t n_copies,
                                      Backend& backend);

  /// Returns the operands of one copy, in the order of the specs. Moving this object does not move them.
  std::span<const Tensor> copy(int64_t i) const {
    return std::span(tensors_).subspan(to_size(i) * n_operands_, n_operands_);
  }

 private:
  Result<> fill(const OperandSpec& spec, size_t operand, Backend& backend);

  std::vector<Tensor> tensors_;  // copy by copy
  size_t n_operands_ = 0;
  TensorMemory memory_;
};

}  // namespace tessera::observe
