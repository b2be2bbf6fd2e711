// Expressions as text for people.
#include <fmt/format.h>

#include <utility>

#include "tessera/text/grammar/expression.h"

namespace tessera::text::grammar {
namespace {

std::string text_of_byte(uint8_t byte, std::string_view special) {
  const auto c = static_cast<char>(byte);
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  if (special.find(c) != std::string_view::npos) return std::string{'\\', c};
  return byte >= 0x20 && byte < 0x7f ? std::string{c} : fmt::format("\\x{:02X}", byte);
}

std::string text_of_set(const ByteSet& set) {
  const bool is_complement = set.size() > 128;
  std::string text = is_complement ? "[^" : "[";
  for (int first = 0; first < 256; ++first) {
    if (set.contains(static_cast<uint8_t>(first)) == is_complement) continue;
    int last = first;
    while (last < 255 && set.contains(static_cast<uint8_t>(last + 1)) != is_complement) ++last;
    text += text_of_byte(static_cast<uint8_t>(first), "\\]^-");
    if (last > first + 1) text += '-';
    if (last > first) text += text_of_byte(static_cast<uint8_t>(last), "\\]^-");
    first = last;
  }
  return text + ']';
}

std::string text_of_bounds(uint32_t min, uint32_t max) {
  if (min == 0 && max == 1) return "?";
  if (min == 0 && max == kUnbounded) return "*";
  if (min == 1 && max == kUnbounded) return "+";
  if (min == max) return fmt::format("{{{}}}", min);
  return max == kUnbounded ? fmt::format("{{{},}}", min) : fmt::format("{{{},{}}}", min, max);
}

}  // namespace

std::string ExpressionArena::text_of(Expression expression, size_t max_bytes) const {
  struct Piece {
    std::string text;  // if it is not empty, the expression does not count
    Expression expression = kNothing;
    bool is_part = false;  // brackets stand around several parts
  };
  std::string written;
  std::string literal;  // single bytes that follow one another
  std::vector<Piece> open = {{.text = "", .expression = expression}};
  const auto write = [&](const std::string& text) {
    if (!literal.empty()) written += fmt::format("\"{}\"", std::exchange(literal, {}));
    if (!written.empty() && !text.empty() && std::string_view("?*+{)").find(text[0]) == std::string_view::npos &&
        !written.ends_with('(') && !written.ends_with('!'))
      written += ' ';
    written += text;
  };
  const auto add_joined = [&](std::span<const Expression> all, std::string_view separator, bool has_brackets) {
    if (has_brackets) open.push_back({.text = ")"});
    for (size_t i = all.size(); i-- > 0;) {
      open.push_back({.text = "", .expression = all[i], .is_part = true});
      if (i > 0 && !separator.empty()) open.push_back({.text = std::string(separator)});
    }
    if (has_brackets) open.push_back({.text = "("});
  };
  while (!open.empty()) {
    if (written.size() + literal.size() > max_bytes) {
      write("...");
      return written;
    }
    const Piece piece = std::move(open.back());
    open.pop_back();
    if (!piece.text.empty()) {
      write(piece.text);
      continue;
    }
    const Node& node = nodes_[piece.expression];
    switch (node.kind) {
      case Kind::nothing:
        write("[]");
        break;
      case Kind::empty:
        write("\"\"");
        break;
      case Kind::bytes: {
        const ByteSet& set = sets_[node.a];
        if (set.size() == 1)
          literal += text_of_byte(set.first(), "\\\"");
        else
          write(text_of_set(set));
        break;
      }
      case Kind::concat:
        // The second part is all the rest, which needs no brackets of its own.
        open.push_back(
            {.text = "", .expression = parts(node)[1], .is_part = nodes_[parts(node)[1]].kind != Kind::concat});
        open.push_back({.text = "", .expression = parts(node)[0], .is_part = true});
        break;
      case Kind::alternatives:
        add_joined(parts(node), "|", piece.is_part);
        break;
      case Kind::intersection:
        add_joined(parts(node), "&", piece.is_part);
        break;
      case Kind::complement:
        add_joined(parts(node), "", true);
        open.push_back({.text = "!"});
        break;
      case Kind::repeat:
        open.push_back({.text = text_of_bounds(node.a, node.b)});
        add_joined(parts(node), "", true);
        break;
      case Kind::multiple:
        write(fmt::format("<multiple of {}>", node.a));
        break;
      case Kind::tag:
        break;
    }
  }
  write("");
  return written;
}

}  // namespace tessera::text::grammar
