#include "tessera/text/grammar/byte_set.h"

namespace tessera::text::grammar {

void ByteDivision::divide(const ByteSet& set) {
  for (size_t i = 0, n = classes_.size(); i < n; ++i) {
    const ByteSet inside = classes_[i] & set;
    if (inside.is_empty() || inside == classes_[i]) continue;
    classes_[i] = classes_[i].without(set);
    classes_.push_back(inside);
  }
}

}  // namespace tessera::text::grammar
