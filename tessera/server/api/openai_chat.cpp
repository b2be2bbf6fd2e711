#include "tessera/server/api/openai_chat.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "tessera/server/api/chat_generation.h"
#include "tessera/server/api/native_object.h"
#include "tessera/server/api/openai_format.h"
#include "tessera/server/api/token_probs.h"
#include "tessera/server/json/json_field.h"

namespace tessera::server {

namespace {

class OpenAiChat final : public ChatGeneration {
 public:
  OpenAiChat(ApiContext& context, ServedModel& model, std::shared_ptr<Exchange> exchange, const ChatPlan& plan)
      : ChatGeneration(context, model, std::move(exchange), plan),
        head_{.id = new_id("chatcmpl-"), .model = model.facts().id, .fingerprint = context.options().build_info},
        has_logprobs_(plan.generation.n_probs >= 0) {
    if (fields().verbose) verbose_ = native_facts(model, fields(), {plan.prompt});
  }

  std::string_view id() const override { return head_.id; }

 private:
  void on_started(Choice& choice) override {
    if (!streams()) return;
    JsonWriter writer = begin_chunk(choice);
    writer.key("delta").begin_object().member("role", "assistant").member("content", nullptr).end_object();
    end_chunk(writer, nullptr);
  }

  void on_delta(Choice& choice, const text::ReplyDelta& delta) override {
    using Kind = text::ReplyDelta::Kind;
    JsonWriter writer = begin_chunk(choice);
    writer.key("delta").begin_object();
    if (delta.kind == Kind::content) writer.member("content", delta.text);
    if (delta.kind == Kind::reasoning) writer.member("reasoning_content", delta.text);
    if (delta.kind == Kind::call || delta.kind == Kind::arguments) {
      writer.key("tool_calls").begin_array().begin_object().member("index", delta.call);
      if (delta.kind == Kind::call) {
        writer.member("id", delta.id).member("type", "function").key("function").begin_object();
        writer.member("name", delta.text).member("arguments", "").end_object();
      } else {
        writer.key("function").begin_object().member("arguments", delta.text).end_object();
      }
      writer.end_object().end_array();
    }
    writer.end_object();
    if (choice.n_settled_probs > 0) {
      write_logprobs(writer, choice);
      choice.drop_settled_probs();
    }
    end_chunk(writer, nullptr);
  }

  void on_reply_end(Choice& choice) override {
    ended_ = &choice;
    JsonWriter writer = begin_chunk(choice);
    writer.key("delta").begin_object().end_object();
    end_chunk(writer, finish_reason(choice), is_last_end() && !fields().include_usage);
  }

  void on_all_ended() override {
    if (fields().include_usage) {
      out() += "data: ";
      JsonWriter writer(out());
      writer.begin_object().key("choices").begin_array().end_array();
      const Usage usage = totals();
      head_.write(writer, "chat.completion.chunk", &usage);
      writer.key("timings");
      write_timings(writer, timings_of(*ended_->end));
      write_trace(writer, *ended_->end);
      write_verbose(writer, *ended_);
      writer.end_object();
      out() += "\n\n";
    }
    out() += "data: [DONE]\n\n";
  }

  std::string whole_answer() override {
    std::string answer;
    JsonWriter writer(answer);
    writer.begin_object().key("choices").begin_array();
    for (Choice& choice : choices()) {
      writer.begin_object().member("finish_reason", finish_reason(choice)).member("index", choice.index);
      write_message(writer.key("message"), reply_of(choice));
      if (has_logprobs_) write_logprobs(writer, choice);
      writer.end_object();
    }
    writer.end_array();
    const Usage usage = totals();
    head_.write(writer, "chat.completion", &usage);
    writer.key("timings");
    write_timings(writer, timings_of(*choices().front().end));
    write_trace(writer, *choices().front().end);
    write_verbose(writer, choices().front());
    writer.end_object();
    return answer;
  }

  static void write_message(JsonWriter& writer, const text::Reply& reply) {
    writer.begin_object().member("role", "assistant");
    if (reply.calls.empty() || !reply.content.empty()) {
      writer.member("content", reply.content);
    } else {
      writer.member("content", nullptr);
    }
    if (!reply.reasoning.empty()) writer.member("reasoning_content", reply.reasoning);
    if (!reply.calls.empty()) {
      writer.key("tool_calls").begin_array();
      for (const text::ToolCall& call : reply.calls) {
        writer.begin_object().member("type", "function").key("function").begin_object();
        writer.member("name", call.name).member("arguments", call.arguments).end_object();
        writer.member("id", call.id).end_object();
      }
      writer.end_array();
    }
    writer.end_object();
  }

  JsonWriter begin_chunk(const Choice& choice) {
    out() += "data: ";
    JsonWriter writer(out());
    writer.begin_object().key("choices").begin_array().begin_object().member("index", choice.index);
    return writer;
  }

  void end_chunk(JsonWriter& writer, const char* finish_reason, bool has_timings = false) {
    if (finish_reason != nullptr) {
      writer.member("finish_reason", finish_reason);
    } else {
      writer.member("finish_reason", nullptr);
    }
    writer.end_object().end_array();
    head_.write(writer, "chat.completion.chunk");
    if (has_timings) {
      writer.key("timings");
      write_timings(writer, timings_of(*ended_->end));
      write_trace(writer, *ended_->end);
      write_verbose(writer, *ended_);
    }
    writer.end_object();
    out() += "\n\n";
  }

  const char* finish_reason(const Choice& choice) const {
    const std::string_view reason = finish_reason_of(choice.end->reason);
    return reason == "stop" && !reply_of(choice).calls.empty() ? "tool_calls" : reason.data();
  }

  void write_verbose(JsonWriter& writer, const Choice& choice) {
    if (verbose_) write_verbose_object(writer, model(), fields(), choice, *verbose_);
  }

  void write_logprobs(JsonWriter& writer, const Choice& choice) {
    writer.key("logprobs").begin_object().key("content").begin_array();
    for (const TokenProbs& one : choice.settled_probs())
      write_token_probs(writer, one, model().tokenizer(), ProbsForm::raw);
    writer.end_array().member("refusal", nullptr).end_object();
  }

  bool is_last_end() {
    for (const Choice& choice : choices())
      if (choice.end == nullptr) return false;
    return true;
  }

  Usage totals() {
    Usage usage{.n_reasoning = 0};
    for (const Choice& choice : choices()) {
      usage.n_prompt = choice.end->n_prompt;
      usage.n_cached = choice.index == 0 ? choice.end->n_cached : usage.n_cached;
      usage.n_generated += choice.end->n_generated;
      usage.n_reasoning += n_reasoning(choice);
    }
    return usage;
  }

  OpenAiHead head_;
  bool has_logprobs_;
  std::optional<NativeFacts> verbose_{};
  const Choice* ended_ = nullptr;  // the last one
};

}  // namespace

// Others' streams are as if they were not there.
FieldResult<> control_openai_chat(ApiContext& context, Exchange& exchange) {
  auto reader = FieldReader::parse(exchange.take_body());
  if (!reader) return forward_error(reader);
  const auto id = reader->required_text("id");
  if (!id) return std::unexpected(id.error());
  constexpr std::string_view kActions[] = {"reasoning_end"};
  const auto action = reader->choice("action", kActions);
  if (!action) return std::unexpected(action.error());
  if (!*action) return refuse_field(reader->path_of("action"), "missing");
  const auto stream = id->empty() ? nullptr : context.streams().find(*id);
  std::string_view problem;
  if (stream == nullptr || stream->exchange().request().client.name != exchange.request().client.name) {
    problem = "No chat stream of this id is running";
  } else if (stream->reasoning() == nullptr || stream->reasoning()->n_open == 0) {
    problem = "The reply is not in its reasoning";
  } else {
    stream->reasoning()->must_end = true;
  }
  std::string answer;
  JsonWriter writer(answer);
  writer.begin_object().member("success", problem.empty());
  if (!problem.empty()) writer.member("message", problem);
  writer.end_object();
  exchange.answer({.body = std::move(answer)});
  return {};
}

FieldResult<> start_openai_chat(ApiContext& context, ServedModel& model, const std::shared_ptr<Exchange>& exchange) {
  auto body = read_json_field(exchange->take_body());
  if (!body) return forward_error(body);
  auto read = read_openai_chat(context, model, *body, exchange->request().client);
  if (!read) return forward_error(read);
  auto plan = plan_chat(model, std::move(read->call));
  if (!plan) return forward_error(plan);
  const auto generation = std::make_shared<OpenAiChat>(context, model, exchange, *plan);
  generation->set_ignored_fields(std::move(read->ignored));
  return generation->start_reply(std::move(*plan));
}

}  // namespace tessera::server
