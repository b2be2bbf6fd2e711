#include "tessera/server/api/ollama_reply.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/server/api/token_probs.h"
#include "tessera/server/json/json_field.h"

namespace tessera::server {

namespace {

// Arguments are written anew: their text may have line breaks, which would end a line of the stream.
void write_ollama_call(JsonWriter& writer, const text::ToolCall& call, size_t index) {
  writer.begin_object().member("id", call.id).key("function").begin_object();
  writer.member("index", index).member("name", call.name).key("arguments");
  if (const auto arguments = read_json_field(call.arguments); arguments && arguments->is_object()) {
    writer.tree(*arguments);
  } else {
    writer.begin_object().end_object();
  }
  writer.end_object().end_object();
}

void write_ollama_message(JsonWriter& writer, std::string_view content, std::string_view thinking,
                          std::span<const text::ToolCall> calls, size_t first_call = 0) {
  writer.key("message").begin_object().member("role", "assistant").member("content", content);
  if (!thinking.empty()) writer.member("thinking", thinking);
  if (!calls.empty()) {
    writer.key("tool_calls").begin_array();
    for (size_t i = 0; i < calls.size(); ++i) write_ollama_call(writer, calls[i], first_call + i);
    writer.end_array();
  }
  writer.end_object();
}

void write_ollama_response(JsonWriter& writer, std::string_view response, std::string_view thinking) {
  writer.member("response", response);
  if (!thinking.empty()) writer.member("thinking", thinking);
}

// The tokens of a conversation so far, without those of a stop string at the end.
std::vector<int32_t> context_of(const OllamaReplyPlan& plan, const Choice& choice, const text::Tokenizer& tokenizer) {
  std::vector<int32_t> ids = plan.prompt;
  const size_t n_prompt = ids.size();
  ids.insert(ids.end(), choice.tokens.begin(), choice.tokens.end());
  const size_t n_stop = choice.end->reason == EndReason::stop_word ? choice.end->stopping_word.size() : 0;
  for (size_t n_bytes = 0; n_bytes < n_stop && ids.size() > n_prompt; ids.pop_back())
    n_bytes += token_bytes(tokenizer, ids.back()).size();
  return ids;
}

void write_ollama_end(JsonWriter& writer, const OllamaReplyPlan& plan, const Choice& choice,
                      const text::Tokenizer& tokenizer) {
  if (!plan.has_context) return plan.head.write_end(writer, *choice.end, std::nullopt);
  plan.head.write_end(writer, *choice.end, context_of(plan, choice, tokenizer));
}

class OllamaReply final : public ChatGeneration {
 public:
  OllamaReply(ApiContext& context, ServedModel& model, std::shared_ptr<Exchange> exchange, const ChatPlan& plan,
              OllamaForm form, OllamaReplyPlan reply)
      : ChatGeneration(context, model, std::move(exchange), plan), form_(form), plan_(std::move(reply)) {
    collects_tokens_ = plan_.has_context;
  }

 private:
  std::string_view stream_type() const override { return kLinesOfJsonType; }

  void on_delta(Choice& choice, const text::ReplyDelta& delta) override {
    using Kind = text::ReplyDelta::Kind;
    if (delta.kind == Kind::content) write_line(choice, delta.text, "", {});
    if (delta.kind == Kind::reasoning) write_line(choice, "", delta.text, {});
  }

  // Calls are whole here, and none of them can turn out to be malformed.
  void on_reply_end(Choice& choice) override {
    const std::span<const text::ToolCall> calls = reply_of(choice).calls;
    for (size_t i = 0; form_ == OllamaForm::chat && i < calls.size(); ++i)
      write_line(choice, "", "", calls.subspan(i, 1), i);
    JsonWriter writer(out());
    plan_.head.write(writer.begin_object());
    write_texts(writer, "", "", {});
    write_ollama_end(writer, plan_, choice, model().tokenizer());
    write_ollama_logprobs(writer, choice, model().tokenizer());
    writer.end_object();
    out() += '\n';
  }

  std::string whole_answer() override {
    Choice& choice = choices().front();
    const text::Reply& reply = reply_of(choice);
    std::string answer;
    JsonWriter writer(answer);
    plan_.head.write(writer.begin_object());
    write_texts(writer, reply.content, reply.reasoning, reply.calls);
    write_ollama_end(writer, plan_, choice, model().tokenizer());
    write_ollama_logprobs(writer, choice, model().tokenizer());
    writer.end_object();
    return answer;
  }

  void write_line(Choice& choice, std::string_view content, std::string_view thinking,
                  std::span<const text::ToolCall> calls, size_t first_call = 0) {
    JsonWriter writer(out());
    plan_.head.write(writer.begin_object());
    write_texts(writer, content, thinking, calls, first_call);
    writer.member("done", false);
    write_ollama_logprobs(writer, choice, model().tokenizer());
    writer.end_object();
    out() += '\n';
  }

  void write_texts(JsonWriter& writer, std::string_view content, std::string_view thinking,
                   std::span<const text::ToolCall> calls, size_t first_call = 0) const {
    if (form_ == OllamaForm::chat) {
      write_ollama_message(writer, content, thinking, calls, first_call);
    } else {
      write_ollama_response(writer, content, thinking);
    }
  }

  OllamaForm form_;
  OllamaReplyPlan plan_;
};

class OllamaText final : public Generation {
 public:
  OllamaText(ApiContext& context, ServedModel& model, std::shared_ptr<Exchange> exchange, GenerationFields fields,
             OllamaReplyPlan reply)
      : Generation(context, model, std::move(exchange), std::move(fields)), plan_(std::move(reply)) {
    collects_tokens_ = plan_.has_context;
  }

 private:
  std::string_view stream_type() const override { return kLinesOfJsonType; }

  void on_token(Choice& choice, const TaskEvent& event) override {
    if (streams() && !event.text.empty()) write_line(choice, event.text);
  }

  void on_end(Choice& choice, const std::string& rest) override {
    if (!streams()) return;
    if (!rest.empty()) write_line(choice, rest);
    write_last(out(), choice, "");
    out() += '\n';
  }

  std::string whole_answer() override {
    std::string answer;
    write_last(answer, choices().front(), choices().front().text);
    return answer;
  }

  void write_line(Choice& choice, std::string_view text) {
    JsonWriter writer(out());
    plan_.head.write(writer.begin_object());
    writer.member("response", text).member("done", false);
    write_ollama_logprobs(writer, choice, model().tokenizer());
    writer.end_object();
    out() += '\n';
  }

  void write_last(std::string& to, Choice& choice, std::string_view text) {
    JsonWriter writer(to);
    plan_.head.write(writer.begin_object());
    writer.member("response", text);
    write_ollama_end(writer, plan_, choice, model().tokenizer());
    write_ollama_logprobs(writer, choice, model().tokenizer());
    writer.end_object();
  }

  OllamaReplyPlan plan_;
};

}  // namespace

std::shared_ptr<Generation> new_ollama_reply(ApiContext& context, ServedModel& model,
                                             std::shared_ptr<Exchange> exchange, const ChatPlan& plan, OllamaForm form,
                                             OllamaReplyPlan reply) {
  return std::make_shared<OllamaReply>(context, model, std::move(exchange), plan, form, std::move(reply));
}

std::shared_ptr<Generation> new_ollama_text(ApiContext& context, ServedModel& model, std::shared_ptr<Exchange> exchange,
                                            GenerationFields fields, OllamaReplyPlan reply) {
  return std::make_shared<OllamaText>(context, model, std::move(exchange), std::move(fields), std::move(reply));
}

void answer_ollama_load(Exchange& exchange, OllamaForm form, const OllamaHead& head, std::string_view done_reason,
                        bool streams) {
  HttpAnswer answer;
  JsonWriter writer(answer.body);
  head.write(writer.begin_object());
  if (form == OllamaForm::chat) {
    write_ollama_message(writer, "", "", {});
  } else {
    write_ollama_response(writer, "", "");
  }
  writer.member("done", true).member("done_reason", done_reason).end_object();
  if (streams) {
    answer.content_type = kLinesOfJsonType;
    answer.body += '\n';
  }
  exchange.answer(std::move(answer));
}

}  // namespace tessera::server
