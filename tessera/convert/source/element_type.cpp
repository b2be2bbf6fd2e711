#include "tessera/convert/source/element_type.h"

#include <algorithm>
#include <array>

namespace tessera::convert {

namespace {

struct Row {
  ElementType type;
  std::string_view name, safetensors, torch;
  size_t bytes;
  int64_t n_values = 1;
  std::optional<DType> block = std::nullopt;
};

constexpr Row block_row(ElementType type, std::string_view name, DType block, BlockSize size) {
  return {type, name, "", "", size.bytes, size.elements, block};
}

constexpr auto kRows = std::to_array<Row>({
#define TESSERA_ELEMENT(name, safetensors, torch, bytes) {ElementType::name, safetensors, safetensors, torch, bytes},
#define TESSERA_BLOCK_ELEMENT(name, text) block_row(ElementType::name, text, DType::name, block_size(DType::name)),
#include "tessera/convert/source/element_types.def"
});

const Row& row_of(ElementType type) { return kRows[static_cast<size_t>(type)]; }

std::optional<ElementType> find(std::string_view name, std::string_view Row::*column) {
  if (name.empty()) return std::nullopt;
  const auto* row = std::ranges::find(kRows, name, column);
  return row != kRows.end() ? std::optional(row->type) : std::nullopt;
}

}  // namespace

size_t element_bytes(ElementType type) { return row_of(type).bytes; }

int64_t element_values(ElementType type) { return row_of(type).n_values; }

std::optional<DType> block_format(ElementType type) { return row_of(type).block; }

std::string_view element_name(ElementType type) { return row_of(type).name; }

std::optional<ElementType> find_element_type(std::string_view safetensors_name) {
  return find(safetensors_name, &Row::safetensors);
}

std::optional<ElementType> find_torch_storage(std::string_view storage_class) {
  return find(storage_class, &Row::torch);
}

}  // namespace tessera::convert
