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

  // Most methods have words of all rows beside each other.
  void forget(int64_t first, int64_t n) const override {
    if (first + n < matrix_.n_rows * matrix_.n_columns) return;
    matrix_.integers.words.forget();
    matrix_.scale.forget();
    if (matrix_.zeros) matrix_.zeros->words.forget();
  }

 private:
  using Place = PackedIntegers::Place;
  template <class T>
  using OfRows = std::array<T, kMaxTileRows>;

  // Numbers that the columns of a group share, for the rows of a tile.
  struct Group {
    int64_t number = -1;
    OfRows<float> scales, zeros;
  };

  // Columns are the outer loop, since most methods store them together.
  void decode(const Tile& tile, float* values) const override {
    OfRows<Place> places, zero_places;
    for (int64_t j = 0; j < tile.n_rows; ++j) {
      if (matrix_.packs_rows) places[to_size(j)] = matrix_.integers.place_of(tile.row + j);
      if (matrix_.zeros) zero_places[to_size(j)] = matrix_.zeros->place_of(tile.row + j);
    }
    Group group;
    for (int64_t i = 0; i < tile.n_columns; ++i) {
      const int64_t column = tile.column + i, number = group_of(column);
      if (number != group.number) load_group(tile, number, zero_places, group);
      const Place place = matrix_.packs_rows ? Place{} : matrix_.integers.place_of(column);
      for (int64_t j = 0; j < tile.n_rows; ++j) {
        const auto at = to_size(j);
        const uint32_t integer =
            matrix_.packs_rows ? matrix_.integers.at(places[at], column) : matrix_.integers.at(place, tile.row + j);
        values[j * tile.n_columns + i] = (static_cast<float>(integer) - group.zeros[at]) * group.scales[at];
      }
    }
  }

  void load_group(const Tile& tile, int64_t number, const OfRows<Place>& zero_places, Group& group) const {
    group.number = number;
    const int64_t first = tile.row * matrix_.scale_row_stride + number * matrix_.scale_group_stride;
    if (matrix_.scale_row_stride == 1) {
      matrix_.scale.values(first, std::span(group.scales).first(to_size(tile.n_rows)));
    } else {
      for (int64_t j = 0; j < tile.n_rows; ++j)
        group.scales[to_size(j)] = matrix_.scale.value(first + j * matrix_.scale_row_stride);
    }
    for (int64_t j = 0; j < tile.n_rows; ++j) {
      const uint32_t zero = matrix_.zeros ? matrix_.zeros->at(zero_places[to_size(j)], number) : 0;
      group.zeros[to_size(j)] = static_cast<float>(zero) + static_cast<float>(matrix_.zero_shift);
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
  matrix.groups->forget();
  if (is_regular) groups = {};
  return groups;
}

}  // namespace

PackedIntegers::Place PackedIntegers::place_of(int64_t i) const {
  const int per_word = kWordBits / bits;
  const bool is_string = is_bit_string(bits, crosses_words);
  const int64_t word = is_string ? i * bits / kWordBits : i / per_word;
  const int64_t bit = is_string ? i * bits % kWordBits : i % per_word * bits;
  return {word * word_stride, places ? (*places)[to_size(i % 8)] * bits : static_cast<int>(bit)};
}

int64_t n_packed_words(int64_t n, int bits, bool crosses_words) {
  if (!is_bit_string(bits, crosses_words)) return div_ceil<int64_t>(n, kWordBits / bits);
  return n / kWordBits * bits + div_ceil<int64_t>(n % kWordBits * bits, kWordBits);
}

Result<StoredTensor> grouped_tensor(std::string name, GroupedMatrix matrix) {
  TESSERA_ASSIGN(std::vector<uint32_t> groups, read_groups(matrix));
  StoredTensor tensor{.name = std::move(name), .type = ElementType::f32, .shape = {matrix.n_rows, matrix.n_columns}};
  auto n_elements = count_elements(tensor.shape);
  if (!n_elements) return forward_error(n_elements, "tensor " + text::quote_text(tensor.name));
  tensor.elements = std::make_shared<GroupedSource>(std::move(matrix), std::move(groups));
  return tensor;
}

}  // namespace tessera::convert
