#include "tessera/server/api/native_object.h"

#include <utility>

#include "tessera/server/json/generation_settings.h"
#include "tessera/text/detokenize.h"
#include "tessera/text/utf8.h"

namespace tessera::server {

NativeFacts native_facts(const ServedModel& model, const GenerationFields& fields, std::vector<std::string> prompts) {
  NativeFacts facts{.prompts = std::move(prompts)};
  const auto biases = token_biases(model, fields).value_or(std::vector<sample::LogitBias>());
  JsonWriter writer(facts.settings);
  write_generation_settings(writer, fields,
                            {.seed = fields.sampling.seed, .logit_bias = biases, .grammar = fields.grammar},
                            SettingsPlace::answer);
  return facts;
}

FieldResult<std::vector<std::string>> shown_texts(const ServedModel& model,
                                                  std::span<const std::vector<int32_t>> prompts) {
  std::vector<std::string> texts;
  for (const std::vector<int32_t>& prompt : prompts) {
    auto text = text::detokenize(model.tokenizer(), prompt, {.render_special = true});
    if (!text) return std::unexpected(field_error_of(text.error(), "prompt"));
    texts.push_back(text::to_valid_utf8(*text));
  }
  return texts;
}

void write_native_members(JsonWriter& writer, const ServedModel& model, const GenerationFields& fields,
                          const Choice& choice, const NativeFacts& facts) {
  const SequenceEnd& end = *choice.end;
  const bool is_word = end.reason == EndReason::stop_word, is_eos = end.reason == EndReason::eos;
  writer.member("index", choice.index).member("content", choice.text);
  writer.key("tokens").begin_array();
  for (const int32_t token : choice.tokens) writer.value(token);
  writer.end_array();
  writer.member("id_slot", choice.slot).member("stop", true).member("model", model.facts().id);
  writer.member("tokens_predicted", end.n_generated).member("tokens_evaluated", end.n_prompt);
  writer.key("generation_settings").raw(facts.settings);
  writer.member("prompt", facts.prompts[choice.index / static_cast<size_t>(fields.n_choices)]);
  writer.member("has_new_line", choice.has_new_line);
  writer.member("truncated", end.reason == EndReason::context_full || end.is_shifted);
  writer.member("stop_type", is_eos ? "eos" : is_word ? "word" : "limit");
  writer.member("stopping_word", end.stopping_word).member("tokens_cached", end.n_stored);
  writer.key("timings");
  write_timings(writer, timings_of(end));
}

void write_verbose_object(JsonWriter& writer, const ServedModel& model, const GenerationFields& fields,
                          const Choice& choice, const NativeFacts& facts) {
  writer.key("__verbose").begin_object();
  write_native_members(writer, model, fields, choice, facts);
  writer.end_object();
}

}  // namespace tessera::server
