#include "tessera/convert/converted_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tessera/base/half.h"
#include "tessera/base/index.h"
#include "tessera/convert/file_types.h"
#include "tessera/convert/source/to_floats.h"
#include "tessera/convert/torch_exp.h"

namespace tessera::convert {

namespace {

// Number of values that are converted at a time, so that buffers stay in a processor's cache.
constexpr int64_t kPieceValues = int64_t{1} << 13;

// As the code of BitNet computes them. Halves go to the even number, 0.
void make_ternary(float scale, std::span<float> values) {
  const float inverse = 1.0f / scale;
  for (float& value : values) value = std::clamp(std::nearbyint(value * inverse), -1.0f, 1.0f) / inverse;
}

void change_values(ValueChange change, float factor, std::span<float> values) {
  if (change == ValueChange::ternary) return make_ternary(factor, values);
  constexpr float kFifthTo1_5 = 0.0894427191f;  // (1/5)^1.5
  const float more = change == ValueChange::add_one            ? 1.0f
                     : change == ValueChange::add_fifth        ? 0.2f
                     : change == ValueChange::add_fifth_to_1_5 ? kFifthTo1_5
                                                               : 0.0f;
  if (more != 0.0f)
    for (float& value : values) value += more;
  if (change == ValueChange::minus_exp)
    for (float& value : values) value = -torch_exp(value);
  if (factor != 1.0f)
    for (float& value : values) value *= factor;
}

bool is_changed(const ConvertedTensor& tensor, const ConvertedTensor::Part& part) {
  return tensor.values != ValueChange::none || part.factor != 1.0f;
}

// The elements of a row: blocks where the type has blocks, which no conversion takes apart.
int64_t row_elements(const GgufTensor& tensor) { return tensor.shape[0] / info(tensor.dtype).block_elements; }

}  // namespace

std::optional<DType> same_type_in_gguf(ElementType type) {
  std::string name(element_name(type));
  for (char& c : name)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return weight_type_from_name(name);
}

ConvertedRows::ConvertedRows(const Checkpoint& checkpoint, std::vector<ConvertedTensor> tensors)
    : checkpoint_(checkpoint), tensors_(std::move(tensors)) {
  for (const ConvertedTensor& tensor : tensors_) {
    by_name_.emplace(tensor.name, starts_.size());
    std::vector<int64_t> starts;
    int64_t start = 0;
    for (const ConvertedTensor::Part& part : tensor.parts) {
      starts.push_back(start);
      start += part.view.n_elements();
    }
    starts_.push_back(std::move(starts));
  }
}

const ConvertedTensor& ConvertedRows::find(const GgufTensor& tensor) const {
  return tensors_[by_name_.find(tensor.name)->second];
}

std::vector<ConvertedRows::Range> ConvertedRows::ranges_of(const ConvertedTensor& tensor, int64_t first,
                                                           int64_t n) const {
  const std::vector<int64_t>& starts = starts_[to_size(&tensor - tensors_.data())];
  std::vector<Range> ranges;
  auto i = to_size(std::ranges::upper_bound(starts, first) - starts.begin()) - 1;
  for (; n > 0; ++i) {
    const int64_t at = first - starts[i];
    const int64_t n_here = std::min(n, tensor.parts[i].view.n_elements() - at);
    if (n_here > 0) ranges.push_back({&tensor.parts[i], at, n_here});
    first += n_here;
    n -= n_here;
  }
  return ranges;
}

void ConvertedRows::read(const GgufTensor& tensor, int64_t begin, int64_t n, std::span<std::byte> into) const {
  const ConvertedTensor& converted = find(tensor);
  const int64_t n_row = row_elements(tensor);
  if (converted.parts.empty()) {
    const auto values = std::span(converted.computed).subspan(to_size(begin * n_row), to_size(n * n_row));
    return encode(values, tensor.dtype, into.data());
  }
  const size_t element_bytes = info(tensor.dtype).block_bytes;
  for (const Range& range : ranges_of(converted, begin * n_row, n * n_row)) {
    const size_t n_bytes = to_size(range.n) * element_bytes;
    convert(converted, range, tensor.dtype, into.first(n_bytes));
    into = into.subspan(n_bytes);
  }
}

void ConvertedRows::convert(const ConvertedTensor& tensor, const Range& range, DType to,
                            std::span<std::byte> into) const {
  const StoredTensor& view = range.part->view;
  if (!is_changed(tensor, *range.part) && same_type_in_gguf(view.type) == to)
    return checkpoint_.read(view, range.part->file, range.first, into);
  const size_t width = element_bytes(view.type);
  const int64_t n_piece = std::min(range.n, kPieceValues), n_read = view.is_by_columns() ? range.n : n_piece;
  std::vector<std::byte> stored(to_size(n_read) * width);
  std::vector<float> values(to_size(n_piece));
  for (int64_t at = 0; at < range.n; at += kPieceValues) {
    const int64_t n_left = range.n - at, in_stored = at % n_read;
    const std::span<float> floats = std::span(values).first(to_size(std::min(n_piece, n_left)));
    if (in_stored == 0)
      checkpoint_.read(view, range.part->file, range.first + at,
                       std::span(stored).first(to_size(std::min(n_read, n_left)) * width));
    to_floats(view.type, std::span(stored).subspan(to_size(in_stored) * width, floats.size() * width), floats);
    change_values(tensor.values, range.part->factor, floats);
    encode(floats, to, into.data() + to_size(at) * info(to).block_bytes);
  }
}

void ConvertedRows::encode(std::span<const float> values, DType to, std::byte* into) const {
  if (to == DType::f32) {
    std::memcpy(into, values.data(), values.size_bytes());
    return;
  }
  if (to == DType::i32) {
    constexpr float kMost = 0x1p24f;  // the file may have changed since its numbers were checked
    for (size_t i = 0; i < values.size(); ++i) {
      const auto number = static_cast<int32_t>(std::clamp(values[i], -kMost, kMost));
      std::memcpy(into + i * sizeof number, &number, sizeof number);
    }
    return;
  }
  const auto put = [&](size_t i, uint16_t bits) { std::memcpy(into + i * sizeof bits, &bits, sizeof bits); };
  if (to == DType::bf16) {
    for (size_t i = 0; i < values.size(); ++i) put(i, f32_to_bf16(values[i]));
    return;
  }
  constexpr uint16_t kSign = 0x8000, kInfinity = 0x7c00;
  uint64_t n_overflows = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits = f32_to_f16(values[i]);
    put(i, bits);
    if ((bits & ~kSign) == kInfinity && std::isfinite(values[i])) ++n_overflows;
  }
  if (n_overflows > 0) n_overflows_ += n_overflows;
}

std::vector<FileRange> ConvertedRows::stored(const GgufTensor& tensor, int64_t begin, int64_t n) const {
  const ConvertedTensor& converted = find(tensor);
  if (converted.parts.empty()) return {};
  const int64_t n_row = row_elements(tensor);
  std::vector<FileRange> result;
  for (const Range& range : ranges_of(converted, begin * n_row, n * n_row)) {
    const StoredTensor& view = range.part->view;
    if (is_changed(converted, *range.part)) return {};
    if (view.elements != nullptr || !view.strides.empty() || same_type_in_gguf(view.type) != tensor.dtype) return {};
    const uint64_t width = element_bytes(view.type);
    result.push_back({&checkpoint_.file(range.part->file), view.offset + static_cast<uint64_t>(range.first) * width,
                      static_cast<uint64_t>(range.n) * width});
  }
  return result;
}

int64_t ConvertedRows::rows_at_once(const GgufTensor& tensor) const {
  const auto is_by_columns = [](const ConvertedTensor::Part& part) { return part.view.is_by_columns(); };
  return std::ranges::any_of(find(tensor).parts, is_by_columns) ? StoredTensor::kColumnRows : 1;
}

void ConvertedRows::forget(const GgufTensor& tensor, int64_t begin, int64_t n) const {
  const ConvertedTensor& converted = find(tensor);
  if (converted.parts.empty()) return;
  const int64_t n_row = row_elements(tensor);
  for (const Range& range : ranges_of(converted, begin * n_row, n * n_row))
    checkpoint_.forget(range.part->view, range.part->file, range.first, range.n);
}

}  // namespace tessera::convert
