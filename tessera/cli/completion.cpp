#include "tessera/cli/completion.h"

#include <fmt/format.h>

#include "tessera/cli/help.h"

namespace tessera::cli {

namespace {

// Calls use(table) with a command's flags plus the common ones.
template <class Use>
void with_flags(const CommandInfo& command, Use use) {
  CancelToken unused;
  Context context{.interrupt = unused};
  HelpRequest request = HelpRequest::none;
  const std::unique_ptr<Command> made = command.create();
  FlagTable table = made->flags();
  add_common_flags(table, context, request);
  use(table);
}

std::string command_names() {
  std::string names;
  for (const CommandInfo& command : all_commands()) names += fmt::format("{} ", command.name);
  return names + "help man completion";
}

std::string flag_names(const CommandInfo& command) {
  std::string names;
  with_flags(command, [&](const FlagTable& table) {
    for (const Flag& flag : table.flags) {
      names += flag.name + " ";
      for (const std::string& alias : flag.aliases) names += alias + " ";
    }
  });
  return names;
}

std::string bash_script() {
  std::string text =
      "_tessera() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} flags=\n"
      "  COMPREPLY=()\n"
      "  if [ \"$COMP_CWORD\" -eq 1 ]; then\n";
  text += fmt::format("    COMPREPLY=($(compgen -W '{}' -- \"$word\"))\n    return\n  fi\n", command_names());
  text += "  case ${COMP_WORDS[1]} in\n";
  for (const CommandInfo& command : all_commands())
    text += fmt::format("    {}) flags='{}' ;;\n", command.name, flag_names(command));
  text +=
      "  esac\n"
      "  case $word in\n"
      "    -*) COMPREPLY=($(compgen -W \"$flags\" -- \"$word\")) ;;\n"
      "    *) compopt -o default ;;\n"
      "  esac\n"
      "}\n"
      "complete -F _tessera tessera\n";
  return text;
}

// Single quotes cannot be escaped inside single quotes. Brackets and colons are special characters of _arguments.
std::string zsh_quoted(std::string_view text) {
  std::string quoted;
  for (const char c : text) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      if (c == '[' || c == ']' || c == ':' || c == '\\') quoted += '\\';
      quoted += c;
    }
  }
  return quoted;
}

std::string zsh_script() {
  std::string text = "#compdef tessera\n_tessera() {\n  if (( CURRENT == 2 )); then\n    local -a commands=(\n";
  for (const CommandInfo& command : all_commands())
    text += fmt::format("      '{}:{}'\n", command.name, zsh_quoted(command.summary));
  text += "    )\n    _describe command commands\n    return\n  fi\n  case $words[2] in\n";
  for (const CommandInfo& command : all_commands()) {
    text += fmt::format("    {}) _arguments -S", command.name);
    with_flags(command, [&](const FlagTable& table) {
      for (const Flag& flag : table.flags)
        text += fmt::format(" \\\n      '*{}[{}]{}'", flag.name, zsh_quoted(flag.help),
                            flag.value.empty() ? "" : fmt::format(":{}:_files", zsh_quoted(flag.value)));
    });
    text += " \\\n      '*:file:_files' ;;\n";
  }
  return text + "  esac\n}\n_tessera \"$@\"\n";
}

std::string fish_script() {
  const auto fish_quoted = [](std::string_view text) {
    std::string q;
    for (const char c : text) {
      if (c == '\'' || c == '\\') q += '\\';
      q += c;
    }
    return q;
  };
  std::string text;
  for (const CommandInfo& command : all_commands()) {
    text += fmt::format("complete -c tessera -n __fish_use_subcommand -f -a {} -d '{}'\n", command.name,
                        fish_quoted(command.summary));
    with_flags(command, [&](const FlagTable& table) {
      for (const Flag& flag : table.flags)
        text += fmt::format("complete -c tessera -n '__fish_seen_subcommand_from {}' -l {}{} -d '{}'\n", command.name,
                            flag.name.substr(2), flag.value.empty() ? "" : " -r", fish_quoted(flag.help));
    });
  }
  return text;
}

// Lines that begin with a dot or a quote are troff requests, and backslashes and dashes need escapes.
std::string troff(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\')
      escaped += "\\e";
    else if (c == '-')
      escaped += "\\-";
    else
      escaped += c;
  }
  return escaped.starts_with('.') || escaped.starts_with('\'') ? "\\&" + escaped : escaped;
}

}  // namespace

std::optional<std::string> completion_script(std::string_view shell) {
  if (shell == "bash") return bash_script();
  if (shell == "zsh") return zsh_script();
  if (shell == "fish") return fish_script();
  return std::nullopt;
}

std::string man_page(const CommandInfo* command) {
  const std::string title = command == nullptr ? "tessera" : fmt::format("tessera-{}", command->name);
  std::string text = fmt::format(
      ".TH {} 1 \"\" \"tessera {}\" \"User Commands\"\n.SH NAME\n{} \\- {}\n", title, TESSERA_VERSION, troff(title),
      command == nullptr ? "runs large language models from GGUF files" : troff(command->summary));
  if (command == nullptr) {
    text += ".SH SYNOPSIS\n.B tessera\n.I COMMAND\n[flags]\n.SH COMMANDS\n";
    std::string see_also;
    for (const CommandInfo& c : all_commands()) {
      text += fmt::format(".TP\n.B {}\n{}\n", c.name, troff(c.summary));
      see_also += fmt::format("{}.BR tessera\\-{} (1)", see_also.empty() ? "" : ",\n", troff(c.name));
    }
    return text +
           ".SH EXIT STATUS\n0 success; 1 error in the data, the model or the machine; 2 error in the command line; "
           "130 interrupted.\n.SH SEE ALSO\n" +
           see_also + "\n";
  }
  with_flags(*command, [&](const FlagTable& table) {
    text += fmt::format(".SH SYNOPSIS\n.B tessera {}\n[flags]{}{}\n.SH FLAGS\n", command->name,
                        table.positional.empty() ? "" : " ", troff(table.positional));
    for (const Flag& flag : table.flags) {
      text += ".TP\n.B " + troff(flag.name);
      for (const std::string& alias : flag.aliases) text += ", " + troff(alias);
      if (!flag.value.empty()) text += " " + troff(flag.value);
      text += "\n" + troff(flag.help);
      // "2 here" is true only for this machine, but installed pages are read on other machines.
      const bool is_of_machine = flag.default_text.ends_with(" here");
      const std::string default_text = is_of_machine ? "default depends on the machine" : troff(flag.default_text);
      if (!default_text.empty()) text += " (" + default_text + ")";
      text += fmt::format(". Environment: {}\n", environment_name(flag.name));
    }
  });
  return text + ".SH SEE ALSO\n.BR tessera (1)\n";
}

}  // namespace tessera::cli
