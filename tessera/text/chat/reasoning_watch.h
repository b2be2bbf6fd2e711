// Follows whether a reply is in its reasoning, while its text arrives. It knows less than ReplyParser, and keeps a few
// bytes only: a server bounds the reasoning with it, token by token.
#pragma once

#include <string>
#include <string_view>

#include "tessera/text/chat/reply_family.h"

namespace tessera::text {

class ReasoningWatch {
 public:
  /// `prompt_tail` is the end of the prompt that belongs to the reply: reasoning may begin in it.
  ReasoningWatch(const ReplyFamily& family, std::string_view prompt_tail);

  /// Reads the next bytes, marks and all. The split of the text into pieces changes nothing once a mark is complete.
  void feed(std::string_view bytes);

  bool is_open() const { return is_open_; }
  /// Whether the last bytes need more to be a code point.
  bool ends_in_code_point() const;

 private:
  std::string begin_, end_;  // an empty end: the family has no reasoning
  bool may_begin_ = true;    // reasoning may begin at a later byte
  bool has_many_;            // blocks may follow the first one, and text may precede them
  bool is_open_ = false;
  std::string last_;  // bytes that may belong to a mark
};

}  // namespace tessera::text
