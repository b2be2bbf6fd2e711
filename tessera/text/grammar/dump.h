// Prints grammars in a notation that extends GBNF.
#pragma once

#include <string>

#include "tessera/text/grammar/grammar.h"

namespace tessera::text::grammar {

/// The rules that the start rule reaches. Each state of a rule is a rule of GBNF; counters and captures are comments.
/// Bytes above 0x7f are written as \x80. `a & b` is a text of both, `!a` one that is none of a. Long parts are cut:
/// "...".
std::string dump(const Grammar& grammar);

}  // namespace tessera::text::grammar
