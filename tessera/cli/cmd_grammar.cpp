// tessera grammar: compiles a grammar and shows its size, or tests texts with grammars.
#include <fmt/format.h>

#include <chrono>

#include <nlohmann/json.hpp>

#include "tessera/base/counted.h"
#include "tessera/cli/command.h"
#include "tessera/cli/console.h"
#include "tessera/cli/grammar_args.h"
#include "tessera/cli/json_row.h"
#include "tessera/cli/vocab_args.h"
#include "tessera/text/chat/json_view.h"
#include "tessera/text/grammar/dump.h"
#include "tessera/text/grammar/matcher.h"
#include "tessera/text/grammar/spelled_grammar.h"

namespace tessera::cli {
namespace {

namespace grammar = text::grammar;

RowJson json_of(const grammar::GrammarError& error) {
  if (error.is_of_schema) return {{"error", error.message}, {"pointer", error.pointer}, {"keyword", error.keyword}};
  return {{"error", error.message}, {"line", error.line}, {"col", error.column}};
}

class GrammarCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    table.common("--gbnf", "FILE", "file with a grammar in GBNF", set_string(args_.gbnf_file));
    table.common("--schema", "FILE", "file with a JSON Schema", set_string(args_.schema_file));
    table.common("--regex", "PATTERN", "regular expression that the whole text must match", set_string(args_.regex));
    table.common("--batch", "",
                 "read a JSON object per line from stdin: gbnf, schema or regex, and texts; order, space, spelling and "
                 "format as of --json-output and --no-json-format",
                 set_switch(is_batch_));
    table.common("-m --model", "FILE",
                 "model whose vocabulary must be able to write the texts; also knows tokens by text",
                 set_string(vocab_.path));
    table.common("--dump", "", "print the compiled rules", set_switch(has_dump_));
    args_.add_json_flags_to(table);
    return table;
  }

  Result<> check() override {
    TESSERA_TRY(args_.check());
    if (args_.is_given() == is_batch_)
      return fail(ErrorCode::invalid_argument, "give one of --gbnf, --schema, --regex and --batch");
    if (is_batch_ && (has_dump_ || !vocab_.path.empty()))
      return fail(ErrorCode::invalid_argument, "--batch: takes no --dump and no -m");
    return {};
  }

  Result<> run(Context& process) override {
    if (is_batch_) return answer_rows("", process.interrupt, answer_line);
    std::unique_ptr<const text::Tokenizer> tokenizer;
    if (!vocab_.path.empty()) {
      TESSERA_ASSIGN(tokenizer, vocab_.open(process));
    }
    const auto start = std::chrono::steady_clock::now();
    TESSERA_ASSIGN(const auto compiled, args_.compile(tokenizer ? &tokenizer->vocab() : nullptr));
    const std::chrono::duration<double, std::milli> time = std::chrono::steady_clock::now() - start;
    const grammar::Rules& rules = compiled->rules();
    std::string text = has_dump_ ? grammar::dump(*compiled) : "";
    text += fmt::format("{}{}, {}, {}, {:.1f} ms\n", has_dump_ ? "# " : "", counted(rules.n_rules(), "rule"),
                        counted(rules.n_states(), "state"), counted(compiled->expressions().n_nodes(), "expression"),
                        time.count());
    if (tokenizer) {
      const auto vocab = grammar::MaskVocab::create(*tokenizer, tokenizer->vocab().n_tokens());
      const auto spelled = grammar::spelled_by(*vocab, compiled);
      if (!spelled) return fail(ErrorCode::unsupported, "grammar: {}", spelled.error().message);
      const size_t n_first = grammar::Matcher(*spelled, vocab).mask().size();
      text += fmt::format("{}{} can begin a text\n", has_dump_ ? "# " : "", counted(n_first, "token"));
    }
    return print(text);
  }

 private:
  static Result<grammar::GrammarResult> compile(const JsonRow& row) {
    if (row.has("schema")) {
      std::string settings;
      for (const char* key : {"order", "space", "spelling"}) {
        TESSERA_ASSIGN(const std::string name, row.text(key));
        if (!name.empty()) settings += fmt::format("{}{}={}", settings.empty() ? "" : ",", key, name);
      }
      grammar::JsonOutput output;
      if (!settings.empty()) {
        TESSERA_ASSIGN(output, json_output_from(settings));
      }
      TESSERA_ASSIGN(const bool enforces_formats, row.boolean("format", true));
      return grammar::Grammar::from_json_schema(row.at("schema").dump(), output, enforces_formats);
    }
    TESSERA_ASSIGN(const auto source, row.text(row.has("gbnf") ? "gbnf" : "regex"));
    return row.has("gbnf") ? grammar::Grammar::from_gbnf(source) : grammar::Grammar::from_regex(source);
  }

  static Result<RowJson> answer_line(std::string_view line) {
    TESSERA_ASSIGN(const RowJson json, parse_row(line));
    const JsonRow row(json);
    const int n_sources = (row.has("gbnf") ? 1 : 0) + (row.has("schema") ? 1 : 0) + (row.has("regex") ? 1 : 0);
    if (n_sources != 1) return fail(ErrorCode::format, "gbnf, schema and regex: give one of them");
    TESSERA_ASSIGN(const auto texts, row.texts("texts"));
    TESSERA_ASSIGN(const grammar::GrammarResult compiled, compile(row));
    if (!compiled) return json_of(compiled.error());
    RowJson accepted = RowJson::array(), prefix = RowJson::array();
    grammar::Matcher matcher(*compiled);
    for (const std::string& text : texts) {
      matcher.restart();
      const size_t n_bytes = matcher.accept(text);
      accepted.push_back(n_bytes == text.size() && matcher.is_complete());
      prefix.push_back(n_bytes);
    }
    if (matcher.overflowed()) return fail(ErrorCode::limit, "the grammar needs more states than the limits allow");
    return RowJson{{"accepted", std::move(accepted)}, {"prefix", std::move(prefix)}};
  }

  GrammarArgs args_;
  VocabArgs vocab_;
  bool is_batch_ = false;
  bool has_dump_ = false;
};

}  // namespace

std::unique_ptr<Command> create_grammar_command() { return std::make_unique<GrammarCommand>(); }

}  // namespace tessera::cli
