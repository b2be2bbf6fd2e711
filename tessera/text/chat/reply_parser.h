// From the text of a model to content, reasoning and tool calls, while the text arrives. The parser is a state machine
// over bytes, with the marks of a ReplyFamily as data. It never fails: text that is not what the family promises is
// content, with a warning. The split of the text into pieces changes nothing.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "tessera/text/chat/reply.h"
#include "tessera/text/chat/reply_family.h"
#include "tessera/text/chat/tool_set.h"

namespace tessera::text {

/// Text after this many bytes is content, whatever it holds. So the memory of a parser is bounded.
inline constexpr size_t kMaxParsedReplyBytes = size_t{8} << 20;

class ReplyParser {
 public:
  /// `tools` are the tools of the request: without any, no call is looked for. `prompt_tail` is the end of the prompt
  /// that belongs to the reply (the generation prompt): reasoning may begin in it.
  static ReplyParser create(ReplyFamily family, std::span<const ReplyTool> tools, std::string_view prompt_tail,
                            const ReplyOptions& options);
  ~ReplyParser();
  ReplyParser(ReplyParser&&) noexcept;
  ReplyParser& operator=(ReplyParser&&) noexcept;

  /// Reads the next bytes. Bytes that are not UTF-8 become U+FFFD. Returns the new pieces of the reply, which are valid
  /// until the next call of a member function.
  std::span<const ReplyDelta> feed(std::string_view bytes);

  /// Ends the reply and returns all of it. deltas() are then the last pieces. Nothing may follow.
  Reply finish(ReplyEnd end);

  /// The pieces that the last feed() or finish() added.
  std::span<const ReplyDelta> deltas() const;

 private:
  class Machine;
  explicit ReplyParser(std::unique_ptr<Machine> machine);

  std::unique_ptr<Machine> machine_;
};

}  // namespace tessera::text
