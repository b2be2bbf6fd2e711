// Messages as a template wants them: the steps between the request of a client and the variables of a template.
#pragma once

#include "tessera/base/result.h"
#include "tessera/text/chat/chat_template.h"

namespace tessera::text {

/// The conversation that a template renders.
struct AdaptedChat {
  jinja::Value messages;  // a list of dicts of its own; the request is not changed
  jinja::Value tools{};   // missing: none, or part of the messages
};

/// A copy of the messages in which the known roles are trusted text, without other changes.
jinja::Value copy_messages(jinja::Heap& heap, const jinja::Value& messages);

/// Returns the variable in which a template that does not name `tools` expects the definitions, or "".
std::string_view tool_alias(const jinja::Template& chat_template);

/// A template and the knowledge that adaptation needs of it. References, for one call.
struct AdaptTarget {
  const jinja::Template& chat_template;
  const ChatCapabilities& capabilities;
  const ReplyFamily& family;  // writes the calls that the template does not know
};

/// Adapts messages and tools to a template, in a fixed order of steps (adapt.cpp). Errors: invalid_argument, with the
/// path of the field; limit.
Result<AdaptedChat> adapt_chat(jinja::Heap& heap, const ChatRequest& request, const AdaptTarget& target);

}  // namespace tessera::text
