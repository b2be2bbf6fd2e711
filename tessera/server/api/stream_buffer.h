// The last bytes of a stream, in blocks: what is appended is found again by its place in the stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

namespace tessera::server {

class StreamBuffer {
 public:
  /// Places of the first byte that is kept, and after the last one.
  uint64_t begin() const { return begin_; }
  uint64_t end() const { return end_; }
  /// Bytes of memory of all blocks.
  size_t n_held() const { return n_held_; }
  /// Bytes that the last block still takes.
  size_t room() const { return blocks_.empty() ? 0 : blocks_.back().n_most - blocks_.back().text.size(); }
  /// The size of the next block: small for a short stream.
  size_t next_block() const;

  /// Adds an empty block of next_block() bytes.
  void add_block();
  /// Appends the start of the text, as much as the last block takes. Returns the number of bytes.
  size_t fill(std::string_view text);
  /// Forgets the oldest block. Returns the bytes of its memory; 0: there is none.
  size_t drop_block();
  /// Forgets all, and n bytes that were never kept.
  void skip(size_t n);

  /// Up to `most` bytes from a place between begin() and end().
  std::string read(uint64_t from, size_t most) const;

 private:
  struct Block {
    size_t n_most;
    std::string text{};
  };

  std::deque<Block> blocks_;
  uint64_t begin_ = 0, end_ = 0;
  size_t n_held_ = 0;
};

}  // namespace tessera::server
