// The reply family of a template that no row of families.def matches. It follows from a call that
// the template renders: from the places of the name and of the arguments, and from the text around them.
#pragma once

#include <optional>
#include <string_view>

#include "tessera/text/chat/capabilities.h"
#include "tessera/text/chat/reply_family.h"
#include "tessera/text/template/template.h"

namespace tessera::text {

/// Returns a family named "probed: SHAPE" that reads the calls that the template writes, or nothing if there is none.
/// The template shows calls. Its source decides the marks of reasoning.
std::optional<ReplyFamily> probe_reply_family(const jinja::Template& chat_template, const ChatCapabilities& caps,
                                              std::string_view bos, std::string_view eos);

}  // namespace tessera::text
