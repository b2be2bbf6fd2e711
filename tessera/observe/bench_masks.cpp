#include "tessera/observe/bench_masks.h"

#include "tessera/observe/stopwatch.h"
#include "tessera/text/grammar/matcher.h"
#include "tessera/text/grammar/spelled_grammar.h"

namespace tessera::observe {
namespace {

namespace grammar = text::grammar;

/// The mask as a sampler reads it: a list of few tokens, or a bit for each.
void read_mask(grammar::Matcher& matcher, std::vector<uint64_t>& words) {
  const grammar::TokenRow row = matcher.mask();
  words.resize(row.n_words());
  if (!row.is_list()) row.write(words);
}

/// Reads the tokens of a text. Returns whether it is a text of the grammar.
bool read_text(grammar::Matcher& matcher, std::span<const int32_t> tokens, std::vector<uint64_t>& words,
               MaskBenchRow& row) {
  for (const int32_t token : tokens) {
    const bool is_forced = !matcher.forced_text(1).empty();
    const Stopwatch watch;
    if (!matcher.accept_token(token)) return false;
    read_mask(matcher, words);
    row.masks.push_back(watch.microseconds());
    row.n_forced_tokens += is_forced ? 1 : 0;
  }
  return matcher.is_complete();
}

}  // namespace

Result<MaskBenchRow> bench_masks(const MaskBenchCase& test, const grammar::JsonOutput& output,
                                 const text::Tokenizer& tokenizer,
                                 const std::shared_ptr<const grammar::MaskVocab>& vocab) {
  MaskBenchRow row;
  std::vector<uint64_t> words;
  const Stopwatch watch;
  const auto compiled = grammar::Grammar::from_json_schema(test.schema, output);
  row.compile = watch.microseconds();
  if (!compiled) {
    row.refusal = compiled.error().text();
    row.keyword = compiled.error().keyword;
    return row;
  }
  const auto spelled = grammar::spelled_by(*vocab, *compiled);
  if (!spelled) {
    row.refusal = spelled.error().text();
    return row;
  }
  grammar::Matcher matcher(*spelled, vocab);
  read_mask(matcher, words);
  row.first_mask = watch.microseconds();
  for (size_t i = 0; i < test.tests.size(); ++i) {
    const auto& [text, is_valid] = test.tests[i];
    matcher.restart();
    TESSERA_ASSIGN(const auto tokens, grammar::tokens_after(tokenizer, *vocab, "\n", text));
    const bool is_accepted = read_text(matcher, tokens, words, row);
    if (is_accepted == is_valid) continue;
    if (row.n_wrong_accepts + row.n_wrong_rejects == 0) row.first_wrong = i;
    ++(is_accepted ? row.n_wrong_accepts : row.n_wrong_rejects);
  }
  return row;
}

}  // namespace tessera::observe
