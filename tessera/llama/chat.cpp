// llama.h: chat templates.
#include <algorithm>
#include <ctime>
#include <utility>

#include "tessera/llama/objects.h"
#include "tessera/text/chat/builtin_templates.h"
#include "tessera/text/chat/chat_template.h"
#include "tessera/text/chat/message.h"
#include "tessera/text/utf8.h"

using namespace tessera;
using namespace tessera::llama;

namespace {

constexpr std::string_view kTemplateOfNoName = "chatml";

// The source of a template that is named, or given as a text of the template language.
Result<std::string> template_source(const char* given) {
  const std::string_view text = given == nullptr ? kTemplateOfNoName : std::string_view(given);
  if (const auto builtin = text::find_builtin_template(text)) return std::string(*builtin);
  if (text.find("{{") == std::string_view::npos && text.find("{%") == std::string_view::npos)
    return fail(ErrorCode::not_found, "tmpl: neither a template nor the name of one: '{:.80}'", text);
  return std::string(text);
}

Result<std::string> rendered(const char* source, std::span<const llama_chat_message> chat, bool add_assistant) {
  TESSERA_ASSIGN(std::string text, template_source(source));
  const auto made = text::ChatTemplate::create(std::move(text), {});
  if (!made) return fail(ErrorCode::format, "tmpl: {}", made.error().message);
  std::vector<text::ChatMessage> messages;
  for (const llama_chat_message& message : chat) {
    TESSERA_ASSIGN(const std::string_view role, read_text(message.role, "role"));
    TESSERA_ASSIGN(const std::string_view content, read_text(message.content, "content"));
    messages.push_back({.role = text::to_valid_utf8(role), .content = text::to_valid_utf8(content)});
  }
  text::jinja::Heap heap;
  text::ChatRequest request;
  request.messages = text::messages_value(heap, messages);
  request.add_generation_prompt = add_assistant;
  const std::time_t now = std::time(nullptr);
  localtime_r(&now, &request.now);
  auto prompt = made->render(heap, request);
  if (!prompt) return fail(ErrorCode::format, "tmpl: {}", prompt.error().message);
  return std::move(prompt->prompt.text);
}

}  // namespace

int32_t tessera_llama_chat_apply_template(const char* tmpl, const llama_chat_message* chat, size_t n_msg, bool add_ass,
                                          char* buf, int32_t length) {
  return guarded<int32_t>("llama_chat_apply_template", -1, [&]() -> Result<int32_t> {
    TESSERA_ASSIGN(const auto messages, read_items(chat, n_msg, "chat"));
    TESSERA_ASSIGN(const std::string text, rendered(tmpl, messages, add_ass));
    if (text.size() > INT32_MAX) return fail(ErrorCode::limit, "a prompt of {} bytes", text.size());
    if (buf != nullptr && length > 0) {
      const size_t n = std::min(text.size(), static_cast<size_t>(length));
      std::copy_n(text.data(), n, buf);
      if (n < static_cast<size_t>(length)) buf[n] = '\0';
    }
    return static_cast<int32_t>(text.size());
  });
}

// The names are views of constants, each of which ends with a NUL.
int32_t tessera_llama_chat_builtin_templates(const char** output, size_t len) {
  return guarded<int32_t>("llama_chat_builtin_templates", 0, [&]() -> Result<int32_t> {
    const std::vector<std::string_view> names = text::builtin_template_names();
    for (size_t i = 0; output != nullptr && i < std::min(len, names.size()); ++i) output[i] = names[i].data();
    return static_cast<int32_t>(names.size());
  });
}

// A named template is that of the key tokenizer.chat_template.NAME.
const char* tessera_llama_model_chat_template(const llama_model* model, const char* name) {
  return guarded<const char*>("llama_model_chat_template", nullptr, [&]() -> Result<const char*> {
    TESSERA_TRY(require(model, "model"));
    const std::string key =
        name == nullptr ? "tokenizer.chat_template" : std::string("tokenizer.chat_template.") + name;
    const auto found = model->chat_templates.find(key);
    return found == model->chat_templates.end() ? nullptr : found->second.c_str();
  });
}
