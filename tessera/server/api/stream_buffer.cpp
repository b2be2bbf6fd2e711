#include "tessera/server/api/stream_buffer.h"

#include <algorithm>
#include <utility>

namespace tessera::server {

namespace {

constexpr size_t kLeastBlock = size_t{1} << 10, kMostBlock = size_t{64} << 10;

}  // namespace

size_t StreamBuffer::next_block() const { return std::clamp(n_held_, kLeastBlock, kMostBlock); }

void StreamBuffer::add_block() {
  Block block{.n_most = next_block()};
  block.text.reserve(block.n_most);
  blocks_.push_back(std::move(block));
  n_held_ += blocks_.back().n_most;
}

size_t StreamBuffer::fill(std::string_view text) {
  const size_t n = std::min(text.size(), room());
  if (n > 0) blocks_.back().text += text.substr(0, n);
  end_ += n;
  return n;
}

size_t StreamBuffer::drop_block() {
  if (blocks_.empty()) return 0;
  const size_t n_held = blocks_.front().n_most;
  begin_ += blocks_.front().text.size();
  n_held_ -= n_held;
  blocks_.pop_front();
  return n_held;
}

void StreamBuffer::skip(size_t n) {
  blocks_.clear();
  n_held_ = 0;
  end_ += n;
  begin_ = end_;
}

std::string StreamBuffer::read(uint64_t from, size_t most) const {
  std::string bytes;
  uint64_t place = begin_;
  for (const auto& [n_most, text] : blocks_) {
    if (bytes.size() == most) break;
    const uint64_t wanted = from + bytes.size();
    if (wanted < place + text.size()) bytes.append(text, wanted - place, most - bytes.size());
    place += text.size();
  }
  return bytes;
}

}  // namespace tessera::server
