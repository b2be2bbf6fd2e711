// What the tokenizers know about code points: general category, white space, lower case, letters without accents.
// The tables are generated (scripts/generate_unicode_tables.py) and name their Unicode version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::text {

inline constexpr uint32_t kMaxCodePoint = 0x10FFFF;
inline constexpr uint32_t kReplacementCodePoint = 0xFFFD;

/// The general categories, in the order of the generated table.
enum class Category : uint8_t {
  cn,
  cc,
  cf,
  co,
  cs,
  ll,
  lm,
  lo,
  lt,
  lu,
  mc,
  me,
  mn,
  nd,
  nl,
  no,
  pc,
  pd,
  pe,
  pf,
  pi,
  po,
  ps,
  sc,
  sk,
  sm,
  so,
  zl,
  zp,
  zs
};

/// Code points from first to last, all of one category; the runs cover 0 to kMaxCodePoint in order.
struct CategoryRun {
  uint32_t first;
  uint32_t last;
  Category category;
};
std::vector<CategoryRun> category_runs();

/// The categories that a name of one or two letters means ("L", "Lu"), as bits; 0 for an unknown name.
uint32_t category_mask(std::string_view name);
constexpr uint32_t bit_of(Category category) { return uint32_t{1} << static_cast<unsigned>(category); }

Category category_of(uint32_t code_point);

struct CodePointRange {
  uint32_t first;
  uint32_t last;
};

/// The code points with the property White_Space (Unicode's PropList), in order.
std::span<const CodePointRange> white_space();
bool is_white_space(uint32_t code_point);

/// The simple lower case, or the code point itself.
uint32_t to_lower(uint32_t code_point);

/// Appends the canonical decomposition (NFD) of a code point without its nonspacing marks: nothing for such a mark.
void append_without_accents(uint32_t code_point, std::vector<uint32_t>& out);

/// One step through a text: the code point that starts at text[0] and its bytes; bytes that are not UTF-8 read as
/// U+FFFD. The text is not empty.
struct CodePointStep {
  uint32_t code_point;
  size_t n_bytes;
};
CodePointStep next_code_point(std::string_view text);

void append_utf8(uint32_t code_point, std::string& out);

}  // namespace tessera::text
