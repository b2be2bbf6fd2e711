#include "tessera/text/chat/mark_set.h"

#include <utility>

namespace tessera::text {

size_t MarkSet::add(std::string mark) {
  if (!mark.empty()) starts_[static_cast<unsigned char>(mark.front())] = true;
  marks_.push_back(std::move(mark));
  return marks_.size() - 1;
}

MarkSet::Look MarkSet::look(std::string_view text, bool is_last) const {
  Look found{Kind::text, 0, 0};
  if (may_start(text.front())) {
    for (size_t i = 0; i < marks_.size(); ++i) {
      const std::string& mark = marks_[i];
      if (!is_last && mark.size() > text.size() && mark.starts_with(text)) return {Kind::wait, 0, 0};
      if (mark.size() > found.n_bytes && text.starts_with(mark)) found = {Kind::mark, mark.size(), i};
    }
  }
  if (found.kind == Kind::mark) return found;
  size_t n = 1;
  while (n < text.size() && !may_start(text[n])) ++n;
  return {Kind::text, n, 0};
}

}  // namespace tessera::text
