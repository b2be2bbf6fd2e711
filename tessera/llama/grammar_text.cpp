#include "tessera/llama/grammar_text.h"

#include "tessera/llama/objects.h"
#include "tessera/text/grammar/matcher.h"
#include "tessera/text/grammar/spelled_grammar.h"

namespace tessera::llama {
namespace {

namespace grammar = text::grammar;

constexpr std::string_view kRootRule = "root";

}  // namespace

Result<GrammarPointer> compile_grammar(const llama_vocab* vocab, const char* source, const char* root) {
  TESSERA_ASSIGN(const std::string_view text, read_text(source, "grammar_str"));
  std::string rules(text);
  const std::string_view start = root == nullptr ? kRootRule : std::string_view(root);
  if (start != kRootRule) rules.append("\nroot ::= ").append(start).append("\n");
  grammar::FindToken find_token;
  if (vocab != nullptr) find_token = [&](std::string_view name) { return vocab->vocab().find(name); };
  auto compiled = grammar::Grammar::from_gbnf(rules, find_token);
  if (!compiled) return fail(ErrorCode::format, "{}", compiled.error().text());
  if (vocab == nullptr) return std::move(*compiled);
  auto spelled = grammar::spelled_by(*vocab->mask(), std::move(*compiled));
  if (!spelled) return fail(ErrorCode::unsupported, "grammar: {}", spelled.error().message);
  return std::move(*spelled);
}

}  // namespace tessera::llama
