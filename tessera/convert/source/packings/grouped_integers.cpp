#include "tessera/convert/source/packings/grouped_integers.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

constexpr int kWordBits = 32;

bool is_bit_string(int bits, bool crosses_words) { return crosses_words || kWordBits % bits == 0; }

class GroupedSource : public MatrixSource {
 public:
  GroupedSource(GroupedMatrix matrix, std::vector<uint32_t> group_of_column)
      : MatrixSource(matrix.n_columns), matrix_(std::move(matrix)), group_of_column_(std::move(group_of_column)) {}

 private:
  // Scales and zeros of a group, for the rows of a tile.
  struct Group {
    int64_t number = -1;
    std::array<float, kMaxTileRows> scales{}, zeros{};
  };

  // Columns are the outer loop, since most methods store them together.
  void decode(const Tile& tile, float* values) const override {
    Group group;
    for (int64_t i = 0; i < tile.n_columns; ++i) {
      const int64_t column = tile.column + i, number = group_of(column);
      if (number != group.number) load_group(tile, number, group);
      for (int64_t j = 0; j < tile.n_rows; ++j) {
        const int64_t row = tile.row + j;
        const uint32_t integer =
            matrix_.packs_rows ? matrix_.integers.at(row, column) : matrix_.integers.at(column, row);
        values[j * tile.n_columns + i] =
            (static_cast<float>(integer) - group.zeros[to_size(j)]) * group.scales[to_size(j)];
      }
    }
  }

  void load_group(const Tile& tile, int64_t number, Group& group) const {
    group.number = number;
    for (int64_t j = 0; j < tile.n_rows; ++j) {
      const int64_t row = tile.row + j;
      const auto zero = matrix_.zeros ? static_cast<int>(matrix_.zeros->at(row, number)) : 0;
      group.zeros[to_size(j)] = static_cast<float>(zero + matrix_.zero_shift);
      group.scales[to_size(j)] =
          matrix_.scale.value(row * matrix_.scale_row_stride + number * matrix_.scale_group_stride);
    }
  }

  int64_t group_of(int64_t column) const {
    return group_of_column_.empty() ? column / matrix_.group_columns : group_of_column_[to_size(column)];
  }

  GroupedMatrix matrix_;
  std::vector<uint32_t> group_of_column_;
};

// The groups are copied, since they are indexes and the file may change.
Result<std::vector<uint32_t>> read_groups(const GroupedMatrix& matrix) {
  std::vector<uint32_t> groups;
  if (!matrix.groups) return groups;
  groups.resize(to_size(matrix.n_columns));
  bool is_regular = true;
  for (int64_t i = 0; i < matrix.n_columns; ++i) {
    const uint32_t group = matrix.groups->word(i);
    if (group >= static_cast<uint64_t>(matrix.n_groups))
      return fail(ErrorCode::format, "tensor {}: column {} is in group {}, of {}",
                  text::quote_text(matrix.groups->name), i, static_cast<int32_t>(group), matrix.n_groups);
    is_regular &= group == i / matrix.group_columns;
    groups[to_size(i)] = group;
  }
  if (is_regular) groups = {};
  return groups;
}

}  // namespace

uint32_t PackedIntegers::at(int64_t i, int64_t other) const {
  const int64_t begin = other * other_stride;
  int64_t word = 0;
  int shift = 0;
  if (is_bit_string(bits, crosses_words)) {
    word = i * bits / kWordBits;
    shift = static_cast<int>(i * bits % kWordBits);
  } else {
    word = i / (kWordBits / bits);
    shift = static_cast<int>(i % (kWordBits / bits)) * bits;
  }
  if (places) shift = (*places)[to_size(i % 8)] * bits;
  uint32_t integer = words.word(begin + word * word_stride) >> shift;
  if (shift + bits > kWordBits) integer |= words.word(begin + (word + 1) * word_stride) << (kWordBits - shift);
  return integer & ((1u << bits) - 1);
}

int64_t n_packed_words(int64_t n, int bits, bool crosses_words) {
  if (!is_bit_string(bits, crosses_words)) return div_ceil<int64_t>(n, kWordBits / bits);
  return n / kWordBits * bits + div_ceil<int64_t>(n % kWordBits * bits, kWordBits);
}

Result<StoredTensor> grouped_tensor(std::string name, GroupedMatrix matrix) {
  TESSERA_ASSIGN(std::vector<uint32_t> groups, read_groups(matrix));
  StoredTensor tensor{.name = std::move(name), .type = ElementType::f32, .shape = {matrix.n_rows, matrix.n_columns}};
  TESSERA_TRY(count_elements(tensor.shape));
  tensor.elements = std::make_shared<GroupedSource>(std::move(matrix), std::move(groups));
  return tensor;
}

}  // namespace tessera::convert
