// The commands of a chat, such as /regen and /set. A command changes the chat and returns text to show; the terminal
// then reads the next line or generates a reply.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/cli/chat.h"

namespace tessera::cli {

/// The kind of words that Tab completes after the name of a command.
enum class CommandCompletion : uint8_t { nothing, command, setting, thinking, file, subject };

class ChatCommands;
struct CommandResult;

/// A row of chat_commands.def.
struct ChatCommandInfo {
  std::string_view names;      // "/help /?"
  std::string_view arguments;  // for help
  CommandCompletion completion;
  std::string_view summary;
  Result<CommandResult> (ChatCommands::*run)(std::string_view arguments);

  std::string_view name() const { return names.substr(0, names.find(' ')); }
};
std::span<const ChatCommandInfo> chat_commands();

/// The outcome of a command.
struct CommandResult {
  enum class Next : uint8_t {
    read,   // read the next line
    edit,   // read the next line, which begins as `line`
    reply,  // generate a reply
    leave,  // end the chat
  };
  std::string text{};  // to show, whole lines
  Next next = Next::read;
  std::string line{};
  std::optional<int64_t> seed{};  // of the reply
};

class ChatCommands {
 public:
  ChatCommands(Chat& chat, bool has_styles) : chat_(chat), has_styles_(has_styles) {}

  /// True if a line is a command: it begins with "/", but not with "//".
  static bool is_command(std::string_view line) { return line.starts_with('/') && !line.starts_with("//"); }

  /// Runs a command. After an error the chat is as it was. Errors: not_found (an unknown command, with the nearest
  /// name); invalid_argument; those of the command.
  Result<CommandResult> run(std::string_view line);

  /// The texts that can replace the last word of a line up to the cursor. A word is complete if it ends with a blank.
  std::vector<std::string> complete(std::string_view line) const;

  /// The arguments of a command whose name is typed, to show behind it; "" if the line has more.
  static std::string hint(std::string_view line);

 private:
#define TESSERA_CHAT_COMMAND(function, names, arguments, completion, summary) \
  Result<CommandResult> function(std::string_view text);
#include "tessera/cli/chat_commands.def"
#undef TESSERA_CHAT_COMMAND
  friend std::span<const ChatCommandInfo> chat_commands();

  Chat& chat_;
  bool has_styles_;
};

}  // namespace tessera::cli
