// The text of a sequence as its client sees it: valid UTF-8 without its stop string. Bytes that may begin a stop string
// or are part of a code point are held back until the next tokens decide. Used by the scheduler, token by token.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::server {

inline constexpr size_t kMaxStopStrings = 64;
inline constexpr size_t kMaxStopStringBytes = 1024;

class StopText {
 public:
  /// No stop string is empty.
  explicit StopText(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  /// Appends the bytes of a token. Returns the text that is decided; bytes that cannot form a code point become U+FFFD.
  /// After the first stop string nothing follows. If several begin at one place, the longest counts.
  std::string push(std::string_view bytes);

  /// Ends the text without a stop string. Returns the rest.
  std::string finish();

  bool is_stopped() const { return stopping_word_ != nullptr; }
  /// The stop string that ended the text, or "".
  std::string_view stopping_word() const { return stopping_word_ == nullptr ? "" : std::string_view(*stopping_word_); }
  /// Whether some bytes wait for the next token.
  bool is_holding() const { return !held_.empty(); }

 private:
  size_t find_stop();
  size_t undecided_bytes() const;

  std::vector<std::string> stops_;
  std::string held_;
  const std::string* stopping_word_ = nullptr;  // in stops_
};

}  // namespace tessera::server
