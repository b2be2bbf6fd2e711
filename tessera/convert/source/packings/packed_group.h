// The parts of a packed tensor, and what config.json says about packed tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/convert/source/checkpoint.h"
#include "tessera/convert/source/hub_config.h"

namespace tessera::convert {

/// A tensor whose elements lie one after another in a mapped file, which must outlive this.
struct PackedPart {
  std::string name{};
  ElementType type = ElementType::f32;
  std::vector<int64_t> shape{};
  const std::byte* data = nullptr;
  const MappedFile* map = nullptr;  // that has the data

  int64_t n_elements() const;
  /// Element i as a float.
  float value(int64_t i) const;
  /// Elements from number `first` on as floats.
  void values(int64_t first, std::span<float> into) const;
  /// Element i of type i32.
  uint32_t word(int64_t i) const {
    uint32_t word = 0;
    std::memcpy(&word, data + static_cast<size_t>(i) * sizeof word, sizeof word);
    return word;
  }

  /// Releases the memory of elements [first, first + n), or of all, which were read.
  void forget(int64_t first, int64_t n) const;
  void forget() const { forget(0, n_elements()); }

  // Errors: mismatch.
  Result<> require_type(ElementType wanted) const;
  Result<> require_float() const;  // of any size
  Result<> require_shape(std::span<const int64_t> wanted) const;
  Result<> require_rank(size_t wanted) const;

  /// The only element, a float that is finite. Errors: mismatch; format.
  Result<float> single_scale() const;
};

/// The parts that a method knows. Which ones exist, and under which names, is in packings.def.
struct PackedGroup {
  std::string name{};  // of the result
  std::optional<PackedPart> weight{}, scale{}, zeros{}, groups{}, shape{};
  std::optional<PackedPart> global_scale{}, input_scale{};
};

/// How the numbers of a method share scales: one for each block of so many rows and columns.
struct PackingScheme {
  int bits = 0;
  int64_t block_rows = 1;
  int64_t block_columns = 0;  // 0: all
};

struct PackingConfig {
  std::string path{};  // for errors
  std::string method{};
  std::vector<PackingScheme> schemes{};
  bool has_shifted_zeros = false;   // gptq: zeros are stored less 1
  bool has_inverse_scales = false;  // scales of a whole tensor are divisors
};

/// Reads quantization_config; nothing if the model has none. A method of another name counts as none of ours.
/// Errors: unsupported (a method, format or version); format (a number outside of its range).
Result<std::optional<PackingConfig>> read_packing_config(const HubConfig& config);

/// Extents as they appear in messages: "[2, 3]".
std::string extents_text(std::span<const int64_t> shape);

}  // namespace tessera::convert
