// The reply of a chat model on its way back: content, reasoning and tool calls, piece by piece. Each dialect derives a
// class that writes the pieces.
#pragma once

#include <vector>

#include "tessera/server/api/chat_call.h"
#include "tessera/server/api/generation.h"
#include "tessera/text/chat/reply_parser.h"

namespace tessera::server {

class ChatGeneration : public Generation {
 public:
  std::shared_ptr<ReasoningSwitch> reasoning() const final { return reasoning_; }

  /// Submits the sequences of the plan that this was made with. Errors: those of make_sequences() and start().
  FieldResult<> start_reply(ChatPlan plan);

 protected:
  ChatGeneration(ApiContext& context, ServedModel& model, std::shared_ptr<Exchange> exchange, const ChatPlan& plan);

  /// A piece of the reply, in a stream.
  virtual void on_delta(Choice&, const text::ReplyDelta&) {}
  /// The reply is complete.
  virtual void on_reply_end(Choice&) {}

  /// The reply so far. Complete once the choice has ended.
  const text::Reply& reply_of(const Choice& choice) const { return replies_[choice.index].reply; }
  /// Tokens of the reasoning.
  int64_t n_reasoning(const Choice& choice) const { return replies_[choice.index].n_reasoning; }

 private:
  struct ParsedReply {
    text::ReplyParser parser;
    text::Reply reply{};
    int64_t n_reasoning = 0;
    bool answers = false;  // the reasoning is over
  };

  void on_token(Choice& choice, const TaskEvent& event) final;
  void on_end(Choice& choice, const std::string& rest) final;
  void pass_on(Choice& choice, std::span<const text::ReplyDelta> deltas);

  std::vector<ParsedReply> replies_;
  std::shared_ptr<ReasoningSwitch> reasoning_;
};

}  // namespace tessera::server
