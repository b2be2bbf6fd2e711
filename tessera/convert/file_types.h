// The mixes that users name ("Q4_K_M"): the table of file_types.def as an enum and lookup functions. A mix is a default
// dtype plus the rules of mix.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/tensor/dtype.h"

namespace tessera::convert {

enum class FileType : uint8_t {
#define TESSERA_FILE_TYPE(enumerator, name, alias, id, dtype) enumerator,
#include "tessera/convert/file_types.def"
#undef TESSERA_FILE_TYPE
};

struct FileTypeInfo {
  FileType type;
  std::string_view name;
  std::string_view alias;  // "" if it has none
  uint32_t id;             // general.file_type
  DType dtype;             // of tensors without a rule
};

const FileTypeInfo& info(FileType type);

/// In the order of the table.
std::span<const FileTypeInfo> all_file_types();

/// Returns the mix with a name or alias, in upper or lower case, or with an id in decimal ("15").
std::optional<FileType> file_type_from_name(std::string_view text);

/// Returns the first mix with a value of general.file_type.
std::optional<FileType> file_type_from_id(uint32_t id);

/// Returns the mix that names a file of mostly this dtype, if there is one.
std::optional<FileType> file_type_of(DType dtype);

/// True for types of weights: floats and blocks, but not integers or types of activations.
bool is_weight_type(DType dtype);

/// Returns the weight type with a name as users write it ("q6_k", "Q6_K").
std::optional<DType> weight_type_from_name(std::string_view name);

}  // namespace tessera::convert
