#include "tessera/server/api/chat_generation.h"

#include <utility>

namespace tessera::server {

ChatGeneration::ChatGeneration(ApiContext& context, ServedModel& model, std::shared_ptr<Exchange> exchange,
                               const ChatPlan& plan)
    : Generation(context, model, std::move(exchange), plan.generation.fields) {
  if (plan.generation.reasoning) reasoning_ = plan.generation.reasoning->shared;
  for (int32_t i = 0; i < plan.generation.fields.n_choices; ++i) {
    text::ReplyOptions options = plan.reply;
    options.seed += static_cast<uint64_t>(i);
    replies_.push_back({.parser = text::ReplyParser::create(plan.family, plan.tools, plan.generation_prompt, options)});
  }
}

FieldResult<> ChatGeneration::start_reply(ChatPlan plan) {
  TaskSpec task = make_task(context(), exchange(), plan.generation.fields);
  auto sequences = make_sequences(context(), model(), std::move(plan.generation));
  if (!sequences) return forward_error(sequences);
  for (SequenceSpec& sequence : *sequences) sequence.renders_special = true;  // the parser reads the marks
  task.sequences = std::move(*sequences);
  return start(std::move(task));
}

void ChatGeneration::on_token(Choice& choice, const TaskEvent& event) {
  ParsedReply& parsed = replies_[choice.index];
  const auto deltas = parsed.parser.feed(event.text);
  bool reasons = false;
  for (const text::ReplyDelta& delta : deltas) {
    reasons |= delta.kind == text::ReplyDelta::Kind::reasoning;
    parsed.answers |= delta.kind == text::ReplyDelta::Kind::content || delta.kind == text::ReplyDelta::Kind::call;
  }
  if (reasons && !parsed.answers) parsed.n_reasoning = choice.n_generated;
  pass_on(choice, deltas);
}

void ChatGeneration::on_end(Choice& choice, const std::string& rest) {
  text::ReplyParser& parser = replies_[choice.index].parser;
  pass_on(choice, parser.feed(rest));
  const bool is_whole = choice.end->reason == EndReason::eos || choice.end->reason == EndReason::stop_word;
  text::Reply reply = parser.finish(is_whole ? text::ReplyEnd::stop : text::ReplyEnd::length);
  pass_on(choice, parser.deltas());
  replies_[choice.index].reply = std::move(reply);
  if (streams()) on_reply_end(choice);
}

void ChatGeneration::pass_on(Choice& choice, std::span<const text::ReplyDelta> deltas) {
  if (!streams()) return;
  for (const text::ReplyDelta& delta : deltas)
    if (delta.kind != text::ReplyDelta::Kind::warning) on_delta(choice, delta);
}

}  // namespace tessera::server
