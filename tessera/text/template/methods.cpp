// Methods of texts, lists, dicts and loops. Those that are filters too are in the files of the filters.
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

constexpr size_t kNone = std::string_view::npos;

Result<std::string_view> required_text(const Bound& bound, size_t i) {
  if (!bound.has(i)) return fail(ErrorCode::invalid_argument, "argument {} is missing", i + 1);
  TESSERA_ASSIGN(const MarkedView text, bound.text(i, ""));
  return text.bytes;
}

Result<std::string_view> required_part(const Bound& bound, size_t i) {
  TESSERA_ASSIGN(const std::string_view part, required_text(bound, i));
  if (part.empty()) return fail(ErrorCode::invalid_argument, "separator is empty");
  return part;
}

// Appends the parts of a text to a list.
Result<Value> list_of_slices(Runtime& runtime, const Value& text, const std::vector<ByteRange>& parts) {
  TESSERA_ASSIGN(List * list, runtime.create_list(parts.size()));
  for (const ByteRange& part : parts) {
    TESSERA_ASSIGN(const Value slice, runtime.slice(text.as_text(), part.begin, part.end));
    list->items.push_back(slice);
  }
  return Value::list(list);
}

// Parts between runs of white space, at most n_splits + 1, from the left.
std::vector<ByteRange> split_at_space(std::string_view text, size_t n_splits) {
  std::vector<ByteRange> parts;
  size_t at = leading_space(text);
  while (at < text.size()) {
    if (parts.size() == n_splits) {
      parts.push_back({at, text.size()});
      break;
    }
    size_t end = at;
    while (end < text.size() && !is_space(next_code_point(text.substr(end)).code_point))
      end += next_code_point(text.substr(end)).n_bytes;
    parts.push_back({at, end});
    at = end + leading_space(text.substr(end));
  }
  return parts;
}

// As split_at_space, from the right.
std::vector<ByteRange> split_at_last_space(std::string_view text, size_t n_splits) {
  std::vector<ByteRange> parts;
  size_t end = text.size() - trailing_space(text);
  while (end > 0) {
    if (parts.size() == n_splits) {
      parts.push_back({0, end});
      break;
    }
    size_t begin = end;
    while (begin > 0) {
      const size_t n_bytes = last_code_point_bytes(text.substr(0, begin));
      if (is_space(next_code_point(text.substr(begin - n_bytes)).code_point)) break;
      begin -= n_bytes;
    }
    parts.push_back({begin, end});
    end = begin - trailing_space(text.substr(0, begin));
  }
  std::ranges::reverse(parts);
  return parts;
}

std::vector<ByteRange> split_at(std::string_view text, std::string_view separator, size_t n_splits) {
  std::vector<ByteRange> parts;
  size_t begin = 0;
  while (parts.size() < n_splits) {
    const size_t found = find_text(text, separator, begin);
    if (found == kNone) break;
    parts.push_back({begin, found});
    begin = found + separator.size();
  }
  parts.push_back({begin, text.size()});
  return parts;
}

std::vector<ByteRange> split_at_last(std::string_view text, std::string_view separator, size_t n_splits) {
  const std::string reversed_text(text.rbegin(), text.rend());
  const std::string reversed_separator(separator.rbegin(), separator.rend());
  std::vector<ByteRange> parts = split_at(reversed_text, reversed_separator, n_splits);
  for (ByteRange& part : parts) part = {text.size() - part.end, text.size() - part.begin};
  std::ranges::reverse(parts);
  return parts;
}

enum class Direction : uint8_t { from_left, from_right };

Result<Value> split(Runtime& runtime, const Value& text, const Bound& bound, Direction direction) {
  TESSERA_ASSIGN(const int64_t most, bound.integer(1, -1));
  const size_t n_splits = most < 0 ? SIZE_MAX : to_size(most);
  const bool is_left = direction == Direction::from_left;
  TESSERA_TRY(runtime.spend_bytes(text.bytes().size()));
  if (!bound.has_value(0))
    return list_of_slices(
        runtime, text, is_left ? split_at_space(text.bytes(), n_splits) : split_at_last_space(text.bytes(), n_splits));
  TESSERA_ASSIGN(const std::string_view separator, required_part(bound, 0));
  return list_of_slices(
      runtime, text,
      is_left ? split_at(text.bytes(), separator, n_splits) : split_at_last(text.bytes(), separator, n_splits));
}

// The tuple (before, separator, after).
Result<Value> partition(Runtime& runtime, const Value& text, const Bound& bound, Direction direction) {
  TESSERA_ASSIGN(const std::string_view separator, required_part(bound, 0));
  const std::string_view bytes = text.bytes();
  TESSERA_TRY(runtime.spend_bytes(bytes.size()));
  const bool is_left = direction == Direction::from_left;
  const size_t found = is_left ? find_text(bytes, separator, 0) : find_last_text(bytes, separator);
  std::vector<ByteRange> parts{{0, bytes.size()}, {bytes.size(), bytes.size()}, {bytes.size(), bytes.size()}};
  if (found == kNone && !is_left) parts = {{0, 0}, {0, 0}, {0, bytes.size()}};
  if (found != kNone) parts = {{0, found}, {found, found + separator.size()}, {found + separator.size(), bytes.size()}};
  TESSERA_ASSIGN(const Value list, list_of_slices(runtime, text, parts));
  return Value::tuple(&list.as_list());
}

// True if the text matches one of the texts of argument 0: a text or a tuple of texts.
template <class Matches>
Result<Value> matches_any(Runtime& runtime, const Bound& bound, Matches matches) {
  if (!bound.has(0) || !bound[0].is(Kind::tuple)) {
    TESSERA_ASSIGN(const std::string_view part, required_text(bound, 0));
    return Value::boolean(matches(part));
  }
  for (const Value& part : bound[0].as_list().items) {
    TESSERA_TRY(runtime.spend(1));
    if (!part.is_text()) return fail(ErrorCode::invalid_argument, "tuple with {}, want texts", to_string(part.kind()));
    if (matches(part.bytes())) return Value::boolean(true);
  }
  return Value::boolean(false);
}

// Index of a byte in code points, or -1.
Value character_index(std::string_view text, size_t byte) {
  return byte == kNone ? Value::integer(-1) : Value::size(count_code_points(text.substr(0, byte)));
}

Result<Value> find_part(Runtime& runtime, const Value& text, const Bound& bound, Direction direction) {
  TESSERA_ASSIGN(const std::string_view part, required_text(bound, 0));
  TESSERA_TRY(runtime.spend_bytes(text.bytes().size()));
  const std::string_view bytes = text.bytes();
  return character_index(bytes,
                         direction == Direction::from_left ? find_text(bytes, part, 0) : find_last_text(bytes, part));
}

// True if the text has characters and all of them fulfil the predicate.
template <class Predicate>
Result<Value> all_characters(Runtime& runtime, const Value& text, Predicate predicate) {
  TESSERA_TRY(runtime.spend_bytes(text.bytes().size()));
  for (std::string_view rest = text.bytes(); !rest.empty();) {
    const CodePointStep step = next_code_point(rest);
    if (!predicate(step.code_point)) return Value::boolean(false);
    rest.remove_prefix(step.n_bytes);
  }
  return Value::boolean(!text.bytes().empty());
}

Result<Value> justify(Runtime& runtime, const Value& text, const Bound& bound, Sides padded) {
  TESSERA_ASSIGN(const size_t width, width_of(bound, 0, 0));
  TESSERA_ASSIGN(const MarkedView filler, bound.text(1, " "));
  TESSERA_ASSIGN(const size_t n, length(runtime, text));
  if (filler.bytes.size() != 1) return fail(ErrorCode::invalid_argument, "filler is not one ASCII character");
  const size_t n_padding = width > n ? width - n : 0;
  MarkedTextBuilder builder;
  if (padded == Sides::left) builder.append_repeated(n_padding, filler.bytes[0]);
  builder.append(text.as_text());
  if (padded == Sides::right) builder.append_repeated(n_padding, filler.bytes[0]);
  return runtime.text(builder);
}

}  // namespace

Result<Value> method_split(Runtime& runtime, const Value& text, const Bound& bound, const Arguments&) {
  return split(runtime, text, bound, Direction::from_left);
}
Result<Value> method_rsplit(Runtime& runtime, const Value& text, const Bound& bound, const Arguments&) {
  return split(runtime, text, bound, Direction::from_right);
}
Result<Value> method_partition(Runtime& runtime, const Value& text, const Bound& bound, const Arguments&) {
  return partition(runtime, text, bound, Direction::from_left);
}
Result<Value> method_rpartition(Runtime& runtime, const Value& text, const Bound& bound, const Arguments&) {
  return partition(runtime, text, bound, Direction::from_right);
}
Result<Value> method_lstrip(Runtime& runtime, const Value& text, const Bound& bound, const Arguments&) {
  return strip(runtime, text, bound, Sides::left);
}
Result<Value> method_rstrip(Runtime& runtime, const Value& text, const Bound& bound, const Arguments&) {
  return strip(runtime, text, bound, Sides::right);
}
Result<Value> method_ljust(Runtime& runtime, const Value& text, const Bound& bound, const Arguments&) {
  return justify(runtime, text, bound, Sides::right);
}
Result<Value> method_rjust(Runtime& runtime, const Value& text, const Bound& bound, const Arguments&) {
  return justify(runtime, text, bound, Sides::left);
}
Result<Value> method_find(Runtime& runtime, const Value& text, const Bound& bound, const Arguments&) {
  return find_part(runtime, text, bound, Direction::from_left);
}
Result<Value> method_rfind(Runtime& runtime, const Value& text, const Bound& bound, const Arguments&) {
  return find_part(runtime, text, bound, Direction::from_right);
}

Result<Value> method_index_text(Runtime& runtime, const Value& text, const Bound& bound, const Arguments&) {
  TESSERA_ASSIGN(const Value found, find_part(runtime, text, bound, Direction::from_left));
  if (found.as_integer() < 0) return fail(ErrorCode::invalid_argument, "text not found");
  return found;
}

Result<Value> method_zfill(Runtime& runtime, const Value& text, const Bound& bound, const Arguments&) {
  TESSERA_ASSIGN(const size_t width, width_of(bound, 0, 0));
  TESSERA_ASSIGN(const size_t n, length(runtime, text));
  const size_t n_sign = text.bytes().starts_with('-') || text.bytes().starts_with('+') ? 1 : 0;
  MarkedTextBuilder builder;
  builder.append_slice(text.as_text(), 0, n_sign);
  builder.append_repeated(width > n ? width - n : 0, '0');
  builder.append_slice(text.as_text(), n_sign, text.bytes().size());
  return runtime.text(builder);
}

Result<Value> method_splitlines(Runtime& runtime, const Value& text, const Bound& bound, const Arguments&) {
  const LineEnds ends = bound.truth(0, false) ? LineEnds::kept : LineEnds::dropped;
  TESSERA_ASSIGN(const auto lines, split_lines(runtime, text.bytes(), ends));
  return list_of_slices(runtime, text, lines);
}

Result<Value> method_startswith(Runtime& runtime, const Value& text, const Bound& bound, const Arguments&) {
  return matches_any(runtime, bound, [&](std::string_view part) { return text.bytes().starts_with(part); });
}
Result<Value> method_endswith(Runtime& runtime, const Value& text, const Bound& bound, const Arguments&) {
  return matches_any(runtime, bound, [&](std::string_view part) { return text.bytes().ends_with(part); });
}

Result<Value> method_removeprefix(Runtime& runtime, const Value& text, const Bound& bound, const Arguments&) {
  TESSERA_ASSIGN(const std::string_view prefix, required_text(bound, 0));
  if (!text.bytes().starts_with(prefix)) return text;
  return runtime.slice(text.as_text(), prefix.size(), text.bytes().size());
}
Result<Value> method_removesuffix(Runtime& runtime, const Value& text, const Bound& bound, const Arguments&) {
  TESSERA_ASSIGN(const std::string_view suffix, required_text(bound, 0));
  if (!text.bytes().ends_with(suffix)) return text;
  return runtime.slice(text.as_text(), 0, text.bytes().size() - suffix.size());
}

Result<Value> method_count_text(Runtime& runtime, const Value& text, const Bound& bound, const Arguments&) {
  TESSERA_ASSIGN(const std::string_view part, required_text(bound, 0));
  TESSERA_TRY(runtime.spend_bytes(text.bytes().size()));
  if (part.empty()) return Value::size(count_code_points(text.bytes()) + 1);
  return Value::size(split_at(text.bytes(), part, SIZE_MAX).size() - 1);
}

Result<Value> method_join(Runtime& runtime, const Value& separator, const Bound& bound, const Arguments&) {
  Arguments arguments;
  arguments.positional.push_back(separator);
  TESSERA_ASSIGN(const Bound separator_alone, bind("d attribute", arguments));
  return filter_join(runtime, bound.has(0) ? bound[0] : Value::undefined(), separator_alone, arguments);
}

Result<Value> method_format(Runtime& runtime, const Value& text, const Bound&, const Arguments& arguments) {
  return format_braces(runtime, text, arguments);
}

Result<Value> method_isalnum(Runtime& runtime, const Value& text, const Bound&, const Arguments&) {
  return all_characters(runtime, text, [](uint32_t c) { return c != '_' && continues_word(c); });
}
Result<Value> method_isalpha(Runtime& runtime, const Value& text, const Bound&, const Arguments&) {
  return all_characters(runtime, text, is_letter);
}
Result<Value> method_isdigit(Runtime& runtime, const Value& text, const Bound&, const Arguments&) {
  return all_characters(runtime, text, is_decimal_digit);
}
Result<Value> method_isspace(Runtime& runtime, const Value& text, const Bound&, const Arguments&) {
  return all_characters(runtime, text, is_space);
}
Result<Value> method_islower(Runtime& runtime, const Value& text, const Bound&, const Arguments&) {
  TESSERA_TRY(runtime.spend_bytes(text.bytes().size()));
  return Value::boolean(has_only_case(text.bytes(), is_lower, is_upper));
}
Result<Value> method_isupper(Runtime& runtime, const Value& text, const Bound&, const Arguments&) {
  TESSERA_TRY(runtime.spend_bytes(text.bytes().size()));
  return Value::boolean(has_only_case(text.bytes(), is_upper, is_lower));
}

// --- lists ---

Result<Value> method_append(Runtime& runtime, const Value& list, const Bound& bound, const Arguments&) {
  if (!bound.has(0)) return fail(ErrorCode::invalid_argument, "argument 1 is missing");
  TESSERA_TRY(runtime.spend_values(1));
  list.as_list().items.push_back(bound[0]);
  return Value::none();
}

Result<Value> method_extend(Runtime& runtime, const Value& list, const Bound& bound, const Arguments&) {
  TESSERA_ASSIGN(const Value copy, filter_list(runtime, bound.has(0) ? bound[0] : Value::none(), {}, {}));
  auto& items = list.as_list().items;
  items.insert(items.end(), copy.as_list().items.begin(), copy.as_list().items.end());
  return Value::none();
}

Result<Value> method_insert(Runtime& runtime, const Value& list, const Bound& bound, const Arguments&) {
  if (!bound.has(1)) return fail(ErrorCode::invalid_argument, "argument 2 is missing");
  TESSERA_ASSIGN(const int64_t index, bound.integer(0, 0));
  auto& items = list.as_list().items;
  TESSERA_TRY(runtime.spend_values(1));
  TESSERA_TRY(runtime.spend(items.size() / 16));
  const auto n = static_cast<int64_t>(items.size());
  const int64_t place = std::clamp<int64_t>(index < 0 ? std::max(index, -n) + n : index, 0, n);
  items.insert(items.begin() + place, bound[1]);
  return Value::none();
}

Result<Value> method_pop(Runtime& runtime, const Value& list, const Bound& bound, const Arguments&) {
  TESSERA_ASSIGN(const int64_t index, bound.integer(0, -1));
  auto& items = list.as_list().items;
  const auto n = static_cast<int64_t>(items.size());
  const int64_t place = index < 0 ? index + n : index;
  if (place < 0 || place >= n) return fail(ErrorCode::invalid_argument, "index {} of a list of {} elements", index, n);
  TESSERA_TRY(runtime.spend(to_size(n - place) / 16));
  const Value value = items[to_size(place)];
  items.erase(items.begin() + place);
  return value;
}

Result<Value> method_count_list(Runtime& runtime, const Value& list, const Bound& bound, const Arguments&) {
  int64_t n = 0;
  for (const Value& element : list.as_list().items) {
    TESSERA_TRY(runtime.spend(1));
    TESSERA_ASSIGN(const bool is_equal, equal(runtime, element, bound[0]));
    n += is_equal ? 1 : 0;
  }
  return Value::integer(n);
}

Result<Value> method_index_list(Runtime& runtime, const Value& list, const Bound& bound, const Arguments&) {
  const auto& items = list.as_list().items;
  for (size_t i = 0; i < items.size(); ++i) {
    TESSERA_TRY(runtime.spend(1));
    TESSERA_ASSIGN(const bool is_equal, equal(runtime, items[i], bound[0]));
    if (is_equal) return Value::size(i);
  }
  return fail(ErrorCode::invalid_argument, "element not found");
}

// --- dicts ---

Result<Value> method_get(Runtime& runtime, const Value& dict, const Bound& bound, const Arguments&) {
  if (!bound.has(0)) return fail(ErrorCode::invalid_argument, "argument 1 is missing");
  TESSERA_ASSIGN(const bool is_present, contains(runtime, dict, bound[0]));
  if (is_present) return *dict.as_dict().find(bound[0]);
  return bound.has(1) ? bound[1] : Value::none();
}

Result<Value> method_values(Runtime& runtime, const Value& dict, const Bound&, const Arguments&) {
  const auto& entries = dict.as_dict().entries;
  TESSERA_ASSIGN(List * list, runtime.create_list(entries.size()));
  for (const Dict::Entry& entry : entries) list->items.push_back(entry.value);
  return Value::list(list);
}

Result<Value> method_copy_dict(Runtime& runtime, const Value& dict, const Bound&, const Arguments&) {
  const auto& entries = dict.as_dict().entries;
  TESSERA_ASSIGN(Dict * copy, runtime.create_dict(entries.size()));
  copy->assign(dict.as_dict());
  return Value::dict(copy);
}

// --- loops and cyclers ---

Result<Value> method_cycle(Runtime&, const Value& value, const Bound&, const Arguments& arguments) {
  if (arguments.positional.empty()) return fail(ErrorCode::invalid_argument, "no values");
  const size_t index = value.as<Loop>().n_started - 1;
  return arguments.positional[index % arguments.positional.size()];
}

Result<Value> method_changed(Runtime& runtime, const Value& value, const Bound&, const Arguments& arguments) {
  Loop& loop = value.as<Loop>();
  TESSERA_ASSIGN(List * now, runtime.create_list(arguments.positional.size()));
  now->items.assign(arguments.positional.begin(), arguments.positional.end());
  bool is_same = !loop.last_changed.is_missing();
  if (is_same) {
    TESSERA_ASSIGN(is_same, equal(runtime, loop.last_changed, Value::tuple(now)));
  }
  loop.last_changed = Value::tuple(now);
  return Value::boolean(!is_same);
}

Result<Value> method_next(Runtime&, const Value& value, const Bound&, const Arguments&) {
  Cycler& cycler = value.as<Cycler>();
  const Value present = cycler.items->items[cycler.at];
  cycler.at = (cycler.at + 1) % cycler.items->items.size();
  return present;
}

Result<Value> method_reset(Runtime&, const Value& value, const Bound&, const Arguments&) {
  value.as<Cycler>().at = 0;
  return Value::none();
}

}  // namespace tessera::text::jinja
