#include "tessera/text/grammar/schema/arguments.h"

#include "tessera/text/grammar/schema/schema_rules.h"

namespace tessera::text::grammar {
namespace {

constexpr std::string_view kGemmaQuote = "<|\"|>";
// The names that the readers of these forms read back.
constexpr std::string_view kPythonNames = R"([A-Za-z0-9_.:\u{80}-\u{10FFFF}-]+)";
constexpr std::string_view kGemmaNames = R"([^:,{}\[\]<"\s]+)";

constexpr MemberSyntax kPythonArguments = {
    .open = "(", .close = ")", .quote = "", .name_end = "=", .name_pattern = kPythonNames};
const ValueSyntax kPythonSyntax = {.null_word = "None", .false_word = "False", .true_word = "True"};
const ValueSyntax kGemmaSyntax = {
    .quote = kGemmaQuote, .has_escapes = false, .members = {.quote = "", .name_pattern = kGemmaNames}};

}  // namespace

std::expected<RuleId, GrammarError> add_arguments(const GrammarParts& parts, std::string_view schema,
                                                  ArgumentsForm form, const FindToken& find_control) {
  auto source = SchemaSource::parse(schema);
  if (!source) return std::unexpected(source.error());
  const bool is_gemma = form == ArgumentsForm::gemma;
  const JsonOutput output = {.space = is_gemma ? JsonSpace::none : JsonSpace::model};
  const JsonSpelling spelling(parts.expressions, output, is_gemma ? StringForm::raw : StringForm::json);
  const ValueSyntax& syntax = is_gemma ? kGemmaSyntax : form == ArgumentsForm::python ? kPythonSyntax : kJsonSyntax;
  SchemaRules rules(*source, parts, spelling, {}, syntax, find_control);
  return rules.emitter.emit_members(source->root(), form == ArgumentsForm::python ? kPythonArguments : syntax.members);
}

std::expected<RuleId, GrammarError> add_arguments(const GrammarParts& parts, std::string_view schema,
                                                  const TaggedMembers& form, const FindToken& find_control) {
  auto source = SchemaSource::parse(schema);
  if (!source) return std::unexpected(source.error());
  // The reader does not know strings inside of JSON, so its mark must not be in them.
  ValueSyntax inside;
  inside.excluded = form.reader_end;
  SchemaRules json(*source, parts, JsonSpelling(parts.expressions, {}), {}, inside);
  SchemaRules raw(*source, parts, JsonSpelling(parts.expressions, {}, StringForm::raw), {}, kJsonSyntax, find_control);
  return raw.emitter.emit_members(source->root(), form, json.emitter);
}

}  // namespace tessera::text::grammar
