// tessera template --batch: a JSON object per line in, a JSON object per line out. Tests and other programs render many
// templates with it.
#pragma once

#include <ctime>
#include <optional>

#include "tessera/cli/command.h"
#include "tessera/text/chat/chat_template.h"

namespace tessera::cli {

/// The local time now.
std::tm local_time();
/// A setter for a time of the form 2026-02-28T09:05:07.
Setter set_time(std::optional<std::tm>& target);

/// Reads a request: a list of messages, or an object with messages, tools, documents, vars, add_generation_prompt,
/// continue_final_message and adapt. Errors: format; limit; mismatch (a member of another type).
Result<text::ChatRequest> parse_chat_request(text::jinja::Heap& heap, std::string_view json);

/// Reads lines from stdin until its end. A line has `source` and either `variables` or a request. It gives
/// {"prompt": TEXT}, or {"error": KIND, "message": TEXT, "line": N, "col": N}. Errors: io; cancelled.
Result<> render_template_batch(const std::tm& now, const Context& process);

}  // namespace tessera::cli
