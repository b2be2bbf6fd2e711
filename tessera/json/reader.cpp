// Builds the tree from the events of nlohmann's SAX parser, which keeps a stack of its own and checks UTF-8, surrogates
// and numbers. Two of its habits are corrected here. Its ordered objects search all keys for each new one. It takes a
// NUL byte for the end of the text.
#include "tessera/json/reader.h"

#include <fmt/format.h>

#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tessera/json/json_shape.h"
#include "tessera/json/key_table.h"
#include "tessera/text/utf8.h"

namespace tessera {
namespace {

constexpr size_t kFewKeys = 16;              // up to so many, comparing is faster than hashing
constexpr size_t kLargeStringBytes = 65536;  // from here on a string is moved, with room to spare, instead of copied

Error json_error(size_t offset, std::string_view reason) {
  return {ErrorCode::format, fmt::format("not JSON: byte {}: {}", offset, reason)};
}

/// An iterator whose copies share one position, so that the position of the parser can be seen.
class TextCursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  explicit TextCursor(const char** at) : at_(at) {}
  reference operator*() const { return **at_; }
  TextCursor& operator++() {
    ++*at_;
    return *this;
  }
  void operator++(int) { ++*at_; }
  bool operator==(const TextCursor& other) const { return *at_ == *other.at_; }

 private:
  const char** at_;
};

class TreeBuilder final : public nlohmann::json_sax<Json> {
 public:
  TreeBuilder(std::string_view text, const JsonShape& shape, const JsonLimits& limits, const char* const* position)
      : text_(text), shape_(shape), limits_(limits), position_(position) {}

  bool null() override { return add(nullptr) != nullptr; }
  bool boolean(bool value) override { return add(value) != nullptr; }
  bool number_integer(number_integer_t value) override { return add(value) != nullptr; }
  bool number_unsigned(number_unsigned_t value) override { return add(value) != nullptr; }
  bool number_float(number_float_t value, const string_t&) override { return add(value) != nullptr; }
  bool string(string_t& value) override {
    return add(value.size() < kLargeStringBytes ? Json(string_t(value)) : Json(std::move(value))) != nullptr;
  }
  bool binary(binary_t&) override { return false; }  // not in JSON

  bool start_object(size_t) override { return open(add(Json::object())); }
  bool end_object() override { return close(); }
  bool start_array(size_t) override { return open(add(Json::array())); }
  bool end_array() override { return close(); }

  bool key(string_t& key) override {
    if (key.size() > limits_.max_key_bytes)
      return refuse_key(fmt::format("a key of {} bytes, limit {}", key.size(), limits_.max_key_bytes));
    if (!is_new(key)) return refuse_key(fmt::format("a second key {} in one object", text::quote_text(key)));
    key_.assign(key);
    return true;
  }

  bool parse_error(size_t position, const std::string& token, const nlohmann::detail::exception& error) override {
    constexpr int kNumberOutOfRange = 406;
    const size_t offset = position > 0 ? position - 1 : 0;
    if (error.id == kNumberOutOfRange) {
      failure_ = json_error(position - std::min(position, token.size()), "a number out of the range of double");
    } else {
      failure_ = json_error(offset, reason_of(error.what()));
    }
    return false;
  }

  Error take_failure() { return std::move(failure_); }
  JsonTree take_root() { return std::move(root_); }

 private:
  struct Open {
    Json* container;
    size_t n_items;                  // by the shape
    std::optional<KeyTable> keys{};  // only of an object with many
  };

  static Json::object_t::Container& members(Json& object) { return object.get_ref<Json::object_t&>(); }

  Json* add(Json value) {
    if (open_.empty()) {
      root_.reset(new Json(std::move(value)));
      return root_.get();
    }
    Open& parent = open_.back();
    if (parent.container->is_array()) {
      auto& items = parent.container->get_ref<Json::array_t&>();
      if (items.empty()) items.reserve(parent.n_items);
      return &items.emplace_back(std::move(value));
    }
    auto& items = members(*parent.container);
    if (items.empty()) items.reserve(parent.n_items);
    return &items.emplace_back(key_, std::move(value)).second;
  }

  bool open(Json* container) {
    const size_t n_items = n_opened_ < shape_.sizes.size() ? shape_.sizes[n_opened_] : 0;
    ++n_opened_;
    open_.push_back({container, n_items});
    if (container->is_object() && n_items > kFewKeys) open_.back().keys.emplace(n_items);
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  bool is_new(std::string_view key) {
    Open& parent = open_.back();
    const auto& items = members(*parent.container);
    if (parent.keys)
      return parent.keys->insert(key, static_cast<uint32_t>(items.size()),
                                 [&](uint32_t i) { return std::string_view(items[i].first); });
    for (const auto& item : items) {
      if (item.first == key) return false;
    }
    return true;
  }

  /// The parser has just read the closing quote of a key. Inside a string every quote has an odd number of backslashes.
  bool refuse_key(std::string_view reason) {
    size_t begin = static_cast<size_t>(*position_ - text_.data()) - 1;
    bool is_opening = false;
    while (begin > 0 && !is_opening) {
      --begin;
      size_t n_backslashes = 0;
      while (n_backslashes < begin && text_[begin - 1 - n_backslashes] == '\\') ++n_backslashes;
      is_opening = text_[begin] == '"' && n_backslashes % 2 == 0;
    }
    failure_ = json_error(begin, reason);
    return false;
  }

  /// The part of the parser's message between the position and the hostile token.
  static std::string_view reason_of(std::string_view message) {
    constexpr std::string_view kBegin = "syntax error ", kEnd = "; last read: ";
    const size_t begin = message.find(kBegin);
    if (begin == std::string_view::npos) return "syntax error";
    return message.substr(begin, message.find(kEnd, begin) - begin);
  }

  std::string_view text_;
  const JsonShape& shape_;
  const JsonLimits& limits_;
  const char* const* position_;
  std::vector<Open> open_;
  size_t n_opened_ = 0;
  std::string key_;
  JsonTree root_;
  Error failure_ = json_error(0, "syntax error");
};

}  // namespace

Result<JsonTree> read_json_tree(std::string_view text, const JsonLimits& limits) {
  if (text.empty()) return std::unexpected(json_error(0, "the text is empty"));
  if (const size_t nul = text.find('\0'); nul != std::string_view::npos)
    return std::unexpected(json_error(nul, "a NUL byte"));
  TESSERA_ASSIGN(const JsonShape shape, measure_json(text, limits));

  const char* position = text.data();
  const char* end = text.data() + text.size();
  TreeBuilder builder(text, shape, limits, &position);
  if (!Json::sax_parse(TextCursor(&position), TextCursor(&end), &builder))
    return std::unexpected(builder.take_failure());
  return builder.take_root();
}

Result<Json> read_json(std::string_view text, const JsonLimits& limits) {
  TESSERA_ASSIGN(const JsonTree tree, read_json_tree(text, limits));
  return std::move(*tree);
}

}  // namespace tessera
