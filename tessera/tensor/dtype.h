// Element types: lookups in the table of dtype.def.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tessera/base/result.h"
#include "tessera/tensor/dtype_rows.h"

namespace tessera {

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  int64_t block_elements;  // elements that one block holds; rows are a whole number of blocks
  int64_t block_bytes;
  bool is_format = false;     // a type for weights
  bool is_kv_format = false;  // also a type for the KV cache

  bool is_blocked() const { return block_elements > 1; }
};

/// The row of a type. Every DType has one.
const DTypeInfo& info(DType dtype);

/// All types, in order of their GGUF ids.
std::span<const DTypeInfo> all_dtypes();

/// The names of the types for the KV cache, the largest first: "f32, f16, ...".
std::string kv_format_names();

/// The type of a GGUF id; an error for ids that are unknown or were removed from the format.
Result<DType> dtype_from_gguf_id(uint32_t id);

/// The type of a name in lower or upper case ("q8_0", "Q8_0"), if there is one.
std::optional<DType> dtype_from_name(std::string_view name);

}  // namespace tessera
