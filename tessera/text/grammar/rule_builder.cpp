#include "tessera/text/grammar/rule_builder.h"

#include <algorithm>

namespace tessera::text::grammar {
namespace {

constexpr size_t kMaxControlBytes = 64;

}  // namespace

Expression texts_with(ExpressionArena& arena, std::span<const std::string> parts) {
  std::vector<Expression> found;
  for (const std::string& part : parts) found.push_back(arena.literal(part));
  return arena.concat(
      std::vector{ExpressionArena::kAnything, arena.any_of(std::move(found)), ExpressionArena::kAnything});
}

// A mark may begin with a part of itself: then a text may not end with what is before that part.
Expression text_before(ExpressionArena& arena, std::span<const std::string> marks) {
  std::vector<Expression> excluded = {texts_with(arena, marks)};
  for (const std::string& mark : marks)
    for (size_t n = 1; n < mark.size(); ++n)
      if (mark.starts_with(std::string_view(mark).substr(n)))
        excluded.push_back(arena.concat(ExpressionArena::kAnything, arena.literal(mark.substr(0, n))));
  return arena.complement(arena.any_of(std::move(excluded)));
}

Expression text_before(ExpressionArena& arena, const std::string& mark) {
  return text_before(arena, std::span(&mark, 1));
}

RuleState RuleBuilder::after_lexeme(RuleState from, Expression lexeme) {
  const RuleState to = add_state();
  add_lexeme(from, lexeme, to);
  return to;
}

RuleState RuleBuilder::after_call(RuleState from, RuleId called) {
  const RuleState to = add_state();
  add_call(from, called, to);
  return to;
}

RuleState RuleBuilder::after_mark(RuleState from, std::string_view mark) {
  while (!mark.empty()) {
    const auto [n_bytes, token] = next_control(mark);
    const RuleState to = add_state();
    if (n_bytes == 0) {
      add_tokens(from, {{*token}}, to);
      mark.remove_prefix(control_size(mark));
    } else {
      add_lexeme(from, arena_.literal(mark.substr(0, n_bytes)), to);
      mark.remove_prefix(n_bytes);
    }
    from = to;
  }
  return from;
}

Expression RuleBuilder::blanks() {
  ByteSet blanks;
  for (const char c : std::string_view(" \t\r\n")) blanks.add(static_cast<uint8_t>(c));
  return arena_.bytes(blanks);
}

void RuleBuilder::add_controls(std::string_view mark, std::vector<int32_t>& ids) const {
  while (!mark.empty()) {
    const auto [n_bytes, token] = next_control(mark);
    if (token) ids.push_back(*token);
    mark.remove_prefix(n_bytes > 0 ? n_bytes : control_size(mark));
  }
}

// The length of the control token at the start of a text, 0 if there is none.
size_t RuleBuilder::control_size(std::string_view text) const {
  for (size_t n = std::min(text.size(), kMaxControlBytes); n > 0; --n)
    if (find_control_ && find_control_(text.substr(0, n))) return n;
  return 0;
}

// The bytes before the first control token of a text, and that token.
std::pair<size_t, std::optional<int32_t>> RuleBuilder::next_control(std::string_view text) const {
  for (size_t i = 0; i < text.size(); ++i)
    if (const size_t n = control_size(text.substr(i)); n > 0) return {i, find_control_(text.substr(i, n))};
  return {text.size(), std::nullopt};
}

}  // namespace tessera::text::grammar
