// Reads the header of a safetensors file: a length of 8 bytes, a JSON object with type, shape and place of each tensor,
// then the data. The data has no holes, no overlaps and no rest, as in the reference implementation.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/file.h"
#include "tessera/convert/source/stored_tensor.h"

namespace tessera::convert {

/// The limit of the reference implementation.
inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;

struct SafetensorsHeader {
  std::vector<StoredTensor> tensors{};                          // in the order of their data
  std::vector<std::pair<std::string, std::string>> metadata{};  // of __metadata__
};

/// Whether a file begins like safetensors: a length that fits into the file, and then '{'.
bool is_safetensors(std::string_view first_bytes, uint64_t file_bytes);

/// Reads the header. Memory: the header, and about 200 bytes for each tensor.
/// Errors: format (with the name of the tensor, or the byte of the header); limit; unsupported (a type); io.
Result<SafetensorsHeader> read_safetensors_header(const File& file);

}  // namespace tessera::convert
