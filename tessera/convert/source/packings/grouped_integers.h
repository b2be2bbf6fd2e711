// Matrices of integers of a few bits in words of 32 bits. Groups of columns share a scale and a zero in each row: the
// value is (integer - zero) x scale.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "tessera/convert/source/packings/matrix_source.h"
#include "tessera/convert/source/packings/packed_group.h"

namespace tessera::convert {

/// The place in a word of each of its eight integers of 4 bits.
using NibbleOrder = std::array<uint8_t, 8>;

/// Integers in words along one dimension of a matrix.
struct PackedIntegers {
  PackedPart words{};
  int bits = 4;
  bool crosses_words = false;              // an integer may begin in one word and end in the next
  int64_t word_stride = 1;                 // words from a word to the next one of the packed dimension
  int64_t other_stride = 1;                // words from one index of the other dimension to the next
  std::optional<NibbleOrder> places = {};  // without it the lowest bits are the first integer

  /// The place of an integer of the packed dimension.
  struct Place {
    int64_t word = 0;
    int shift = 0;
  };
  Place place_of(int64_t i) const;

  /// The integer at a place, at an index of the other dimension.
  uint32_t at(const Place& place, int64_t other) const {
    const int64_t word = place.word + other * other_stride;
    uint32_t integer = words.word(word) >> place.shift;
    if (place.shift + bits > 32) integer |= words.word(word + word_stride) << (32 - place.shift);
    return integer & ((1u << bits) - 1);
  }
};

/// The words that hold n integers, if they may cross words or not.
int64_t n_packed_words(int64_t n, int bits, bool crosses_words);

struct GroupedMatrix {
  int64_t n_rows = 0, n_columns = 0;
  PackedIntegers integers{};
  bool packs_rows = false;                // words hold integers of several rows of a column, not of a row
  std::optional<PackedIntegers> zeros{};  // packed along the rows; the other dimension is that of the groups
  int zero_shift = 0;                     // added to each zero; without zeros this is the zero
  PackedPart scale{};
  int64_t scale_row_stride = 1, scale_group_stride = 1;
  int64_t n_groups = 1, group_columns = 1;
  std::optional<PackedPart> groups{};  // i32: the group of each column, where it is not column / group_columns
};

/// The tensor of a matrix whose parts fit together. Error: format (a group outside of the scales).
Result<StoredTensor> grouped_tensor(std::string name, GroupedMatrix matrix);

}  // namespace tessera::convert
