#include "tessera/convert/merge_lora.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "tessera/base/index.h"
#include "tessera/gguf/printable.h"

namespace tessera::convert {

namespace {

// Columns per iteration: a constant, so that the compiler vectorises the loops.
constexpr size_t kColumns = 64;

Result<std::vector<float>> decode(const LoraFile& lora, const ModelFiles::Tensor& tensor) {
  const quant::Format* format = find_decoder(tensor.info.dtype);
  if (format == nullptr)
    return fail(ErrorCode::unsupported, "{}: tensor {}: type {} has no decoder", lora.name(),
                quote_name(tensor.info.name), info(tensor.info.dtype).name);
  std::vector<float> values(to_size(tensor.info.shape.n_elements()));
  format->dequantize_row(lora.files().data(tensor).data(), tensor.info.shape.n_elements(), values.data());
  const auto bad = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
  if (bad == values.end()) return values;
  return fail(ErrorCode::format, "{}: tensor {}: element {} is {}, want a finite number", lora.name(),
              quote_name(tensor.info.name), bad - values.begin(), *bad);
}

// Returns x [n, m] transposed to [m, n].
std::vector<float> transposed(const std::vector<float>& x, size_t n) {
  std::vector<float> result(x.size());
  const size_t m = x.size() / n;
  for (size_t row = 0; row < m; ++row)
    for (size_t column = 0; column < n; ++column) result[column * m + row] = x[row * n + column];
  return result;
}

}  // namespace

Result<> LoraMerge::add(const LoraFile& lora, float scale) {
  for (const LoraPair& pair : lora.pairs()) {
    const Shape& shape = pair.weight->info.shape;
    Term term{.rank = pair.rank, .n_rows = shape[1], .width = shape[0], .factor = scale * lora.factor(pair)};
    TESSERA_ASSIGN(std::vector<float> down, decode(lora, *pair.down));
    TESSERA_ASSIGN(std::vector<float> up, decode(lora, *pair.up));
    if (pair.is_table) {
      term.basis = transposed(up, to_size(pair.rank));
      term.coefficients = std::move(down);
    } else {
      term.basis = std::move(down);
      term.coefficients = std::move(up);
    }
    terms_[std::string(pair.weight->info.name)].push_back(std::move(term));
  }
  return {};
}

Result<> LoraMerge::apply_to(QuantizePlan& plan, std::optional<DType> type) const {
  for (PlannedTensor& tensor : plan.tensors) {
    const GgufTensor& source = tensor.source.info;
    if (!terms_.contains(source.name)) continue;
    tensor.is_edited = true;
    tensor.to = type.value_or(source.dtype);
    const auto n_bytes = nbytes(tensor.to, source.shape);
    if (!n_bytes)
      return fail(ErrorCode::mismatch, "tensor {} {}: rows of {} are no whole blocks of {}", quote_name(source.name),
                  to_string(source.shape), source.shape[0], info(tensor.to).name);
    tensor.n_bytes = *n_bytes;
  }
  return {};
}

void LoraMerge::edit(std::string_view tensor, int64_t row, std::span<float> values) const {
  const auto found = terms_.find(tensor);
  if (found == terms_.end()) return;
  for (const Term& term : found->second) add_term(term, row, values);
}

void LoraMerge::add_term(const Term& term, int64_t row, std::span<float> values) {
  const auto width = to_size(term.width), rank = to_size(term.rank);
  const float* coefficients = &term.coefficients[to_size(row) * rank];
  const float* basis = &term.basis[to_size(row / term.n_rows) * rank * width];
  for (size_t begin = 0; begin < width; begin += kColumns) {
    const size_t count = std::min(kColumns, width - begin);
    std::array<float, kColumns> sums{};
    for (size_t j = 0; j < rank; ++j) {
      const float* from = basis + j * width + begin;
      if (count == kColumns) {
        for (size_t c = 0; c < kColumns; ++c) sums[c] += coefficients[j] * from[c];
      } else {
        for (size_t c = 0; c < count; ++c) sums[c] += coefficients[j] * from[c];
      }
    }
    for (size_t c = 0; c < count; ++c) values[begin + c] += term.factor * sums[c];
  }
}

}  // namespace tessera::convert
