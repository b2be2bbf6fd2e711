// The rows of a model that is being converted: read from the checkpoint in pieces, changed, and encoded.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tessera/convert/checkpoints/tensor_rules.h"
#include "tessera/convert/quantize.h"

namespace tessera::convert {

class ConvertedRows final : public RowSource {
 public:
  /// Borrows the checkpoint. The parts of each tensor have as many elements as its shape.
  ConvertedRows(const Checkpoint& checkpoint, std::vector<ConvertedTensor> tensors);

  void read(const GgufTensor& tensor, int64_t begin, int64_t n, std::span<std::byte> into) const override;
  std::vector<FileRange> stored(const GgufTensor& tensor, int64_t begin, int64_t n) const override;
  int64_t rows_at_once(const GgufTensor& tensor) const override;
  void forget(const GgufTensor& tensor, int64_t begin, int64_t n) const override;

  std::span<const ConvertedTensor> tensors() const { return tensors_; }
  /// Values read so far that were finite and became infinite as F16.
  uint64_t n_overflows() const { return n_overflows_; }

 private:
  // A range of the elements of a part.
  struct Range {
    const ConvertedTensor::Part* part;
    int64_t first, n;
  };

  const ConvertedTensor& find(const GgufTensor& tensor) const;
  std::vector<Range> ranges_of(const ConvertedTensor& tensor, int64_t first, int64_t n) const;
  void convert(const ConvertedTensor& tensor, const Range& range, DType to, std::span<std::byte> into) const;
  void encode(std::span<const float> values, DType to, std::byte* into) const;

  const Checkpoint& checkpoint_;
  std::vector<ConvertedTensor> tensors_;
  std::vector<std::vector<int64_t>> starts_;  // of the parts of each tensor, in elements
  std::unordered_map<std::string_view, size_t> by_name_;
  mutable std::atomic<uint64_t> n_overflows_ = 0;
};

/// The type of weights in GGUF that has the bytes of an element type, if there is one.
std::optional<DType> same_type_in_gguf(ElementType type);

}  // namespace tessera::convert
