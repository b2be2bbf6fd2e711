// One function per key that is more than a number or a flag. Their order is that of fields.def.
#include "tessera/server/json/generation_settings.h"

#include <string>

#include "tessera/sample/order.h"

namespace tessera::server {
namespace {

enum class Shown : uint8_t { both, answer, none };

struct SettingsSource {
  const GenerationFields& fields;
  const SettingsContext& context;
};

void write_list(JsonWriter& writer, const std::vector<std::string>& texts) {
  writer.begin_array();
  for (const std::string& text : texts) writer.value(text);
  writer.end_array();
}

void write_dry_sequence_breakers(JsonWriter& writer, const SettingsSource& from) {
  write_list(writer, from.fields.sampling.dry_sequence_breakers);
}
void write_stop(JsonWriter& writer, const SettingsSource& from) { write_list(writer, from.fields.stop); }
void write_max_tokens(JsonWriter& writer, const SettingsSource& from) { writer.value(from.fields.n_predict); }
void write_logit_bias(JsonWriter& writer, const SettingsSource& from) {
  writer.begin_array();
  for (const sample::LogitBias& entry : from.context.logit_bias)
    writer.begin_object().member("bias", entry.bias).member("token", entry.id).end_object();
  writer.end_array();
}
void write_grammar_lazy(JsonWriter& writer, const SettingsSource& from) { writer.value(from.context.grammar_lazy); }
void write_grammar_triggers(JsonWriter& writer, const SettingsSource&) { writer.raw("[]"); }
void write_preserved_tokens(JsonWriter& writer, const SettingsSource&) { writer.raw("[]"); }
void write_chat_format(JsonWriter& writer, const SettingsSource& from) { writer.value(from.context.chat_format); }
void write_reasoning_format(JsonWriter& writer, const SettingsSource& from) {
  writer.value(from.context.reasoning_format);
}
void write_reasoning_in_content(JsonWriter& writer, const SettingsSource&) { writer.value(false); }
void write_generation_prompt(JsonWriter& writer, const SettingsSource& from) {
  writer.value(from.context.generation_prompt);
}
void write_samplers(JsonWriter& writer, const SettingsSource& from) {
  writer.begin_array();
  for (const sample::SamplerKind kind : from.fields.sampling.order)
    writer.value(sample::sampler_table()[static_cast<size_t>(kind)].name);
  writer.end_array();
}
void write_speculative_types(JsonWriter& writer, const SettingsSource&) { writer.value("none"); }
void write_backend_sampling(JsonWriter& writer, const SettingsSource&) { writer.value(false); }
void write_lora(JsonWriter& writer, const SettingsSource& from) {
  writer.begin_array();
  for (const LoraScale& lora : from.fields.lora.value_or(std::vector<LoraScale>()))
    writer.begin_object().member("id", lora.id).member("scale", lora.scale).end_object();
  writer.end_array();
}

/// The value of a member in the object: the context's where it has one of its own.
template <class T>
const T& shown_value(const T& value, std::string_view, const SettingsContext&) {
  return value;  // NOLINT(bugprone-return-const-ref-from-parameter): it is a field
}
const int64_t& shown_value(const int64_t& value, std::string_view member, const SettingsContext& context) {
  return member == "seed" ? context.seed : value;
}
std::string_view shown_value(const std::string& value, std::string_view member, const SettingsContext& context) {
  return member == "grammar" ? context.grammar : std::string_view(value);
}

constexpr bool is_shown(Shown shown, SettingsPlace place) {
  return shown == Shown::both || (shown == Shown::answer && place == SettingsPlace::answer);
}

}  // namespace

void write_generation_settings(JsonWriter& writer, const GenerationFields& fields, const SettingsContext& context,
                               SettingsPlace place) {
  const SettingsSource from{fields, context};
  writer.begin_object();
#define TESSERA_FIELD(where, type, variable, name, initial, min, max, aliases, dialects, help) \
  if (is_shown(Shown::where, place)) writer.member(name, shown_value(fields.variable, #variable, context));
#define TESSERA_SAMPLING_FIELD(where, variable, name, min, max, aliases, dialects, help) \
  if (is_shown(Shown::where, place)) writer.member(name, shown_value(fields.sampling.variable, #variable, context));
#define TESSERA_SPECIAL_FIELD(where, variable, name, wants, aliases, dialects, help) \
  TESSERA_WRITE_##where(variable, name)
#define TESSERA_SETTING(where, variable, name) TESSERA_WRITE_##where(variable, name)
#define TESSERA_WRITE_none(variable, name)
#define TESSERA_WRITE_both(variable, name) \
  writer.key(name);                        \
  write_##variable(writer, from);
#define TESSERA_WRITE_answer(variable, name) \
  if (place == SettingsPlace::answer) {      \
    writer.key(name);                        \
    write_##variable(writer, from);          \
  }
#include "tessera/server/json/fields.def"
#undef TESSERA_WRITE_none
#undef TESSERA_WRITE_both
#undef TESSERA_WRITE_answer
  writer.end_object();
}

}  // namespace tessera::server
