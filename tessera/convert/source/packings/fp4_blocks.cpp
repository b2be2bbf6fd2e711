// Floats of 4 bits with scales of 8 bits, two in a byte. They stay in their format: MXFP4 and NVFP4 have the same
// blocks, in which the values are in another order.
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/convert/source/packings/packings.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

// From pairs of neighbours to pairs of values that are n apart: byte i of `from` has values 2i and 2i + 1 of 2n, byte i
// of `to` has values i and i + n.
void pair_halves(const std::byte* from, int64_t n, std::byte* to) {
  const auto value = [&](int64_t i) {
    const auto byte = static_cast<unsigned>(from[i / 2]);
    return i % 2 == 0 ? byte & 15u : byte >> 4;
  };
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<std::byte>(value(i) | value(i + n) << 4);
}

/// A format of blocks: scales, then the values.
struct Fp4Format {
  ElementType type;
  int64_t n_scales;       // in a block
  int64_t n_scale_bytes;  // of the values of one scale
  std::byte scale_mask;
};
constexpr Fp4Format kMxfp4 = {ElementType::mxfp4, 1, 16, std::byte{0xff}};
constexpr Fp4Format kNvfp4 = {ElementType::nvfp4, 4, 8, std::byte{0x7f}};  // scales have no sign

class Fp4Source : public ElementSource {
 public:
  Fp4Source(const Fp4Format& format, PackedPart values, PackedPart scales)
      : format_(format), values_(std::move(values)), scales_(std::move(scales)) {}

  void read(int64_t first, std::span<std::byte> into) const override {
    const auto& [type, n_scales, n_scale_bytes, scale_mask] = format_;
    const auto n_blocks = static_cast<int64_t>(into.size() / element_bytes(type));
    const std::byte* scale = scales_.data + first * n_scales;
    const std::byte* values = values_.data + first * n_scales * n_scale_bytes;
    std::byte* to = into.data();
    for (int64_t block = 0; block < n_blocks; ++block) {
      for (int64_t i = 0; i < n_scales; ++i) *to++ = *scale++ & scale_mask;
      for (int64_t i = 0; i < n_scales; ++i, values += n_scale_bytes, to += n_scale_bytes)
        pair_halves(values, n_scale_bytes, to);
    }
  }

  void forget(int64_t first, int64_t n) const override {
    scales_.forget(first * format_.n_scales, n * format_.n_scales);
    const int64_t n_block_bytes = format_.n_scales * format_.n_scale_bytes;
    values_.forget(first * n_block_bytes, n * n_block_bytes);
  }

 private:
  Fp4Format format_;
  PackedPart values_, scales_;
};

// A tensor of one float.
class ConstantSource : public ElementSource {
 public:
  explicit ConstantSource(float value) : value_(value) {}
  void read(int64_t, std::span<std::byte> into) const override { std::memcpy(into.data(), &value_, into.size()); }
  void forget(int64_t, int64_t) const override {}

 private:
  float value_;
};

StoredTensor fp4_tensor(const PackedGroup& group, const Fp4Format& format, std::vector<int64_t> shape) {
  StoredTensor tensor{.name = group.name, .type = format.type, .shape = std::move(shape)};
  tensor.elements = std::make_shared<Fp4Source>(format, *group.weight, *group.scale);
  return tensor;
}

// Rows of bytes [..., columns / 2], and their scales.
Result<StoredTensor> fp4_rows(const PackedGroup& group, const Fp4Format& format) {
  const PackedPart &values = *group.weight, &scales = *group.scale;
  const int64_t n_block_bytes = format.n_scales * format.n_scale_bytes;
  if (values.shape.empty() || values.shape.back() % n_block_bytes != 0)
    return fail(ErrorCode::mismatch, "tensor {}: shape {}, want rows of whole blocks of {} bytes",
                text::quote_text(values.name), extents_text(values.shape), n_block_bytes);
  std::vector<int64_t> shape = values.shape;
  shape.back() /= format.n_scale_bytes;
  TESSERA_TRY(scales.require_shape(shape));
  shape.back() /= format.n_scales;
  return fp4_tensor(group, format, std::move(shape));
}

// Experts are stacked, so none of them may lack its factor. Other tensors without one have a factor of 1.
bool has_factor(const PackedGroup& group, float value) {
  return value != 1.0f || group.name.find(".experts.") != std::string::npos;
}

// NAME.end for a factor of NAME.weight.
Result<> add_factor(const PackedGroup& group, const PackedPart& part, bool is_inverse, std::string_view end,
                    std::vector<StoredTensor>& tensors) {
  TESSERA_ASSIGN(float value, part.single_scale());
  if (is_inverse) value = 1.0f / value;
  if (!std::isfinite(value))
    return fail(ErrorCode::format, "tensor {}: the inverse is not finite", text::quote_text(part.name));
  if (!has_factor(group, value)) return {};
  StoredTensor tensor{.type = ElementType::f32, .shape = {1}};
  tensor.name = group.name.substr(0, group.name.rfind('.')) + std::string(end);
  tensor.elements = std::make_shared<ConstantSource>(value);
  tensors.push_back(std::move(tensor));
  return {};
}

}  // namespace

// Rows of blocks: [..., blocks of a row, 16 bytes].
PackedTensors make_mxfp4(const PackedGroup& group, const PackingConfig&) {
  const PackedPart &values = *group.weight, &scales = *group.scale;
  TESSERA_TRY(values.require_type(ElementType::u8));
  if (scales.type != ElementType::f8_e8m0) TESSERA_TRY(scales.require_type(ElementType::u8));
  std::vector<int64_t> wanted = scales.shape;
  wanted.push_back(kMxfp4.n_scale_bytes);
  TESSERA_TRY(values.require_shape(wanted));
  return std::vector{fp4_tensor(group, kMxfp4, scales.shape)};
}

// Experts of DeepSeek V4 have MXFP4's scales, beside other matrices of 8 bits.
PackedTensors make_fp8(const PackedGroup& group, const PackingConfig& config) {
  const ElementType type = group.weight->type;
  const bool is_fp4 = (type == ElementType::i8 || type == ElementType::u8) && group.scale->type == ElementType::f8_e8m0;
  if (!is_fp4) return make_scaled(group, config);
  TESSERA_ASSIGN(StoredTensor tensor, fp4_rows(group, kMxfp4));
  return std::vector{std::move(tensor)};
}

PackedTensors make_nvfp4(const PackedGroup& group, const PackingConfig& config) {
  TESSERA_TRY(group.weight->require_type(ElementType::u8));
  TESSERA_TRY(group.scale->require_type(ElementType::f8_e4m3));
  TESSERA_ASSIGN(StoredTensor tensor, fp4_rows(group, kNvfp4));
  std::vector<StoredTensor> tensors{std::move(tensor)};
  TESSERA_TRY(add_factor(group, *group.global_scale, config.has_inverse_scales, ".scale", tensors));
  if (group.input_scale)
    TESSERA_TRY(add_factor(group, *group.input_scale, config.has_inverse_scales, ".input_scale", tensors));
  return tensors;
}

}  // namespace tessera::convert
