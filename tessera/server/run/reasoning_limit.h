// The bound of a reply's reasoning: after a number of tokens, or when a client asks for it, its end is forced. Shared
// by the sequences of a request and the code that answers it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "tessera/text/chat/reasoning_watch.h"

namespace tessera::server {

/// Written from any thread.
struct ReasoningSwitch {
  std::atomic<int32_t> n_open{0};     // sequences that are in their reasoning
  std::atomic<bool> must_end{false};  // it ends now
};

struct ReasoningLimit {
  text::ReasoningWatch start;     // after the prompt
  int64_t n_most = -1;            // tokens of the reasoning; -1: no bound
  std::vector<int32_t> ending{};  // the tokens that end it, not empty
  std::shared_ptr<ReasoningSwitch> shared = std::make_shared<ReasoningSwitch>();
};

/// Follows one sequence. Its functions run on one thread at a time.
class ReasoningBound {
 public:
  explicit ReasoningBound(std::shared_ptr<const ReasoningLimit> limit);
  ~ReasoningBound() { set_open(false); }
  ReasoningBound(const ReasoningBound&) = delete;
  ReasoningBound& operator=(const ReasoningBound&) = delete;

  /// Reads the text of the next token, marks and all.
  void add(std::string_view piece);
  /// The tokens that must follow now, at most once in a block of reasoning. A code point is completed before.
  const std::vector<int32_t>& take_due();

 private:
  void set_open(bool is_open);

  std::shared_ptr<const ReasoningLimit> limit_;
  text::ReasoningWatch watch_;
  int64_t n_tokens_ = 0;     // of the reasoning
  int64_t n_waiting_ = 0;    // tokens since the bound, for a code point
  bool is_counted_ = false;  // in n_open
  bool is_forced_ = false;   // the block ends
};

}  // namespace tessera::server
