// The state of a chat: the model, the conversation and the settings. The terminal, the pipe and the commands of a chat
// work on this object; it prints nothing.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/cli/chat_settings.h"
#include "tessera/cli/conversation.h"
#include "tessera/engine/chat_session.h"
#include "tessera/engine/loaded_model.h"

namespace tessera::cli {

/// The seconds that parts of a reply took.
struct ReplyTimes {
  double first_token = 0;  // until the first token
  double reasoning = 0;    // until the reasoning ended
  double total = 0;
};

struct ChatReply {
  text::Reply reply;
  StopReason stop = StopReason::none;
  bool is_cut = false;  // cancelled
  ReplyTimes times;
  ChatCounts counts;
};

/// Functions that a reply calls while it is generated. Empty ones are not called.
struct ReplyEvents {
  PromptProgress on_prompt{};
  std::function<void()> on_first_token{};
  /// Receives new pieces; an error ends the reply and is returned.
  std::function<Result<>(std::span<const text::ReplyDelta>, const ChatCounts&)> on_deltas{};
};

class Chat {
 public:
  /// The session of the model must be empty. n_batch: see GenerateOptions.
  /// speculator: that of the model's session; null: none.
  Chat(LoadedModel model, text::ChatTemplate chat_template, int64_t n_batch,
       std::unique_ptr<Speculator> speculator = nullptr);

  Conversation conversation;
  ChatSettings settings;
  std::string variables;                                  // JSON: variables for the template
  std::shared_ptr<const text::grammar::Grammar> grammar;  // of the answers; null: any text
  text::grammar::JsonOutput json_output{};                // of grammars that commands make from schemas
  bool enforces_formats = true;                           // the same
  const LoadedModel& model() const { return model_; }
  const ChatSession& session() const { return *session_; }

  // --- tools

  /// Sets the definitions of tools: a JSON list as of the OpenAI API, or "" for none. Errors: format, also for a schema
  /// that cannot be enforced.
  Result<> set_tools(std::string json);
  const std::string& tools() const { return tools_; }
  size_t n_tools() const { return n_tools_; }

  // --- replies

  /// Generates the answer to the conversation and adds it. A cancelled answer is cut and added if it has text. Errors:
  /// those of ChatSession; cancelled (before there was text); those of on_deltas. After an error the conversation is as
  /// before. `seed` replaces that of the settings.
  Result<ChatReply> reply(const ReplyEvents& events, const CancelToken& cancel, std::optional<int64_t> seed = {});

  /// The prompt of the next reply. Errors: those of ChatSession::prompt().
  Result<TokenizedPrompt> prompt() const;

  /// The last reply, if there was one.
  const std::optional<ChatReply>& last_reply() const { return last_reply_; }

 private:
  ChatOptions options(std::optional<int64_t> seed) const;

  LoadedModel model_;
  int64_t n_batch_;
  std::unique_ptr<Speculator> speculator_;
  std::unique_ptr<ChatSession> session_;
  std::string tools_;
  size_t n_tools_ = 0;
  std::optional<ChatReply> last_reply_;
};

}  // namespace tessera::cli
