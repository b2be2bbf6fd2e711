// A conversation as the user of a chat edits it: messages, tool calls that wait for results, and attached files. It is
// a value: a copy restores it when a reply fails.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/text/chat/message.h"

namespace tessera::cli {

struct Conversation {
  std::string system{};                       // text of the system message; empty: none
  std::vector<text::ChatMessage> messages{};  // without the system message
  std::string attached{};                     // files as text, for the next message

  /// The messages with the system message.
  std::vector<text::ChatMessage> with_system() const;
  /// The calls of the last answer that have no result yet.
  std::vector<text::ToolCall> open_calls() const;
  /// Adds a text that a user typed: the result of the first open call, else a message with the attached files.
  void add(std::string text);
  /// Attaches a file to the next message, under the name that the model sees.
  void attach(std::string_view name, std::string_view text);
  bool has_attachments() const { return !attached.empty(); }
  /// Removes the last message of the user and all after it. Returns its text, or nothing if there is none.
  std::optional<std::string> undo();
  /// Removes the last answer. Returns false if the last message is no answer.
  bool remove_answer();

  bool operator==(const Conversation&) const = default;
};

}  // namespace tessera::cli
