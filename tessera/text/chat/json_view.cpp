#include "tessera/text/chat/json_view.h"

#include "tessera/text/chat/json_reader.h"

namespace tessera::text {
namespace {

// Splits the inside of a list or object, which is valid JSON, at the commas and colons of its first level.
class JsonItems {
 public:
  explicit JsonItems(std::string_view inside) : rest_(trim_json(inside)) {}

  bool is_at_end() const { return rest_.empty(); }

  /// Returns the next value, and skips it and the comma or colon after it.
  std::string_view next() {
    JsonReader reader;
    const size_t n = reader.read(rest_).n_bytes;
    const std::string_view value = trim_json(rest_.substr(0, n));
    rest_ = trim_json(rest_.substr(n));
    if (!rest_.empty()) rest_ = trim_json(rest_.substr(1));
    return value;
  }

 private:
  std::string_view rest_;
};

// Returns the text between the brackets, or nothing if the text is not valid JSON that begins with `bracket`.
std::optional<std::string_view> inside_of(std::string_view text, char bracket) {
  text = trim_json(text);
  if (!text.starts_with(bracket) || !is_json(text)) return {};
  return text.substr(1, text.size() - 2);
}

}  // namespace

std::string_view trim_json(std::string_view text) {
  const size_t begin = text.find_first_not_of(kJsonBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kJsonBlanks) + 1 - begin);
}

bool is_json(std::string_view text) {
  text = trim_json(text);
  JsonReader reader;
  return reader.read(text).n_bytes == text.size() && reader.is_complete();
}

std::optional<std::vector<JsonMember>> json_members(std::string_view text) {
  const auto inside = inside_of(text, '{');
  if (!inside) return {};
  std::vector<JsonMember> members;
  for (JsonItems items(*inside); !items.is_at_end();) {
    const std::string_view key = items.next();
    members.push_back({*json_string(key), items.next()});
  }
  return members;
}

std::string_view json_member(std::string_view text, std::string_view key) {
  const auto members = json_members(text);
  if (!members) return {};
  for (const JsonMember& member : *members)
    if (member.key == key) return member.value;
  return {};
}

std::optional<std::vector<std::string_view>> json_elements(std::string_view text) {
  const auto inside = inside_of(text, '[');
  if (!inside) return {};
  std::vector<std::string_view> elements;
  for (JsonItems items(*inside); !items.is_at_end();) elements.push_back(items.next());
  return elements;
}

std::optional<std::string> json_string(std::string_view text) {
  text = trim_json(text);
  if (!text.starts_with('"')) return {};
  std::string out;
  JsonStringReader reader;
  const JsonProgress progress = reader.read(text.substr(1), &out);
  if (progress.state != JsonState::done || progress.n_bytes + 1 != text.size()) return {};
  return out;
}

}  // namespace tessera::text
