// tessera grammar: compiles a grammar and shows its size, or tests texts with grammars.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tessera/base/counted.h"
#include "tessera/base/file.h"
#include "tessera/cli/command.h"
#include "tessera/cli/console.h"
#include "tessera/cli/json_row.h"
#include "tessera/text/chat/json_view.h"
#include "tessera/text/grammar/matcher.h"

namespace tessera::cli {
namespace {

namespace grammar = text::grammar;

constexpr uint64_t kMaxGrammarBytes = uint64_t{1} << 20;

RowJson json_of(const grammar::GrammarError& error) {
  return {{"error", error.message}, {"line", error.line}, {"col", error.column}};
}

class GrammarCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    table.common("--gbnf", "FILE", "grammar in GBNF", set_string(gbnf_));
    table.common("--regex", "PATTERN", "regular expression that the whole text must match", set_string(regex_));
    table.common("--batch", "", "read a JSON object per line from stdin: gbnf or regex, and texts",
                 set_switch(is_batch_));
    return table;
  }

  Result<> check() override {
    const int n_inputs = (gbnf_.empty() ? 0 : 1) + (regex_.empty() ? 0 : 1) + (is_batch_ ? 1 : 0);
    if (n_inputs != 1) return fail(ErrorCode::invalid_argument, "give one of --gbnf, --regex and --batch");
    return {};
  }

  Result<> run(Context& process) override {
    if (is_batch_) return run_batch(process);
    const std::string path = gbnf_;
    std::string source;
    if (!path.empty()) {
      TESSERA_ASSIGN(source, read_file(path, kMaxGrammarBytes));
    }
    const auto compiled = path.empty() ? grammar::Grammar::from_regex(regex_) : grammar::Grammar::from_gbnf(source);
    if (!compiled) return fail(ErrorCode::format, "{}", compiled.error().text());
    const grammar::Rules& rules = (*compiled)->rules();
    return print(fmt::format("{}, {}, {}\n", counted(rules.n_rules(), "rule"), counted(rules.n_states(), "state"),
                             counted((*compiled)->expressions().n_nodes(), "expression")));
  }

 private:
  static Result<> run_batch(const Context& process) { return answer_rows("", process.interrupt, answer_line); }

  static Result<RowJson> answer_line(std::string_view line) {
    TESSERA_ASSIGN(const RowJson json, parse_row(line));
    const JsonRow row(json);
    if (row.has("gbnf") == row.has("regex")) return fail(ErrorCode::format, "gbnf and regex: give one of them");
    TESSERA_ASSIGN(const auto source, row.text(row.has("gbnf") ? "gbnf" : "regex"));
    TESSERA_ASSIGN(const auto texts, row.texts("texts"));
    const auto compiled = row.has("gbnf") ? grammar::Grammar::from_gbnf(source) : grammar::Grammar::from_regex(source);
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

  std::string gbnf_, regex_;
  bool is_batch_ = false;
};

}  // namespace

std::unique_ptr<Command> create_grammar_command() { return std::make_unique<GrammarCommand>(); }

}  // namespace tessera::cli
