// Weights of 8 bits, each times the scale of its block: w x scale, or (w - zero) x scale. A block is a part of a
// matrix, a row, or all of it.
#include <algorithm>
#include <memory>
#include <utility>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/convert/source/packings/matrix_source.h"
#include "tessera/convert/source/packings/packings.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

struct ScaleBlocks {
  int64_t block_rows = 1, block_columns = 1;
  int64_t n_rows = 1, n_columns = 1;  // of the scales of a matrix
};

// Matrices of the same size one after another, such as experts, have scales one after another.
class ScaledMatrices : public MatrixSource {
 public:
  ScaledMatrices(const PackedGroup& group, const ScaleBlocks& blocks)
      : MatrixSource(group.weight->shape.back()),
        weight_(*group.weight),
        scale_(*group.scale),
        zeros_(group.zeros),
        blocks_(blocks) {}

  void forget(int64_t first, int64_t n) const override {
    weight_.forget(first, n);
    if (first + n < weight_.n_elements()) return;
    scale_.forget();
    if (zeros_) zeros_->forget();
  }

 private:
  void decode(const Tile& tile, float* values) const override {
    for (int64_t row = tile.row; row < tile.row + tile.n_rows; ++row, values += tile.n_columns) {
      const std::span<float> all(values, to_size(tile.n_columns));
      weight_.values(row * n_columns() + tile.column, all);
      for (int64_t at = 0; at < tile.n_columns;) {
        const int64_t column = tile.column + at, block = column / blocks_.block_columns;
        const int64_t n = std::min((block + 1) * blocks_.block_columns - column, tile.n_columns - at);
        scale_block(scale_index(row, block), all.subspan(to_size(at), to_size(n)));
        at += n;
      }
    }
  }

  void scale_block(int64_t index, std::span<float> values) const {
    const float scale = scale_.value(index), zero = zeros_ ? zeros_->value(index) : 0.0f;
    for (float& value : values) value = (value - zero) * scale;
  }

  int64_t scale_index(int64_t row, int64_t block_column) const {
    const int64_t n_matrix_rows = weight_.shape[weight_.shape.size() - 2];
    const int64_t matrix = row / n_matrix_rows, block_row = row % n_matrix_rows / blocks_.block_rows;
    const int64_t index = (matrix * blocks_.n_rows + block_row) * blocks_.n_columns + block_column;
    return scale_.n_elements() == 1 ? 0 : index;
  }

  PackedPart weight_, scale_;
  std::optional<PackedPart> zeros_;
  ScaleBlocks blocks_;
};

bool is_scaled_type(ElementType type) {
  return type == ElementType::f8_e4m3 || type == ElementType::f8_e5m2 || type == ElementType::i8;
}

// The blocks that give the scales the shape that they have.
Result<ScaleBlocks> find_blocks(const PackedPart& weight, const PackedPart& scale, const PackingConfig& config) {
  const size_t rank = weight.shape.size();
  if (rank < 2)
    return fail(ErrorCode::mismatch, "tensor {}: shape {}, want a matrix", text::quote_text(weight.name),
                extents_text(weight.shape));
  const int64_t n_rows = weight.shape[rank - 2], n_columns = weight.shape[rank - 1];
  const PackingScheme of_tensor{.block_rows = n_rows, .block_columns = n_columns};
  const PackingScheme of_rows{.block_rows = 1, .block_columns = n_columns};
  std::vector<PackingScheme> schemes = config.schemes;
  schemes.push_back(of_rows);
  schemes.push_back(of_tensor);
  for (const PackingScheme& scheme : schemes) {
    ScaleBlocks blocks{
        .block_rows = std::max<int64_t>(scheme.block_rows, 1),
        .block_columns = std::max<int64_t>(scheme.block_columns > 0 ? scheme.block_columns : n_columns, 1)};
    blocks.n_rows = div_ceil(n_rows, blocks.block_rows);
    blocks.n_columns = div_ceil(n_columns, blocks.block_columns);
    std::vector<int64_t> wanted = weight.shape;
    wanted[rank - 2] = blocks.n_rows;
    wanted[rank - 1] = blocks.n_columns;
    if (scale.shape == wanted) return blocks;
    wanted.pop_back();  // one scale for each row, as a vector
    if (blocks.n_columns == 1 && scale.shape == wanted) return blocks;
  }
  if (scale.n_elements() == 1)
    return ScaleBlocks{.block_rows = std::max<int64_t>(n_rows, 1), .block_columns = std::max<int64_t>(n_columns, 1)};
  return fail(ErrorCode::mismatch, "tensor {}: shape {} does not fit weights of shape {}", text::quote_text(scale.name),
              extents_text(scale.shape), extents_text(weight.shape));
}

// A fused matrix of q, k and v may hold the parts of several machines one after another, each with scales of its own.
// It becomes a matrix per part. Nothing if the scales do not say so.
std::optional<PackedGroup> in_parts(const PackedGroup& group, const PackingConfig& config) {
  constexpr std::string_view kFused = ".qkv_proj.weight";
  constexpr int64_t kPartCounts[] = {4, 8};
  const std::vector<int64_t>&shape = group.weight->shape, &scales = group.scale->shape;
  if (!group.weight->name.ends_with(kFused) || shape.size() != 2 || scales.size() != 2) return std::nullopt;
  for (const int64_t n : kPartCounts) {
    if (shape[0] % n != 0 || scales[0] % n != 0) continue;
    PackedGroup parts = group;
    parts.weight->shape = {n, shape[0] / n, shape[1]};
    parts.scale->shape = {n, scales[0] / n, scales[1]};
    if (find_blocks(*parts.weight, *parts.scale, config)) return parts;
  }
  return std::nullopt;
}

}  // namespace

PackedTensors make_scaled(const PackedGroup& group, const PackingConfig& config) {
  const PackedPart &weight = *group.weight, &scale = *group.scale;
  if (!is_scaled_type(weight.type))
    return fail(ErrorCode::mismatch, "tensor {}: elements of type {}, want F8_E4M3, F8_E5M2 or I8",
                text::quote_text(weight.name), element_name(weight.type));
  if (scale.type != ElementType::f8_e8m0) TESSERA_TRY(scale.require_float());
  const Result<ScaleBlocks> found = find_blocks(weight, scale, config);
  if (!found)
    if (const auto parts = in_parts(group, config)) return make_scaled(*parts, config);
  TESSERA_ASSIGN(const ScaleBlocks blocks, found);
  if (group.zeros) TESSERA_TRY(group.zeros->require_type(ElementType::i8));
  if (group.zeros) TESSERA_TRY(group.zeros->require_shape(scale.shape));
  StoredTensor tensor{.name = group.name, .type = ElementType::f32, .shape = weight.shape};
  tensor.elements = std::make_shared<ScaledMatrices>(group, blocks);
  return std::vector{std::move(tensor)};
}

}  // namespace tessera::convert
