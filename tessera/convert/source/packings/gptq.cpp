// GPTQ: words hold the integers of a row along the columns, and a row of words belongs to all rows. Groups of columns
// are in any order (act-order).
#include <algorithm>
#include <utility>

#include "tessera/base/checked.h"
#include "tessera/convert/source/packings/grouped_integers.h"
#include "tessera/convert/source/packings/packings.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

PackedTensors make_gptq(const PackedGroup& group, const PackingConfig& config) {
  const PackedPart &words = *group.weight, &scale = *group.scale, &zeros = *group.zeros;
  const PackingScheme& scheme = config.schemes.front();
  TESSERA_TRY(words.require_type(ElementType::i32));
  TESSERA_TRY(words.require_rank(2));
  TESSERA_TRY(scale.require_float());
  TESSERA_TRY(scale.require_rank(2));
  const int64_t n_rows = words.shape[1], n_word_rows = words.shape[0], n_groups = scale.shape[0];
  if (n_word_rows % scheme.bits != 0)
    return fail(ErrorCode::mismatch, "tensor {}: {} rows of words, want a multiple of {}", text::quote_text(words.name),
                n_word_rows, scheme.bits);
  const auto n_all_columns = checked_mul<int64_t>(n_word_rows / scheme.bits, 32);
  if (!n_all_columns)
    return fail(ErrorCode::mismatch, "tensor {}: more than 2^63 columns", text::quote_text(words.name));
  const int64_t n_columns = *n_all_columns;
  const int64_t group_columns = scheme.block_columns > 0 ? scheme.block_columns : std::max<int64_t>(n_columns, 1);
  TESSERA_TRY(scale.require_shape(std::vector{n_groups, n_rows}));
  TESSERA_TRY(zeros.require_type(ElementType::i32));
  TESSERA_TRY(zeros.require_shape(std::vector{n_groups, n_packed_words(n_rows, scheme.bits, true)}));
  if (group.groups) {
    TESSERA_TRY(group.groups->require_type(ElementType::i32));
    TESSERA_TRY(group.groups->require_shape(std::vector{n_columns}));
  } else {
    TESSERA_TRY(scale.require_shape(std::vector{div_ceil(n_columns, group_columns), n_rows}));
  }
  GroupedMatrix matrix{.n_rows = n_rows, .n_columns = n_columns};
  matrix.integers = {.words = words, .bits = scheme.bits, .crosses_words = true, .word_stride = n_rows};
  matrix.zeros = PackedIntegers{.words = zeros, .bits = scheme.bits, .crosses_words = true};
  matrix.zeros->other_stride = zeros.shape[1];
  matrix.zero_shift = config.has_shifted_zeros ? 1 : 0;
  matrix.scale = scale;
  matrix.scale_group_stride = n_rows;
  matrix.n_groups = n_groups;
  matrix.group_columns = group_columns;
  matrix.groups = group.groups;
  TESSERA_ASSIGN(StoredTensor tensor, grouped_tensor(group.name, std::move(matrix)));
  return std::vector{std::move(tensor)};
}

}  // namespace tessera::convert
