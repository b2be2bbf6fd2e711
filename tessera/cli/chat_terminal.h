// A chat in a terminal: reads messages and commands with the line editor, and shows replies as they come.
#pragma once

#include <functional>
#include <string>

#include "tessera/cli/chat.h"
#include "tessera/cli/command.h"
#include "tessera/cli/line_history.h"
#include "tessera/cli/terminal.h"

namespace tessera::cli {

struct ChatTerminalOptions {
  bool has_colour = true;
  std::function<Result<>()> on_reply{};  // runs after each reply; its error is shown
};

/// Talks until the user leaves. Errors of messages and commands are shown, and the chat goes on. Errors: io (the
/// terminal fails).
Result<> run_terminal_chat(Chat& chat, Terminal& terminal, LineHistory& history, const ChatTerminalOptions& options,
                           const Context& process);

}  // namespace tessera::cli
