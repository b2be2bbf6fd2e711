#include "tessera/cli/help.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/cli/completion.h"
#include "tessera/cli/console.h"
#include "tessera/cli/program.h"

namespace tessera::cli {

namespace {

std::string flag_line(const Flag& flag) {
  std::string names;
  for (const std::string& alias : flag.aliases) names += alias + ", ";
  names += flag.name;
  if (!flag.value.empty()) names += " " + flag.value;
  std::string text = flag.help;
  if (!flag.default_text.empty()) text += fmt::format(" ({})", flag.default_text);
  return fmt::format("  {:<32} {}\n", names, text);
}

const CommandInfo* find_command(std::string_view name) {
  const auto commands = all_commands();
  const auto found = std::ranges::find(commands, name, &CommandInfo::name);
  return found == commands.end() ? nullptr : &*found;
}

int print_or_fail(const std::string& text) {
  if (const auto printed = print(text); !printed) {
    log("error: " + printed.error().message());
    return kRefused;
  }
  return kDone;
}

int usage_error(const std::string& message) {
  log("error: " + message);
  return kUsage;
}

}  // namespace

void add_common_flags(FlagTable& table, Context& context, HelpRequest& help) {
  table.common("--quiet -q", "", "no logs, no progress", set_switch(context.quiet));
  table.common("--verbose -v", "", "more logs", set_switch(context.verbose));
  table.common("--help -h", "", "show this help", [&help](std::string_view) -> Result<> {
    help = std::max(help, HelpRequest::common);
    return {};
  });
  table.common("--help-all", "", "show help for every flag", [&help](std::string_view) -> Result<> {
    help = HelpRequest::all;
    return {};
  });
}

std::string help_text(const CommandInfo& command, const FlagTable& table, HelpRequest request) {
  std::string text = fmt::format("tessera {} [flags]{}{}\n{}\n\n", command.name, table.positional.empty() ? "" : " ",
                                 table.positional, command.summary);
  bool any_hidden = false;
  for (const Flag& flag : table.flags) {
    if (request == HelpRequest::all || flag.shown == Shown::always)
      text += flag_line(flag);
    else
      any_hidden = true;
  }
  if (any_hidden)
    text += "\n--help-all shows every flag. Each flag has an environment variable, e.g. TESSERA_THREADS.\n";
  return text;
}

std::string overview() {
  std::string text = "tessera COMMAND [flags]: runs large language models from GGUF files\n\n";
  for (const CommandInfo& command : all_commands()) text += fmt::format("  {:<12} {}\n", command.name, command.summary);
  text += "\n  help COMMAND, man [COMMAND], completion bash|zsh|fish, --version";
  return text;
}

std::optional<int> run_builtin(std::span<const std::string_view> args, std::string_view commit) {
  if (args[0] == "--version")
    return print_or_fail(
        fmt::format("tessera " TESSERA_VERSION "{}\n", commit.empty() ? "" : fmt::format(" ({})", commit)));
  const bool is_help = args[0] == "help" || args[0] == "-h" || args[0] == "--help";
  if (is_help && args.size() == 1) return print_or_fail(overview() + "\n");
  if (args[0] == "completion") {
    const auto script = args.size() == 2 ? completion_script(args[1]) : std::nullopt;
    return script ? print_or_fail(*script) : usage_error("completion: want bash, zsh or fish");
  }
  const bool is_man = args[0] == "man";
  if (is_man && args.size() == 1) return print_or_fail(man_page(nullptr));
  if (!is_help && !is_man) return std::nullopt;
  const CommandInfo* command = find_command(args[1]);
  if (command == nullptr) return usage_error(fmt::format("unknown command '{}'", args[1]));
  if (is_man) return print_or_fail(man_page(command));
  CancelToken unused;
  Context context{.interrupt = unused};
  HelpRequest request = HelpRequest::none;
  const std::unique_ptr<Command> made = command->create();
  FlagTable table = made->flags();
  add_common_flags(table, context, request);
  return print_or_fail(help_text(*command, table, HelpRequest::all));
}

}  // namespace tessera::cli
