// Each stage cuts one piece at a time off the front of a piece of the previous stage, so at most one piece per stage is
// in progress.
#include "tessera/text/pre_tokenizer.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <utility>

#include "tessera/text/pre_families.h"
#include "tessera/text/unicode.h"

namespace tessera::text {
namespace {

#define PRE(name, family, flags) PreRow{name, family, flags},
constexpr PreRow kPres[] = {
#include "tessera/text/pre_tokenizers.def"
};
#undef PRE

using Kind = PreStage::Kind;
constexpr std::array<std::pair<std::string_view, Kind>, 5> kCuts{{
    {"@digits", Kind::digits},
    {"@decimal_digits", Kind::decimal_digits},
    {"@bounded_digits", Kind::bounded_digits},
    {"@trailing_space", Kind::trailing_space},
    {"@space_blocks", Kind::space_blocks},
}};

constexpr uint32_t kDecimal = bit_of(Category::nd);
constexpr uint32_t kNumbers = kDecimal | bit_of(Category::nl) | bit_of(Category::no);
constexpr uint32_t kLetters =
    bit_of(Category::ll) | bit_of(Category::lm) | bit_of(Category::lo) | bit_of(Category::lt) | bit_of(Category::lu);
constexpr uint32_t kMarks = bit_of(Category::mc) | bit_of(Category::me) | bit_of(Category::mn);
constexpr uint32_t kWord = kLetters | kMarks | kDecimal | bit_of(Category::pc);  // \w

bool starts_with(std::string_view text, uint32_t categories) {
  return !text.empty() && (bit_of(category_of(next_code_point(text).code_point)) & categories) != 0;
}

/// The length in bytes and in code points of the run of these categories at the start of text.
std::pair<size_t, size_t> run_of(std::string_view text, uint32_t categories) {
  size_t n_bytes = 0;
  size_t n = 0;
  for (; starts_with(text.substr(n_bytes), categories); ++n) n_bytes += next_code_point(text.substr(n_bytes)).n_bytes;
  return {n_bytes, n};
}

size_t bytes_of(std::string_view text, size_t n_code_points) {
  size_t n_bytes = 0;
  for (; n_code_points > 0; --n_code_points) n_bytes += next_code_point(text.substr(n_bytes)).n_bytes;
  return n_bytes;
}

size_t cut_pattern(const SplitPattern& pattern, std::string_view text, size_t& n_pending) {
  for (size_t at = 0; at < text.size(); at += next_code_point(text.substr(at)).n_bytes) {
    const std::string_view rest = text.substr(at);
    const size_t n = pattern.may_start(rest) ? pattern.match(rest) : 0;
    if (n == 0) continue;
    if (at == 0) return n;
    n_pending = n;
    return at;
  }
  return text.size();
}

/// Returns the length of a group of digits, or of all text up to the next number. in_run: text starts inside a number,
/// at a group of three.
size_t cut_digits(Kind kind, std::string_view text, bool& in_run) {
  const uint32_t digits = kind == Kind::digits ? kNumbers : kDecimal;
  if (std::exchange(in_run, false) && starts_with(text, digits)) {
    in_run = true;
    return bytes_of(text, 3);
  }
  size_t at = 0;
  while (at < text.size()) {
    const auto [n_bytes, n] = run_of(text.substr(at), digits);
    const bool is_number = n > 0 && !(kind == Kind::bounded_digits && starts_with(text.substr(at + n_bytes), kWord));
    if (is_number && at > 0) return at;
    if (is_number) {
      in_run = true;
      return bytes_of(text, (n - 1) % 3 + 1);
    }
    at += n > 0 ? n_bytes : next_code_point(text.substr(at)).n_bytes;
  }
  return at;
}

/// Returns the offset at which the white space at the end of text begins.
size_t cut_trailing_space(std::string_view text) {
  size_t end = text.size();
  while (end > 0) {
    size_t begin = end - 1;
    while (begin > 0 && end - begin < 4 && (static_cast<uint8_t>(text[begin]) & 0xC0) == 0x80) --begin;
    const CodePointStep step = next_code_point(text.substr(begin));
    if (begin + step.n_bytes != end || !is_white_space(step.code_point)) break;
    end = begin;
  }
  return end == 0 ? text.size() : end;
}

/// Returns the length of a block of white space. A piece with other characters is returned whole, and so is a piece
/// that ends in newlines (the previous stage puts newlines at the end of a piece).
size_t cut_space_blocks(std::string_view text, bool& in_run) {
  if (!std::exchange(in_run, false)) {
    if (text.back() == '\n' || text.back() == '\r') return text.size();
    for (size_t at = 0; at < text.size();) {
      const CodePointStep step = next_code_point(text.substr(at));
      if (!is_white_space(step.code_point)) return text.size();
      at += step.n_bytes;
    }
  }
  in_run = true;
  constexpr size_t kLargestBlock = 512;
  size_t n = 0;
  for (size_t at = 0; n < kLargestBlock && at < text.size(); ++n) at += next_code_point(text.substr(at)).n_bytes;
  return bytes_of(text, std::bit_floor(n));
}

}  // namespace

std::span<const PreRow> pre_rows() { return kPres; }

const PreRow* find_pre(std::string_view name) {
  const auto* row = std::find_if(std::begin(kPres), std::end(kPres), [&](const PreRow& r) { return r.name == name; });
  return row == std::end(kPres) ? nullptr : row;
}

const PreRow& fallback_pre() { return kPres[0]; }

Result<PreTokenizer> PreTokenizer::create(std::string_view family) {
  PreTokenizer pre;
  for (const FamilyStage& row : kFamilyStages) {
    if (row.family != family) continue;
    const auto* cut = std::find_if(kCuts.begin(), kCuts.end(), [&](const auto& c) { return c.first == row.stage; });
    if (cut != kCuts.end()) {
      pre.stages_.push_back({cut->second, {}});
      continue;
    }
    TESSERA_ASSIGN(SplitPattern pattern, SplitPattern::compile(row.stage));
    pre.stages_.push_back({Kind::pattern, std::move(pattern)});
  }
  if (pre.stages_.empty() || pre.stages_.size() > kMaxPreStages)
    return fail(ErrorCode::internal, "pre-tokenizer {}: {} stages, limit {}", family, pre.stages_.size(),
                kMaxPreStages);
  return pre;
}

PreTokenizer::Words::Words(const PreTokenizer& pre, std::string_view text) : pre_(&pre) { levels_[0].rest = text; }

std::string_view PreTokenizer::Words::next() {
  const size_t last = pre_->stages_.size() - 1;
  size_t level = last;
  while (levels_[level].rest.empty()) {
    if (level == 0) return {};
    --level;
  }
  for (;; ++level) {
    const std::string_view piece = cut(pre_->stages_[level], levels_[level]);
    if (level == last) return piece;
    levels_[level + 1] = {piece};
  }
}

std::string_view PreTokenizer::Words::cut(const PreStage& stage, Level& level) {
  size_t n = std::exchange(level.n_pending, 0);
  if (n == 0) {
    switch (stage.kind) {
      case Kind::pattern:
        n = cut_pattern(stage.pattern, level.rest, level.n_pending);
        break;
      case Kind::trailing_space:
        n = cut_trailing_space(level.rest);
        break;
      case Kind::space_blocks:
        n = cut_space_blocks(level.rest, level.in_run);
        break;
      default:
        n = cut_digits(stage.kind, level.rest, level.in_run);
        break;
    }
  }
  const std::string_view piece = level.rest.substr(0, n);
  level.rest.remove_prefix(n);
  return piece;
}

}  // namespace tessera::text
