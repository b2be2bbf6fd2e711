// Pairs of emphasis marks by the rules of CommonMark: which `*`, `_` and `~~` open and close, and which belong
// together. The parser of inline constructs calls it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace tessera::cli {

/// A run of equal marks.
struct MarkRun {
  char mark = 0;
  size_t n_all = 0;
  size_t n_left = 0;  // those that belong to no pair
  bool can_open = false;
  bool can_close = false;
  size_t piece = 0;  // the caller's number
};

/// Two runs of which n marks each (1 or 2) belong together.
struct MarkPair {
  size_t open_piece;
  size_t close_piece;
  char mark;
  size_t n;
};

/// Returns the run of marks at text[at] with what it can do there. `before` stands in front of the text.
MarkRun read_mark_run(std::string_view text, size_t at, std::string_view before);

class MarkStack {
 public:
  size_t size() const { return runs_.size(); }
  void push(const MarkRun& run) { runs_.push_back(run); }
  /// Pairs the runs from number `bottom` on, appends the pairs, and returns these runs with what is left of them. They
  /// are not on the stack any more. Each run is visited a bounded number of times.
  std::vector<MarkRun> match(size_t bottom, std::vector<MarkPair>& pairs);

 private:
  std::vector<MarkRun> runs_;
};

}  // namespace tessera::cli
