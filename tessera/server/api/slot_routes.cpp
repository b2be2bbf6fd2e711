#include "tessera/server/api/slot_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/server/api/generation_task.h"
#include "tessera/server/api/route_adder.h"
#include "tessera/server/json/field_reader.h"
#include "tessera/server/json/generation_settings.h"
#include "tessera/server/json/writer.h"
#include "tessera/text/utf8.h"

namespace tessera::server {

namespace {

// --- GET /slots

std::string_view state_of(const SlotView& slot) {
  if (slot.sequence == nullptr) return "idle";
  if (slot.is_restoring) return "restoring";
  if (slot.is_paused) return "paused";
  return slot.sequence->n_generated() > 0 ? "decoding" : "prefill";
}

void write_sequence(JsonWriter& writer, const PastSequence& sequence) {
  writer.member("id_task", sequence.task).member("n_prompt_tokens", sequence.n_prompt);
  writer.member("n_prompt_tokens_processed", sequence.n_prompt_computed);
  writer.member("n_prompt_tokens_cache", sequence.n_cached);
  if (!sequence.fields) return;
  writer.key("params");
  write_generation_settings(writer, *sequence.fields, {.seed = sequence.fields->sampling.seed}, SettingsPlace::slot);
}

// Of an idle slot as llama-server has it.
void write_next_token(JsonWriter& writer, const SlotView& slot) {
  const Sequence* sequence = slot.sequence;
  const int64_t n_predict = sequence != nullptr ? sequence->spec().n_predict : -1;
  const int64_t n_generated = sequence != nullptr ? sequence->n_generated() : 0;
  writer.key("next_token").begin_array().begin_object();
  writer.member("has_next_token", sequence != nullptr && !sequence->has_ended());
  writer.member("has_new_line", slot.shown->has_new_line);
  writer.member("n_remain", n_predict < 0 ? -1 : n_predict - n_generated);
  writer.member("n_decoded", n_generated).end_object().end_array();
}

void write_slot(JsonWriter& writer, const SlotView& slot, const ServedModel& model) {
  writer.begin_object().member("id", slot.id).member("n_ctx", model.slot_context());
  writer.member("speculative", model.options().scheduler.speculation.is_on())
      .member("is_processing", slot.sequence != nullptr);
  if (slot.shown) {
    write_sequence(writer, *slot.shown);
    write_next_token(writer, slot);
  }
  if (slot.sequence == nullptr) writer.member("n_tokens", slot.n_last);
  writer.member("state", state_of(slot));
  if (slot.shown) writer.member("client", slot.shown->client).member("priority", slot.shown->priority);
  writer.end_object();
}

FieldResult<> answer_slots(ServedModel& model, const std::shared_ptr<Exchange>& exchange) {
  if (!model.generates()) {
    exchange->answer({.body = "[]"});
    return {};
  }
  const bool must_have_idle = exchange->request().query_value("fail_on_no_slot").value_or("") == "1";
  model.scheduler().inspect([&model, exchange, must_have_idle](std::span<const SlotView> slots) {
    const auto is_idle = [](const SlotView& slot) { return slot.sequence == nullptr; };
    if (must_have_idle && std::ranges::none_of(slots, is_idle))
      return answer_error(*exchange, {.status = 503, .type = "unavailable_error", .message = "no slot available"});
    std::string answer;
    JsonWriter writer(answer);
    writer.begin_array();
    for (const SlotView& slot : slots) write_slot(writer, slot, model);
    writer.end_array();
    exchange->answer({.body = std::move(answer)});
  });
  return {};
}

// --- POST /slots/ID

FieldResult<int32_t> read_slot_id(const Exchange& exchange, int32_t n_slots) {
  const std::string& name = exchange.request().path_segments.front();
  int32_t slot = -1;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), slot);
  if (error == std::errc() && end == name.data() + name.size() && slot >= 0 && slot < n_slots) return slot;
  return std::unexpected(
      FieldError{.message = fmt::format("Invalid slot '{}': want 0 to {}", text::quote_text(name), n_slots - 1)});
}

FieldResult<std::string> read_file_name(Exchange& exchange) {
  const auto reader = FieldReader::parse(exchange.take_body());
  if (!reader) return std::unexpected(reader.error());
  const auto name = reader->required_text("filename");
  if (!name) return std::unexpected(name.error());
  if (is_file_name(*name)) return std::string(*name);
  return refuse_field(reader->path_of("filename"),
                      "want 1 to 255 letters, digits, dots, underscores or hyphens, the first no dot");
}

// All files that cannot be used are the client's choice: 400. A file that cannot be written, or read for want of
// memory, is not.
FieldError file_error(const Error& error) {
  FieldError refusal = field_error_of(error, "filename");
  const bool is_servers =
      error.code() == ErrorCode::io || error.code() == ErrorCode::out_of_memory || error.code() == ErrorCode::internal;
  if (is_servers) return refusal;
  return {.message = std::move(refusal.message), .param = "filename"};
}

enum class SlotAction : uint8_t { save, restore };

// Answers once the action is done.
SlotFileDone answer_when_done(const std::shared_ptr<Exchange>& exchange, SlotAction action, int32_t slot,
                              const std::string& file) {
  return [exchange, action, slot, file](const Result<SlotFileReport>& report) {
    if (!report) return answer_error(*exchange, file_error(report.error()));
    const bool is_save = action == SlotAction::save;
    std::string answer;
    JsonWriter writer(answer);
    writer.begin_object().member("id_slot", slot).member("filename", file);
    writer.member(is_save ? "n_saved" : "n_restored", report->n_tokens);
    writer.member(is_save ? "n_written" : "n_read", report->n_bytes).key("timings").begin_object();
    writer.member(is_save ? "save_ms" : "restore_ms", report->ms).end_object().end_object();
    exchange->answer({.body = std::move(answer)});
  };
}

FieldResult<> answer_slot_action(const ApiContext& context, ServedModel& model,
                                 const std::shared_ptr<Exchange>& exchange) {
  if (!model.generates()) return std::unexpected(generates_nothing(model));
  const auto slot = read_slot_id(*exchange, model.options().scheduler.n_slots);
  if (!slot) return std::unexpected(slot.error());
  const auto action = exchange->request().query_value("action").value_or("");
  if (action == "save" || action == "restore") {
    if (context.storage() == nullptr || context.storage()->slots() == nullptr)
      return std::unexpected(not_supported_error("slots action", "--slot-save-path"));
    const auto file = read_file_name(*exchange);
    if (!file) return std::unexpected(file.error());
    if (action == "save") {
      model.scheduler().save_slot(*slot, *file, answer_when_done(exchange, SlotAction::save, *slot, *file));
    } else {
      model.scheduler().restore_slot(*slot, *file, answer_when_done(exchange, SlotAction::restore, *slot, *file));
    }
    return {};
  }
  if (action != "erase")
    return std::unexpected(
        FieldError{.message = fmt::format("Invalid action {}: want save, restore or erase", text::quote_text(action))});
  model.scheduler().erase(*slot, [exchange, slot = *slot](int64_t n_erased) {
    std::string answer;
    JsonWriter(answer).begin_object().member("id_slot", slot).member("n_erased", n_erased).end_object();
    exchange->answer({.body = std::move(answer)});
  });
  return {};
}

// --- POST /cache

// Others' work is lost, so a client without a key must be on this machine.
FieldResult<> answer_cache_action(ServedModel& model, const std::shared_ptr<Exchange>& exchange) {
  if (!model.generates()) return std::unexpected(generates_nothing(model));
  const Client& client = exchange->request().client;
  if (!client.has_key && !client.is_on_loopback)
    return std::unexpected(FieldError{.status = 403,
                                      .type = "permission_error",
                                      .message = "The cache is for clients with a key or on this machine"});
  const auto action = exchange->request().query_value("action").value_or("");
  if (action != "clear")
    return std::unexpected(
        FieldError{.message = fmt::format("Invalid action {}: want clear", text::quote_text(action))});
  model.scheduler().clear_cache([exchange](const ClearedCache& cleared) {
    std::string answer;
    JsonWriter writer(answer);
    writer.begin_object().member("success", true).member("n_blocks", cleared.n_blocks);
    writer.member("n_files", cleared.n_files).end_object();
    exchange->answer({.body = std::move(answer)});
  });
  return {};
}

}  // namespace

FieldError not_supported_error(std::string_view endpoint, std::string_view flag) {
  return {.status = 501,
          .type = "not_supported_error",
          .message = fmt::format("This server does not support {}. Start it with `{}`", endpoint, flag)};
}

void add_slot_routes(Router& router, ApiContext& context) {
  RouteAdder routes(router, context);
  routes.add("GET", {"/slots"}, [&context](ServedModel& model, const auto& exchange) -> FieldResult<> {
    if (!context.options().has_slots) return std::unexpected(not_supported_error("slots endpoint", "--slots"));
    return answer_slots(model, exchange);
  });
  routes.add("POST", {"/slots/{}"}, [&context](ServedModel& model, const auto& exchange) {
    return answer_slot_action(context, model, exchange);
  });
  routes.add("POST", {"/cache"},
             [](ServedModel& model, const auto& exchange) { return answer_cache_action(model, exchange); });
}

}  // namespace tessera::server
