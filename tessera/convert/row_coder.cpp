#include "tessera/convert/row_coder.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "tessera/base/index.h"

namespace tessera::convert {

namespace {

constexpr uint32_t kExponent = 0x7f800000u;

bool is_finite_bits(float value) { return (std::bit_cast<uint32_t>(value) & kExponent) != kExponent; }

// Index of the first value that is infinite or NaN, or -1.
int64_t find_non_finite(std::span<const float> values) {
  // Computes the largest exponents of four lanes, so that this check of a row is as fast as a copy.
  using Bits [[gnu::vector_size(16)]] = int32_t;
  Bits largest{};
  size_t i = 0;
  for (; i + 4 <= values.size(); i += 4) {
    Bits bits;
    std::memcpy(&bits, values.data() + i, sizeof bits);
    bits &= static_cast<int32_t>(kExponent);
    largest = bits > largest ? bits : largest;
  }
  bool any = false;
  for (int lane = 0; lane < 4; ++lane) any |= largest[lane] == static_cast<int32_t>(kExponent);
  for (; i < values.size(); ++i) any |= !is_finite_bits(values[i]);
  if (!any) return -1;
  return std::ranges::find_if_not(values, is_finite_bits) - values.begin();
}

}  // namespace

RowCoder::RowCoder(const quant::Format& from, const quant::Format* to, DType to_type, int64_t n,
                   const EncoderOptions& options)
    : from_(from),
      to_(to),
      options_(options),
      checks_result_(to_type == DType::f16 || to_type == DType::bf16 || options.kind == EncoderKind::compatible),
      values_(to_size(n)),
      scratch_(to_size(n)) {}

std::optional<RowFault> RowCoder::read(const std::byte* row) {
  from_.dequantize_row(row, static_cast<int64_t>(values_.size()), values_.data());
  const int64_t column = find_non_finite(values_);
  if (column < 0) return std::nullopt;
  return RowFault{RowFault::Kind::source, column, values_[to_size(column)]};
}

std::optional<RowFault> RowCoder::edit(FunctionRef<void(std::span<float>)> change) {
  change(values_);
  const int64_t column = find_non_finite(values_);
  if (column < 0) return std::nullopt;
  return RowFault{RowFault::Kind::result, column, values_[to_size(column)]};
}

std::span<const float> RowCoder::weights(const TensorImportance& importance, int64_t i) {
  const std::span<const float> q = importance.weights(i);
  if (options_.weighting == Weighting::error) return q;
  double sum = 0;
  for (const float x : values_) sum += static_cast<double>(x) * static_cast<double>(x);
  const double mean = sum / static_cast<double>(values_.size());
  if (!(mean > 0.0)) return q;
  // Divided by sigma. This changes no choice within the row and keeps the weights in the range of a float.
  for (size_t j = 0; j < values_.size(); ++j) {
    const double x = static_cast<double>(values_[j]), w = q.empty() ? 1.0 : static_cast<double>(q[j]);
    scratch_[j] = static_cast<float>(w * std::sqrt(1.0 + x * x / mean));
  }
  return scratch_;
}

std::optional<RowFault> RowCoder::write(const TensorImportance& importance, int64_t i, std::byte* row) {
  const auto n = static_cast<int64_t>(values_.size());
  const auto pointer = [](std::span<const float> span) { return span.empty() ? nullptr : span.data(); };
  if (options_.kind == EncoderKind::compatible)
    to_->quantize_row_compat(values_.data(), pointer(importance.row(i)), n, row);
  else
    to_->quantize_row(values_.data(), pointer(weights(importance, i)), n, row);
  if (!checks_result_) return std::nullopt;
  to_->dequantize_row(row, n, scratch_.data());
  const int64_t column = find_non_finite(scratch_);
  if (column < 0) return std::nullopt;
  return RowFault{RowFault::Kind::result, column, values_[to_size(column)]};
}

}  // namespace tessera::convert
