// Grammars of whole replies: reasoning as a family of models writes it, then an answer of a given grammar, or text and
// calls of tools.
#pragma once

#include <span>
#include <string_view>

#include "tessera/text/chat/reply_family.h"
#include "tessera/text/chat/tool_set.h"
#include "tessera/text/grammar/grammar.h"

namespace tessera::text {

/// The texts that a reply may have after the reasoning.
struct ReplyConstraint {
  const grammar::Grammar* answer = nullptr;  // null: any text
  std::span<const ReplyTool> tools{};        // that the reply may call; none for a family without calls
  bool must_call = false;                    // the reply is one call or more, and no answer
  bool may_call_again = true;                // the reply may have several calls
};

/// The largest number of tools of a constraint.
inline constexpr size_t kMaxReplyTools = 1024;

/// `prompt_tail` is the end of the prompt that belongs to the reply: reasoning may begin in it. may_reason: reasoning
/// may also begin in the reply. find_control: the id of a token by its text, if only its id stands for it in a text.
/// Text is free up to a mark that begins calls, and a call is right up to its end mark, so that ReplyParser reads it
/// back. Errors: those of Grammar::from_rules() and, with the name of the tool, grammar::add_arguments(); a name of a
/// tool that the family cannot write.
grammar::GrammarResult reply_grammar(const ReplyFamily& family, const ReplyConstraint& constraint,
                                     std::string_view prompt_tail, bool may_reason,
                                     const grammar::FindToken& find_control);

}  // namespace tessera::text
