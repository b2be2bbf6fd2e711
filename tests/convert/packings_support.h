// Packed checkpoints made in the test, and reads of their tensors.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/index.h"
#include "tessera/convert/source/packings/packings.h"
#include "tests/convert/checkpoint_folder.h"
#include "tests/support/testing.h"

namespace tessera::testing {

/// A checkpoint of these tensors with this quantization_config, opened and unpacked.
inline Result<convert::Checkpoint> open_packed(const std::vector<SmallTensor>& tensors, std::string_view config) {
  const std::string folder =
      write_folder("packed", {{"model.safetensors", safetensors_of(tensors)},
                              {"config.json", R"({"quantization_config":)" + std::string(config) + "}"}});
  TESSERA_ASSIGN(convert::Checkpoint checkpoint, convert::Checkpoint::open(folder));
  TESSERA_ASSIGN(const convert::HubConfig hub, convert::HubConfig::read(checkpoint));
  TESSERA_TRY(convert::unpack_tensors(checkpoint, hub));
  return checkpoint;
}

/// The message of the refusal, or "read".
inline std::string packed_refusal(const std::vector<SmallTensor>& tensors, std::string_view config) {
  const auto checkpoint = open_packed(tensors, config);
  if (checkpoint) return "read";
  std::string message = checkpoint.error().message();
  const std::string folder = temporary_path("packed");
  if (message.starts_with(folder)) message.erase(0, folder.size());
  return message;
}

/// Reads n elements of one float.
inline std::vector<float> floats_at(const convert::Checkpoint& checkpoint, const convert::CheckpointTensor& tensor,
                                    int64_t first, int64_t n) {
  std::vector<float> values(to_size(n));
  checkpoint.read(tensor, first, std::as_writable_bytes(std::span(values)));
  return values;
}

/// Expects a matrix whose values are those of a function, read at once and in pieces that begin and end anywhere.
inline void expect_matrix(const Result<convert::Checkpoint>& checkpoint, const std::string& name, int64_t n_rows,
                          int64_t n_columns, const std::function<float(int64_t, int64_t)>& value_at) {
  ASSERT_OK(checkpoint);
  const convert::CheckpointTensor* tensor = checkpoint->find(name);
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->tensor.type, convert::ElementType::f32);
  EXPECT_EQ(tensor->tensor.shape, (std::vector{n_rows, n_columns}));
  std::vector<float> expected;
  for (int64_t row = 0; row < n_rows; ++row)
    for (int64_t column = 0; column < n_columns; ++column) expected.push_back(value_at(row, column));
  const int64_t n_all = n_rows * n_columns;
  EXPECT_EQ(floats_at(*checkpoint, *tensor, 0, n_all), expected);
  for (int64_t first = 0; first < n_all; first += n_columns / 2 + 3)
    for (const int64_t n_wanted : {int64_t{1}, n_columns, 3 * n_columns + 1, n_all}) {
      const int64_t n = std::min(n_wanted, n_all - first);
      EXPECT_EQ(floats_at(*checkpoint, *tensor, first, n),
                std::vector<float>(expected.begin() + first, expected.begin() + first + n))
          << first << " " << n;
    }
}

/// Integers bit after bit in words of 32 bits, of which each begins in the word that has room for all its bits, unless
/// it may cross words.
inline std::vector<uint32_t> packed_words(const std::vector<uint32_t>& integers, int bits, bool crosses_words) {
  std::vector<uint32_t> words;
  int n_used = 32;
  for (const uint32_t integer : integers) {
    if (!crosses_words && n_used + bits > 32) n_used = 32;
    for (int bit = 0; bit < bits; ++bit, ++n_used) {
      if (n_used == 32) {
        words.push_back(0);
        n_used = 0;
      }
      words.back() |= (integer >> bit & 1) << n_used;
    }
  }
  return words;
}

/// A matrix with rows and columns exchanged.
template <class T>
std::vector<T> exchanged(const std::vector<T>& matrix, size_t n_rows) {
  std::vector<T> result;
  const size_t n_columns = n_rows == 0 ? 0 : matrix.size() / n_rows;
  for (size_t column = 0; column < n_columns; ++column)
    for (size_t row = 0; row < n_rows; ++row) result.push_back(matrix[row * n_columns + column]);
  return result;
}

}  // namespace tessera::testing
