// Element types of tensors in checkpoints, such as safetensors and PyTorch files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "tessera/tensor/dtype_rows.h"

namespace tessera::convert {

enum class ElementType : uint8_t {
#define TESSERA_ELEMENT(name, safetensors, torch, bytes) name,
#define TESSERA_BLOCK_ELEMENT(name, text) name,
#include "tessera/convert/source/element_types.def"
};

size_t element_bytes(ElementType type);
/// The values of an element: 1, or those of a block.
int64_t element_values(ElementType type);
/// The format of a type whose elements are blocks.
std::optional<DType> block_format(ElementType type);
/// The type's name in safetensors, "BF16", or that of its blocks, "Q8_0".
std::string_view element_name(ElementType type);
std::optional<ElementType> find_element_type(std::string_view safetensors_name);
/// The type of a storage class of PyTorch: "BFloat16Storage".
std::optional<ElementType> find_torch_storage(std::string_view storage_class);

}  // namespace tessera::convert
