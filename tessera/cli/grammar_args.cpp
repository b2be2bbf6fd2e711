#include "tessera/cli/grammar_args.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "tessera/base/file.h"

namespace tessera::cli {
namespace {

namespace grammar = text::grammar;

template <class T, size_t n>
Result<> set_by_name(T& value, std::string_view key, std::string_view name,
                     const std::array<std::string_view, n>& names) {
  const auto found = std::ranges::find(names, name);
  if (found == names.end())
    return fail(ErrorCode::invalid_argument, "{}={}: want one of {}", key, name, fmt::join(names, ", "));
  value = static_cast<T>(found - names.begin());
  return {};
}

}  // namespace

Result<grammar::JsonOutput> json_output_from(std::string_view text) {
  constexpr std::array<std::string_view, 2> kOrders = {"schema", "any"}, kSpellings = {"plain", "any"};
  constexpr std::array<std::string_view, 4> kSpaces = {"none", "one", "model", "any"};
  grammar::JsonOutput output;
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    const size_t equals = part.find('=');
    const std::string_view key = part.substr(0, equals);
    const std::string_view name = equals == std::string_view::npos ? "" : part.substr(equals + 1);
    if (key == "order") {
      TESSERA_TRY(set_by_name(output.order, key, name, kOrders));
    } else if (key == "space") {
      TESSERA_TRY(set_by_name(output.space, key, name, kSpaces));
    } else if (key == "spelling") {
      TESSERA_TRY(set_by_name(output.writing, key, name, kSpellings));
    } else {
      return fail(ErrorCode::invalid_argument, "'{}': want order=..., space=... or spelling=...", part);
    }
    if (comma == std::string_view::npos) return output;
    text.remove_prefix(comma + 1);
  }
}

void GrammarArgs::add_to(FlagTable& table) {
  table.common("--grammar", "GBNF", "grammar that the text must follow", set_string(gbnf));
  table.common("--grammar-file", "FILE", "file with such a grammar", set_string(gbnf_file));
  table.common("--json-schema -j", "JSON", "JSON Schema of the value that the text must be", set_string(schema));
  table.common("--json-schema-file -jf", "FILE", "file with such a schema", set_string(schema_file));
  table.rare("--regex", "PATTERN", "regular expression that the whole text must match", set_string(regex));
  add_json_flags_to(table);
}

void GrammarArgs::add_json_flags_to(FlagTable& table) {
  table.rare(
      "--json-output", "SETTINGS",
      "spelling of JSON: order=schema|any,space=none|one|model|any,spelling=plain|any, of which each may be left out",
      [this](std::string_view text) -> Result<> {
        TESSERA_ASSIGN(output, json_output_from(text));
        return {};
      },
      "order=schema,space=model,spelling=plain");
  table.rare("--no-json-format", "", "treat 'format' in schemas as a comment", set_switch(enforces_formats, false));
}

bool GrammarArgs::is_given() const {
  return !gbnf.empty() || !gbnf_file.empty() || !schema.empty() || !schema_file.empty() || !regex.empty();
}

Result<> GrammarArgs::check() const {
  const std::array all = {&gbnf, &gbnf_file, &schema, &schema_file, &regex};
  if (std::ranges::count_if(all, [](const std::string* text) { return !text->empty(); }) > 1)
    return fail(ErrorCode::invalid_argument,
                "give one of --grammar, --grammar-file, --json-schema, --json-schema-file and --regex");
  return {};
}

Result<std::shared_ptr<const grammar::Grammar>> GrammarArgs::compile(const text::Vocab* vocab) const {
  grammar::FindToken find_token;
  if (vocab != nullptr) find_token = [vocab](std::string_view text) { return vocab->find(text); };
  if (!is_given()) return std::shared_ptr<const grammar::Grammar>();
  std::string source = gbnf + schema + regex;  // at most one is given
  const std::string& file = gbnf_file.empty() ? schema_file : gbnf_file;
  if (!file.empty()) {
    TESSERA_ASSIGN(source, read_file(file, kMaxGrammarBytes));
  }
  const auto compiled = [&] {
    if (!regex.empty()) return grammar::Grammar::from_regex(source);
    if (!schema.empty() || !schema_file.empty())
      return grammar::Grammar::from_json_schema(source, output, enforces_formats);
    return grammar::Grammar::from_gbnf(source, find_token);
  }();
  if (compiled) return *compiled;
  const std::string text = compiled.error().text();
  return fail(ErrorCode::format, "{}", file.empty() ? text : file + ": " + text);
}

}  // namespace tessera::cli
