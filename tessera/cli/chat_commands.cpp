#include "tessera/cli/chat_commands.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "tessera/base/counted.h"
#include "tessera/base/file.h"
#include "tessera/cli/chat_file.h"
#include "tessera/cli/chat_show.h"
#include "tessera/cli/chat_words.h"
#include "tessera/cli/cluster.h"
#include "tessera/cli/console.h"
#include "tessera/cli/edit_keys.h"
#include "tessera/cli/grammar_args.h"
#include "tessera/text/utf8.h"

namespace tessera::cli {
namespace {

using Next = CommandResult::Next;

constexpr uint64_t kMaxDefinitionsBytes = uint64_t{1} << 20;
constexpr size_t kMaxCandidates = 200;
constexpr std::string_view kThinkingWords[] = {"on", "off", "hide", "auto"};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

// Splits "/set temp 1" into "/set" and "temp 1".
std::pair<std::string_view, std::string_view> split_first(std::string_view line) {
  const size_t end = std::min(line.find_first_of(" \t\n"), line.size());
  return {line.substr(0, end), trimmed(line.substr(end))};
}

std::vector<std::string_view> names_of(const ChatCommandInfo& command) {
  std::vector<std::string_view> names;
  for (std::string_view rest = command.names; !rest.empty(); rest = split_first(rest).second)
    names.push_back(split_first(rest).first);
  return names;
}

const ChatCommandInfo* find_command(std::string_view name) {
  for (const ChatCommandInfo& command : chat_commands())
    if (std::ranges::count(names_of(command), name) > 0) return &command;
  return nullptr;
}

std::unexpected<Error> unknown_command(std::string_view name) {
  std::vector<std::string_view> names;
  for (const ChatCommandInfo& command : chat_commands()) {
    const std::vector<std::string_view> own = names_of(command);
    names.insert(names.end(), own.begin(), own.end());
  }
  const std::string_view near = nearest(name, names);
  return fail(ErrorCode::not_found, "unknown command {}{}; // begins a message with /", visible(name),
              near.empty() ? ", /help lists them" : fmt::format(", did you mean {}?", near));
}

Result<std::string> one_path(std::string_view text) {
  TESSERA_ASSIGN(std::vector<std::string> words, split_words(text));
  if (words.size() != 1) return fail(ErrorCode::invalid_argument, "want one file");
  return std::move(words.front());
}

// The beginning of a text as one line.
std::string excerpt(std::string_view text) {
  constexpr size_t kMaxBytes = 60;
  const std::string line = visible(text.substr(0, text.find('\n')));
  return line.size() <= kMaxBytes && line.size() == text.size() ? line : text::quote_text(line, kMaxBytes);
}

}  // namespace

std::span<const ChatCommandInfo> chat_commands() {
  static constexpr ChatCommandInfo kCommands[] = {
#define TESSERA_CHAT_COMMAND(function, names, arguments, completion, summary) \
  {names, arguments, CommandCompletion::completion, summary, &ChatCommands::function},
#include "tessera/cli/chat_commands.def"
#undef TESSERA_CHAT_COMMAND
  };
  return kCommands;
}

Result<CommandResult> ChatCommands::run(std::string_view line) {
  const auto [name, arguments] = split_first(trimmed(line));
  const ChatCommandInfo* command = find_command(name);
  if (command == nullptr) return unknown_command(name);
  if (command->arguments.empty() && !arguments.empty())
    return fail(ErrorCode::invalid_argument, "{} takes no argument", name);
  auto result = (this->*command->run)(arguments);
  if (!result) return forward_error(result, name);
  return result;
}

Result<CommandResult> ChatCommands::help(std::string_view text) {
  std::vector<std::vector<std::string>> rows;
  if (text == "keys") {
    for (const EditKeyRow& row : edit_key_rows()) rows.push_back({std::string(row.keys), std::string(row.description)});
    return CommandResult{.text = format_table(rows, "ll")};
  }
  if (!text.empty()) {
    const std::string name = (text.starts_with('/') ? "" : "/") + std::string(text);
    const ChatCommandInfo* command = find_command(name);
    if (command == nullptr) return unknown_command(name);
    return CommandResult{.text = fmt::format("{} {}\n  {}\n", command->names, command->arguments, command->summary)};
  }
  for (const ChatCommandInfo& command : chat_commands())
    rows.push_back({fmt::format("{} {}", command.name(), command.arguments), std::string(command.summary)});
  return CommandResult{.text = format_table(rows, "ll")};
}

Result<CommandResult> ChatCommands::leave(std::string_view) { return CommandResult{.next = Next::leave}; }

Result<CommandResult> ChatCommands::regenerate(std::string_view text) {
  int64_t seed = std::random_device()();
  if (!text.empty()) {
    TESSERA_ASSIGN(seed, parse_integer(text, 0, INT64_MAX));
  }
  if (!chat_.conversation.remove_answer())
    return fail(ErrorCode::invalid_argument, "there is no answer that another one could replace");
  return CommandResult{.next = Next::reply, .seed = seed};
}

Result<CommandResult> ChatCommands::undo(std::string_view) {
  const auto removed = chat_.conversation.undo();
  if (!removed) return fail(ErrorCode::invalid_argument, "there is no message to remove");
  return CommandResult{.text = fmt::format("removed: {}\n", excerpt(*removed))};
}

Result<CommandResult> ChatCommands::edit(std::string_view) {
  auto removed = chat_.conversation.undo();
  if (!removed) return fail(ErrorCode::invalid_argument, "there is no message to edit");
  return CommandResult{.next = Next::edit, .line = std::move(*removed)};
}

Result<CommandResult> ChatCommands::clear(std::string_view) {
  chat_.conversation = {.system = std::move(chat_.conversation.system)};
  return CommandResult{.text = "the conversation is empty\n"};
}

Result<CommandResult> ChatCommands::system(std::string_view text) {
  std::string& system = chat_.conversation.system;
  if (text.empty()) return CommandResult{.text = system.empty() ? "none\n" : visible(system, "\n\t") + "\n"};
  if (!chat_.session().chat_template().capabilities().system) {
    system = text;
    return CommandResult{.text = "set; the template has no system message, so it is part of the first message\n"};
  }
  system = text;
  return CommandResult{.text = "set\n"};
}

Result<CommandResult> ChatCommands::set(std::string_view text) {
  const auto [name, value] = split_first(text);
  if (!value.empty()) TESSERA_TRY(chat_.settings.set(name, value));
  std::vector<ShownSetting> settings;
  if (name.empty()) {
    settings = chat_.settings.all();
  } else {
    TESSERA_ASSIGN(ShownSetting setting, chat_.settings.get(name));
    settings.push_back(std::move(setting));
  }
  std::vector<std::vector<std::string>> rows;
  for (const ShownSetting& setting : settings) rows.push_back({setting.name, setting.value, setting.help});
  return CommandResult{.text = format_table(rows, "lll")};
}

Result<CommandResult> ChatCommands::think(std::string_view text) {
  if (text.empty()) return set("think");
  TESSERA_TRY(chat_.settings.set("think", text));
  const text::ChatCapabilities& caps = chat_.session().chat_template().capabilities();
  if (caps.reasoning_marker && (caps.thinking_switch || chat_.settings.thinking == Thinking::hide)) return set("think");
  TESSERA_ASSIGN(CommandResult shown, set("think"));
  shown.text += "the template of this model cannot switch reasoning\n";
  return shown;
}

Result<CommandResult> ChatCommands::read(std::string_view text) {
  TESSERA_ASSIGN(const std::vector<std::string> words, split_words(text));
  if (words.empty()) return fail(ErrorCode::invalid_argument, "want a file");
  Conversation changed = chat_.conversation;
  CommandResult result;
  for (const std::string& word : words) {
    TESSERA_ASSIGN(const std::vector<std::string> paths, matching_files(word));
    for (const std::string& path : paths) {
      TESSERA_ASSIGN(const std::string content, read_text_file(path));
      TESSERA_ASSIGN(const auto tokens, chat_.model().engine->tokenizer().tokenize(content));
      changed.attach(text::to_valid_utf8(path), content);
      result.text += fmt::format("{}: {} bytes, {} tokens\n", visible(path), content.size(), tokens.size());
    }
  }
  result.text += "the next message contains them\n";
  chat_.conversation = std::move(changed);
  return result;
}

Result<CommandResult> ChatCommands::tools(std::string_view text) {
  if (!text.empty()) {
    std::string json;
    if (text != "off") {
      TESSERA_ASSIGN(const std::string path, one_path(text));
      TESSERA_ASSIGN(json, read_file(path, kMaxDefinitionsBytes));
    }
    TESSERA_TRY(chat_.set_tools(std::move(json)));
  }
  return CommandResult{.text = counted(chat_.n_tools(), "tool") + "\n"};
}

Result<CommandResult> ChatCommands::schema(std::string_view text) {
  if (text == "off") {
    chat_.grammar = nullptr;
  } else if (!text.empty()) {
    GrammarArgs args;
    args.output = chat_.json_output;
    args.enforces_formats = chat_.enforces_formats;
    TESSERA_ASSIGN(args.schema_file, one_path(text));
    TESSERA_ASSIGN(chat_.grammar, args.compile({}));
  }
  return CommandResult{.text = chat_.grammar ? "answers follow a grammar\n" : "answers are free\n"};
}

Result<CommandResult> ChatCommands::save(std::string_view text) {
  TESSERA_ASSIGN(const std::string path, one_path(text));
  TESSERA_TRY(save_chat(chat_, path));
  return CommandResult{.text = fmt::format("saved {}\n", counted(chat_.conversation.messages.size(), "message"))};
}

Result<CommandResult> ChatCommands::load(std::string_view text) {
  TESSERA_ASSIGN(const std::string path, one_path(text));
  TESSERA_ASSIGN(const std::string warning, load_chat(chat_, path));
  CommandResult result = {.text = counted(chat_.conversation.messages.size(), "message") + "\n"};
  if (!warning.empty()) result.text += fmt::format("warning: {}\n", visible(warning));
  return result;
}

Result<CommandResult> ChatCommands::show(std::string_view text) {
  TESSERA_ASSIGN(std::string shown, cli::show(chat_, text.empty() ? "info" : text, has_styles_));
  return CommandResult{.text = std::move(shown)};
}

std::vector<std::string> ChatCommands::complete(std::string_view line) const {
  const auto [name, rest] = split_first(line);
  std::vector<std::string> candidates;
  const bool is_name = name.size() == line.size();
  const size_t word_begin = line.find_last_of(" \t") + 1;
  const std::string_view word = line.substr(word_begin);
  const auto offer = [&](std::string_view candidate) {
    if (candidate.starts_with(word)) candidates.push_back(fmt::format("{} ", candidate));
  };
  if (!is_command(line)) return candidates;
  const ChatCommandInfo* command = find_command(name);
  const CommandCompletion completion = is_name              ? CommandCompletion::command
                                       : command == nullptr ? CommandCompletion::nothing
                                                            : command->completion;
  switch (completion) {
    case CommandCompletion::nothing:
      break;
    case CommandCompletion::command:
      for (const ChatCommandInfo& other : chat_commands())
        for (const std::string_view other_name : names_of(other)) offer(other_name.substr(is_name ? 0 : 1));
      if (!is_name) offer("keys");
      break;
    case CommandCompletion::setting:
      for (const ShownSetting& setting : chat_.settings.all()) offer(setting.name);
      break;
    case CommandCompletion::thinking:
      for (const std::string_view mode : kThinkingWords) offer(mode);
      break;
    case CommandCompletion::subject:
      for (const std::string_view subject : show_subjects()) offer(subject);
      break;
    case CommandCompletion::file:
      for (const std::string& path : paths_with_prefix(word, kMaxCandidates))
        candidates.push_back(path.ends_with('/') ? path : path + " ");
      break;
  }
  return candidates;
}

std::string ChatCommands::hint(std::string_view line) {
  if (!is_command(line)) return {};
  const auto [name, rest] = split_first(line);
  const ChatCommandInfo* command = find_command(name);
  if (command == nullptr || !rest.empty() || command->arguments.empty()) return {};
  return fmt::format("{}{}", line.size() == name.size() ? " " : "", command->arguments);
}

}  // namespace tessera::cli
