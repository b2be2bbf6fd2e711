// Flags that choose the chat template of a model: --chat-template and --chat-template-file.
#pragma once

#include <string>

#include "tessera/cli/command.h"
#include "tessera/gguf/metadata.h"
#include "tessera/text/chat/chat_template.h"

namespace tessera::cli {

struct TemplateArgs {
  std::string name;  // of a built-in template, or a template itself
  std::string file;

  void add_to(FlagTable& table);
  Result<> check() const;

  /// Returns the source of the chosen template: of the flags, else of the model's file, else ChatML with a warning.
  /// metadata: null without a model. Errors: not_found (an unknown name); io; mismatch.
  Result<std::string> source(const Metadata* metadata, bool has_tools, const Context& process) const;
};

/// Parses and probes a template. On a terminal an error is preceded by the line of the source with a caret below the
/// place. Errors: format.
Result<text::ChatTemplate> create_chat_template(std::string source, text::ChatTokens tokens, const Context& process);

/// The error of a render, with the line of the source on a terminal. Errors: format (of the template);
/// invalid_argument (of the request).
std::unexpected<Error> template_failure(std::string_view source, const text::ChatError& error, const Context& process);

}  // namespace tessera::cli
