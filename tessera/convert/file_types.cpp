#include "tessera/convert/file_types.h"

#include <algorithm>
#include <charconv>

#include "tessera/base/index.h"

namespace tessera::convert {

namespace {

constexpr FileTypeInfo kFileTypes[] = {
#define TESSERA_FILE_TYPE(enumerator, name, alias, id, dtype) {FileType::enumerator, name, alias, id, DType::dtype},
#include "tessera/convert/file_types.def"
#undef TESSERA_FILE_TYPE
};

char to_upper(char c) { return static_cast<char>(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c); }

bool is_same_name(std::string_view upper, std::string_view text) {
  return std::ranges::equal(upper, text, [](char a, char b) { return a == to_upper(b); });
}

}  // namespace

const FileTypeInfo& info(FileType type) { return kFileTypes[to_size(type)]; }

std::span<const FileTypeInfo> all_file_types() { return kFileTypes; }

std::optional<FileType> file_type_from_name(std::string_view text) {
  if (text.empty()) return std::nullopt;
  uint32_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  const bool is_id = error == std::errc() && end == text.data() + text.size();
  if (is_id) return file_type_from_id(id);
  for (const FileTypeInfo& row : kFileTypes)
    if (is_same_name(row.name, text) || is_same_name(row.alias, text)) return row.type;
  return std::nullopt;
}

std::optional<FileType> file_type_from_id(uint32_t id) {
  for (const FileTypeInfo& row : kFileTypes)
    if (row.id == id) return row.type;
  return std::nullopt;
}

std::optional<FileType> file_type_of(DType dtype) {
  for (const FileTypeInfo& row : kFileTypes)
    if (row.dtype == dtype) return row.type;
  return std::nullopt;
}

bool is_weight_type(DType dtype) { return file_type_of(dtype).has_value(); }

std::optional<DType> weight_type_from_name(std::string_view name) {
  const std::optional<DType> dtype = dtype_from_name(name);
  return dtype && is_weight_type(*dtype) ? dtype : std::nullopt;
}

}  // namespace tessera::convert
