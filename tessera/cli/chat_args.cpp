#include "tessera/cli/chat_args.h"

#include "tessera/text/chat/json_view.h"

namespace tessera::cli {

void ChatArgs::add_to(FlagTable& table) {
  model.add_to(table);
  table.common("--system -sys --system-prompt", "TEXT", "system message", set_string(system));
  table.rare("--system-file -sysf --system-prompt-file", "FILE", "file with the system message",
             set_string(system_file));
  table.common("--session", "FILE", "continue the chat in FILE, and save it there after each reply",
               set_string(session_file));
  table.common("--tools", "FILE", "JSON file with definitions of tools, as of the OpenAI API", set_string(tools_file));
  grammar.add_to(table);
  chat_template.add_to(table);
  table.rare("--chat-template-kwargs", "JSON", "object with more variables for the template", set_string(variables));
  table.common("--json", "", "with piped input: print a JSON object per reply", set_switch(is_json));
  table.common("--no-history", "", "keep no history of typed lines", set_switch(has_history, false));
  table.common("--no-color", "", "print without colours and text styles (also: NO_COLOR)",
               set_switch(has_colour, false));
  settings.add_to(table);
  speculation.add_to(table);
  context.add_to(table);
  add_tuning_flag(table, context);
}

Result<> ChatArgs::check() {
  if (!system.empty() && !system_file.empty())
    return fail(ErrorCode::invalid_argument, "--system and --system-file: give one of them");
  if (!variables.empty() && !text::json_members(variables))
    return fail(ErrorCode::invalid_argument, "--chat-template-kwargs: not a JSON object");
  TESSERA_TRY(model.check());
  TESSERA_TRY(grammar.check());
  TESSERA_TRY(chat_template.check());
  TESSERA_TRY(speculation.apply(model.options));
  TESSERA_TRY(context.check());
  return settings.check();
}

}  // namespace tessera::cli
