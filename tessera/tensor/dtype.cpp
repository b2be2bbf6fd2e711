#include "tessera/tensor/dtype.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <iterator>
#include <ranges>
#include <vector>

#include "tessera/base/index.h"

namespace tessera {

namespace {

constexpr DTypeInfo kDTypes[] = {
#define TESSERA_DTYPE(name, symbol, text, id, elements, bytes) {DType::name, text, elements, bytes},
#define TESSERA_FORMAT(name, symbol, text, id, elements, bytes) {DType::name, text, elements, bytes, true},
#define TESSERA_KV_FORMAT(name, symbol, text, id, elements, bytes) {DType::name, text, elements, bytes, true, true},
#include "tessera/tensor/dtype.def"
};

constexpr uint8_t kNoRow = 255;

constexpr std::array<uint8_t, kDTypeLimit> kRowOfId = [] {
  std::array<uint8_t, kDTypeLimit> rows{};
  rows.fill(kNoRow);
  for (size_t i = 0; i < std::size(kDTypes); ++i) rows[to_size(kDTypes[i].dtype)] = static_cast<uint8_t>(i);
  return rows;
}();

// Types that were removed from GGUF. Error messages for old files name them.
std::string_view removed_name(uint32_t id) {
  switch (id) {
    case 4:
      return "Q4_2";
    case 5:
      return "Q4_3";
    case 31:
      return "Q4_0_4_4";
    case 32:
      return "Q4_0_4_8";
    case 33:
      return "Q4_0_8_8";
    case 36:
      return "IQ4_NL_4_4";
    case 37:
      return "IQ4_NL_4_8";
    case 38:
      return "IQ4_NL_8_8";
    default:
      return {};
  }
}

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

const DTypeInfo& info(DType dtype) { return kDTypes[kRowOfId[to_size(dtype)]]; }

std::span<const DTypeInfo> all_dtypes() { return kDTypes; }

std::string kv_format_names() {
  std::vector<DTypeInfo> rows;
  std::ranges::copy_if(kDTypes, std::back_inserter(rows), &DTypeInfo::is_kv_format);
  std::ranges::stable_sort(rows, std::greater(), [](const DTypeInfo& row) {
    return static_cast<double>(row.block_bytes) / static_cast<double>(row.block_elements);
  });
  return fmt::format("{}", fmt::join(rows | std::views::transform(&DTypeInfo::name), ", "));
}

Result<DType> dtype_from_gguf_id(uint32_t id) {
  if (const std::string_view removed = removed_name(id); !removed.empty())
    return fail(ErrorCode::unsupported, "type {} ({}) was removed from GGUF: quantize the model again from {}", id,
                removed,
                id >= 36   ? "IQ4_NL"
                : id >= 31 ? "Q4_0"
                           : "the original");
  if (id >= kRowOfId.size() || kRowOfId[id] == kNoRow)
    return fail(ErrorCode::unsupported, "type {} is not a GGUF tensor type (known: 0 to {})", id,
                static_cast<int>(std::rbegin(kDTypes)->dtype));
  return static_cast<DType>(id);
}

std::optional<DType> dtype_from_name(std::string_view name) {
  for (const DTypeInfo& row : kDTypes)
    if (equal_ignoring_case(row.name, name)) return row.dtype;
  return std::nullopt;
}

}  // namespace tessera
