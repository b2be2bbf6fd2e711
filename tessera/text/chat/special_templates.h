// Changes of messages for templates that need more than their capabilities show. Each template is known by its source.
#pragma once

#include <string_view>

#include "tessera/text/template/value.h"

namespace tessera::text {

/// Whether leftover blanks around contents make the models of the template (Step 3.5) loop.
bool wants_trimmed_contents(std::string_view source);

/// Removes white space at the ends of the content, of its parts, and of the reasoning. The message is a copy, its parts
/// are not.
void trim_contents(jinja::Heap& heap, const jinja::Value& message);

/// Whether the template (older ones of Gemma 4) shows results only as `tool_responses` of the message with the calls.
bool wants_folded_results(std::string_view source);

/// Returns messages whose results are `tool_responses` of the message with their calls: [{name, response}]. A result
/// that is JSON becomes its value. An answer behind the results is in the same message, since the model writes it in
/// the same turn.
jinja::List* fold_results(jinja::Heap& heap, const jinja::List& messages);

}  // namespace tessera::text
