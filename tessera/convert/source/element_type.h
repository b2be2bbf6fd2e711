// Element types of tensors in checkpoints, such as safetensors and PyTorch files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera::convert {

enum class ElementType : uint8_t {
#define TESSERA_ELEMENT(name, safetensors, torch, bytes) name,
#include "tessera/convert/source/element_types.def"
#undef TESSERA_ELEMENT
};

size_t element_bytes(ElementType type);
/// The type's name in safetensors: "BF16".
std::string_view element_name(ElementType type);
std::optional<ElementType> find_element_type(std::string_view safetensors_name);
/// The type of a storage class of PyTorch: "BFloat16Storage".
std::optional<ElementType> find_torch_storage(std::string_view storage_class);

}  // namespace tessera::convert
