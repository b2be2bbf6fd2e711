// AWQ (the layout "gemm"): words hold the integers of eight rows in one column, in an order of their own.
#include <algorithm>
#include <utility>

#include "tessera/base/checked.h"
#include "tessera/convert/source/packings/grouped_integers.h"
#include "tessera/convert/source/packings/packings.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

// Place i of a word has row 0, 2, 4, 6, 1, 3, 5, 7 of eight; this is the place of each row.
constexpr NibbleOrder kPlaceOfRow = {0, 4, 1, 5, 2, 6, 3, 7};
constexpr int64_t kWordRows = 8;

}  // namespace

PackedTensors make_awq(const PackedGroup& group, const PackingConfig& config) {
  const PackedPart &words = *group.weight, &scale = *group.scale, &zeros = *group.zeros;
  TESSERA_TRY(words.require_type(ElementType::i32));
  TESSERA_TRY(words.require_rank(2));
  TESSERA_TRY(scale.require_float());
  TESSERA_TRY(zeros.require_type(ElementType::i32));
  const int64_t n_columns = words.shape[0], n_word_columns = words.shape[1];
  const int64_t block_columns = config.schemes.front().block_columns;
  const int64_t group_columns = block_columns > 0 ? block_columns : std::max<int64_t>(n_columns, 1);
  const int64_t n_groups = div_ceil(n_columns, group_columns);
  TESSERA_TRY(zeros.require_shape(std::vector{n_groups, n_word_columns}));
  TESSERA_TRY(scale.require_rank(2));
  const int64_t n_rows = scale.shape[1];
  if (n_rows % kWordRows != 0 || n_rows / kWordRows != n_word_columns || scale.shape[0] != n_groups)
    return fail(ErrorCode::mismatch, "tensor {}: shape {} does not fit weights of shape {} and groups of {}",
                text::quote_text(scale.name), extents_text(scale.shape), extents_text(words.shape), group_columns);
  GroupedMatrix matrix{.n_rows = n_rows, .n_columns = n_columns};
  matrix.integers = {.words = words, .other_stride = n_word_columns, .places = kPlaceOfRow};
  matrix.packs_rows = true;
  matrix.zeros = PackedIntegers{.words = zeros, .other_stride = n_word_columns, .places = kPlaceOfRow};
  matrix.scale = scale;
  matrix.scale_group_stride = n_rows;
  matrix.n_groups = n_groups;
  matrix.group_columns = group_columns;
  TESSERA_ASSIGN(StoredTensor tensor, grouped_tensor(group.name, std::move(matrix)));
  return std::vector{std::move(tensor)};
}

}  // namespace tessera::convert
