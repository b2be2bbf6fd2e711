// Flags of tessera chat.
#pragma once

#include <string>

#include "tessera/cli/chat_settings.h"
#include "tessera/cli/grammar_args.h"
#include "tessera/cli/model_args.h"
#include "tessera/cli/speculation_args.h"
#include "tessera/cli/template_args.h"
#include "tessera/cli/tuning.h"

namespace tessera::cli {

struct ChatArgs {
  ModelArgs model{.may_be_bundled = true};
  ContextArgs context;
  TemplateArgs chat_template;
  GrammarArgs grammar;  // of the answers
  SpeculationArgs speculation;
  ChatSettings settings;
  std::string system, system_file;
  std::string tools_file;
  std::string variables;     // JSON
  std::string session_file;  // loaded at the start if it exists, saved after each reply
  bool has_history = true;
  bool has_colour = true;
  bool is_json = false;

  void add_to(FlagTable& table);
  Result<> check();
};

}  // namespace tessera::cli
