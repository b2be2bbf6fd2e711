// From tool calls to the text in which a model of a reply family writes them. Used where a chat template knows no
// calls, so that earlier calls still reach the prompt.
#pragma once

#include <span>

#include "tessera/base/result.h"
#include "tessera/text/chat/reply.h"
#include "tessera/text/chat/reply_family.h"
#include "tessera/text/marked_text.h"

namespace tessera::text {

/// Returns the text of the calls. Their names, ids and arguments are given, the marks of the family are trusted. A
/// parser of the same family and tools reads the same calls from the text, unless a value contains a mark of the
/// family. Errors: invalid_argument (arguments that are not a JSON object of at most kMaxJsonDepth levels); unsupported
/// (a family without calls); limit (8 MiB).
Result<MarkedText> write_calls(const ReplyFamily& family, std::span<const ToolCall> calls);

}  // namespace tessera::text
