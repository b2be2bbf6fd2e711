#include "tessera/text/template/print.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/text/template/builtins.h"
#include "tessera/text/template/characters.h"
#include "tessera/text/template/numbers.h"
#include "tessera/text/template/operators.h"
#include "tessera/text/unicode.h"

namespace tessera::text::jinja {
namespace {

// The escapes that repr() and JSON share.
std::string_view simple_escape(uint32_t c) {
  switch (c) {
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return {};
  }
}

void append_repr_character(uint32_t c, std::string_view bytes, char quote, std::string& out) {
  if (const std::string_view escape = simple_escape(c); !escape.empty()) {
    out += escape;
  } else if (c == static_cast<uint8_t>(quote)) {
    out += '\\';
    out += quote;
  } else if (is_printable(c)) {
    out += bytes;
  } else if (c < 0x100) {
    fmt::format_to(std::back_inserter(out), "\\x{:02x}", c);
  } else if (c < 0x10000) {
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", c);
  } else {
    fmt::format_to(std::back_inserter(out), "\\U{:08x}", c);
  }
}

void append_json_character(uint32_t c, std::string_view bytes, bool escapes_non_ascii, std::string& out) {
  if (const std::string_view escape = simple_escape(c); !escape.empty()) {
    out += escape;
  } else if (c == '"') {
    out += "\\\"";
  } else if (c == '\b') {
    out += "\\b";
  } else if (c == '\f') {
    out += "\\f";
  } else if (c < 0x20 || (escapes_non_ascii && c >= 0x7F && c < 0x10000)) {
    if (c == 0x7F) {
      out += bytes;
    } else {
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", c);
    }
  } else if (escapes_non_ascii && c >= 0x10000) {
    fmt::format_to(std::back_inserter(out), "\\u{:04x}\\u{:04x}", 0xD7C0 + (c >> 10), 0xDC00 + (c & 0x3FF));
  } else {
    out += bytes;
  }
}

// Characters that repr() and JSON show as they are.
bool is_plain(char c) { return c >= ' ' && c < 0x7F && c != '\\' && c != '"' && c != '\''; }

// Appends a text piece by piece, each character that is not plain changed by convert(code point, bytes, out).
template <class Convert>
void append_converted(const MarkedView& text, MarkedTextBuilder& builder, Convert convert) {
  for_each_piece(text, [&](std::string_view piece, Origin origin) {
    std::string out;
    while (!piece.empty()) {
      const size_t n_plain = to_size(std::ranges::find_if_not(piece, is_plain) - piece.begin());
      out += piece.substr(0, n_plain);
      piece.remove_prefix(n_plain);
      if (piece.empty()) break;
      const CodePointStep step = next_code_point(piece);
      convert(step.code_point, piece.substr(0, step.n_bytes), out);
      piece.remove_prefix(step.n_bytes);
    }
    builder.append(out, origin);
  });
}

void append_repr_text(const MarkedView& text, MarkedTextBuilder& builder) {
  const bool has_single = text.bytes.contains('\''), has_double = text.bytes.contains('"');
  const char quote = has_single && !has_double ? '"' : '\'';
  builder.append({&quote, 1});
  append_converted(text, builder, [&](uint32_t c, std::string_view bytes, std::string& out) {
    append_repr_character(c, bytes, quote, out);
  });
  builder.append({&quote, 1});
}

void append_json_text(const MarkedView& text, bool escapes_non_ascii, MarkedTextBuilder& builder) {
  builder.append("\"");
  append_converted(text, builder, [&](uint32_t c, std::string_view bytes, std::string& out) {
    append_json_character(c, bytes, escapes_non_ascii, out);
  });
  builder.append("\"");
}

std::string object_text(const Value& value) {
  switch (value.kind()) {
    case Kind::function:
      return fmt::format("<function {}>", value.as<const Function>().name);
    case Kind::method:
      return fmt::format("<method {}>", value.as<Method>().row->name);
    case Kind::loop:
      return fmt::format("<LoopContext {}/{}>", value.as<Loop>().n_started, value.as<Loop>().items->items.size());
    default:
      return fmt::format("<{}>", to_string(value.kind()));
  }
}

// A value that is no container, as text.
void append_scalar(const Value& value, MarkedTextBuilder& builder) {
  switch (value.kind()) {
    case Kind::text:
      builder.append(value.as_text());
      break;
    case Kind::undefined:
      break;
    case Kind::none:
      builder.append("None");
      break;
    case Kind::boolean:
    case Kind::integer:
    case Kind::real:
      builder.append(number_text(value));
      break;
    default:
      builder.append(object_text(value));
  }
}

// Writes nested lists and dicts. Open containers are on a stack, so depth costs no recursion.
class NestedWriter {
 public:
  /// json: null for repr().
  NestedWriter(Runtime& runtime, const JsonStyle* json, MarkedTextBuilder& builder)
      : runtime_(runtime),
        json_(json),
        builder_(builder),
        item_separator_(json == nullptr ? std::string_view(", ") : json->item_separator),
        key_separator_(json == nullptr ? std::string_view(": ") : json->key_separator) {}

  Result<> write(const Value& value) {
    TESSERA_TRY(begin(value));
    while (!open_.empty() && !builder_.overflowed()) {
      TESSERA_TRY(runtime_.spend(1));
      Open& top = open_.back();
      if (top.next == top.size()) {
        end();
        continue;
      }
      TESSERA_TRY(write_next(top));
    }
    return {};
  }

 private:
  struct Open {
    const List* list;  // null for a dict
    std::vector<const Dict::Entry*> entries{};
    size_t next = 0;
    bool has_key = false;  // the key of the next entry is written, not its value
    std::string_view close;
    size_t size() const { return list != nullptr ? list->items.size() : entries.size(); }
  };

  Result<> begin(const Value& value) {
    if (value.is_sequence()) return begin_list(value);
    if (value.is(Kind::dict)) return begin_dict(value.as_dict(), "{", "}");
    if (value.is(Kind::name_space) && json_ == nullptr)
      return begin_dict(*value.as<Namespace>().members, "<Namespace {", "}>");
    return json_ == nullptr ? write_repr(value) : write_json(value);
  }

  Result<> begin_list(const Value& value) {
    const bool is_tuple = value.is(Kind::tuple) && json_ == nullptr;
    builder_.append(is_tuple ? "(" : "[");
    const bool is_single = is_tuple && value.as_list().items.size() == 1;
    open_.push_back({.list = &value.as_list(), .close = is_single ? ",)" : is_tuple ? ")" : "]"});
    return {};
  }

  Result<> begin_dict(const Dict& dict, std::string_view open, std::string_view close) {
    builder_.append(open);
    open_.push_back({.list = nullptr, .close = close});
    TESSERA_TRY(runtime_.spend(dict.entries.size() / 8));
    std::vector<const Dict::Entry*>& entries = open_.back().entries;
    for (const Dict::Entry& entry : dict.entries) entries.push_back(&entry);
    if (json_ != nullptr && json_->sorts_keys)
      std::ranges::stable_sort(entries, KeyLess(), [](const Dict::Entry* entry) { return entry->key; });
    return {};
  }

  void end() {
    const Open& top = open_.back();
    const bool was_empty = top.size() == 0;
    const std::string_view close = top.close;
    open_.pop_back();
    if (!was_empty) break_line();
    builder_.append(close);
  }

  void break_line() {
    if (json_ == nullptr || !json_->indent) return;
    builder_.append("\n");
    builder_.append_repeated(*json_->indent * open_.size(), ' ');
  }

  // Writes an element of a list, or the key or the value of an entry.
  Result<> write_next(Open& top) {
    if (std::exchange(top.has_key, false)) {
      builder_.append(key_separator_);
      return begin(top.entries[top.next++]->value);
    }
    if (top.next > 0) builder_.append(item_separator_);
    break_line();
    if (top.list != nullptr) {
      const Value element = top.list->items[top.next++];
      return begin(element);
    }
    top.has_key = true;
    const Value& key = top.entries[top.next]->key;
    return json_ == nullptr ? begin(key) : write_json_key(key);
  }

  Result<> write_json_key(const Value& key) {
    if (key.is_text()) return write_json(key);
    if (key.is(Kind::tuple))
      return fail(ErrorCode::invalid_argument, "key of a JSON object is tuple, want text or number");
    builder_.append("\"");
    TESSERA_TRY(write_json(key));
    builder_.append("\"");
    return {};
  }

  Result<> write_repr(const Value& value) {
    if (value.is_text()) {
      TESSERA_TRY(runtime_.spend_bytes(value.bytes().size()));
      append_repr_text(value.as_text(), builder_);
    } else if (value.is_undefined()) {
      builder_.append("Undefined");
    } else {
      append_scalar(value, builder_);
    }
    return {};
  }

  Result<> write_json(const Value& value) {
    if (value.is_text()) {
      TESSERA_TRY(runtime_.spend_bytes(value.bytes().size()));
      append_json_text(value.as_text(), json_->escapes_non_ascii, builder_);
    } else if (value.is_undefined() || value.is_none()) {
      builder_.append("null");
    } else if (value.is(Kind::boolean)) {
      builder_.append(value.as_boolean() ? "true" : "false");
    } else if (value.is(Kind::real)) {
      const std::string text = real_text(value.as_real());
      builder_.append(text == "inf" ? "Infinity" : text == "-inf" ? "-Infinity" : text == "nan" ? "NaN" : text);
    } else if (value.is_integer()) {
      builder_.append(number_text(value));
    } else {
      return fail(ErrorCode::invalid_argument, "cannot write {} as JSON", to_string(value.kind()));
    }
    return {};
  }

  Runtime& runtime_;
  const JsonStyle* json_;
  MarkedTextBuilder& builder_;
  std::string_view item_separator_;
  std::string_view key_separator_;
  std::vector<Open> open_;
};

}  // namespace

Result<> append_text(Runtime& runtime, const Value& value, MarkedTextBuilder& builder) {
  const bool is_container = value.is_sequence() || value.is(Kind::dict) || value.is(Kind::name_space);
  if (is_container) return NestedWriter(runtime, nullptr, builder).write(value);
  append_scalar(value, builder);
  return {};
}

Result<Value> text_of(Runtime& runtime, const Value& value) {
  if (value.is_text()) return value;
  MarkedTextBuilder builder;
  TESSERA_TRY(append_text(runtime, value, builder));
  return runtime.text(builder);
}

Result<> append_json(Runtime& runtime, const Value& value, const JsonStyle& style, MarkedTextBuilder& builder) {
  return NestedWriter(runtime, &style, builder).write(value);
}

}  // namespace tessera::text::jinja
