// The answer of POST /v1/responses, whole or as a stream of numbered events: items of reasoning, messages and calls of
// functions, one done before the next is added.
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tessera/server/api/chat_generation.h"
#include "tessera/server/api/openai_format.h"
#include "tessera/server/api/responses.h"
#include "tessera/server/api/token_probs.h"
#include "tessera/server/json/json_field.h"

namespace tessera::server {

namespace {

class ResponseAnswer final : public ChatGeneration {
 public:
  ResponseAnswer(ApiContext& context, ServedModel& model, std::shared_ptr<Exchange> exchange, const ChatPlan& plan,
                 const ReadResponseCall& read, std::shared_ptr<ResponseStore> store)
      : ChatGeneration(context, model, std::move(exchange), plan),
        store_(std::move(store)),
        echo_(read.echo),
        history_(read.history),
        stores_(read.stores),
        calls_in_parallel_(read.chat.call.allows_parallel_calls),
        has_logprobs_(plan.generation.n_probs >= 0),
        id_(new_id("resp_")),
        created_s_(unix_seconds()) {}

 private:
  using Kind = text::ReplyDelta::Kind;

  /// An item of the output. Kind::arguments: a call.
  struct Item {
    Kind kind = Kind::content;
    std::string id{};
    std::string text{};      // content, reasoning, or arguments
    std::string name{};      // of a call
    std::string call_id{};   // of a call
    std::string logprobs{};  // JSON of the members of a list
  };
  enum class Status : uint8_t { in_progress, completed, incomplete, failed };
  static constexpr std::string_view kStatuses[] = {"in_progress", "completed", "incomplete", "failed"};
  static std::string_view name_of(Status status) { return kStatuses[static_cast<size_t>(status)]; }

  // --- a stream

  void on_started(Choice&) override {
    if (!streams()) return;
    is_created_ = true;
    for (const char* type : {"response.created", "response.in_progress"}) {
      JsonWriter writer = begin_event(type);
      write_object(writer.key("response"), Status::in_progress, nullptr, nullptr);
      end_event(writer);
    }
  }

  void on_progress(Choice& choice, const TaskEvent& event) override {
    if (!streams()) return;
    JsonWriter writer = begin_event("response.in_progress");
    write_object(writer.key("response"), Status::in_progress, nullptr, nullptr);
    writer.key("prompt_progress").begin_object();
    writer.member("total", choice.n_prompt).member("cache", choice.n_cached);
    writer.member("processed", event.n_done).member("time_ms", event.prompt_ms).end_object();
    end_event(writer);
  }

  void on_delta(Choice& choice, const text::ReplyDelta& delta) override {
    if (delta.kind == Kind::call) {
      add_item({.kind = Kind::arguments, .id = new_id("fc_"), .name = delta.text, .call_id = delta.id});
      return;
    }
    if (!is_open_ || items_.back().kind != delta.kind) add_item(new_item(delta.kind));
    Item& item = items_.back();
    item.text += delta.text;
    JsonWriter writer = begin_item_event(kDeltaNames[index_of(item.kind)]);
    writer.member("delta", delta.text);
    if (item.kind == Kind::content) write_delta_logprobs(writer, choice, item);
    end_event(writer);
  }

  static Item new_item(Kind kind) { return {.kind = kind, .id = new_id(kind == Kind::reasoning ? "rs_" : "msg_")}; }

  void add_item(Item item) {
    finish_item(Status::completed);
    items_.push_back(std::move(item));
    is_open_ = true;
    const Item& added = items_.back();
    JsonWriter writer = begin_event("response.output_item.added");
    writer.member("output_index", items_.size() - 1);
    write_item(writer.key("item"), added, Status::in_progress, false);
    end_event(writer);
    if (added.kind == Kind::arguments) return;
    JsonWriter part = begin_item_event("response.content_part.added");
    write_part(part.key("part"), added);
    end_event(part);
  }

  // The events that end the open item.
  void finish_item(Status status) {
    if (!std::exchange(is_open_, false)) return;
    const Item& item = items_.back();
    JsonWriter done = begin_item_event(kDoneNames[index_of(item.kind)]);
    if (item.kind == Kind::arguments) {
      done.member("name", item.name).member("arguments", item.text);
    } else {
      done.member("text", item.text);
    }
    if (item.kind == Kind::content) write_logprobs(done, item);
    end_event(done);
    if (item.kind != Kind::arguments) {
      JsonWriter part = begin_item_event("response.content_part.done");
      write_part(part.key("part"), item);
      end_event(part);
    }
    JsonWriter writer = begin_event("response.output_item.done");
    writer.member("output_index", items_.size() - 1);
    write_item(writer.key("item"), item, status, true);
    end_event(writer);
  }

  void on_reply_end(Choice& choice) override {
    const Status status = status_of(choice);
    finish_item(status);
    const std::string object = whole_object(choice);
    JsonWriter writer = begin_event(status == Status::completed ? "response.completed" : "response.incomplete");
    writer.key("response").raw(object).key("timings");
    write_timings(writer, timings_of(*choice.end));
    write_trace(writer, *choice.end);
    end_event(writer);
    keep(object, choice);
  }

  std::string error_piece(const FieldError& error) override {
    if (!is_created_) on_started(choices().front());
    finish_item(Status::incomplete);
    JsonWriter writer = begin_event("response.failed");
    write_object(writer.key("response"), Status::failed, nullptr, &error);
    end_event(writer);
    return {};  // it is in out() already
  }

  static constexpr std::string_view kDeltaNames[] = {"response.output_text.delta", "response.reasoning_text.delta",
                                                     "response.function_call_arguments.delta"};
  static constexpr std::string_view kDoneNames[] = {"response.output_text.done", "response.reasoning_text.done",
                                                    "response.function_call_arguments.done"};
  static size_t index_of(Kind kind) { return kind == Kind::content ? 0 : kind == Kind::reasoning ? 1 : 2; }

  JsonWriter begin_event(std::string_view type) {
    out() += "event: ";
    out() += type;
    out() += "\ndata: ";
    JsonWriter writer(out());
    writer.begin_object().member("type", type).member("sequence_number", n_events_++);
    return writer;
  }

  // An event of the last item.
  JsonWriter begin_item_event(std::string_view type) {
    JsonWriter writer = begin_event(type);
    writer.member("item_id", items_.back().id).member("output_index", items_.size() - 1);
    if (items_.back().kind != Kind::arguments) writer.member("content_index", 0);
    return writer;
  }

  void end_event(JsonWriter& writer) {
    writer.end_object();
    out() += "\n\n";
  }

  // The probabilities of the tokens of this delta.
  void write_delta_logprobs(JsonWriter& writer, Choice& choice, Item& item) {
    const std::string fresh = take_logprobs(choice);
    if (!item.logprobs.empty() && !fresh.empty()) item.logprobs += ',';
    item.logprobs += fresh;
    writer.key("logprobs").raw('[' + fresh + ']');
  }

  std::string take_logprobs(Choice& choice) {
    std::string list;
    if (!has_logprobs_ || choice.n_settled_probs == 0) return list;
    JsonWriter writer(list);
    for (const TokenProbs& one : choice.settled_probs())
      write_token_probs(writer, one, model().tokenizer(), ProbsForm::raw);
    choice.drop_settled_probs();
    return list;
  }

  // --- a whole answer

  std::string whole_answer() override {
    Choice& choice = choices().front();
    const text::Reply& reply = reply_of(choice);
    for (const Kind kind : {Kind::reasoning, Kind::content}) {
      const std::string& text = kind == Kind::content ? reply.content : reply.reasoning;
      if (text.empty()) continue;
      items_.push_back(new_item(kind));
      items_.back().text = text;
      if (kind == Kind::content) items_.back().logprobs = take_logprobs(choice);
    }
    for (const text::ToolCall& call : reply.calls)
      items_.push_back({.kind = Kind::arguments,
                        .id = new_id("fc_"),
                        .text = call.arguments,
                        .name = call.name,
                        .call_id = call.id});
    std::string object = whole_object(choice);
    keep(object, choice);
    return object;
  }

  static Status status_of(const Choice& choice) {
    const EndReason reason = choice.end->reason;
    return reason == EndReason::eos || reason == EndReason::stop_word ? Status::completed : Status::incomplete;
  }

  std::string whole_object(const Choice& choice) {
    std::string object;
    JsonWriter writer(object);
    write_object(writer, status_of(choice), &choice, nullptr);
    return object;
  }

  void keep(const std::string& object, const Choice& choice) {
    if (!stores_) return;
    const text::Reply& reply = reply_of(choice);
    std::string messages = history_;
    messages.back() = ',';  // the end of the list
    JsonWriter writer(messages);
    writer.begin_object().member("role", "assistant").member("content", reply.content);
    if (!reply.reasoning.empty()) writer.member("reasoning_content", reply.reasoning);
    if (!reply.calls.empty()) {
      writer.key("tool_calls").begin_array();
      for (const text::ToolCall& call : reply.calls) {
        writer.begin_object().member("id", call.id).member("type", "function").key("function").begin_object();
        writer.member("name", call.name).member("arguments", call.arguments).end_object().end_object();
      }
      writer.end_array();
    }
    writer.end_object();
    messages += ']';
    store_->put(
        {.id = id_, .client = exchange().request().client.name, .object = object, .messages = std::move(messages)});
  }

  // `ended`: the choice if it has ended. `error`: of a failed response.
  void write_object(JsonWriter& writer, Status status, const Choice* ended, const FieldError* error) {
    writer.begin_object().member("id", id_).member("object", "response").member("created_at", created_s_);
    status == Status::completed ? writer.member("completed_at", unix_seconds())
                                : writer.member("completed_at", nullptr);
    writer.member("status", name_of(status));
    if (error != nullptr) {
      writer.key("error").begin_object().member("code", "server_error").member("message", error->message).end_object();
    } else {
      writer.member("error", nullptr);
    }
    if (status == Status::incomplete) {
      writer.key("incomplete_details").begin_object().member("reason", "max_output_tokens").end_object();
    } else {
      writer.member("incomplete_details", nullptr);
    }
    writer.key("instructions").raw(echo_.instructions).member("model", model().facts().id);
    write_output(writer, status);
    writer.member("parallel_tool_calls", calls_in_parallel_);
    writer.key("previous_response_id").raw(echo_.previous_response_id).key("reasoning").raw(echo_.reasoning);
    writer.member("store", stores_).member("temperature", fields().sampling.temp).key("text").raw(echo_.text);
    writer.key("tool_choice").raw(echo_.tool_choice).key("tools").raw(echo_.tools);
    writer.member("top_p", fields().sampling.top_p).key("truncation").raw(echo_.truncation);
    writer.key("usage");
    ended != nullptr ? write_response_usage(writer, *ended) : static_cast<void>(writer.value(nullptr));
    writer.key("user").raw(echo_.user).key("metadata").raw(echo_.metadata).end_object();
  }

  void write_output(JsonWriter& writer, Status status) {
    std::string text;
    writer.key("output").begin_array();
    for (const Item& item : items_) {
      const bool is_last = &item == &items_.back();
      write_item(writer, item, is_last && status != Status::completed ? Status::incomplete : Status::completed, true);
      if (item.kind == Kind::content) text += item.text;
    }
    writer.end_array().member("output_text", text);
  }

  void write_response_usage(JsonWriter& writer, const Choice& choice) {
    writer.begin_object().member("input_tokens", choice.n_prompt);
    writer.key("input_tokens_details").begin_object().member("cached_tokens", choice.n_cached).end_object();
    writer.member("output_tokens", choice.end->n_generated);
    writer.key("output_tokens_details").begin_object().member("reasoning_tokens", n_reasoning(choice)).end_object();
    writer.member("total_tokens", choice.n_prompt + choice.end->n_generated).end_object();
  }

  void write_item(JsonWriter& writer, const Item& item, Status status, bool has_content) {
    if (item.kind == Kind::arguments) {
      writer.begin_object().member("type", "function_call").member("id", item.id).member("call_id", item.call_id);
      writer.member("name", item.name).member("arguments", item.text).member("status", name_of(status)).end_object();
      return;
    }
    const bool is_reasoning = item.kind == Kind::reasoning;
    writer.begin_object().member("type", is_reasoning ? "reasoning" : "message").member("id", item.id);
    if (is_reasoning) {
      writer.key("summary").begin_array().end_array();
    } else {
      writer.member("role", "assistant");
    }
    writer.key("content").begin_array();
    if (has_content) write_part(writer, item);
    writer.end_array();
    if (is_reasoning) writer.member("encrypted_content", "");
    writer.member("status", name_of(status)).end_object();
  }

  void write_part(JsonWriter& writer, const Item& item) {
    writer.begin_object();
    if (item.kind == Kind::reasoning) {
      writer.member("type", "reasoning_text").member("text", item.text).end_object();
      return;
    }
    writer.member("type", "output_text").member("text", item.text).key("annotations").begin_array().end_array();
    write_logprobs(writer, item);
    writer.end_object();
  }

  static void write_logprobs(JsonWriter& writer, const Item& item) {
    writer.key("logprobs").raw('[' + item.logprobs + ']');
  }

  std::shared_ptr<ResponseStore> store_;
  ResponseEcho echo_;
  std::string history_;
  bool stores_;
  bool calls_in_parallel_;
  bool has_logprobs_;
  std::string id_;
  int64_t created_s_;
  bool is_created_ = false;
  std::vector<Item> items_;
  bool is_open_ = false;  // the last item is not done
  int64_t n_events_ = 0;
};

}  // namespace

FieldResult<> start_response(ApiContext& context, ServedModel& model, const std::shared_ptr<ResponseStore>& store,
                             const std::shared_ptr<Exchange>& exchange) {
  auto body = read_json_field(exchange->take_body());
  if (!body) return forward_error(body);
  auto read = read_response_call(context, model, *store, *body, exchange->request().client);
  if (!read) return forward_error(read);
  auto plan = plan_response(model, *read);
  if (!plan) return forward_error(plan);
  const auto generation = std::make_shared<ResponseAnswer>(context, model, exchange, *plan, *read, store);
  generation->set_ignored_fields(std::move(read->chat.ignored));
  return generation->start_reply(std::move(*plan));
}

}  // namespace tessera::server
