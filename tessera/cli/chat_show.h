// Subjects of the command /show of a chat.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tessera/cli/chat.h"

namespace tessera::cli {

/// The names of the subjects.
std::span<const std::string_view> show_subjects();

/// Returns a subject as text. With styles, the parts of the prompt that messages gave are underlined. Errors: not_found
/// (an unknown subject); those of Chat::prompt().
Result<std::string> show(const Chat& chat, std::string_view subject, bool has_styles);

/// One line on the model: name, size, format, context.
std::string model_line(const Chat& chat);

}  // namespace tessera::cli
