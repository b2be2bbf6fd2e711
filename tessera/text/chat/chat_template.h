// From messages to a prompt. A ChatTemplate is a template with its capabilities. It adapts the messages of a client to
// what the template can do, renders them, and marks the bytes that the client wrote.
#pragma once

#include <expected>
#include <optional>
#include <string>

#include "tessera/text/chat/capabilities.h"
#include "tessera/text/chat/reply_family.h"
#include "tessera/text/template/template.h"

namespace tessera::text {

/// The texts of the vocabulary's special tokens, and whether the tokenizer adds them by itself.
struct ChatTokens {
  std::string bos;
  std::string eos;
  bool adds_bos = false;
  bool adds_eos = false;
};

/// The request of a client. Its values are in one heap; `missing` values were not given.
struct ChatRequest {
  jinja::Value messages{};   // list of dicts as of the OpenAI API: role, content, tool_calls, ...
  jinja::Value tools{};      // list of {"type": "function", "function": {name, description, parameters}}
  jinja::Value documents{};  // list of {"title", "text"}
  jinja::Value variables{};  // dict of more variables for the template, over all others but messages and tools
  std::string_view variables_field = "variables";  // the client's name for them, in errors
  bool add_generation_prompt = true;
  bool continues_last = false;  // the prompt ends inside the last message, which the reply continues
  bool adapts = true;           // false: the template gets the messages as they are
  bool sets_dates = true;       // the variables date_string and datetime
  std::optional<bool> enable_thinking{};
  std::optional<std::string> reasoning_effort{};  // "none": no thinking
  std::tm now{};                                  // local time
};

struct ChatPrompt {
  MarkedText prompt;
  std::string generation_prompt;  // end of the prompt that add_generation_prompt added; it belongs to the reply
};

/// The failure of a render: of the template, or of the request, whose field the message then names.
struct ChatError {
  std::string message;
  std::optional<jinja::TemplateError> in_template{};
};

class ChatTemplate {
 public:
  /// Parses a template and probes its capabilities.
  static std::expected<ChatTemplate, jinja::TemplateError> create(std::string source, ChatTokens tokens);

  const ChatCapabilities& capabilities() const { return capabilities_; }
  /// The form in which models of this template write reasoning and calls.
  const ReplyFamily& reply_family() const { return family_; }
  std::string_view source() const { return template_.source(); }

  /// Renders a conversation. The values of the request stay as they are. Thread-safe for different heaps.
  std::expected<ChatPrompt, ChatError> render(jinja::Heap& heap, const ChatRequest& request) const;

 private:
  ChatTemplate(jinja::Template chat_template, ChatTokens tokens, ChatCapabilities capabilities, ReplyFamily family)
      : template_(std::move(chat_template)),
        tokens_(std::move(tokens)),
        capabilities_(std::move(capabilities)),
        family_(std::move(family)) {}

  std::expected<MarkedText, ChatError> render_once(jinja::Heap& heap, const ChatRequest& request,
                                                   bool add_generation_prompt) const;
  std::string generation_prompt(jinja::Heap& heap, const ChatRequest& request, std::string_view prompt) const;
  void remove_added_tokens(MarkedText& prompt) const;

  jinja::Template template_;
  ChatTokens tokens_;
  ChatCapabilities capabilities_;
  ReplyFamily family_;
};

}  // namespace tessera::text
