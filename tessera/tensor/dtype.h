// Element types: the table of dtype.def as an enum and a lookup. A type's value is its GGUF id.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "tessera/base/result.h"

namespace tessera {

enum class DType : uint8_t {
#define TESSERA_DTYPE(enumerator, name, id, block_elements, block_bytes) enumerator = id,
#include "tessera/tensor/dtype.def"
#undef TESSERA_DTYPE
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  int64_t block_elements;  // elements that one block holds; rows are a whole number of blocks
  int64_t block_bytes;

  bool is_blocked() const { return block_elements > 1; }
};

/// The row of a type. Every DType has one.
const DTypeInfo& info(DType dtype);

/// All types, in order of their GGUF ids.
std::span<const DTypeInfo> all_dtypes();

/// The type of a GGUF id; an error for ids that are unknown or were removed from the format.
Result<DType> dtype_from_gguf_id(uint32_t id);

/// The type of a name as users write it ("q8_0", "Q8_0"), if there is one.
std::optional<DType> dtype_from_name(std::string_view name);

}  // namespace tessera
