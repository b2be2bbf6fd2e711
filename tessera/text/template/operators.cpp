#include "tessera/text/template/operators.h"

#include <cstring>
#include <utility>

#include "tessera/base/checked.h"
#include "tessera/base/index.h"
#include "tessera/text/template/characters.h"
#include "tessera/text/template/print.h"
#include "tessera/text/unicode.h"

namespace tessera::text::jinja {
namespace {

std::unexpected<Error> mismatch(std::string_view what, const Value& a, const Value& b) {
  if (a.is_undefined()) return undefined_error(a);
  if (b.is_undefined()) return undefined_error(b);
  return fail(ErrorCode::invalid_argument, "cannot {} {} and {}", what, to_string(a.kind()), to_string(b.kind()));
}

bool is_absent(const Value& value) { return value.is_undefined() || value.is_none(); }

Result<Value> add_lists(Runtime& runtime, const Value& a, const Value& b) {
  const auto &left = a.as_list().items, &right = b.as_list().items;
  TESSERA_ASSIGN(List * sum, runtime.create_list(left.size() + right.size()));
  sum->items.insert(sum->items.end(), left.begin(), left.end());
  sum->items.insert(sum->items.end(), right.begin(), right.end());
  return a.is(Kind::tuple) ? Value::tuple(sum) : Value::list(sum);
}

Result<Value> repeat_text(Runtime& runtime, const MarkedView& text, size_t count) {
  const auto n_bytes = checked_mul(text.bytes.size(), count);
  if (!n_bytes || *n_bytes > MarkedTextBuilder::kMaxBytes) return fail(ErrorCode::limit, "text above 8 MiB");
  if (*n_bytes == 0) return runtime.text("");
  MarkedTextBuilder builder;
  for (size_t i = 0; i < count; ++i) builder.append(text);
  return runtime.text(builder);
}

Result<Value> repeat_list(Runtime& runtime, const Value& value, size_t count) {
  const auto& items = value.as_list().items;
  const auto n = checked_mul(items.size(), count);
  TESSERA_ASSIGN(List * list, runtime.create_list(n ? *n : SIZE_MAX));
  if (!items.empty())
    for (size_t i = 0; i < count; ++i) list->items.insert(list->items.end(), items.begin(), items.end());
  return value.is(Kind::tuple) ? Value::tuple(list) : Value::list(list);
}

Result<Value> multiply(Runtime& runtime, const Value& a, const Value& b) {
  const bool is_repeated_first = a.is_text() || a.is_sequence();
  const Value &repeated = is_repeated_first ? a : b, &times = is_repeated_first ? b : a;
  if (!(repeated.is_text() || repeated.is_sequence()) || !times.is_integer()) return mismatch("multiply", a, b);
  const size_t count = times.as_integer() > 0 ? to_size(times.as_integer()) : 0;
  return repeated.is_text() ? repeat_text(runtime, repeated.as_text(), count) : repeat_list(runtime, repeated, count);
}

Result<Value> add(Runtime& runtime, const Value& a, const Value& b) {
  if (a.is_sequence() && a.kind() == b.kind()) return add_lists(runtime, a, b);
  // Kinder than Python: a text plus nothing is the text (content of messages with tool calls).
  const bool is_text = a.is_text() && b.is_text();
  if (!is_text && !(a.is_text() && is_absent(b)) && !(b.is_text() && is_absent(a))) return mismatch("add", a, b);
  if (!is_text) return a.is_text() ? a : b;
  MarkedTextBuilder builder;
  builder.append(a.as_text());
  builder.append(b.as_text());
  return runtime.text(builder);
}

constexpr std::array<std::string_view, 7> kVerbs{"add",    "subtract", "multiply",        "divide",
                                                 "divide", "divide",   "raise to a power"};

struct EqualPair {
  Value a, b;
};

// Compares two values of one container kind: sizes now, elements later.
bool add_pairs(const Value& a, const Value& b, std::vector<EqualPair>& todo) {
  if (a.is_sequence()) {
    const auto &left = a.as_list().items, &right = b.as_list().items;
    if (left.size() != right.size()) return false;
    for (size_t i = left.size(); i-- > 0;) todo.push_back({left[i], right[i]});
    return true;
  }
  const Dict &left = a.as_dict(), &right = b.as_dict();
  if (left.entries.size() != right.entries.size()) return false;
  for (const Dict::Entry& entry : left.entries) {
    const Value* other = right.find(entry.key);
    if (other == nullptr) return false;
    todo.push_back({entry.value, *other});
  }
  return true;
}

Result<bool> is_equal_scalar(Runtime& runtime, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return compare_numbers(a, b) == 0;
  if (a.kind() != b.kind()) return false;
  if (a.is_undefined() || a.is_none()) return true;
  if (!a.is_text()) return a.identity() == b.identity();
  if (a.bytes().size() != b.bytes().size()) return false;
  TESSERA_TRY(runtime.spend_bytes(a.bytes().size()));
  return a.bytes() == b.bytes();
}

// Clamps an index or a bound of a slice as Python does: negative ones count from the end.
int64_t clamp_bound(int64_t bound, int64_t size, bool is_backward) {
  if (bound < 0) return std::max(bound + size, is_backward ? int64_t{-1} : int64_t{0});
  return std::min(bound, is_backward ? size - 1 : size);
}

Result<std::optional<int64_t>> bound_of(const Value& value) {
  if (value.is_none()) return std::nullopt;
  if (!value.is_integer()) {
    if (value.is_undefined()) return undefined_error(value);
    return fail(ErrorCode::invalid_argument, "bound of a slice is {}, want integer", to_string(value.kind()));
  }
  return value.as_integer();
}

struct SliceRange {
  int64_t start, stop, step;
  size_t count() const {
    const int64_t distance = step > 0 ? stop - start : start - stop;
    if (distance <= 0) return 0;
    const uint64_t magnitude = step > 0 ? static_cast<uint64_t>(step) : 0 - static_cast<uint64_t>(step);
    return to_size(div_ceil(static_cast<uint64_t>(distance), magnitude));
  }
};

Result<SliceRange> slice_range(size_t n, const Value& start, const Value& stop, const Value& step) {
  const auto size = static_cast<int64_t>(n);
  TESSERA_ASSIGN(const auto first, bound_of(start));
  TESSERA_ASSIGN(const auto last, bound_of(stop));
  TESSERA_ASSIGN(const auto stride, bound_of(step));
  SliceRange range{.start = 0, .stop = 0, .step = stride.value_or(1)};
  if (range.step == 0) return fail(ErrorCode::invalid_argument, "step of a slice is 0");
  const bool is_backward = range.step < 0;
  range.start = first ? clamp_bound(*first, size, is_backward) : is_backward ? size - 1 : 0;
  range.stop = last ? clamp_bound(*last, size, is_backward) : is_backward ? -1 : size;
  return range;
}

Result<Value> slice_text(Runtime& runtime, const MarkedView& text, const SliceRange& range) {
  const size_t n = range.count();
  if (n == 0) return runtime.text("");
  if (range.step == 1) {
    const size_t begin = code_point_offset(text.bytes, to_size(range.start));
    const size_t end = begin + code_point_offset(text.bytes.substr(begin), n);
    return runtime.slice(text, begin, end);
  }
  std::vector<size_t> offsets;
  for (size_t at = 0; at < text.bytes.size(); at += next_code_point(text.bytes.substr(at)).n_bytes)
    offsets.push_back(at);
  offsets.push_back(text.bytes.size());
  TESSERA_TRY(runtime.spend(n));
  MarkedTextBuilder builder;
  for (size_t i = 0; i < n; ++i) {
    const size_t character = to_size(range.start + static_cast<int64_t>(i) * range.step);
    builder.append_slice(text, offsets[character], offsets[character + 1]);
  }
  return runtime.text(builder);
}

Result<Value> character(Runtime& runtime, const MarkedView& text, int64_t index) {
  TESSERA_TRY(runtime.spend_bytes(text.bytes.size()));
  const auto n = static_cast<int64_t>(count_code_points(text.bytes));
  const int64_t place = index < 0 ? index + n : index;
  if (place < 0 || place >= n) return Value::undefined();
  const size_t begin = code_point_offset(text.bytes, to_size(place));
  return runtime.slice(text, begin, begin + next_code_point(text.bytes.substr(begin)).n_bytes);
}

}  // namespace

std::unexpected<Error> undefined_error(const Value& value) {
  const std::string_view name = value.undefined_name();
  if (name.empty()) return fail(ErrorCode::not_found, "value is undefined");
  return fail(ErrorCode::not_found, "'{}' is undefined", name.substr(0, 80));
}

bool is_true(const Value& value) {
  switch (value.kind()) {
    case Kind::missing:
    case Kind::undefined:
    case Kind::none:
      return false;
    case Kind::boolean:
    case Kind::integer:
      return value.as_integer() != 0;
    case Kind::real:
      return value.as_real() != 0;
    case Kind::text:
      return !value.bytes().empty();
    case Kind::list:
    case Kind::tuple:
      return !value.as_list().items.empty();
    case Kind::dict:
      return !value.as_dict().entries.empty();
    default:
      return true;
  }
}

Result<Value> apply(Runtime& runtime, Arithmetic op, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return compute(op, a, b);
  if (op == Arithmetic::add) return add(runtime, a, b);
  if (op == Arithmetic::multiply) return multiply(runtime, a, b);
  if (op == Arithmetic::modulo && a.is_text()) return format_percent(runtime, a, b);
  return mismatch(kVerbs[to_size(op)], a, b);
}

Result<Value> concat(Runtime& runtime, const Value& a, const Value& b) {
  MarkedTextBuilder builder;
  TESSERA_TRY(append_text(runtime, a, builder));
  TESSERA_TRY(append_text(runtime, b, builder));
  return runtime.text(builder);
}

Result<bool> equal(Runtime& runtime, const Value& a, const Value& b) {
  if (!a.is_sequence() && !a.is(Kind::dict)) return is_equal_scalar(runtime, a, b);
  std::vector<EqualPair> todo{{a, b}};
  while (!todo.empty()) {
    const auto [left, right] = todo.back();
    todo.pop_back();
    TESSERA_TRY(runtime.spend(1));
    if (left.kind() == right.kind() && (left.is_sequence() || left.is(Kind::dict))) {
      if (!add_pairs(left, right, todo)) return false;
      continue;
    }
    TESSERA_ASSIGN(const bool is_equal, is_equal_scalar(runtime, left, right));
    if (!is_equal) return false;
  }
  return true;
}

Result<std::partial_ordering> order(Runtime& runtime, const Value& a, const Value& b) {
  Value left = a, right = b;
  while (left.is_sequence() && left.kind() == right.kind()) {
    const auto &x = left.as_list().items, &y = right.as_list().items;
    size_t i = 0;
    for (; i < x.size() && i < y.size(); ++i) {
      TESSERA_ASSIGN(const bool is_equal, equal(runtime, x[i], y[i]));
      TESSERA_TRY(runtime.spend(1));
      if (!is_equal) break;
    }
    if (i == x.size() || i == y.size()) return x.size() <=> y.size();
    const Value next_left = x[i], next_right = y[i];
    left = next_left;
    right = next_right;
  }
  if (left.is_number() && right.is_number()) return compare_numbers(left, right);
  if (!left.is_text() || !right.is_text()) return mismatch("compare", left, right);
  TESSERA_TRY(runtime.spend_bytes(std::min(left.bytes().size(), right.bytes().size())));
  return left.bytes() <=> right.bytes();
}

Result<bool> contains(Runtime& runtime, const Value& container, const Value& value) {
  switch (container.kind()) {
    case Kind::undefined:
      return false;
    case Kind::dict:
      if (!is_hashable(value)) return fail(ErrorCode::invalid_argument, "{} cannot be a key", to_string(value.kind()));
      if (value.is_text()) TESSERA_TRY(runtime.spend_bytes(value.bytes().size()));
      return container.as_dict().find(value) != nullptr;
    case Kind::text:
      if (!value.is_text()) return mismatch("search", container, value);
      TESSERA_TRY(runtime.spend_bytes(container.bytes().size()));
      return find_text(container.bytes(), value.bytes(), 0) != std::string_view::npos;
    case Kind::list:
    case Kind::tuple:
      break;
    default:
      return fail(ErrorCode::invalid_argument, "cannot search {}", to_string(container.kind()));
  }
  for (const Value& element : container.as_list().items) {
    TESSERA_TRY(runtime.spend(1));
    TESSERA_ASSIGN(const bool is_equal, equal(runtime, element, value));
    if (is_equal) return true;
  }
  return false;
}

Result<bool> compare(Runtime& runtime, Comparison comparison, const Value& a, const Value& b) {
  if (comparison == Comparison::equal || comparison == Comparison::not_equal) {
    TESSERA_ASSIGN(const bool is_equal, equal(runtime, a, b));
    return is_equal == (comparison == Comparison::equal);
  }
  if (comparison == Comparison::in || comparison == Comparison::not_in) {
    TESSERA_ASSIGN(const bool is_in, contains(runtime, b, a));
    return is_in == (comparison == Comparison::in);
  }
  TESSERA_ASSIGN(const std::partial_ordering found, order(runtime, a, b));
  switch (comparison) {
    case Comparison::less:
      return found < 0;
    case Comparison::less_equal:
      return found <= 0;
    case Comparison::greater:
      return found > 0;
    default:
      return found >= 0;
  }
}

Result<List*> elements(Runtime& runtime, const Value& value) {
  if (value.is_sequence()) return &value.as_list();
  if (value.is_undefined()) return runtime.create_list(0);
  if (value.is(Kind::dict)) {
    const auto& entries = value.as_dict().entries;
    TESSERA_ASSIGN(List * list, runtime.create_list(entries.size()));
    for (const Dict::Entry& entry : entries) list->items.push_back(entry.key);
    return list;
  }
  if (!value.is_text())
    return fail(ErrorCode::invalid_argument, "{} has no elements to iterate over", to_string(value.kind()));
  const MarkedView& text = value.as_text();
  TESSERA_ASSIGN(List * list, runtime.create_list(count_code_points(text.bytes)));
  for (size_t at = 0; at < text.bytes.size();) {
    const size_t n_bytes = next_code_point(text.bytes.substr(at)).n_bytes;
    list->items.push_back(runtime.heap().slice(text, at, at + n_bytes));
    at += n_bytes;
  }
  return list;
}

Result<size_t> length(Runtime& runtime, const Value& value) {
  if (value.is_undefined()) return 0;
  if (value.is_sequence()) return value.as_list().items.size();
  if (value.is(Kind::dict)) return value.as_dict().entries.size();
  if (!value.is_text()) return fail(ErrorCode::invalid_argument, "{} has no length", to_string(value.kind()));
  TESSERA_TRY(runtime.spend_bytes(value.bytes().size()));
  return count_code_points(value.bytes());
}

Result<Value> item(Runtime& runtime, const Value& object, const Value& key) {
  const Value absent = Value::undefined(key.is_text() ? &key.as_text() : nullptr);
  if (object.is_undefined()) return undefined_error(object);
  if (object.is(Kind::dict)) {
    if (key.is_text()) TESSERA_TRY(runtime.spend_bytes(key.bytes().size()));
    const Value* found = is_hashable(key) ? object.as_dict().find(key) : nullptr;
    return found == nullptr ? absent : *found;
  }
  if (!key.is_integer()) return absent;
  if (object.is_text()) return character(runtime, object.as_text(), key.as_integer());
  if (!object.is_sequence()) return absent;
  const auto& items = object.as_list().items;
  const auto n = static_cast<int64_t>(items.size());
  const int64_t place = key.as_integer() < 0 ? key.as_integer() + n : key.as_integer();
  return place < 0 || place >= n ? absent : items[to_size(place)];
}

Result<Value> slice(Runtime& runtime, const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is_undefined()) return undefined_error(object);
  if (!object.is_text() && !object.is_sequence())
    return fail(ErrorCode::invalid_argument, "cannot slice {}", to_string(object.kind()));
  TESSERA_ASSIGN(const size_t n, length(runtime, object));
  TESSERA_ASSIGN(const SliceRange range, slice_range(n, start, stop, step));
  if (object.is_text()) return slice_text(runtime, object.as_text(), range);
  const size_t count = range.count();
  TESSERA_ASSIGN(List * part, runtime.create_list(count));
  const auto& items = object.as_list().items;
  for (size_t i = 0; i < count; ++i)
    part->items.push_back(items[to_size(range.start + static_cast<int64_t>(i) * range.step)]);
  return object.is(Kind::tuple) ? Value::tuple(part) : Value::list(part);
}

size_t find_text(std::string_view text, std::string_view part, size_t begin) {
  if (begin > text.size() || part.size() > text.size() - begin) return std::string_view::npos;
  if (part.empty()) return begin;
  // std::string_view::find takes time proportional to the product of the sizes; memmem is linear.
  const void* found = ::memmem(text.data() + begin, text.size() - begin, part.data(), part.size());
  return found == nullptr ? std::string_view::npos : to_size(static_cast<const char*>(found) - text.data());
}

size_t find_last_text(std::string_view text, std::string_view part) {
  const std::string reversed_text(text.rbegin(), text.rend()), reversed_part(part.rbegin(), part.rend());
  const size_t found = find_text(reversed_text, reversed_part, 0);
  return found == std::string_view::npos ? found : text.size() - found - part.size();
}

}  // namespace tessera::text::jinja
