#include "tessera/text/grammar/json_spelling.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/text/grammar/utf8_expression.h"

namespace tessera::text::grammar {
namespace {

constexpr uint32_t kMaxIndent = 40;
constexpr uint32_t kFirstAstral = 0x10000;
constexpr uint32_t kHighSurrogates = 0xd800, kLowSurrogates = 0xdc00;
constexpr uint32_t kLowBits = 10;

struct ShortEscape {
  uint32_t code_point;
  char letter;
};
constexpr ShortEscape kShortEscapes[] = {{'"', '"'},  {'\\', '\\'}, {'\n', 'n'}, {'\r', 'r'},
                                         {'\t', 't'}, {'\b', 'b'},  {'\f', 'f'}};

CodePointSet range(uint32_t first, uint32_t last) {
  const CodePointRange one{first, last};
  return CodePointSet(std::span(&one, 1));
}

// The code points that stand in a string as they are.
CodePointSet raw_code_points() {
  CodePointSet special = range(0, 0x1f);
  special.add(range('"', '"'));
  special.add(range('\\', '\\'));
  return special.complement();
}

bool contains(const CodePointSet& set, uint32_t code_point) {
  const auto after = std::ranges::upper_bound(set.ranges(), code_point, {}, &CodePointRange::first);
  return after != set.ranges().begin() && code_point <= std::prev(after)->last;
}

// A hex digit in both cases.
ByteSet hex_digits(uint32_t first, uint32_t last) {
  ByteSet set;
  for (uint32_t digit = first; digit <= last; ++digit) {
    if (digit < 10) {
      set.add(static_cast<uint8_t>('0' + digit));
    } else {
      set.add(static_cast<uint8_t>('a' + digit - 10));
      set.add(static_cast<uint8_t>('A' + digit - 10));
    }
  }
  return set;
}

// The one escape that the plain writing has for a code point.
std::string plain_escape(uint32_t code_point) {
  const auto found = std::ranges::find(kShortEscapes, code_point, &ShortEscape::code_point);
  if (found != std::end(kShortEscapes)) return {'\\', found->letter};
  constexpr std::string_view kDigits = "0123456789abcdef";
  return std::string("\\u00") + kDigits[code_point / 16] + kDigits[code_point % 16];
}

}  // namespace

JsonSpelling::JsonSpelling(ExpressionArena& arena, const JsonOutput& output, StringForm form)
    : arena_(&arena),
      output_(output),
      form_(form),
      raw_(form == StringForm::raw ? all_code_points() : raw_code_points()),
      space_inside_(make_space(SpacePlace::inside)),
      space_after_(make_space(SpacePlace::separator)),
      any_code_point_(code_points(all_code_points())) {}

Expression JsonSpelling::make_space(SpacePlace place) const {
  const auto bytes = [&](std::string_view text) {
    ByteSet set;
    for (const char c : text) set.add(static_cast<uint8_t>(c));
    return arena_->bytes(set);
  };
  switch (output_.space) {
    case JsonSpace::none:
      return ExpressionArena::kEmpty;
    case JsonSpace::one:
      return place == SpacePlace::separator ? bytes(" ") : ExpressionArena::kEmpty;
    case JsonSpace::model: {
      const Expression line = arena_->concat(bytes("\n"), arena_->repeat(bytes(" \t"), 0, kMaxIndent));
      return arena_->optional(arena_->any_of(bytes(" "), line));
    }
    case JsonSpace::any:
      return arena_->repeat(bytes(" \t\r\n"), 0, kUnbounded);
  }
  return ExpressionArena::kEmpty;
}

Expression JsonSpelling::quoted(Expression inside) const {
  const Expression quote = arena_->literal("\"");
  return arena_->concat(quote, arena_->concat(inside, quote));
}

Expression JsonSpelling::raw(const CodePointSet& set) const { return utf8_of(*arena_, set.intersection(raw_)); }

std::string JsonSpelling::plain_text(std::string_view text) const {
  std::string spelled;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte >= 0x80 || contains(raw_, byte))
      spelled += c;
    else
      spelled += plain_escape(byte);
  }
  return spelled;
}

Expression JsonSpelling::code_points(const CodePointSet& set) const {
  std::vector<Expression> found = {raw(set)};
  if (form_ == StringForm::raw) return found[0];
  for (uint32_t code_point = 0; code_point <= '\\'; ++code_point)
    if (!contains(raw_, code_point) && contains(set, code_point))
      found.push_back(arena_->literal(plain_escape(code_point)));
  if (output_.writing == JsonWriting::any) {
    if (contains(set, '/')) found.push_back(arena_->literal("\\/"));
    found.push_back(hex_escapes(set));
  }
  return arena_->any_of(std::move(found));
}

Expression JsonSpelling::code_point(uint32_t code_point) {
  const auto [found, is_new] = known_.try_emplace(code_point, ExpressionArena::kNothing);
  if (is_new) found->second = code_points(range(code_point, code_point));
  return found->second;
}

std::vector<Expression> JsonSpelling::characters(std::string_view text) {
  std::vector<Expression> parts;
  while (!text.empty()) {
    const CodePointStep step = next_code_point(text);
    parts.push_back(code_point(step.code_point));
    text.remove_prefix(step.n_bytes);
  }
  return parts;
}

// \uXXXX for a range of 16-bit values.
Expression JsonSpelling::hex_range(uint32_t first, uint32_t last) const {
  // Ranges that fill a power of 16 share their last digits.
  struct Block {
    uint32_t first, last, n_free;  // the last n_free digits are any
  };
  std::vector<Block> blocks;
  for (uint32_t at = first; at <= last;) {
    uint32_t n_free = 0;
    while (n_free < 4) {
      const uint32_t size = uint32_t{1} << (4 * (n_free + 1));
      if (at % size != 0 || at + size - 1 > last) break;
      ++n_free;
    }
    const uint32_t size = uint32_t{1} << (4 * n_free);
    // Neighbours with the same digits before their first free one are a range of that digit.
    uint32_t n = 1;
    while (n_free < 4 && (at / size + n) % 16 != 0 && at + (n + 1) * size - 1 <= last) ++n;
    blocks.push_back({at, at + n * size - 1, n_free});
    at += n * size;
  }
  std::vector<Expression> found;
  for (const Block& block : blocks) {
    std::vector<Expression> parts = {arena_->literal("\\u")};
    for (uint32_t digit = 4; digit-- > 0;) {
      if (digit < block.n_free)
        parts.push_back(arena_->bytes(hex_digits(0, 15)));
      else
        parts.push_back(arena_->bytes(hex_digits((block.first >> (4 * digit)) % 16, (block.last >> (4 * digit)) % 16)));
    }
    found.push_back(arena_->concat(parts));
  }
  return arena_->any_of(std::move(found));
}

Expression JsonSpelling::hex_escapes(const CodePointSet& set) const {
  std::vector<Expression> found;
  const CodePointSet encoded = set.intersection(all_code_points());
  for (const CodePointRange& part : encoded.ranges()) {
    if (part.first < kFirstAstral) found.push_back(hex_range(part.first, std::min(part.last, kFirstAstral - 1)));
    if (part.last < kFirstAstral) continue;
    const uint32_t first = std::max(part.first, kFirstAstral) - kFirstAstral, last = part.last - kFirstAstral;
    const uint32_t span = uint32_t{1} << kLowBits;
    const auto pairs = [&](uint32_t high_first, uint32_t high_last, uint32_t low_first, uint32_t low_last) {
      found.push_back(arena_->concat(hex_range(kHighSurrogates + high_first, kHighSurrogates + high_last),
                                     hex_range(kLowSurrogates + low_first, kLowSurrogates + low_last)));
    };
    uint32_t high = first / span;
    const uint32_t high_last = last / span;
    if (high == high_last) {
      pairs(high, high, first % span, last % span);
      continue;
    }
    if (first % span != 0) {
      pairs(high, high, first % span, span - 1);
      ++high;
    }
    if (high < high_last) pairs(high, high_last - 1, 0, span - 1);
    pairs(high_last, high_last, 0, last % span);
  }
  return arena_->any_of(std::move(found));
}

}  // namespace tessera::text::grammar
