// tessera template: renders a chat template, or shows what it can do.
#include <fmt/format.h>

#include "tessera/base/index.h"
#include "tessera/cli/console.h"
#include "tessera/cli/model_args.h"
#include "tessera/cli/template_args.h"
#include "tessera/cli/template_batch.h"
#include "tessera/cli/text_args.h"
#include "tessera/engine/chat_template_loader.h"
#include "tessera/engine/vocab_loader.h"
#include "tessera/text/json_quoted.h"

namespace tessera::cli {
namespace {

using text::json_quoted;

std::string_view yes_or_no(bool value) { return value ? "true" : "false"; }

std::string capabilities_json(const text::ChatTemplate& chat_template) {
  const text::ChatCapabilities& caps = chat_template.capabilities();
  constexpr std::string_view kArguments[] = {"none", "object", "string"};
  constexpr std::string_view kContents[] = {"empty", "null"};
  return fmt::format(
      "{{\"string_content\": {}, \"typed_content\": {}, \"system\": {}, \"tools\": {}, \"arguments\": \"{}\", "
      "\"calls\": {}, \"results\": {}, \"call_content\": \"{}\", \"parallel\": {}, \"reasoning_last\": {}, "
      "\"reasoning_history\": {}, \"reasoning_calls\": {}, \"thinking_switch\": {}, \"generation_prompt\": {}, "
      "\"reasoning_marker\": {}, \"developer\": {}, \"call_id_9\": {}, \"reply_family\": {}}}\n",
      yes_or_no(caps.string_content), yes_or_no(caps.typed_content), yes_or_no(caps.system), yes_or_no(caps.tools),
      kArguments[to_size(caps.arguments)], yes_or_no(caps.calls), yes_or_no(caps.results),
      kContents[to_size(caps.call_content)], yes_or_no(caps.parallel), yes_or_no(caps.reasoning_last),
      yes_or_no(caps.reasoning_history), yes_or_no(caps.reasoning_calls), yes_or_no(caps.thinking_switch),
      json_quoted(caps.generation_prompt), yes_or_no(caps.reasoning_marker), yes_or_no(caps.developer),
      yes_or_no(caps.call_id_9), json_quoted(chat_template.reply_family().name));
}

std::string prompt_json(const text::ChatPrompt& prompt) {
  std::string given;
  for (const text::ByteRange& range : prompt.prompt.given)
    given += fmt::format("{}[{}, {}]", given.empty() ? "" : ", ", range.begin, range.end);
  return fmt::format("{{\"prompt\": {}, \"given\": [{}], \"generation_prompt\": {}}}\n",
                     json_quoted(prompt.prompt.text), given, json_quoted(prompt.generation_prompt));
}

class TemplateCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    add_model_flag(table, model_, "without a model: ChatML, or the template of the flags");
    template_.add_to(table);
    table.common("--messages", "FILE", "JSON: a list of messages, or an object with messages, tools, documents, vars",
                 set_string(messages_), "stdin");
    table.common("--source", "", "print the template itself", set_switch(shows_source_));
    table.common("--caps", "", "print what the template can do, as JSON", set_switch(shows_capabilities_));
    table.common("--json", "", "print the prompt as JSON, with the byte ranges that the messages gave",
                 set_switch(json_));
    table.common("--batch", "", "read a JSON object per line from stdin, print the prompt or error of each",
                 set_switch(is_batch_));
    table.rare("--now", "TIME", "time for the template, as 2026-02-28T09:05:07", set_time(now_));
    return table;
  }

  Result<> check() override {
    if (is_batch_ && (!model_.empty() || !template_.name.empty() || !template_.file.empty()))
      return fail(ErrorCode::invalid_argument,
                  "--batch: each line names its own template, leave out -m and --chat-template");
    return template_.check();
  }

  Result<> run(Context& process) override {
    if (is_batch_) return render_template_batch(now_.value_or(local_time()), process);
    std::unique_ptr<ModelFiles> files;
    text::ChatTokens tokens;
    if (!model_.empty()) {
      TESSERA_ASSIGN(files, ModelFiles::open(model_));
      TESSERA_ASSIGN(const auto tokenizer, load_tokenizer(*files));
      tokens = chat_tokens(tokenizer->vocab());
    }
    const Metadata* metadata = files == nullptr ? nullptr : &files->metadata();
    if (shows_source_ || shows_capabilities_) return show(metadata, std::move(tokens), process);
    TESSERA_ASSIGN(const std::string json, read_text(messages_, process));
    text::jinja::Heap heap;
    auto request = parse_chat_request(heap, json);
    if (!request) return forward_error(request, messages_.empty() ? "stdin" : messages_);
    request->now = now_.value_or(local_time());
    const bool has_tools = request->tools.is_sequence() && !request->tools.as_list().items.empty();
    TESSERA_ASSIGN(const std::string source, template_.source(metadata, has_tools, process));
    TESSERA_ASSIGN(const text::ChatTemplate chat_template, create_chat_template(source, std::move(tokens), process));
    const auto prompt = chat_template.render(heap, *request);
    if (!prompt) return template_failure(chat_template.source(), prompt.error(), process);
    return print(json_ ? prompt_json(*prompt) : prompt->prompt.text);
  }

 private:
  Result<> show(const Metadata* metadata, text::ChatTokens tokens, const Context& process) const {
    TESSERA_ASSIGN(const std::string source, template_.source(metadata, false, process));
    if (shows_source_) return print(source.ends_with('\n') ? source : source + "\n");
    TESSERA_ASSIGN(const text::ChatTemplate chat_template, create_chat_template(source, std::move(tokens), process));
    return print(capabilities_json(chat_template));
  }

  std::string model_;
  std::string messages_;
  TemplateArgs template_;
  std::optional<std::tm> now_;
  bool shows_source_ = false;
  bool shows_capabilities_ = false;
  bool json_ = false;
  bool is_batch_ = false;
};

}  // namespace

std::unique_ptr<Command> create_template_command() { return std::make_unique<TemplateCommand>(); }

}  // namespace tessera::cli
