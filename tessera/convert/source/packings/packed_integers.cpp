// compressed-tensors, pack-quantized: words hold the integers of a row, and zeros are packed along the rows. Both are
// stored plus half of their range, so that they are not negative.
#include <algorithm>
#include <cstring>
#include <utility>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/convert/source/packings/grouped_integers.h"
#include "tessera/convert/source/packings/packings.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

struct MatrixExtents {
  int64_t n_rows, n_columns;
};

Result<MatrixExtents> read_extents(const PackedPart& shape) {
  if (shape.type != ElementType::i64) TESSERA_TRY(shape.require_type(ElementType::i32));
  TESSERA_TRY(shape.require_shape(std::vector<int64_t>{2}));
  const auto extent = [&](int64_t i) {
    int64_t number = 0;
    if (shape.type == ElementType::i32) return static_cast<int64_t>(static_cast<int32_t>(shape.word(i)));
    std::memcpy(&number, shape.data + to_size(i) * sizeof number, sizeof number);
    return number;
  };
  const MatrixExtents extents{extent(0), extent(1)};
  shape.forget();
  constexpr int64_t kMaxExtent = int64_t{1} << 31;
  if (extents.n_rows < 0 || extents.n_rows > kMaxExtent || extents.n_columns < 0 || extents.n_columns > kMaxExtent)
    return fail(ErrorCode::format, "tensor {}: extents {} and {}, want 0 to {}", text::quote_text(shape.name),
                extents.n_rows, extents.n_columns, kMaxExtent);
  return extents;
}

// The scheme whose numbers of words and of groups are those of the parts, with its real number of columns in a group.
Result<PackingScheme> find_scheme(const PackedGroup& group, const MatrixExtents& extents, const PackingConfig& config) {
  const PackedPart &words = *group.weight, &scale = *group.scale;
  const auto& [n_rows, n_columns] = extents;
  for (PackingScheme scheme : config.schemes) {
    if (words.shape != std::vector{n_rows, n_packed_words(n_columns, scheme.bits, false)}) continue;
    if (scheme.block_columns == 0) scheme.block_columns = std::max<int64_t>(n_columns, 1);
    if (scheme.block_rows == 1 && scale.shape == std::vector{n_rows, div_ceil(n_columns, scheme.block_columns)})
      return scheme;
  }
  return fail(ErrorCode::mismatch,
              "tensor {}: shape {} with scales of shape {} is none that config.json gives a matrix of {} x {}",
              text::quote_text(words.name), extents_text(words.shape), extents_text(scale.shape), n_rows, n_columns);
}

}  // namespace

PackedTensors make_packed_integers(const PackedGroup& group, const PackingConfig& config) {
  const PackedPart &words = *group.weight, &scale = *group.scale;
  TESSERA_TRY(words.require_type(ElementType::i32));
  TESSERA_TRY(scale.require_float());
  TESSERA_ASSIGN(const MatrixExtents extents, read_extents(*group.shape));
  TESSERA_ASSIGN(const PackingScheme scheme, find_scheme(group, extents, config));
  GroupedMatrix matrix{.n_rows = extents.n_rows, .n_columns = extents.n_columns};
  matrix.n_groups = scale.shape[1];
  matrix.group_columns = scheme.block_columns;
  matrix.integers = {.words = words, .bits = scheme.bits, .other_stride = words.shape[1]};
  matrix.zero_shift = 1 << (scheme.bits - 1);
  if (group.zeros) {
    TESSERA_TRY(group.zeros->require_type(ElementType::i32));
    const int64_t n_zero_rows = n_packed_words(extents.n_rows, scheme.bits, false);
    TESSERA_TRY(group.zeros->require_shape(std::vector{n_zero_rows, matrix.n_groups}));
    matrix.zeros = PackedIntegers{.words = *group.zeros, .bits = scheme.bits, .word_stride = matrix.n_groups};
    matrix.zero_shift = 0;
  }
  matrix.scale = scale;
  matrix.scale_row_stride = matrix.n_groups;
  if (group.groups) {
    TESSERA_TRY(group.groups->require_type(ElementType::i32));
    TESSERA_TRY(group.groups->require_shape(std::vector{extents.n_columns}));
    matrix.groups = group.groups;
  }
  TESSERA_ASSIGN(StoredTensor tensor, grouped_tensor(group.name, std::move(matrix)));
  return std::vector{std::move(tensor)};
}

}  // namespace tessera::convert
