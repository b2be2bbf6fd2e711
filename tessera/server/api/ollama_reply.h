// Answers of POST /api/generate and POST /api/chat: lines of JSON while the reply arrives, or one object.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/server/api/chat_generation.h"
#include "tessera/server/api/ollama_format.h"

namespace tessera::server {

enum class OllamaForm : uint8_t {
  generate,  // the texts are "response" and "thinking"
  chat,      // they are in a "message"
};

/// Facts about an answer beside its texts.
struct OllamaReplyPlan {
  OllamaHead head{};
  std::vector<int32_t> prompt{};  // for "context"
  bool has_context = false;       // the answer has one
};

/// A reply of the chat template's form, with reasoning and calls.
std::shared_ptr<Generation> new_ollama_reply(ApiContext& context, ServedModel& model,
                                             std::shared_ptr<Exchange> exchange, const ChatPlan& plan, OllamaForm form,
                                             OllamaReplyPlan reply);

/// A text as the model writes it, for raw prompts. Form generate.
std::shared_ptr<Generation> new_ollama_text(ApiContext& context, ServedModel& model, std::shared_ptr<Exchange> exchange,
                                            GenerationFields fields, OllamaReplyPlan reply);

/// Answers a request that only loads or unloads the model.
void answer_ollama_load(Exchange& exchange, OllamaForm form, const OllamaHead& head, std::string_view done_reason,
                        bool streams);

}  // namespace tessera::server
