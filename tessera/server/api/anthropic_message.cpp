// The answer of POST /v1/messages, whole or as a stream of events: blocks of thinking, text and uses of tools, one
// closed before the next opens.
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "tessera/server/api/anthropic.h"
#include "tessera/server/api/chat_generation.h"
#include "tessera/server/api/openai_format.h"
#include "tessera/server/json/json_field.h"

namespace tessera::server {

namespace {

constexpr std::string_view kPing = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

std::string tool_use_id(std::string_view id) { return std::string(kToolUsePrefix) + std::string(id); }

// The arguments of a call as an object, also if the limit of tokens has cut them.
std::string_view whole_object(const std::string& arguments) {
  const auto value = read_json_field(arguments);
  return value && value->is_object() ? std::string_view(arguments) : "{}";
}

class AnthropicMessage final : public ChatGeneration {
 public:
  AnthropicMessage(ApiContext& context, ServedModel& model, std::shared_ptr<Exchange> exchange, const ChatPlan& plan)
      : ChatGeneration(context, model, std::move(exchange), plan), id_(new_id("msg_")) {}

 private:
  using Kind = text::ReplyDelta::Kind;

  // --- a stream

  void on_started(Choice& choice) override {
    if (!streams()) return;
    has_started_ = true;
    JsonWriter writer = begin_event("message_start");
    begin_message(writer.key("message"));
    writer.key("content").begin_array().end_array();
    end_message(writer, choice, 0, nullptr);
    end_event(writer);
  }

  void on_delta(Choice&, const text::ReplyDelta& delta) override {
    if (delta.kind == Kind::call) return open_tool_use(delta);
    // Pieces of arguments follow the call that they belong to.
    if (delta.kind != Kind::arguments && open_ != delta.kind) open_text(delta.kind);
    write_delta(delta);
  }

  void open_text(Kind kind) {
    JsonWriter writer = open_block(kind);
    if (kind == Kind::reasoning) {
      writer.member("type", "thinking").member("thinking", "").member("signature", "");
    } else {
      writer.member("type", "text").member("text", "").member("citations", nullptr);
    }
    end_opening(writer);
  }

  void open_tool_use(const text::ReplyDelta& call) {
    JsonWriter writer = open_block(Kind::arguments);
    writer.member("type", "tool_use").member("id", tool_use_id(call.id)).member("name", call.text);
    writer.key("input").begin_object().end_object();
    end_opening(writer);
  }

  JsonWriter open_block(Kind kind) {
    close_block();
    open_ = kind;
    JsonWriter writer = begin_event("content_block_start");
    writer.member("index", n_blocks_).key("content_block").begin_object();
    return writer;
  }

  void end_opening(JsonWriter& writer) {
    writer.end_object();
    end_event(writer);
    if (n_blocks_ == 0) out() += kPing;
  }

  void write_delta(const text::ReplyDelta& delta) {
    JsonWriter writer = begin_delta();
    if (delta.kind == Kind::content) writer.member("type", "text_delta").member("text", delta.text);
    if (delta.kind == Kind::reasoning) writer.member("type", "thinking_delta").member("thinking", delta.text);
    if (delta.kind == Kind::arguments) writer.member("type", "input_json_delta").member("partial_json", delta.text);
    writer.end_object();
    end_event(writer);
  }

  JsonWriter begin_delta() {
    JsonWriter writer = begin_event("content_block_delta");
    writer.member("index", n_blocks_).key("delta").begin_object();
    return writer;
  }

  void close_block() {
    if (!open_) return;
    if (*open_ == Kind::reasoning) {
      JsonWriter delta = begin_delta();
      delta.member("type", "signature_delta").member("signature", "").end_object();
      end_event(delta);
    }
    JsonWriter writer = begin_event("content_block_stop");
    writer.member("index", n_blocks_);
    end_event(writer);
    open_.reset();
    ++n_blocks_;
  }

  void on_reply_end(Choice& choice) override {
    close_block();
    JsonWriter writer = begin_event("message_delta");
    writer.key("delta").begin_object();
    write_stop(writer, choice);
    writer.member("container", nullptr).member("stop_details", nullptr).end_object();
    writer.key("usage").begin_object().member("output_tokens", choice.end->n_generated);
    writer.member("input_tokens", choice.n_prompt - choice.n_cached);
    writer.member("cache_read_input_tokens", choice.n_cached).end_object();
    end_event(writer);
    JsonWriter stop = begin_event("message_stop");
    end_event(stop);
  }

  std::string_view ping_piece() const override { return has_started_ ? kPing : ChatGeneration::ping_piece(); }

  JsonWriter begin_event(std::string_view type) {
    out() += "event: ";
    out() += type;
    out() += "\ndata: ";
    JsonWriter writer(out());
    writer.begin_object().member("type", type);
    return writer;
  }

  void end_event(JsonWriter& writer) {
    writer.end_object();
    out() += "\n\n";
  }

  // --- a whole answer

  std::string whole_answer() override {
    const Choice& choice = choices().front();
    const text::Reply& reply = reply_of(choice);
    std::string answer;
    JsonWriter writer(answer);
    begin_message(writer);
    writer.key("content").begin_array();
    if (!reply.reasoning.empty()) {
      writer.begin_object().member("type", "thinking").member("thinking", reply.reasoning);
      writer.member("signature", "").end_object();
    }
    if (!reply.content.empty()) {
      writer.begin_object().member("type", "text").member("text", reply.content);
      writer.member("citations", nullptr).end_object();
    }
    for (const text::ToolCall& call : reply.calls) {
      writer.begin_object().member("type", "tool_use").member("id", tool_use_id(call.id)).member("name", call.name);
      writer.key("input").raw(whole_object(call.arguments)).end_object();
    }
    writer.end_array();
    end_message(writer, choice, choice.end->n_generated, &choice);
    return answer;
  }

  void begin_message(JsonWriter& writer) {
    writer.begin_object().member("id", id_).member("type", "message").member("role", "assistant");
  }

  // `ended`: the choice if it has ended, or null.
  void end_message(JsonWriter& writer, const Choice& choice, int64_t n_generated, const Choice* ended) {
    writer.member("model", model().facts().id);
    if (ended != nullptr) {
      write_stop(writer, *ended);
    } else {
      writer.member("stop_reason", nullptr).member("stop_sequence", nullptr);
    }
    writer.key("usage").begin_object().member("input_tokens", choice.n_prompt - choice.n_cached);
    writer.member("cache_creation_input_tokens", 0).member("cache_read_input_tokens", choice.n_cached);
    writer.member("output_tokens", n_generated).member("cache_creation", nullptr);
    writer.member("server_tool_use", nullptr).member("service_tier", "standard").end_object();
    writer.member("container", nullptr).member("stop_details", nullptr).end_object();
  }

  void write_stop(JsonWriter& writer, const Choice& choice) {
    writer.member("stop_reason", stop_reason(choice));
    if (choice.end->reason == EndReason::stop_word) {
      writer.member("stop_sequence", choice.end->stopping_word);
    } else {
      writer.member("stop_sequence", nullptr);
    }
  }

  std::string_view stop_reason(const Choice& choice) const {
    switch (choice.end->reason) {
      case EndReason::eos:
        return reply_of(choice).calls.empty() ? "end_turn" : "tool_use";
      case EndReason::stop_word:
        return "stop_sequence";
      case EndReason::context_full:
        return "model_context_window_exceeded";
      default:
        return "max_tokens";
    }
  }

  std::string id_;
  bool has_started_ = false;
  std::optional<Kind> open_{};  // the block that is open: content, reasoning, or arguments for the use of a tool
  int64_t n_blocks_ = 0;        // closed ones
};

}  // namespace

FieldResult<> start_anthropic_message(ApiContext& context, ServedModel& model,
                                      const std::shared_ptr<Exchange>& exchange) {
  auto body = read_json_field(exchange->take_body());
  if (!body) return forward_error(body);
  auto read = read_anthropic_call(context, model, *body, exchange->request().client);
  if (!read) return forward_error(read);
  auto plan = plan_chat(model, std::move(read->call));
  if (!plan) return forward_error(plan);
  const auto generation = std::make_shared<AnthropicMessage>(context, model, exchange, *plan);
  generation->set_ignored_fields(std::move(read->ignored));
  return generation->start_reply(std::move(*plan));
}

}  // namespace tessera::server
