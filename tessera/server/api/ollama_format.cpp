#include "tessera/server/api/ollama_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tessera/server/api/token_probs.h"
#include "tessera/server/models/catalog.h"

namespace tessera::server {

namespace {

struct DurationUnit {
  std::string_view name;
  double ms;
};
// A name that begins with another one comes before it.
constexpr DurationUnit kUnits[] = {{"ms", 1},    {"us", 1e-3}, {"\u00b5s", 1e-3},  {"\u03bcs", 1e-3},
                                   {"ns", 1e-6}, {"s", 1000},  {"m", 60 * 1000.0}, {"h", 3600 * 1000.0}};

// The milliseconds of a text such as "1h30m", or nothing.
std::optional<double> parse_duration(std::string_view text) {
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  double sum_ms = 0;
  for (bool is_first = true; !text.empty(); is_first = false) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
    if (error != std::errc() || number < 0 || !std::isfinite(number)) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    const bool is_bare = is_first && text.empty();
    const auto unit = std::ranges::find_if(kUnits, [&](const DurationUnit& one) { return text.starts_with(one.name); });
    if (unit == std::end(kUnits) && !is_bare) return std::nullopt;
    sum_ms += number * (is_bare ? 1000 : unit->ms);
    if (!is_bare) text.remove_prefix(unit->name.size());
  }
  return is_negative ? -sum_ms : sum_ms;
}

// Clients take 0 for a field that is absent.
int64_t whole_ns(double ms) { return std::max<int64_t>(1, std::llround(ms * 1e6)); }

}  // namespace

std::string ollama_name(std::string_view name) {
  const std::string_view bare = bare_model_name(name);
  return bare.contains(':') ? std::string(bare) : fmt::format("{}:latest", bare);
}

bool is_ollama_name(const ServedModel& model, std::string_view name) {
  return is_name_of({.name = model.facts().id, .path = model.facts().path, .aliases = model.options().aliases}, name);
}

std::string shown_ollama_name(const ServedModel& model, std::string_view name) {
  return is_ollama_name(model, name) ? std::string(name) : ollama_name(model.facts().id);
}

FieldResult<std::chrono::milliseconds> read_ollama_duration(const Json& value, const FieldPath& path) {
  constexpr std::string_view kForms = "seconds, or a duration such as \"5m\" or \"1h30m\"";
  std::optional<double> ms;
  if (value.is_number()) ms = value.get<double>() * 1000;
  if (value.is_string()) ms = parse_duration(value.get_ref<const std::string&>());
  if (!ms || !std::isfinite(*ms)) return wrong_value(path, value, kForms);
  if (*ms < 0) return std::chrono::milliseconds(-1);
  constexpr double kMostMs = 100.0 * 365 * 24 * 3600 * 1000;  // a longer one has no end
  if (*ms > kMostMs) return std::chrono::milliseconds(-1);
  return std::chrono::milliseconds(std::llround(*ms));
}

void OllamaHead::write(JsonWriter& writer) const {
  writer.member("model", model).member("created_at", rfc3339(std::chrono::system_clock::now()));
}

void OllamaHead::write_end(JsonWriter& writer, const SequenceEnd& end,
                           std::optional<std::span<const int32_t>> context) const {
  const bool is_whole = end.reason == EndReason::eos || end.reason == EndReason::stop_word;
  writer.member("done", true).member("done_reason", is_whole ? "stop" : "length");
  if (context) {
    writer.key("context").begin_array();
    for (const int32_t id : *context) writer.value(id);
    writer.end_array();
  }
  const std::chrono::duration<double, std::milli> total = Clock::now() - received;
  writer.member("total_duration", whole_ns(total.count())).member("load_duration", whole_ns(end.queue_ms));
  writer.member("prompt_eval_count", end.n_prompt).member("prompt_eval_duration", whole_ns(end.prompt_ms));
  writer.member("eval_count", end.n_generated).member("eval_duration", whole_ns(end.generation_ms));
}

void write_ollama_logprobs(JsonWriter& writer, Choice& choice, const text::Tokenizer& tokenizer) {
  if (choice.n_settled_probs == 0) return;
  writer.key("logprobs").begin_array();
  for (const TokenProbs& one : choice.settled_probs()) write_token_probs(writer, one, tokenizer, ProbsForm::raw);
  writer.end_array();
  choice.drop_settled_probs();
}

}  // namespace tessera::server
