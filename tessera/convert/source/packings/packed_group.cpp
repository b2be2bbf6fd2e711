#include "tessera/convert/source/packings/packed_group.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "tessera/base/index.h"
#include "tessera/convert/source/mapped_pages.h"
#include "tessera/convert/source/to_floats.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

std::string extents_text(std::span<const int64_t> shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

int64_t PackedPart::n_elements() const {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

float PackedPart::value(int64_t i) const {
  float value = 0;
  values(i, {&value, 1});
  return value;
}

void PackedPart::values(int64_t first, std::span<float> into) const {
  const size_t width = element_bytes(type);
  to_floats(type, {data + to_size(first) * width, into.size() * width}, into);
}

void PackedPart::forget(int64_t first, int64_t n) const {
  const size_t width = element_bytes(type);
  forget_bytes(*map, static_cast<uint64_t>(data - map->bytes().data()) + to_size(first) * width, to_size(n) * width);
}

Result<> PackedPart::require_type(ElementType wanted) const {
  if (type != wanted)
    return fail(ErrorCode::mismatch, "tensor {}: elements of type {}, want {}", text::quote_text(name),
                element_name(type), element_name(wanted));
  return {};
}

Result<> PackedPart::require_float() const {
  constexpr ElementType kFloats[] = {ElementType::f32, ElementType::f16, ElementType::bf16};
  if (std::ranges::find(kFloats, type) == std::end(kFloats))
    return fail(ErrorCode::mismatch, "tensor {}: elements of type {}, want F32, F16 or BF16", text::quote_text(name),
                element_name(type));
  return {};
}

Result<> PackedPart::require_shape(std::span<const int64_t> wanted) const {
  if (!std::ranges::equal(shape, wanted))
    return fail(ErrorCode::mismatch, "tensor {}: shape {}, want {}", text::quote_text(name), extents_text(shape),
                extents_text(wanted));
  return {};
}

Result<> PackedPart::require_rank(size_t wanted) const {
  if (shape.size() != wanted)
    return fail(ErrorCode::mismatch, "tensor {}: shape {}, want {} dimensions", text::quote_text(name),
                extents_text(shape), wanted);
  return {};
}

Result<float> PackedPart::single_scale() const {
  TESSERA_TRY(require_float());
  if (n_elements() != 1)
    return fail(ErrorCode::mismatch, "tensor {}: shape {}, want one element", text::quote_text(name),
                extents_text(shape));
  const float scale = value(0);
  forget();
  if (!std::isfinite(scale)) return fail(ErrorCode::format, "tensor {}: not finite", text::quote_text(name));
  return scale;
}

}  // namespace tessera::convert
