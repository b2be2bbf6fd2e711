// A chat without a terminal: each line of stdin is a message, and replies go to stdout.
#pragma once

#include "tessera/cli/chat.h"
#include "tessera/cli/command.h"

namespace tessera::cli {

enum class PipeFormat : uint8_t {
  text,  // the content of each reply, and calls as lines
  json,  // a line {"content", "reasoning", "tool_calls", "finish_reason", "usage", "timings"} for each reply
};

/// Answers all lines of stdin; blank lines are skipped. If the last reply has calls, the next lines are their results.
/// A message that fails is left out, its error is printed, and the next one is read. `on_reply` runs after each reply.
/// Errors: io; cancelled; at the end: invalid_argument, if messages failed.
Result<> run_piped_chat(Chat& chat, PipeFormat format, const std::function<Result<>()>& on_reply,
                        const Context& process);

/// The counts and speeds of a reply as a line.
std::string reply_summary(const ChatReply& reply);

}  // namespace tessera::cli
