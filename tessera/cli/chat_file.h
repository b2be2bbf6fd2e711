// Saved chats: a JSON file with the messages, the settings that differ from the defaults, the tools, and the model's
// name and fingerprint.
#pragma once

#include <string>

#include "tessera/cli/chat.h"

namespace tessera::cli {

/// Writes a chat to a file. The file appears only when it is complete. Errors: io.
Result<> save_chat(const Chat& chat, const std::string& path);

/// Replaces conversation, settings and tools by those of a file. Returns a warning if the chat was held with another
/// model, else "". After an error the chat is as it was. Errors: io; limit (64 MiB); format (the member that is wrong);
/// those of ChatSettings::set().
Result<std::string> load_chat(Chat& chat, const std::string& path);

}  // namespace tessera::cli
