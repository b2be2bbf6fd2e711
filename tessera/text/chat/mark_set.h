// A set of fixed texts ("marks") that a parser looks for at the front of text that arrives in pieces. Of two marks that
// both match, the longer one counts, so a shorter one is reported only when the longer one can no longer come.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::text {

class MarkSet {
 public:
  enum class Kind { text, mark, wait };
  struct Look {
    Kind kind;
    size_t n_bytes;  // of the plain text, or of the mark
    size_t mark;     // index of the mark
  };

  MarkSet() = default;
  explicit MarkSet(std::span<const std::string> marks) {
    for (const std::string& mark : marks) add(mark);
  }

  /// Adds a mark and returns its index. An empty mark matches nothing.
  size_t add(std::string mark);

  /// Looks at the front of text, which is not empty. `wait`: the text is shorter than the longest mark and may become a
  /// mark; this does not occur at the end of the input (is_last).
  Look look(std::string_view text, bool is_last) const;

 private:
  bool may_start(char c) const { return starts_[static_cast<unsigned char>(c)]; }

  std::vector<std::string> marks_;
  std::array<bool, 256> starts_{};  // first bytes of marks
};

}  // namespace tessera::text
