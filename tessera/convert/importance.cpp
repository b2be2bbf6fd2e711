#include "tessera/convert/importance.h"

#include <algorithm>
#include <cmath>

#include "tessera/base/index.h"
#include "tessera/convert/mix_rules.h"
#include "tessera/gguf/printable.h"

namespace tessera::convert {

namespace {

// Lower bound of weights. Without it, the rounding of columns with almost no activations would be arbitrary. It does
// not change the weighted error, and it reduces the plain error of the codebook formats by a third.
constexpr double kFloor = 1e-2;

void append_weights(std::span<const float> values, std::vector<float>& out) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value);
  const double mean = sum / static_cast<double>(values.size());
  // The mean of floats can be below the smallest double with a finite inverse; such a mean counts as no activations.
  const double scale = mean > 1e-300 && std::isfinite(mean) ? 1.0 / mean : 0.0;
  for (const float value : values)
    out.push_back(scale == 0.0 ? 1.0f : static_cast<float>(std::max(kFloor, static_cast<double>(value) * scale)));
}

}  // namespace

void apply(const ImatrixFilter& filter, Imatrix& imatrix) {
  const auto has_any = [](std::string_view name, const std::vector<std::string>& parts) {
    return std::ranges::any_of(parts,
                               [&](const std::string& part) { return name.find(part) != std::string_view::npos; });
  };
  std::erase_if(imatrix.entries, [&](const auto& entry) {
    const std::string_view name = entry.first;
    return has_any(name, filter.exclude) || (!filter.include.empty() && !has_any(name, filter.include));
  });
}

Result<TensorImportance> TensorImportance::of(const ImatrixEntry& entry, std::string_view tensor_name,
                                              const Shape& shape) {
  const int64_t n_columns = shape[0], n_matrices = shape[2];
  TensorImportance importance;
  if (entry.counts.empty() || static_cast<int64_t>(entry.sums.size()) != n_columns * n_matrices ||
      entry.sums.size() % entry.counts.size() != 0) {
    if (role_of(tensor_name) == Role::embedding) return importance;
    return fail(ErrorCode::mismatch,
                "tensor {}: the importance matrix has {} columns for it, want {}: it is of another model",
                quote_name(tensor_name), entry.sums.size(), n_columns * n_matrices);
  }
  importance.n_columns_ = n_columns;
  importance.n_rows_of_matrix_ = shape[1];
  importance.n_matrices_ = n_matrices;
  importance.values_.reserve(entry.sums.size());
  for (size_t i = 0; i < entry.n_matrices(); ++i) {
    const std::vector<float> values = importance_of(entry, i);
    importance.values_.insert(importance.values_.end(), values.begin(), values.end());
  }
  importance.weights_.reserve(entry.sums.size());
  for (int64_t i = 0; i < n_matrices; ++i)
    append_weights(std::span(importance.values_).subspan(to_size(i * n_columns), to_size(n_columns)),
                   importance.weights_);
  return importance;
}

std::span<const float> TensorImportance::slice(std::span<const float> all, int64_t row) const {
  if (all.empty()) return {};
  const int64_t matrix = row / n_rows_of_matrix_ % n_matrices_;
  return all.subspan(to_size(matrix * n_columns_), to_size(n_columns_));
}

}  // namespace tessera::convert
