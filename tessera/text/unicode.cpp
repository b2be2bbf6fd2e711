// Lookups by binary search in the generated runs. A lookup costs a few dozen nanoseconds, and only words of WPM
// vocabularies and the construction of pre-tokenizers need it.
#include "tessera/text/unicode.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "tessera/base/index.h"
#include "tessera/text/utf8.h"

namespace tessera::text {
namespace {

struct CaseRun {
  uint32_t first;
  uint32_t last;
  uint32_t step;
  int32_t delta;
};
struct FullCase {
  uint32_t code_point;
  std::array<uint32_t, 3> to;  // 0: no code point
};
struct StripToOne {
  uint32_t code_point;
  uint32_t to;
};
struct StripToTwo {
  uint32_t code_point;
  uint32_t first;
  uint32_t second;
};

#include "tessera/text/unicode_tables.inc"

constexpr std::array<std::string_view, 30> kCategoryNames{"Cn", "Cc", "Cf", "Co", "Cs", "Ll", "Lm", "Lo", "Lt", "Lu",
                                                          "Mc", "Me", "Mn", "Nd", "Nl", "No", "Pc", "Pd", "Pe", "Pf",
                                                          "Pi", "Po", "Ps", "Sc", "Sk", "Sm", "So", "Zl", "Zp", "Zs"};

constexpr std::array<CodePointRange, 10> kWhiteSpace{{{0x09, 0x0D},
                                                      {0x20, 0x20},
                                                      {0x85, 0x85},
                                                      {0xA0, 0xA0},
                                                      {0x1680, 0x1680},
                                                      {0x2000, 0x200A},
                                                      {0x2028, 0x2029},
                                                      {0x202F, 0x202F},
                                                      {0x205F, 0x205F},
                                                      {0x3000, 0x3000}}};

constexpr Category category_at(size_t i) { return static_cast<Category>(kCategoryStarts[i] % 32); }

/// The row of `code_point` in a table sorted by its member code_point, or null.
template <class Row, size_t kN>
const Row* find_row(const Row (&rows)[kN], uint32_t code_point) {
  const Row* row = std::lower_bound(std::begin(rows), std::end(rows), code_point,
                                    [](const Row& r, uint32_t cp) { return r.code_point < cp; });
  return row != std::end(rows) && row->code_point == code_point ? row : nullptr;
}

template <size_t kN>
uint32_t simple_case(const CaseRun (&runs)[kN], uint32_t code_point) {
  const auto* run = std::lower_bound(std::begin(runs), std::end(runs), code_point,
                                     [](const CaseRun& r, uint32_t cp) { return r.last < cp; });
  if (run == std::end(runs) || code_point < run->first || (code_point - run->first) % run->step != 0) return code_point;
  return static_cast<uint32_t>(static_cast<int32_t>(code_point) + run->delta);
}

template <size_t kNRuns, size_t kNFull>
void append_case(const CaseRun (&runs)[kNRuns], const FullCase (&full)[kNFull], uint32_t code_point, std::string& out) {
  const FullCase* row = find_row(full, code_point);
  if (row == nullptr) return append_utf8(simple_case(runs, code_point), out);
  for (const uint32_t to : row->to)
    if (to != 0) append_utf8(to, out);
}

// Hangul syllables decompose by arithmetic (Unicode 14, section 3.12).
constexpr uint32_t kSyllables = 0xAC00, kNSyllables = 11172, kLeads = 0x1100, kVowels = 0x1161, kTails = 0x11A7;
constexpr uint32_t kNVowels = 21, kNTails = 28;

}  // namespace

std::vector<CategoryRun> category_runs() {
  constexpr size_t kN = std::size(kCategoryStarts);
  std::vector<CategoryRun> runs;
  runs.reserve(kN);
  for (size_t i = 0; i < kN; ++i)
    runs.push_back(
        {kCategoryStarts[i] / 32, i + 1 < kN ? kCategoryStarts[i + 1] / 32 - 1 : kMaxCodePoint, category_at(i)});
  return runs;
}

uint32_t category_mask(std::string_view name) {
  uint32_t mask = 0;
  for (size_t i = 0; i < kCategoryNames.size(); ++i)
    if (!name.empty() && kCategoryNames[i].starts_with(name)) mask |= uint32_t{1} << i;
  return mask;
}

Category category_of(uint32_t code_point) {
  const auto* after = std::upper_bound(std::begin(kCategoryStarts), std::end(kCategoryStarts),
                                       std::min(code_point, kMaxCodePoint) * 32 + 31);
  return category_at(to_size(after - std::begin(kCategoryStarts)) - 1);
}

std::span<const CodePointRange> white_space() { return kWhiteSpace; }

bool is_white_space(uint32_t code_point) {
  return std::any_of(kWhiteSpace.begin(), kWhiteSpace.end(),
                     [&](const CodePointRange& r) { return code_point >= r.first && code_point <= r.last; });
}

uint32_t to_lower(uint32_t code_point) { return simple_case(kLowerRuns, code_point); }

void append_upper_case(uint32_t code_point, std::string& out) { append_case(kUpperRuns, kFullUpper, code_point, out); }
void append_lower_case(uint32_t code_point, std::string& out) { append_case(kLowerRuns, kFullLower, code_point, out); }
void append_title_case(uint32_t code_point, std::string& out) { append_case(kTitleRuns, kFullTitle, code_point, out); }

void append_without_accents(uint32_t code_point, std::vector<uint32_t>& out) {
  if (code_point >= kSyllables && code_point - kSyllables < kNSyllables) {
    const uint32_t i = code_point - kSyllables;
    out.push_back(kLeads + i / (kNVowels * kNTails));
    out.push_back(kVowels + i / kNTails % kNVowels);
    if (i % kNTails != 0) out.push_back(kTails + i % kNTails);
  } else if (const auto* one = find_row(kStripToOne, code_point)) {
    out.push_back(one->to);
  } else if (const auto* two = find_row(kStripToTwo, code_point)) {
    out.push_back(two->first);
    out.push_back(two->second);
  } else if (category_of(code_point) != Category::mn) {
    out.push_back(code_point);
  }
}

CodePointStep next_code_point(std::string_view text) {
  const auto lead = static_cast<uint8_t>(text[0]);
  if (lead < 0x80) return {lead, 1};
  const Utf8Step step = next_utf8(text);
  if (step.state != Utf8State::valid) return {kReplacementCodePoint, step.n_bytes};
  uint32_t code_point = lead & (0x7Fu >> step.n_bytes);
  for (size_t i = 1; i < step.n_bytes; ++i) code_point = code_point << 6 | (static_cast<uint8_t>(text[i]) & 0x3Fu);
  return {code_point, step.n_bytes};
}

void append_utf8(uint32_t code_point, std::string& out) {
  const auto tail = [&](unsigned shift) { out += static_cast<char>(0x80u | (code_point >> shift & 0x3Fu)); };
  if (code_point < 0x80) {
    out += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    out += static_cast<char>(0xC0u | code_point >> 6);
    tail(0);
  } else if (code_point < 0x10000) {
    out += static_cast<char>(0xE0u | code_point >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0u | code_point >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace tessera::text
