// Grammars of whole replies: reasoning as a family of models writes it, then an answer of a given grammar.
#pragma once

#include <string_view>

#include "tessera/text/chat/reply_family.h"
#include "tessera/text/grammar/grammar.h"

namespace tessera::text {

/// `prompt_tail` is the end of the prompt that belongs to the reply: reasoning may begin in it. may_reason: reasoning
/// may also begin in the reply. find_control: the id of a token by its text, if only its id stands for it in a text.
/// Errors: those of Grammar::around().
grammar::GrammarResult reply_grammar(const ReplyFamily& family, const grammar::Grammar& answer,
                                     std::string_view prompt_tail, bool may_reason,
                                     const grammar::FindToken& find_control);

}  // namespace tessera::text
