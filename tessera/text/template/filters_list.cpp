// Filters on lists and dicts.
#include <algorithm>
#include <set>

#include "tessera/base/index.h"
#include "tessera/text/template/builtins.h"
#include "tessera/text/template/characters.h"
#include "tessera/text/template/operators.h"
#include "tessera/text/template/print.h"
#include "tessera/text/unicode.h"

namespace tessera::text::jinja {
namespace {

// A path of attribute=: "a.b.0", several names with dots between them, or a number.
Result<Value> follow_path(Runtime& runtime, Value value, const Value& path) {
  if (!path.is_text()) return item(runtime, value, path);
  for (std::string_view rest = path.bytes(); !value.is_undefined();) {
    const size_t n = std::min(rest.find('.'), rest.size());
    const std::string_view name = rest.substr(0, n);
    TESSERA_TRY(runtime.spend(1));
    const auto index = parse_integer(name, 10);
    TESSERA_ASSIGN(const Value part, index ? item(runtime, value, Value::integer(*index))
                                           : item(runtime, value, runtime.heap().text(name)));
    value = part;
    if (n == rest.size()) break;
    rest.remove_prefix(n + 1);
  }
  return value;
}

// The value that sort, unique, min, max and groupby compare: an attribute, in lower case unless case counts.
class KeyOf {
 public:
  KeyOf(Runtime& runtime, const Value& attribute, bool is_case_sensitive)
      : runtime_(runtime), attribute_(attribute), is_case_sensitive_(is_case_sensitive) {}

  Result<Value> operator()(const Value& value) const {
    Value key = value;
    if (!attribute_.is_missing() && !attribute_.is_none()) {
      TESSERA_ASSIGN(key, follow_path(runtime_, value, attribute_));
    }
    if (is_case_sensitive_ || !key.is_text()) return key;
    return runtime_.text(to_lower(key.bytes()));
  }

 private:
  Runtime& runtime_;
  Value attribute_;
  bool is_case_sensitive_;
};

struct Keyed {
  std::vector<Value> keys;
  Value value;
};

// Sorts by the keys, stably. The first failed comparison ends the sort.
Result<> sort_keyed(Runtime& runtime, std::vector<Keyed>& rows, bool is_reversed) {
  Result<> failure;
  const auto is_less = [&](const Keyed& a, const Keyed& b) {
    for (size_t i = 0; i < a.keys.size() && failure; ++i) {
      const auto found = order(runtime, a.keys[i], b.keys[i]);
      const auto spent = runtime.spend(1);
      if (!found || !spent) {
        failure = std::unexpected(!found ? found.error() : spent.error());
        return false;
      }
      if (*found != 0) return is_reversed ? *found > 0 : *found < 0;
    }
    return false;
  };
  std::ranges::stable_sort(rows, is_less);
  return failure;
}

// The names of "a,b.c": sort by the first, then by the second.
Result<std::vector<Value>> attributes_of(Runtime& runtime, const Value& attribute) {
  if (!attribute.is_text()) return std::vector{attribute};
  std::vector<Value> names;
  std::string_view rest = attribute.bytes();
  while (true) {
    const size_t n = std::min(rest.find(','), rest.size());
    TESSERA_ASSIGN(const Value name, runtime.text(rest.substr(0, n)));
    names.push_back(name);
    if (n == rest.size()) return names;
    rest.remove_prefix(n + 1);
  }
}

// A call of a filter or a test by name: map('join', '-'), select('divisibleby', 3).
struct NamedCall {
  std::string_view name;
  Arguments arguments;
};

Result<NamedCall> named_call(const Arguments& arguments, size_t first) {
  if (!arguments.positional[first].is_text())
    return fail(ErrorCode::invalid_argument, "name is {}, want text", to_string(arguments.positional[first].kind()));
  NamedCall call{arguments.positional[first].bytes(), {}};
  call.arguments.positional.assign(arguments.positional.begin() + static_cast<ptrdiff_t>(first) + 1,
                                   arguments.positional.end());
  call.arguments.keywords = arguments.keywords;
  return call;
}

struct Selection {
  bool by_attribute;
  bool keeps;  // the elements for which the test holds
};

// Implements select, reject, selectattr and rejectattr. Without a test, elements that are true pass.
Result<Value> select(Runtime& runtime, const Value& value, const Arguments& arguments, Selection selection) {
  TESSERA_ASSIGN(const List* list, elements(runtime, value));
  const size_t first = selection.by_attribute ? 1 : 0;
  if (arguments.positional.size() < first) return fail(ErrorCode::invalid_argument, "no attribute");
  const bool has_test = arguments.positional.size() > first;
  NamedCall call;
  if (has_test) {
    TESSERA_ASSIGN(call, named_call(arguments, first));
  }
  const Test* test = find_test(call.name);
  if (has_test && test == nullptr)
    return fail(ErrorCode::invalid_argument, "unknown test '{}'", call.name.substr(0, 40));
  List* kept = runtime.heap().create_list();
  for (const Value& element : list->items) {
    TESSERA_TRY(runtime.spend(1));
    Value subject = element;
    if (selection.by_attribute) {
      TESSERA_ASSIGN(subject, follow_path(runtime, element, arguments.positional[0]));
    }
    bool holds = is_true(subject);
    if (has_test) {
      TESSERA_ASSIGN(holds, call_test(runtime, *test, subject, call.arguments));
    }
    if (holds == selection.keeps) kept->items.push_back(element);
  }
  TESSERA_TRY(runtime.spend_values(kept->items.size()));
  return Value::list(kept);
}

// min for a sign of -1, max for 1.
Result<Value> extreme(Runtime& runtime, const Value& value, const Bound& bound, int sign) {
  TESSERA_ASSIGN(const List* list, elements(runtime, value));
  if (list->items.empty()) return Value::undefined();
  const KeyOf key_of(runtime, bound[1], bound.truth(0, false));
  Value best = list->items[0];
  TESSERA_ASSIGN(Value best_key, key_of(best));
  for (size_t i = 1; i < list->items.size(); ++i) {
    TESSERA_TRY(runtime.spend(1));
    TESSERA_ASSIGN(const Value key, key_of(list->items[i]));
    TESSERA_ASSIGN(const auto found, order(runtime, key, best_key));
    if (sign < 0 ? found < 0 : found > 0) {
      best = list->items[i];
      best_key = key;
    }
  }
  return best;
}

}  // namespace

Result<Value> filter_list(Runtime& runtime, const Value& value, const Bound&, const Arguments&) {
  TESSERA_ASSIGN(const List* list, elements(runtime, value));
  TESSERA_ASSIGN(List * copy, runtime.create_list(list->items.size()));
  copy->items.assign(list->items.begin(), list->items.end());
  return Value::list(copy);
}

Result<Value> filter_length(Runtime& runtime, const Value& value, const Bound&, const Arguments&) {
  TESSERA_ASSIGN(const size_t n, length(runtime, value));
  return Value::size(n);
}

Result<Value> filter_first(Runtime& runtime, const Value& value, const Bound&, const Arguments&) {
  if (value.is_text()) return item(runtime, value, Value::integer(0));
  TESSERA_ASSIGN(const List* list, elements(runtime, value));
  return list->items.empty() ? Value::undefined() : list->items.front();
}

Result<Value> filter_last(Runtime& runtime, const Value& value, const Bound&, const Arguments&) {
  if (value.is_text()) return item(runtime, value, Value::integer(-1));
  TESSERA_ASSIGN(const List* list, elements(runtime, value));
  return list->items.empty() ? Value::undefined() : list->items.back();
}

Result<Value> filter_items(Runtime& runtime, const Value& value, const Bound&, const Arguments&) {
  if (value.is_undefined()) return Value::list(runtime.heap().create_list());
  if (!value.is(Kind::dict))
    return fail(ErrorCode::invalid_argument, "{} has no items, want dict", to_string(value.kind()));
  const auto& entries = value.as_dict().entries;
  TESSERA_ASSIGN(List * list, runtime.create_list(entries.size()));
  for (const Dict::Entry& entry : entries) {
    TESSERA_ASSIGN(List * pair, runtime.create_list(2));
    pair->items.assign({entry.key, entry.value});
    list->items.push_back(Value::tuple(pair));
  }
  return Value::list(list);
}

Result<Value> filter_join(Runtime& runtime, const Value& value, const Bound& bound, const Arguments&) {
  TESSERA_ASSIGN(const Value separator,
                 bound.has(0) ? text_of(runtime, bound[0]) : Result<Value>(Value::text(&kEmptyText)));
  TESSERA_ASSIGN(const List* list, elements(runtime, value));
  MarkedTextBuilder builder;
  for (size_t i = 0; i < list->items.size() && !builder.overflowed(); ++i) {
    TESSERA_TRY(runtime.spend(1));
    if (i > 0) builder.append(separator.as_text());
    Value element = list->items[i];
    if (bound.has_value(1)) {
      TESSERA_ASSIGN(element, follow_path(runtime, element, bound[1]));
    }
    TESSERA_TRY(append_text(runtime, element, builder));
  }
  return runtime.text(builder);
}

Result<Value> filter_reverse(Runtime& runtime, const Value& value, const Bound&, const Arguments&) {
  if (value.is_text()) return slice(runtime, value, Value::none(), Value::none(), Value::integer(-1));
  TESSERA_ASSIGN(const List* list, elements(runtime, value));
  TESSERA_ASSIGN(List * reversed, runtime.create_list(list->items.size()));
  reversed->items.assign(list->items.rbegin(), list->items.rend());
  return Value::list(reversed);
}

Result<Value> filter_map(Runtime& runtime, const Value& value, const Bound&, const Arguments& arguments) {
  TESSERA_ASSIGN(const List* list, elements(runtime, value));
  TESSERA_ASSIGN(List * mapped, runtime.create_list(list->items.size()));
  if (!arguments.positional.empty()) {
    TESSERA_ASSIGN(const NamedCall call, named_call(arguments, 0));
    const Filter* filter = find_filter(call.name);
    if (filter == nullptr) return fail(ErrorCode::invalid_argument, "unknown filter '{}'", call.name.substr(0, 40));
    for (const Value& element : list->items) {
      TESSERA_ASSIGN(const Value result, call_filter(runtime, *filter, element, call.arguments));
      mapped->items.push_back(result);
    }
    return Value::list(mapped);
  }
  TESSERA_ASSIGN(const Bound bound, bind("attribute default", arguments));
  if (!bound.has(0)) return fail(ErrorCode::invalid_argument, "neither the name of a filter nor an attribute");
  for (const Value& element : list->items) {
    TESSERA_ASSIGN(Value part, follow_path(runtime, element, bound[0]));
    mapped->items.push_back(part.is_undefined() && bound.has_value(1) ? bound[1] : part);
  }
  return Value::list(mapped);
}

Result<Value> filter_select(Runtime& runtime, const Value& value, const Bound&, const Arguments& arguments) {
  return select(runtime, value, arguments, {.by_attribute = false, .keeps = true});
}
Result<Value> filter_reject(Runtime& runtime, const Value& value, const Bound&, const Arguments& arguments) {
  return select(runtime, value, arguments, {.by_attribute = false, .keeps = false});
}
Result<Value> filter_selectattr(Runtime& runtime, const Value& value, const Bound&, const Arguments& arguments) {
  return select(runtime, value, arguments, {.by_attribute = true, .keeps = true});
}
Result<Value> filter_rejectattr(Runtime& runtime, const Value& value, const Bound&, const Arguments& arguments) {
  return select(runtime, value, arguments, {.by_attribute = true, .keeps = false});
}

Result<Value> filter_min(Runtime& runtime, const Value& value, const Bound& bound, const Arguments&) {
  return extreme(runtime, value, bound, -1);
}
Result<Value> filter_max(Runtime& runtime, const Value& value, const Bound& bound, const Arguments&) {
  return extreme(runtime, value, bound, 1);
}

Result<Value> filter_sort(Runtime& runtime, const Value& value, const Bound& bound, const Arguments&) {
  TESSERA_ASSIGN(const List* list, elements(runtime, value));
  TESSERA_ASSIGN(const std::vector<Value> attributes, attributes_of(runtime, bound[2]));
  std::vector<Keyed> rows;
  for (const Value& element : list->items) {
    TESSERA_TRY(runtime.spend(1));
    Keyed row{{}, element};
    for (const Value& attribute : attributes) {
      TESSERA_ASSIGN(const Value key, KeyOf(runtime, attribute, bound.truth(1, false))(element));
      row.keys.push_back(key);
    }
    rows.push_back(std::move(row));
  }
  TESSERA_TRY(sort_keyed(runtime, rows, bound.truth(0, false)));
  TESSERA_ASSIGN(List * sorted, runtime.create_list(rows.size()));
  for (const Keyed& row : rows) sorted->items.push_back(row.value);
  return Value::list(sorted);
}

Result<Value> filter_dictsort(Runtime& runtime, const Value& value, const Bound& bound, const Arguments&) {
  TESSERA_ASSIGN(const Value pairs, filter_items(runtime, value, bound, {}));
  TESSERA_ASSIGN(const MarkedView by, bound.text(1, "key"));
  if (by.bytes != "key" && by.bytes != "value")
    return fail(ErrorCode::invalid_argument, "by is neither 'key' nor 'value'");
  std::vector<Keyed> rows;
  const KeyOf key_of(runtime, {}, bound.truth(0, false));
  for (const Value& pair : pairs.as_list().items) {
    TESSERA_ASSIGN(const Value key, key_of(pair.as_list().items[by.bytes == "key" ? 0 : 1]));
    rows.push_back({{key}, pair});
  }
  TESSERA_TRY(sort_keyed(runtime, rows, bound.truth(2, false)));
  for (size_t i = 0; i < rows.size(); ++i) pairs.as_list().items[i] = rows[i].value;
  return pairs;
}

Result<Value> filter_unique(Runtime& runtime, const Value& value, const Bound& bound, const Arguments&) {
  TESSERA_ASSIGN(const List* list, elements(runtime, value));
  const KeyOf key_of(runtime, bound[1], bound.truth(0, false));
  std::set<Value, KeyLess> seen;
  List* kept = runtime.heap().create_list();
  for (const Value& element : list->items) {
    TESSERA_TRY(runtime.spend_values(1));
    TESSERA_ASSIGN(const Value key, key_of(element));
    if (!is_hashable(key))
      return fail(ErrorCode::invalid_argument, "cannot compare elements of kind {}", to_string(key.kind()));
    if (key.is_text()) TESSERA_TRY(runtime.spend_bytes(key.bytes().size()));
    if (seen.insert(key).second) kept->items.push_back(element);
  }
  return Value::list(kept);
}

Result<Value> filter_groupby(Runtime& runtime, const Value& value, const Bound& bound, const Arguments&) {
  TESSERA_ASSIGN(const List* list, elements(runtime, value));
  if (!bound.has(0)) return fail(ErrorCode::invalid_argument, "no attribute");
  const KeyOf folded_key_of(runtime, {}, bound.truth(2, false));
  std::vector<Value> keys;
  std::vector<Keyed> rows;  // the values are indices of elements
  for (const Value& element : list->items) {
    TESSERA_TRY(runtime.spend(1));
    TESSERA_ASSIGN(const Value key, follow_path(runtime, element, bound[0]));
    keys.push_back(key.is_undefined() && bound.has_value(1) ? bound[1] : key);
    TESSERA_ASSIGN(const Value folded_key, folded_key_of(keys.back()));
    rows.push_back({{folded_key}, Value::size(rows.size())});
  }
  TESSERA_TRY(sort_keyed(runtime, rows, false));
  TESSERA_TRY(runtime.spend_values(rows.size()));
  List* groups = runtime.heap().create_list();
  List* members = nullptr;
  for (size_t i = 0; i < rows.size(); ++i) {
    bool is_new = i == 0;
    if (!is_new) {
      TESSERA_ASSIGN(const bool is_same, equal(runtime, rows[i].keys[0], rows[i - 1].keys[0]));
      is_new = !is_same;
    }
    const size_t element = to_size(rows[i].value.as_integer());
    if (is_new) {
      members = runtime.heap().create_list();
      TESSERA_ASSIGN(List * group, runtime.create_list(2));
      group->items.assign({keys[element], Value::list(members)});
      group->is_group = true;
      groups->items.push_back(Value::tuple(group));
    }
    members->items.push_back(list->items[element]);
  }
  return Value::list(groups);
}

Result<Value> filter_batch(Runtime& runtime, const Value& value, const Bound& bound, const Arguments&) {
  TESSERA_ASSIGN(const List* list, elements(runtime, value));
  TESSERA_ASSIGN(const int64_t size, bound.integer(0, 0));
  if (size < 1) return fail(ErrorCode::invalid_argument, "line count {}, want at least 1", size);
  List* batches = runtime.heap().create_list();
  for (size_t i = 0; i < list->items.size(); i += to_size(size)) {
    const size_t n = std::min(to_size(size), list->items.size() - i);
    const bool is_filled = n < to_size(size) && bound.has_value(1);
    TESSERA_ASSIGN(List * batch, runtime.create_list(is_filled ? to_size(size) : n));
    const auto begin = list->items.begin() + static_cast<ptrdiff_t>(i);
    batch->items.assign(begin, begin + static_cast<ptrdiff_t>(n));
    if (is_filled) batch->items.resize(to_size(size), bound[1]);
    batches->items.push_back(Value::list(batch));
  }
  return Value::list(batches);
}

Result<Value> filter_slice(Runtime& runtime, const Value& value, const Bound& bound, const Arguments&) {
  TESSERA_ASSIGN(const List* list, elements(runtime, value));
  TESSERA_ASSIGN(const int64_t n_slices, bound.integer(0, 0));
  if (n_slices < 1) return fail(ErrorCode::invalid_argument, "number of slices is {}, want at least 1", n_slices);
  TESSERA_ASSIGN(List * slices, runtime.create_list(to_size(n_slices)));
  const size_t n = list->items.size(), least = n / to_size(n_slices), n_longer = n % to_size(n_slices);
  size_t begin = 0;
  for (size_t i = 0; i < to_size(n_slices); ++i) {
    const size_t size = least + (i < n_longer ? 1 : 0);
    const bool is_filled = i >= n_longer && bound.has_value(1);
    TESSERA_ASSIGN(List * part, runtime.create_list(size + (is_filled ? 1 : 0)));
    for (size_t k = 0; k < size; ++k) part->items.push_back(list->items[begin + k]);
    if (is_filled) part->items.push_back(bound[1]);
    slices->items.push_back(Value::list(part));
    begin += size;
  }
  return Value::list(slices);
}

Result<Value> filter_sum(Runtime& runtime, const Value& value, const Bound& bound, const Arguments&) {
  TESSERA_ASSIGN(const List* list, elements(runtime, value));
  Value sum = bound.has(1) ? bound[1] : Value::integer(0);
  for (const Value& element : list->items) {
    TESSERA_TRY(runtime.spend(1));
    Value part = element;
    if (bound.has_value(0)) {
      TESSERA_ASSIGN(part, follow_path(runtime, element, bound[0]));
    }
    TESSERA_ASSIGN(sum, apply(runtime, Arithmetic::add, sum, part));
  }
  return sum;
}

}  // namespace tessera::text::jinja
