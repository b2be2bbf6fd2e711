// Filters on texts. Several are methods of texts too (builtins.def). A filter that changes characters converts each
// piece of one origin alone, so given bytes stay marked.
#include <algorithm>

#include "tessera/base/index.h"
#include "tessera/text/template/builtins.h"
#include "tessera/text/template/characters.h"
#include "tessera/text/template/operators.h"
#include "tessera/text/template/print.h"
#include "tessera/text/template/text_tools.h"
#include "tessera/text/unicode.h"

namespace tessera::text::jinja {
namespace {

constexpr size_t kNoLimit = SIZE_MAX;

// Applies convert(piece) to each piece of the text of a value.
template <class Convert>
Result<Value> convert_text(Runtime& runtime, const Value& value, Convert convert) {
  TESSERA_ASSIGN(const Value text, text_of(runtime, value));
  TESSERA_TRY(runtime.spend(text.bytes().size() / 16));  // a table is searched for each character
  MarkedTextBuilder builder;
  for_each_piece(text.as_text(),
                 [&](std::string_view piece, Origin origin) { builder.append(convert(piece), origin); });
  return runtime.text(builder);
}

std::string escape_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// Capitals at the starts of words: behind white space, '-', '(', '{', '[' and '<'.
std::string capitalize_words(std::string_view text, bool& starts_word) {
  std::string out;
  std::string_view rest = text;
  size_t begin = 0;
  while (!rest.empty()) {
    const CodePointStep step = next_code_point(rest);
    const bool is_boundary =
        is_space(step.code_point) ||
        (step.code_point < 0x80 && std::string_view("-({[<").contains(static_cast<char>(step.code_point)));
    if (starts_word && !is_boundary) {
      out += to_lower(text.substr(begin, to_size(rest.data() - text.data()) - begin));
      out += to_upper(rest.substr(0, step.n_bytes));
      begin = to_size(rest.data() - text.data()) + step.n_bytes;
    }
    starts_word = is_boundary;
    rest.remove_prefix(step.n_bytes);
  }
  return out + to_lower(text.substr(begin));
}

// The prefix of the filter indent: a number of blanks, or a text.
Result<Value> indentation(Runtime& runtime, const Bound& bound) {
  if (bound.has(0) && bound[0].is_text()) return bound[0];
  TESSERA_ASSIGN(const size_t width, width_of(bound, 0, 4));
  MarkedTextBuilder blanks;
  blanks.append_repeated(width, ' ');
  return runtime.text(blanks);
}

bool is_url_safe(char c, bool is_query) {
  const bool is_alphanumeric = (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
  return is_alphanumeric || std::string_view("_.-~").contains(c) || (c == '/' && !is_query);
}

std::string quote_url(std::string_view text, bool is_query) {
  std::string out;
  for (const char c : text) {
    if (is_url_safe(c, is_query)) {
      out += c;
    } else if (c == ' ' && is_query) {
      out += '+';
    } else {
      out += fmt::format("%{:02X}", static_cast<uint8_t>(c));
    }
  }
  return out;
}

Result<> append_query(Runtime& runtime, const Value& value, MarkedTextBuilder& builder) {
  TESSERA_ASSIGN(const Value text, text_of(runtime, value));
  for_each_piece(text.as_text(),
                 [&](std::string_view piece, Origin origin) { builder.append(quote_url(piece, true), origin); });
  return runtime.spend_bytes(text.bytes().size());
}

}  // namespace

Result<Value> filter_string(Runtime& runtime, const Value& value, const Bound&, const Arguments&) {
  return text_of(runtime, value);
}

Result<Value> filter_upper(Runtime& runtime, const Value& value, const Bound&, const Arguments&) {
  return convert_text(runtime, value, to_upper);
}

Result<Value> filter_lower(Runtime& runtime, const Value& value, const Bound&, const Arguments&) {
  return convert_text(runtime, value, [](std::string_view text) { return to_lower(text); });
}

Result<Value> filter_capitalize(Runtime& runtime, const Value& value, const Bound&, const Arguments&) {
  bool is_first = true;
  return convert_text(runtime, value, [&](std::string_view text) {
    return std::exchange(is_first, false) ? capitalize(text) : to_lower(text);
  });
}

Result<Value> filter_title(Runtime& runtime, const Value& value, const Bound&, const Arguments&) {
  bool starts_word = true;
  return convert_text(runtime, value, [&](std::string_view text) { return capitalize_words(text, starts_word); });
}

Result<Value> method_title(Runtime& runtime, const Value& value, const Bound&, const Arguments&) {
  return convert_text(runtime, value, to_title);
}

Result<Value> method_swapcase(Runtime& runtime, const Value& value, const Bound&, const Arguments&) {
  return convert_text(runtime, value, swap_case);
}

Result<Value> filter_escape(Runtime& runtime, const Value& value, const Bound&, const Arguments&) {
  return convert_text(runtime, value, escape_html);
}

Result<Value> filter_center(Runtime& runtime, const Value& value, const Bound& bound, const Arguments&) {
  TESSERA_ASSIGN(const Value text, text_of(runtime, value));
  TESSERA_ASSIGN(const size_t width, width_of(bound, 0, 80));
  TESSERA_ASSIGN(const size_t n, length(runtime, text));
  const size_t n_blanks = width > n ? width - n : 0;
  const size_t n_left = n_blanks / 2 + (n_blanks & width & 1);  // as Python rounds
  MarkedTextBuilder builder;
  builder.append_repeated(n_left, ' ');
  builder.append(text.as_text());
  builder.append_repeated(n_blanks - n_left, ' ');
  return runtime.text(builder);
}

Result<Value> filter_trim(Runtime& runtime, const Value& value, const Bound& bound, const Arguments&) {
  TESSERA_ASSIGN(const Value text, text_of(runtime, value));
  return strip(runtime, text, bound, Sides::both);
}

Result<Value> filter_replace(Runtime& runtime, const Value& value, const Bound& bound, const Arguments&) {
  TESSERA_ASSIGN(const Value text, text_of(runtime, value));
  TESSERA_ASSIGN(const Value old_part, text_of(runtime, bound[0]));
  TESSERA_ASSIGN(const Value new_part, text_of(runtime, bound[1]));
  TESSERA_ASSIGN(const int64_t count, bound.integer(2, -1));
  const MarkedView &whole = text.as_text(), &from = old_part.as_text(), &to = new_part.as_text();
  TESSERA_TRY(runtime.spend_bytes(whole.bytes.size()));
  MarkedTextBuilder builder;
  size_t done = 0, from_at = 0;
  for (size_t n = count < 0 ? kNoLimit : to_size(count); n > 0; --n) {
    const size_t found = find_text(whole.bytes, from.bytes, from_at);
    if (found == std::string_view::npos) break;
    TESSERA_TRY(runtime.spend(1));
    builder.append_slice(whole, done, found);
    builder.append(to);
    done = found + from.bytes.size();
    from_at = done;
    if (!from.bytes.empty()) continue;
    // An empty part is between all characters.
    if (done == whole.bytes.size()) break;
    from_at = done + next_code_point(whole.bytes.substr(done)).n_bytes;
  }
  builder.append_slice(whole, done, whole.bytes.size());
  return runtime.text(builder);
}

Result<Value> filter_indent(Runtime& runtime, const Value& value, const Bound& bound, const Arguments&) {
  TESSERA_ASSIGN(const Value text, text_of(runtime, value));
  TESSERA_ASSIGN(const Value prefix, indentation(runtime, bound));
  const bool indents_blank = bound.truth(2, false);
  TESSERA_ASSIGN(const auto lines, split_lines(runtime, text.bytes(), LineEnds::dropped));
  const bool ends_line = !lines.empty() && lines.back().end < text.bytes().size();
  MarkedTextBuilder builder;
  if (bound.truth(1, false)) builder.append(prefix.as_text());
  for (size_t i = 0; i < lines.size(); ++i) {
    const bool is_blank = lines[i].begin == lines[i].end;
    if (i > 0) builder.append("\n");
    if (i > 0 && (indents_blank || !is_blank)) builder.append(prefix.as_text());
    builder.append_slice(text.as_text(), lines[i].begin, lines[i].end);
  }
  if (ends_line) builder.append("\n");
  if (ends_line && indents_blank) builder.append(prefix.as_text());
  return runtime.text(builder);
}

Result<Value> filter_truncate(Runtime& runtime, const Value& value, const Bound& bound, const Arguments&) {
  TESSERA_ASSIGN(const Value text, text_of(runtime, value));
  TESSERA_ASSIGN(const int64_t limit, bound.integer(0, 255));
  TESSERA_ASSIGN(const MarkedView end, bound.text(2, "..."));
  TESSERA_ASSIGN(const int64_t leeway, bound.integer(3, 5));
  TESSERA_ASSIGN(const size_t n, length(runtime, text));
  const auto n_end = static_cast<int64_t>(count_code_points(end.bytes));
  if (limit < n_end || leeway < 0)
    return fail(ErrorCode::invalid_argument, "length {}, want at least {}, the length of the end", limit, n_end);
  if (limit >= static_cast<int64_t>(n) - std::min(leeway, static_cast<int64_t>(n))) return text;
  const std::string_view kept = text.bytes().substr(0, code_point_offset(text.bytes(), to_size(limit - n_end)));
  const size_t blank = bound.truth(1, false) ? std::string_view::npos : kept.rfind(' ');
  MarkedTextBuilder builder;
  builder.append_slice(text.as_text(), 0, std::min(blank, kept.size()));
  builder.append(end);
  return runtime.text(builder);
}

Result<Value> filter_wordcount(Runtime& runtime, const Value& value, const Bound&, const Arguments&) {
  TESSERA_ASSIGN(const Value text, text_of(runtime, value));
  TESSERA_TRY(runtime.spend_bytes(text.bytes().size()));
  int64_t n = 0;
  bool is_inside = false;
  for (std::string_view rest = text.bytes(); !rest.empty();) {
    const CodePointStep step = next_code_point(rest);
    const bool is_word = continues_word(step.code_point);
    n += is_word && !is_inside ? 1 : 0;
    is_inside = is_word;
    rest.remove_prefix(step.n_bytes);
  }
  return Value::integer(n);
}

Result<Value> filter_wordwrap(Runtime& runtime, const Value& value, const Bound& bound, const Arguments&) {
  TESSERA_ASSIGN(const Value text, text_of(runtime, value));
  TESSERA_ASSIGN(const int64_t width, bound.integer(0, 79));
  if (width < 1) return fail(ErrorCode::invalid_argument, "width {}, want at least 1", width);
  TESSERA_ASSIGN(const MarkedView separator,
                 bound.has_value(2) ? bound.text(2, "\n") : Result<MarkedView>(MarkedView{"\n"}));
  const WrapOptions options{to_size(width), bound.truth(1, true), bound.truth(3, true)};
  TESSERA_ASSIGN(const auto rows, wrap_words(runtime, text.bytes(), options));
  MarkedTextBuilder builder;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i > 0) builder.append(separator);
    builder.append_slice(text.as_text(), rows[i].begin, rows[i].end);
  }
  return runtime.text(builder);
}

Result<Value> filter_urlencode(Runtime& runtime, const Value& value, const Bound&, const Arguments&) {
  if (!value.is(Kind::dict) && !value.is_sequence())
    return convert_text(runtime, value, [](std::string_view text) { return quote_url(text, false); });
  TESSERA_ASSIGN(const Value pairs, value.is(Kind::dict) ? filter_items(runtime, value, {}, {}) : Result<Value>(value));
  MarkedTextBuilder builder;
  for (const Value& pair : pairs.as_list().items) {
    TESSERA_TRY(runtime.spend(1));
    if (!pair.is_sequence() || pair.as_list().items.size() != 2)
      return fail(ErrorCode::invalid_argument, "element is not a pair of key and value");
    if (builder.size() > 0) builder.append("&");
    TESSERA_TRY(append_query(runtime, pair.as_list().items[0], builder));
    builder.append("=");
    TESSERA_TRY(append_query(runtime, pair.as_list().items[1], builder));
  }
  return runtime.text(builder);
}

Result<Value> filter_format(Runtime& runtime, const Value& value, const Bound&, const Arguments& arguments) {
  TESSERA_ASSIGN(const Value format, text_of(runtime, value));
  if (!arguments.positional.empty() && !arguments.keywords.empty())
    return fail(ErrorCode::invalid_argument, "either values or names, not both");
  if (!arguments.keywords.empty()) {
    TESSERA_ASSIGN(Dict * names, runtime.create_dict(arguments.keywords.size()));
    for (const Arguments::Keyword& keyword : arguments.keywords)
      names->set(runtime.heap().text(keyword.name), keyword.value);
    return format_percent(runtime, format, Value::dict(names));
  }
  TESSERA_ASSIGN(List * values, runtime.create_list(arguments.positional.size()));
  values->items.assign(arguments.positional.begin(), arguments.positional.end());
  return format_percent(runtime, format, Value::tuple(values));
}

}  // namespace tessera::text::jinja
