// One row of a tensor from its type to another: the step that quantizing a file and measuring a candidate type share.
// Each thread has its own.
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
  search,      // least weighted error
  compatible,  // ggml's rule or search
};

enum class Weighting : uint8_t {
  error,      // w = q, the importance itself
  magnitude,  // w = q * sqrt(sigma^2 + x^2), sigma^2 the row's mean square: large weights matter more
};

struct EncoderOptions {
  EncoderKind kind = EncoderKind::search;
  Weighting weighting = Weighting::error;
};

/// What is wrong with a row, and where.
struct RowFault {
  enum class Kind : uint8_t { source, result };  // a source value, or what it became, is not finite
  Kind kind = Kind::source;
  int64_t column = 0;
  float value = 0;  // of the source
};

class RowCoder {
 public:
  /// Rows of n elements; `to` may be null where rows are only read.
  RowCoder(const quant::Format& from, const quant::Format* to, DType to_type, int64_t n, const EncoderOptions& options);

  /// Decodes a row and checks that it is finite. values() holds it afterwards.
  std::optional<RowFault> read(const std::byte* row);
  std::span<const float> values() const { return values_; }

  /// Changes values() and checks that they stay finite.
  std::optional<RowFault> edit(FunctionRef<void(std::span<float>)> change);

  /// Encodes values() as row i of the tensor.
  std::optional<RowFault> write(const TensorImportance& importance, int64_t i, std::byte* row);

  /// The weights that errors of row i count with, [n]; empty: 1 everywhere. Valid until the next call.
  std::span<const float> weights(const TensorImportance& importance, int64_t i);

 private:
  const quant::Format& from_;
  const quant::Format* to_;
  EncoderOptions options_;
  bool checks_result_;  // the encoder can overflow
  std::vector<float> values_, scratch_;
};

}  // namespace tessera::convert
