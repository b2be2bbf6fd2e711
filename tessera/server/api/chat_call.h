// A chat request in one form for all dialects, and its way to a prompt: messages, the chat template, tokens, and the
// grammar of the reply. Runs on workers.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tessera/json/json.h"
#include "tessera/server/api/generation_task.h"
#include "tessera/text/chat/reply.h"
#include "tessera/text/chat/reply_family.h"
#include "tessera/text/chat/tool_set.h"

namespace tessera::server {

enum class ToolChoice : uint8_t { none, automatic, required };

inline constexpr size_t kMaxTools = 1024;
inline constexpr size_t kMaxToolBytes = size_t{1} << 20;

struct ChatCall {
  GenerationFields fields{};
  std::string messages{};  // JSON: a list of messages as of the OpenAI API, checked
  bool continues_last = false;
  std::string tools{};  // JSON: a list of definitions as of the OpenAI API, checked; empty: none
  ToolChoice tool_choice = ToolChoice::automatic;
  std::vector<std::string> allowed_tools{};  // names that may be called; empty: all
  bool allows_parallel_calls = true;
  std::string answer_schema{};                          // JSON; empty: any text
  std::string answer_schema_field = "response_format";  // its name in errors
  std::string variables{};                              // JSON: an object for the template; empty: none
  std::optional<bool> enable_thinking{};
  std::optional<std::string> reasoning_effort{};
  text::ReasoningFormat reasoning = text::ReasoningFormat::separate;
  bool add_generation_prompt = true;
  int32_t n_probs = -1;
};

/// The call of a request, and the names of fields that the server does not know.
struct ReadChatCall {
  ChatCall call{};
  std::string ignored{};
};

/// A prompt, and all that is needed to read the reply.
struct ChatPlan {
  GenerationPlan generation{};
  std::string prompt{};             // as text
  std::string generation_prompt{};  // the end of it that belongs to the reply
  text::ReplyFamily family{};
  std::vector<text::ReplyTool> tools{};
  text::ReplyOptions reply{};
};

/// Renders and tokenizes a call, and compiles the grammar of its reply. Errors: the template's, with line and column;
/// a schema, with its place; a call that the model's format cannot write.
FieldResult<ChatPlan> plan_chat(ServedModel& model, ChatCall call);
/// Answers with the number of tokens of the prompt, as OpenAI's APIs do.
void answer_input_tokens(Exchange& exchange, const ChatPlan& plan);

/// Checks messages of the OpenAI API and returns them as JSON: known roles, contents as texts. Parts of a content are
/// joined by line breaks. Errors: 400 with the path of the field.
struct CheckedMessages {
  std::string json{};
  bool ends_with_assistant = false;
};
FieldResult<CheckedMessages> check_messages(const Json& messages);

/// Whether a tool may have this name, and the rule in words.
bool is_tool_name(std::string_view name);
inline constexpr std::string_view kToolNameForm = "1 to 64 of the characters A-Z a-z 0-9 _ . -";

/// Refuses a grammar of the client beside tools or a schema.
FieldResult<> check_grammar_use(const ChatCall& call);

/// Checks definitions of tools of the OpenAI API and returns them as JSON; "" for an empty list.
FieldResult<std::string> check_tools(const Json& tools);

}  // namespace tessera::server
