#include "tessera/cli/template_args.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tessera/base/file.h"
#include "tessera/cli/console.h"
#include "tessera/engine/chat_template_loader.h"
#include "tessera/text/chat/builtin_templates.h"
#include "tessera/text/utf8.h"

namespace tessera::cli {

void TemplateArgs::add_to(FlagTable& table) {
  table.common("--chat-template", "NAME", "built-in chat template, or a template; default: the model's",
               set_string(name));
  table.common("--chat-template-file", "FILE", "file with a chat template", set_string(file));
}

Result<> TemplateArgs::check() const {
  if (!name.empty() && !file.empty())
    return fail(ErrorCode::invalid_argument, "--chat-template and --chat-template-file: give one of them");
  if (name.empty() || name.contains('{') || text::find_builtin_template(name)) return {};
  const std::vector<std::string_view> names = text::builtin_template_names();
  const std::string_view near = nearest(name, names);
  if (!near.empty())
    return fail(ErrorCode::invalid_argument, "--chat-template: unknown name {}, did you mean {}?",
                text::quote_text(name), near);
  return fail(ErrorCode::invalid_argument, "--chat-template: unknown name {}, known: {}", text::quote_text(name),
              fmt::join(names, ", "));
}

Result<std::string> TemplateArgs::source(const Metadata* metadata, bool has_tools, const Context& process) const {
  if (!file.empty()) return read_file(file, text::jinja::Template::kMaxSourceBytes, &process.interrupt);
  if (!name.empty()) return std::string(text::find_builtin_template(name).value_or(name));
  std::optional<std::string> of_model;
  if (metadata != nullptr) {
    TESSERA_ASSIGN(of_model, load_chat_template(*metadata, has_tools));
  }
  if (of_model) return *of_model;
  if (!process.quiet) log("warning: the model has no chat template, using chatml");
  return std::string(*text::find_builtin_template("chatml"));
}

Result<text::ChatTemplate> create_chat_template(std::string source, text::ChatTokens tokens, const Context& process) {
  auto created = text::ChatTemplate::create(source, std::move(tokens));
  if (created) return std::move(*created);
  return template_failure(source, {created.error().text(), created.error()}, process);
}

std::unexpected<Error> template_failure(std::string_view source, const text::ChatError& error, const Context& process) {
  const bool shows_place = error.in_template && stderr_is_terminal() && !process.quiet;
  if (shows_place) {
    const std::string quoted = quote_source(source, *error.in_template);
    log(std::string_view(quoted).substr(0, quoted.size() - 1));  // log() ends the line
  }
  return fail(error.in_template ? ErrorCode::format : ErrorCode::invalid_argument, "{}", error.message);
}

}  // namespace tessera::cli
