// Many short strings in one allocation: consecutive bytes, and the end offset of each string (4 bytes per string
// instead of 32). Used for the tokens and merges of a vocabulary. Limited to 2^32 - 1 bytes, which the caller checks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::text {

class StringPool {
 public:
  void reserve(size_t n_strings, size_t n_bytes) {
    ends_.reserve(n_strings);
    bytes_.reserve(n_bytes);
  }

  void add(std::string_view text) {
    bytes_ += text;
    ends_.push_back(static_cast<uint32_t>(bytes_.size()));
  }

  size_t size() const { return ends_.size(); }

  /// String i, i < size(), borrowed from the pool.
  std::string_view operator[](size_t i) const {
    const size_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::string_view(bytes_).substr(begin, ends_[i] - begin);
  }

 private:
  std::string bytes_;
  std::vector<uint32_t> ends_;
};

}  // namespace tessera::text
