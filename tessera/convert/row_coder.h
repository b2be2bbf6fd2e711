// Converts one row of a tensor from one type to another. Shared by quantization of a file and measurement of candidate
// types. Each thread has its own RowCoder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "tessera/base/function_ref.h"
#include "tessera/convert/importance.h"
#include "tessera/quant/format.h"
#include "tessera/tensor/dtype.h"

namespace tessera::convert {

enum class EncoderKind : uint8_t {
  search,      // minimizes the weighted error
  compatible,  // uses the rule or search of ggml
};

enum class Weighting : uint8_t {
  error,      // w = q, the importance itself
  magnitude,  // w = q * sqrt(sigma^2 + x^2), sigma^2 the row's mean square: large weights matter more
};

struct EncoderOptions {
  EncoderKind kind = EncoderKind::search;
  Weighting weighting = Weighting::error;
};

/// A fault in a row, and its position.
struct RowFault {
  enum class Kind : uint8_t { source, result };  // a source value, or its encoding, is not finite
  Kind kind = Kind::source;
  int64_t column = 0;
  float value = 0;  // of the source
};

class RowCoder {
 public:
  /// Converts rows of n elements. `to` may be null if rows are only read.
  RowCoder(const quant::Format& from, const quant::Format* to, DType to_type, int64_t n, const EncoderOptions& options);

  /// Decodes a row into values() and checks that it is finite.
  std::optional<RowFault> read(const std::byte* row);
  std::span<const float> values() const { return values_; }

  /// Changes values() and checks that they stay finite.
  std::optional<RowFault> edit(FunctionRef<void(std::span<float>)> change);

  /// Encodes values() as row i of the tensor.
  std::optional<RowFault> write(const TensorImportance& importance, int64_t i, std::byte* row);

  /// The weights of the errors in row i, [n]. Empty: 1 everywhere. Valid until the next call.
  std::span<const float> weights(const TensorImportance& importance, int64_t i);

 private:
  const quant::Format& from_;
  const quant::Format* to_;
  EncoderOptions options_;
  bool checks_result_;  // the encoder can overflow
  std::vector<float> values_, scratch_;
};

}  // namespace tessera::convert
