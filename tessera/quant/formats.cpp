#include "tessera/quant/formats.h"

#include "tessera/base/index.h"
#include "tessera/isa/sets.h"

namespace tessera::quant {

#define TESSERA_INSTRUCTION_SET(name, base, usable) \
  namespace base {                                  \
  extern const Format* const* const kFormats;       \
  }
#include "tessera/isa/sets.def"

namespace {

constexpr const Format* const* const* kFormatsOf[] = {
// formats of each instruction set, by GGUF type id
#define TESSERA_INSTRUCTION_SET(name, base, usable) &base::kFormats,
#include "tessera/isa/sets.def"
};

const Format& format_of(DType dtype, size_t isa) { return *(*kFormatsOf[isa])[to_size(dtype)]; }

const Format* weight_format(DType dtype, size_t isa) {
  return info(dtype).is_format ? &format_of(dtype, isa) : nullptr;
}

}  // namespace

const Format* find_format(DType dtype) { return weight_format(dtype, isa::default_isa()); }

const Format* find_format(DType dtype, std::string_view isa) {
  const Result<size_t> row = isa::find_isa(isa);
  return row ? weight_format(dtype, *row) : nullptr;
}

std::optional<BlockFault> first_fault(DType dtype, std::span<const std::byte> blocks) {
  const Format& format = format_of(dtype, isa::default_isa());
  if (format.first_fault == nullptr) return std::nullopt;
  const BlockFault fault =
      format.first_fault(blocks.data(), static_cast<int64_t>(blocks.size()) / info(dtype).block_bytes);
  if (fault.block < 0) return std::nullopt;
  return fault;
}

}  // namespace tessera::quant
