#include "tessera/text/grammar/schema/text_set.h"

#include <algorithm>

namespace tessera::text::grammar {

void TextSet::add(std::vector<Expression> units, Expression tag) { texts_.push_back({std::move(units), tag}); }

Expression TextSet::expression() {
  std::ranges::sort(texts_);
  // The beginnings that the present text shares with later ones are open: each collects what may follow it.
  std::vector<std::vector<Expression>> open(1);
  std::vector<Expression> path;
  const auto close_to = [&](size_t depth) {
    while (path.size() > depth) {
      const Expression rest = arena_->any_of(std::move(open.back()));
      open.pop_back();
      open.back().push_back(arena_->concat(path.back(), rest));
      path.pop_back();
    }
  };
  for (const Text& text : texts_) {
    const auto shared = std::ranges::mismatch(path, text.units).in1 - path.begin();
    close_to(static_cast<size_t>(shared));
    for (size_t i = path.size(); i < text.units.size(); ++i) {
      path.push_back(text.units[i]);
      open.emplace_back();
    }
    open.back().push_back(text.tag);
  }
  close_to(0);
  return arena_->any_of(std::move(open.back()));
}

}  // namespace tessera::text::grammar
