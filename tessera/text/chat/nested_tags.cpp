#include "tessera/text/chat/nested_tags.h"

#include <fmt/format.h>

#include <vector>

#include "tessera/text/chat/json_reader.h"
#include "tessera/text/chat/json_view.h"
#include "tessera/text/chat/tool_set.h"
#include "tessera/text/json_quoted.h"

namespace tessera::text {
namespace {

constexpr std::string_view kItem = "item";

class NestedTags {
 public:
  NestedTags(std::string_view text, std::string_view mark) : rest_(trim_json(text)), mark_(mark) {}

  std::optional<std::string> to_json() {
    if (mark_.empty() || !rest_.starts_with(mark_)) return {};
    levels_.push_back({""});
    while (!rest_.empty())
      if (!read_tag()) return {};
    if (levels_.size() != 1) return {};
    close_brackets();
    return std::move(out_);
  }

 private:
  struct Level {
    std::string_view name;  // of the tag around this level
    bool is_list = false;
    size_t n_members = 0;
    bool has_text = false;
  };

  // Reads a tag, and the text in it unless tags follow.
  bool read_tag() {
    if (!rest_.starts_with(mark_)) return false;
    rest_.remove_prefix(mark_.size());
    const size_t end = rest_.find('>');
    if (end == rest_.npos || !rest_.starts_with('<')) return false;
    const std::string_view name = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return name.starts_with('/') ? close(name.substr(1)) : open(name);
  }

  bool open(std::string_view name) {
    Level& parent = levels_.back();
    const bool is_item = name == kItem;
    if (parent.n_members == 0) parent.is_list = is_item;
    if (name.empty() || parent.has_text || parent.is_list != is_item || levels_.size() == kMaxJsonDepth) return false;
    out_ += parent.n_members++ > 0 ? ", " : is_item ? "[" : "{";
    if (!is_item) out_ += json_quoted(name) + ": ";
    levels_.push_back({name});
    const size_t n = rest_.find(mark_);
    if (n == rest_.npos) return false;
    const std::string_view value = rest_.substr(0, n);
    const bool has_tags = trim_json(value).empty() && !rest_.substr(n + mark_.size()).starts_with("</");
    if (!has_tags) out_ += type_argument(value, {}).json;
    levels_.back().has_text = !has_tags;
    rest_.remove_prefix(n);
    return true;
  }

  bool close(std::string_view name) {
    if (levels_.size() == 1 || levels_.back().name != name) return false;
    close_brackets();
    levels_.pop_back();
    rest_ = trim_json(rest_);
    return true;
  }

  void close_brackets() {
    if (levels_.back().n_members > 0) out_ += levels_.back().is_list ? ']' : '}';
  }

  std::string_view rest_;
  std::string_view mark_;
  std::vector<Level> levels_;
  std::string out_;
};

}  // namespace

std::optional<std::string> nested_tags_to_json(std::string_view text, std::string_view mark) {
  return NestedTags(text, mark).to_json();
}

}  // namespace tessera::text
