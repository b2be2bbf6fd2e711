#include "tessera/server/run/stop_text.h"

#include <algorithm>
#include <utility>

#include "tessera/text/utf8.h"

namespace tessera::server {

std::string StopText::push(std::string_view bytes) {
  if (is_stopped()) return {};
  held_ += bytes;
  size_t n_decided = stops_.empty() ? std::string::npos : find_stop();
  if (is_stopped()) {
    const std::string text = text::to_valid_utf8(std::string_view(held_).substr(0, n_decided));
    held_.clear();
    return text;
  }
  n_decided = held_.size() - undecided_bytes();
  std::string decided = text::to_valid_utf8(std::string_view(held_).substr(0, n_decided));
  held_.erase(0, n_decided);
  return decided;
}

std::string StopText::finish() { return text::to_valid_utf8(std::exchange(held_, {})); }

// The place of the first stop string, which becomes the stopping word.
size_t StopText::find_stop() {
  size_t first = std::string::npos;
  for (const std::string& stop : stops_) {
    const size_t place = held_.find(stop);
    if (place == std::string::npos || place > first) continue;
    if (place == first && stop.size() <= stopping_word_->size()) continue;
    first = place;
    stopping_word_ = &stop;
  }
  return first;
}

// The length of the longest end of the held bytes that begins a stop string, or of an unfinished code point.
size_t StopText::undecided_bytes() const {
  const std::string_view held = held_;
  size_t n_undecided = text::n_incomplete_bytes(held);
  for (const std::string& stop : stops_)
    for (size_t n = std::min(stop.size() - 1, held.size()); n > n_undecided; --n)
      if (held.ends_with(std::string_view(stop).substr(0, n))) {
        n_undecided = n;
        break;
      }
  return n_undecided;
}

}  // namespace tessera::server
