// One pass over the bytes of a JSON text, which distinguishes strings, brackets and other values. Syntax is the
// parser's: here any run of other bytes counts as one value.
#include "tessera/json/json_shape.h"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace tessera {
namespace {

// Memory of a value of the tree, with the header of an allocation (8 bytes, rounded to 16).
constexpr size_t kArrayItemBytes = 16;
constexpr size_t kMemberBytes = 48 + 8;          // key and value, and a place in the table of keys
constexpr size_t kContainerBytes = 32 + 16 + 4;  // its object, the header of its items, its entry in the shape
constexpr size_t kStringBytes = 48;
constexpr size_t kInlineChars = 15;  // longer strings have an allocation of their own

bool ends_scalar(char c) {
  return c == ',' || c == ':' || c == '"' || c == '[' || c == ']' || c == '{' || c == '}' || c == ' ' || c == '\n' ||
         c == '\r' || c == '\t';
}

class ShapeScanner {
 public:
  ShapeScanner(std::string_view text, const JsonLimits& limits)
      : text_(text), limits_(limits), bytes_left_(limits.tree_bytes + limits.tree_bytes_per_byte * text.size()) {}

  Result<JsonShape> scan() {
    while (at_ < text_.size() && !is_done_) {
      if (!step()) return fail(ErrorCode::limit, "{}", failure_);
    }
    return std::move(shape_);
  }

 private:
  struct Open {
    size_t index;
    bool is_object;
    bool expects_key;
  };

  bool step() {
    switch (text_[at_]) {
      case ' ':
      case '\n':
      case '\r':
      case '\t':
      case ':':
        ++at_;
        return true;
      case ',':
        if (!open_.empty()) open_.back().expects_key = open_.back().is_object;
        ++at_;
        return true;
      case '[':
      case '{':
        return open_container();
      case ']':
      case '}':
        return close_container();
      case '"':
        return pass_string();
      default:
        return pass_scalar();
    }
  }

  bool open_container() {
    if (open_.size() == limits_.max_depth)
      return refuse("JSON is nested too deeply: more than {} levels at byte {}", limits_.max_depth);
    if (!count_value(kContainerBytes)) return false;
    const bool is_object = text_[at_] == '{';
    open_.push_back({shape_.sizes.size(), is_object, is_object});
    shape_.sizes.push_back(0);
    ++at_;
    return true;
  }

  bool close_container() {
    is_done_ = open_.empty() || open_.back().is_object != (text_[at_] == '}');
    if (!is_done_) open_.pop_back();
    ++at_;
    return true;
  }

  bool pass_string() {
    const size_t begin = at_;
    size_t end = begin + 1;
    while (end < text_.size() && text_[end] != '"') end += text_[end] == '\\' ? 2 : 1;
    const size_t n_chars = end - begin - 1;
    const size_t own_bytes = n_chars > kInlineChars ? n_chars + 16 : 0;
    const bool is_key = !open_.empty() && open_.back().expects_key;
    if (is_key) open_.back().expects_key = false;
    if (is_key ? !spend(own_bytes) : !count_value(kStringBytes + own_bytes)) return false;
    at_ = end + 1;
    return true;
  }

  bool pass_scalar() {
    if (!count_value(0)) return false;
    while (at_ < text_.size() && !ends_scalar(text_[at_])) ++at_;
    return true;
  }

  bool count_value(size_t own_bytes) {
    if (++n_values_ > limits_.max_values)
      return refuse("JSON has too many values: more than {} at byte {}", limits_.max_values);
    if (open_.empty()) return spend(own_bytes);
    ++shape_.sizes[open_.back().index];
    return spend(own_bytes + (open_.back().is_object ? kMemberBytes : kArrayItemBytes));
  }

  bool spend(size_t n_bytes) {
    if (n_bytes > bytes_left_)
      return refuse("JSON needs too much memory: more than {} bytes at byte {}",
                    limits_.tree_bytes + limits_.tree_bytes_per_byte * text_.size());
    bytes_left_ -= n_bytes;
    return true;
  }

  bool refuse(fmt::format_string<size_t&, size_t&> format, size_t limit) {
    failure_ = fmt::format(format, limit, at_);
    return false;
  }

  std::string_view text_;
  const JsonLimits& limits_;
  size_t bytes_left_;
  size_t at_ = 0;
  size_t n_values_ = 0;
  bool is_done_ = false;
  std::vector<Open> open_;
  JsonShape shape_;
  std::string failure_;
};

}  // namespace

Result<JsonShape> measure_json(std::string_view text, const JsonLimits& limits) {
  return ShapeScanner(text, limits).scan();
}

}  // namespace tessera
