// The marks that a reply parser looks for, by the place in the reply, each with its meaning. Made from a reply family
// and the tools of the request.
#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "tessera/text/chat/call_reader.h"
#include "tessera/text/chat/mark_set.h"

namespace tessera::text {

inline constexpr std::string_view kHarmonyStart = "<|start|>assistant";
inline constexpr std::string_view kHarmonyChannel = "<|channel|>";
inline constexpr std::string_view kHarmonyMessage = "<|message|>";

/// The recipient of content, in families with recipients.
inline constexpr std::string_view kContentRecipient = "all";

enum class ReplyMark : uint8_t {
  open_reasoning,
  close_reasoning,
  content_begin,   // dropped before the content
  message_begin,   // of content, dropped
  content_end,     // dropped
  stray,           // dropped at either end of the content
  citation,        // dropped
  citation_end,    // dropped up to >
  call,            // calls follow, from the place in ReplyMarkRule::start
  header,          // the header of a harmony message follows
  channel,         // a header follows, and the mark is part of it
  end_of_message,  // of a harmony message
};

struct ReplyMarkRule {
  ReplyMark mark;
  CallStart start;
};

/// Marks with their meanings.
class ReplyMarks {
 public:
  /// Adds a mark. An empty text is left out.
  void add(std::string_view text, ReplyMark mark, CallStart start = {CallStart::At::call}) {
    if (text.empty()) return;
    set_.add(std::string(text));
    rules_.push_back({mark, std::move(start)});
  }
  MarkSet::Look look(std::string_view text, bool is_last) const { return set_.look(text, is_last); }
  const ReplyMarkRule& rule(const MarkSet::Look& look) const { return rules_[look.mark]; }

 private:
  MarkSet set_;
  std::vector<ReplyMarkRule> rules_;
};

enum class ReasoningEnds : uint8_t {
  marked,    // an end mark outside of reasoning has a meaning
  unmarked,  // it is text
};

struct ReplyMarkTables {
  ReplyMarkTables(const ReplyFamily& family, const ToolSet& tools, ReasoningEnds ends);

  /// Adds the names of the recipients, without a mark before them, as marks of the start. The prompt ends with the
  /// mark.
  void add_recipients_at_start(const ReplyFamily& family, const ToolSet& tools);

  ReplyMarks start;      // where the content has not begun
  ReplyMarks content;    // in the content
  ReplyMarks reasoning;  // in reasoning
  ReplyMarks header;     // in the header of a harmony message
};

}  // namespace tessera::text
