#include "tessera/text/template/value.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <compare>
#include <cstring>

#include "tessera/base/index.h"
#include "tessera/text/template/numbers.h"

namespace tessera::text::jinja {
namespace {

constexpr std::array<std::string_view, 17> kKindNames{
    "missing", "undefined", "none",     "boolean", "integer", "real", "text",   "list",  "tuple",
    "dict",    "namespace", "function", "method",  "macro",   "loop", "cycler", "joiner"};

// Keys of different ranks are never equal: numbers among one another, texts, tuples, and objects by identity.
int key_rank(const Value& key) {
  if (key.is_number()) return 0;
  if (key.is_text()) return 1;
  if (key.is(Kind::tuple)) return 2;
  return 3;
}

std::strong_ordering compare_scalar_keys(const Value& a, const Value& b) {
  if (const auto order = key_rank(a) <=> key_rank(b); order != 0) return order;
  if (a.is_number()) return total_order(a, b);
  if (a.is_text()) return a.bytes() <=> b.bytes();
  if (const auto order = a.kind() <=> b.kind(); order != 0) return order;
  return a.identity() <=> b.identity();
}

std::strong_ordering compare_keys(const Value& a, const Value& b) {
  if (!a.is(Kind::tuple) || !b.is(Kind::tuple)) return compare_scalar_keys(a, b);
  const auto &left = a.as_list().items, &right = b.as_list().items;
  return std::lexicographical_compare_three_way(left.begin(), left.end(), right.begin(), right.end(),
                                                compare_scalar_keys);
}

// compare_keys() == 0, fast for the texts that templates look up.
bool is_same_key(const Value& a, const Value& b) {
  if (a.is_text() && b.is_text()) return a.bytes() == b.bytes();
  return compare_keys(a, b) == 0;
}

bool is_hashable_scalar(const Value& value) {
  return !value.is_sequence() && !value.is(Kind::dict) && !value.is_undefined();
}

}  // namespace

std::string_view to_string(Kind kind) { return kKindNames[to_size(kind)]; }

bool is_hashable(const Value& value) {
  if (!value.is(Kind::tuple)) return is_hashable_scalar(value);
  return std::ranges::all_of(value.as_list().items, is_hashable_scalar);
}

bool KeyLess::operator()(const Value& a, const Value& b) const { return compare_keys(a, b) < 0; }

const Dict::Entry* Dict::find_entry(const Value& key) const {
  if (entries.size() > kMaxScanned) {
    const auto found = index.find(key);
    return found == index.end() ? nullptr : &entries[found->second];
  }
  const auto found = std::ranges::find_if(entries, [&](const Entry& e) { return is_same_key(e.key, key); });
  return found == entries.end() ? nullptr : &*found;
}

const Value* Dict::find(const Value& key) const {
  const Entry* entry = find_entry(key);
  return entry == nullptr ? nullptr : &entry->value;
}

const Value* Dict::find(std::string_view key) const {
  const MarkedView text{key};
  return find(Value::text(&text));
}

void Dict::assign(const Dict& other) {
  entries = other.entries;
  index = other.index;
}

void Dict::set(const Value& key, const Value& value) {
  if (const Entry* entry = find_entry(key)) {
    entries[to_size(entry - entries.data())].value = value;
    return;
  }
  entries.push_back({key, value});
  if (entries.size() <= kMaxScanned) return;
  for (size_t i = index.size(); i < entries.size(); ++i) index.emplace(entries[i].key, i);
}

std::string_view Heap::copy_bytes(std::string_view bytes) {
  if (bytes.empty()) return {};
  auto* copy = static_cast<char*>(memory_.allocate(bytes.size(), 1));
  std::memcpy(copy, bytes.data(), bytes.size());
  return {copy, bytes.size()};
}

std::span<const ByteRange> Heap::copy_ranges(std::span<const ByteRange> ranges) {
  if (ranges.empty()) return {};
  auto* copy = static_cast<ByteRange*>(memory_.allocate(ranges.size_bytes(), alignof(ByteRange)));
  std::uninitialized_copy(ranges.begin(), ranges.end(), copy);
  return {copy, ranges.size()};
}

Value Heap::text(const MarkedView& text) {
  return Value::text(create<MarkedView>(copy_bytes(text.bytes), copy_ranges(text.given)));
}

Value Heap::text(std::string_view bytes, Origin origin) {
  const ByteRange whole{0, bytes.size()};
  const bool is_marked = origin == Origin::given && !bytes.empty();
  return text(MarkedView{bytes, {&whole, is_marked ? size_t{1} : size_t{0}}});
}

Value Heap::slice(const MarkedView& text, size_t begin, size_t end) {
  const std::span<const ByteRange> within = text.given_within(begin, end);
  if (within.empty()) return Value::text(create<MarkedView>(text.bytes.substr(begin, end - begin)));
  auto* given = static_cast<ByteRange*>(memory_.allocate(within.size_bytes(), alignof(ByteRange)));
  for (size_t i = 0; i < within.size(); ++i) std::construct_at(given + i, clip(within[i], begin, end));
  return Value::text(create<MarkedView>(text.bytes.substr(begin, end - begin), std::span(given, within.size())));
}

}  // namespace tessera::text::jinja
