// Masks of grammars: the tokens that fit, against those that brute force finds.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>
#include <tuple>

#include "tessera/base/rng.h"
#include "tessera/text/grammar/matcher.h"
#include "tessera/text/grammar/spelled_grammar.h"
#include "tessera/text/grammar/token_masks.h"
#include "tests/support/testing.h"
#include "tests/text/grammar_support.h"

namespace tessera::text::grammar {
namespace {

using nlohmann::json;
using testing::error_of;
using testing::ids_of;
using testing::vocab_of;

constexpr int32_t kEnd = 0, kControl = 1;

/// All parts of the texts with 2 to 12 bytes, and a few long ones.
void add_parts(const std::string& text, std::set<std::string>& parts) {
  for (size_t i = 0; i < std::min<size_t>(text.size(), 200); ++i)
    for (const size_t n : {2, 3, 4, 5, 8, 12}) parts.insert(text.substr(i, n));
  parts.insert(text.substr(0, 60));
}

std::vector<int32_t> fitting_by_force(const Matcher& matcher, const MaskVocab& vocab) {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < static_cast<int32_t>(vocab.n_tokens()); ++id)
    if (matcher.fork().accept_token(id)) ids.push_back(id);
  return ids;
}

/// Goes through a text by tokens that are drawn from those that fit, and compares each mask. Returns their number.
size_t walk(Matcher matcher, const MaskVocab& vocab, std::string_view text, Rng& rng, bool may_end_early = false) {
  for (size_t n_masks = 1;; ++n_masks) {
    const TokenRow row = matcher.mask();
    const std::vector<int32_t> ids = ids_of(row);
    EXPECT_EQ(ids, fitting_by_force(matcher, vocab)) << "before \"" << text << "\"";
    std::vector<int32_t> next;
    for (const int32_t id : ids) {
      EXPECT_TRUE(row.contains(id));
      const MaskVocab::Token& token = vocab.token(id);
      if (!token.ends_text && !token.text.empty() && text.starts_with(token.text)) next.push_back(id);
    }
    if (next.empty() || ::testing::Test::HasFailure()) {
      EXPECT_TRUE(text.empty() || may_end_early) << text;
      return n_masks;
    }
    const int32_t id = next[rng.next_u32() % next.size()];
    EXPECT_TRUE(matcher.accept_token(id));
    text.remove_prefix(vocab.token(id).text.size());
  }
}

TEST(TokenMask, EqualsBruteForceOnGoldenGrammars) {
  std::ifstream file(testing::data_path("grammars.jsonl"));
  Rng rng(7);
  size_t n_masks = 0;
  for (std::string line; std::getline(file, line);) {
    const json row = json::parse(line);
    if (row.contains("error")) continue;
    SCOPED_TRACE(row["id"]);
    const GrammarResult grammar = Grammar::from_gbnf(row["grammar"].get<std::string>());
    ASSERT_TRUE(grammar);
    std::set<std::string> parts = {"ab", "}\n", "\"}", "  ", "\xc3\xa9"};
    for (const char* kind : {"accept", "reject", "prefix"})
      for (const std::string text : row[kind]) add_parts(text, parts);
    const auto vocab = vocab_of(parts);
    for (const std::string text : row["accept"])
      if (text.size() < 100) n_masks += walk(Matcher(*grammar, vocab), *vocab, text, rng);
    if (HasFailure()) return;
  }
  EXPECT_GT(n_masks, 400u);
}

TEST(TokenMask, EqualsBruteForceOnRealSchemas) {
  TESSERA_SHARED_OR_SKIP(path, "golden/json-schema/real.jsonl");
  std::ifstream file(path);
  Rng rng(7);
  size_t n_schemas = 0, n_masks = 0, n_lines = 0;
  const size_t n_wanted = testing::all_or_few<size_t>(200, 40);
  for (std::string line; n_schemas < n_wanted && std::getline(file, line); ++n_lines) {
    if (n_lines % (1600 / n_wanted) != 0) continue;
    const json row = json::parse(line);
    SCOPED_TRACE(row["name"]);
    const GrammarResult grammar = Grammar::from_json_schema(row["schema"].dump());
    if (!grammar) continue;
    std::vector<std::string> texts;
    std::set<std::string> parts = {"\",", "\":",  "\"}", "\"},", "\": \"", "\", \"",
                                   "  ",  "\n  ", "]}",  "}}",   "ab\":",  "é"};
    for (const json& test : row["tests"])
      if (texts.push_back(test["data"].dump()); texts.size() < 3) add_parts(texts.back(), parts);
    const auto vocab = vocab_of(parts);
    ++n_schemas;
    for (const std::string& text : texts)
      if (text.size() < 300) n_masks += walk(Matcher(*grammar, vocab), *vocab, text, rng, true);
    if (HasFailure()) return;
  }
  EXPECT_GT(n_masks, n_wanted * 25);
}

// Names and items that may not come again, members in any order, and conditions on some item.
TEST(TokenMask, EqualsBruteForceWhereValuesMayNotRepeat) {
  struct Case {
    std::string schema, text;
  };
  const Case cases[] = {
      {R"({"additionalProperties": {"type": "integer"}})", R"({"a":1,"ab":2,"b":3})"},
      {R"({"properties": {"a": {}, "b": {"type": "integer"}}, "required": ["b"], "maxProperties": 3})",
       R"({"b":1,"a":[2],"c":3})"},
      {R"({"type": "array", "uniqueItems": true, "items": {"enum": ["a", "ab", "b", 1, true]}, "minItems": 3})",
       R"(["ab","a",1])"},
      {R"({"type": "array", "uniqueItems": true, "items": {"type": ["string", "integer"]}})", R"(["a","aa",1,11])"},
      {R"({"type": "array", "contains": {"const": 1}, "minContains": 2, "maxContains": 2, "maxItems": 4})",
       R"([0,1,"b",1])"},
      {R"({"not": {"additionalProperties": {"type": "integer"}}, "type": "object"})", R"({"a":1,"b":"a"})"},
  };
  Rng rng(5);
  for (const JsonOrder order : {JsonOrder::schema, JsonOrder::any})
    for (const Case& c : cases) {
      SCOPED_TRACE(c.schema);
      const GrammarResult grammar = Grammar::from_json_schema(c.schema, {.order = order});
      ASSERT_TRUE(grammar) << grammar.error().text();
      std::set<std::string> parts = {"\",\"", "\":", "a\":1,\"a\"", "a\",\"a\"", "\":1,\"a\":", "1,1", "b\",\"ab\"]"};
      add_parts(c.text, parts);
      const auto vocab = vocab_of(parts);
      for (int round = 0; round < 4; ++round)
        walk(Matcher(*grammar, vocab), *vocab, c.text, rng, order == JsonOrder::schema);
    }
}

// Masks in counted texts are made from those of texts that are not counted. They differ near the bounds.
TEST(TokenMask, EqualsBruteForceWhereTextsAreCounted) {
  struct Case {
    std::string pattern;
    std::vector<std::string> texts;
  };
  const Case cases[] = {
      {"[ -~]{6,20}", {"abcdef", "a b c d e f g h i j "}},
      {"([ -~]{6,20};){2}", {"abcdef;0123456789;"}},
      {"(?=[ -~]{0,24}$)[^ ]+( [^ ]+)*", {"abc", "ab cde f ghijklm nopq rs"}},
      {"(?=[ -~]{5,24}$)[^ ]+( [^ ]+)*", {"abcde", "ab cde f ghijklm nopq rs"}},
      {"(?=[ -~]{0,20}$)[ -~]*;0;1;2", {"abcdefghi;0;1;2", ";0;1;2"}},
      {"(?![ -~]{0,12}$)[ -~]*", {"0123456789abc", "0123456789abcdefg"}},
      {"(?=[a-zA-Z0-9-]{0,30}$)[a-zA-Z0-9]([a-zA-Z0-9-]{0,14}[a-zA-Z0-9])?x", {"a-b-c-d-e-f-g-x"}},
  };
  Rng rng(3);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.pattern);
    const GrammarResult grammar = Grammar::from_regex(c.pattern);
    ASSERT_TRUE(grammar) << grammar.error().text();
    std::set<std::string> parts = {"ab", "a b", ";a", "a;", "x;abc", " ", "  ", "é", "0123456789abcdefghijklmnopqrs"};
    for (const std::string& text : c.texts) add_parts(text, parts);
    const auto vocab = vocab_of(parts);
    for (const std::string& text : c.texts)
      for (int round = 0; round < 6; ++round) walk(Matcher(*grammar, vocab), *vocab, text, rng);
  }
}

std::shared_ptr<const Grammar> gbnf(std::string_view source) {
  const GrammarResult grammar = Grammar::from_gbnf(source);
  EXPECT_TRUE(grammar) << grammar.error().text();
  return grammar.value_or(nullptr);
}

TEST(TokenMask, EndTokensFitWhereTheTextMayEnd) {
  const auto vocab = vocab_of({"ab"});
  Matcher matcher(gbnf("root ::= \"ab\" \"c\"?"), vocab);
  EXPECT_FALSE(matcher.mask().contains(kEnd));
  EXPECT_FALSE(matcher.accept_token(kEnd));
  const auto ab = static_cast<int32_t>(vocab->n_tokens() - 1);
  EXPECT_TRUE(matcher.accept_token(ab));
  EXPECT_TRUE(matcher.is_complete() && matcher.goes_on());
  EXPECT_EQ(ids_of(matcher.mask()), (std::vector<int32_t>{kEnd, 2 + 'c'}));
  EXPECT_TRUE(matcher.accept_token(kEnd));
  EXPECT_TRUE(matcher.is_complete());
  EXPECT_FALSE(matcher.goes_on());
  EXPECT_TRUE(matcher.mask().is_empty());
  EXPECT_FALSE(matcher.accept_token(2 + 'c'));
  EXPECT_EQ(matcher.accept("c"), 0u);
  matcher.rollback(1);
  EXPECT_TRUE(matcher.accept_token(2 + 'c'));
  EXPECT_FALSE(matcher.accept_token(static_cast<int32_t>(vocab->n_tokens())));
  EXPECT_FALSE(matcher.accept_token(-1));
}

TEST(TokenMask, TokensByIdFitAtTheirEdges) {
  const auto vocab = vocab_of({"ab"});
  Matcher one(gbnf("root ::= (<[1]> | \"a\") \"b\""), vocab);
  EXPECT_EQ(ids_of(one.mask()), (std::vector<int32_t>{kControl, 2 + 'a', 258}));
  EXPECT_TRUE(one.accept_token(kControl));
  EXPECT_EQ(ids_of(one.mask()), std::vector<int32_t>{2 + 'b'});
  EXPECT_FALSE(one.accept_token(kControl));
  // All tokens but one and those that end a text.
  Matcher other(gbnf("root ::= !<[1]> \"b\""), vocab);
  const std::vector<int32_t> ids = ids_of(other.mask());
  EXPECT_EQ(ids.size(), vocab->n_tokens() - 2);
  EXPECT_EQ(ids, fitting_by_force(other, *vocab));
  EXPECT_EQ(ids.front(), 2);
  // A token that fits by its id and by its text.
  Matcher both(gbnf("root ::= <[99]> \"x\" | \"a\" \"y\""), vocab);
  EXPECT_EQ(vocab->token(99).text, "a");
  EXPECT_TRUE(both.accept_token(99));
  EXPECT_EQ(ids_of(both.mask()), (std::vector<int32_t>{2 + 'x', 2 + 'y'}));
}

/// Tokens that are drawn from those that fit, until the text ends. Returns nothing if no token fits.
std::optional<std::string> random_text(Matcher matcher, const MaskVocab& vocab, Rng& rng) {
  std::string text;
  while (text.size() < 400) {
    const std::vector<int32_t> ids = ids_of(matcher.mask());
    if (ids.empty()) return std::nullopt;
    const int32_t id = ids[rng.next_u32() % ids.size()];
    EXPECT_TRUE(matcher.accept_token(id));
    if (vocab.token(id).ends_text) return text;
    text += vocab.token(id).text;
  }
  return text;
}

TEST(TokenMask, NeverStuckWhereBytesAreNoTokens) {
  std::vector<MaskVocab::Token> tokens = {{.text = "</s>", .ends_text = true}};
  for (const char* text : {"a",   "b", "é", "\xc3", "\xe2\x82", "ab", "ac",   "az",  "a\xc3", "{",   "}", "\"",
                           "\":", ":", "1", "12",   "[",        "]",  "a\":", "x\"", "\\",    "\"é", "éa"})
    tokens.push_back({text});
  const auto vocab = std::make_shared<const MaskVocab>(std::move(tokens));
  const GrammarResult grammars[] = {
      Grammar::from_regex("[a-zé€]{1,9}"), Grammar::from_json_schema(R"({"type": "object", "minProperties": 1})"),
      Grammar::from_json_schema(R"({"type": "array", "items": {"type": ["integer", "string"]}, "uniqueItems": true})")};
  Rng rng(1);
  for (const GrammarResult& grammar : grammars) {
    ASSERT_TRUE(grammar);
    const GrammarResult spelled = spelled_by(*vocab, *grammar);
    ASSERT_TRUE(spelled) << spelled.error().text();
    std::set<std::string> texts;
    for (int i = 0; i < 200; ++i) {
      const auto text = random_text(Matcher(*spelled, vocab), *vocab, rng);
      ASSERT_TRUE(text);
      EXPECT_EQ(Matcher(*grammar).accept(*text), text->size()) << *text;
      texts.insert(*text);
    }
    EXPECT_GT(texts.size(), 20u);
  }
  const Matcher matcher(*spelled_by(*vocab, *grammars[0]), vocab);
  EXPECT_EQ(matcher.fork().accept("abéba"), 6u);
  EXPECT_EQ(matcher.fork().accept("ac"), 1u);
  EXPECT_EQ(error_of(spelled_by(*vocab, *Grammar::from_regex("a+c"))),
            "grammar: 1:1: with the characters of the vocabulary, the rule has no finite text");
  EXPECT_EQ(spelled_by(*vocab_of({}), *grammars[0]).value(), *grammars[0]);
}

// After "/" the text ends, though it goes on after each other character.
TEST(TokenMask, NothingFollowsALexemeThatMustEnd) {
  const auto vocab = vocab_of({"/-", "/!", "a-", "a!"});
  const GrammarResult grammar = Grammar::from_regex("/|[ -.0-~][ -~]*!");
  ASSERT_TRUE(grammar);
  const Matcher matcher(*grammar, vocab);
  EXPECT_EQ(ids_of(matcher.fork().mask()), fitting_by_force(matcher, *vocab));
}

TEST(TokenMask, ForksAndRollbacksKeepTheirOwnTexts) {
  const auto vocab = vocab_of({});
  Matcher matcher(gbnf("root ::= [ab]{3}"), vocab);
  for (const char c : std::string_view("ab")) EXPECT_TRUE(matcher.accept_token(2 + c));
  Matcher fork = matcher.fork();
  EXPECT_EQ(fork.accept("a"), 1u);
  EXPECT_TRUE(fork.is_complete());
  EXPECT_FALSE(matcher.is_complete());
  matcher.rollback(2);
  EXPECT_EQ(matcher.accept("aba"), 3u);
  matcher.rollback(9);
  EXPECT_EQ(matcher.accept("abab"), 3u);
  EXPECT_TRUE(fork.is_complete());
  fork.restart();
  EXPECT_EQ(ids_of(fork.mask()), (std::vector<int32_t>{2 + 'a', 2 + 'b'}));
}

TEST(TokenMask, ForcedTextEndsWhereThereIsAChoice) {
  const auto forced = [](std::string_view source, std::string_view text, size_t n) {
    Matcher matcher(gbnf(source));
    EXPECT_EQ(matcher.accept(text), text.size());
    return matcher.forced_text(n);
  };
  EXPECT_EQ(forced("root ::= \"name: \" [ab]", "", 100), "name: ");
  EXPECT_EQ(forced("root ::= \"name: \" [ab]", "na", 100), "me: ");
  EXPECT_EQ(forced("root ::= \"name: \" [ab]", "", 3), "nam");
  EXPECT_EQ(forced("root ::= \"ab\" (\"cd\" \"ef\")?", "", 100), "ab");
  EXPECT_EQ(forced("root ::= \"ab\" (\"cd\" \"ef\")?", "abc", 100), "def");
  EXPECT_EQ(forced("root ::= \"ab\" <[7]>", "", 100), "ab");
  EXPECT_EQ(forced("root ::= \"ab\"", "ab", 100), "");
}

// A matcher that has seen many states drops those that its text does not need.
TEST(TokenMask, LongTextsKeepTheirMasks) {
  const auto vocab = vocab_of({"ab", "a)"});
  Matcher matcher(gbnf("root ::= (\"(\" [ab]{2,1000000} \")\"){2} end\nend ::= \"[\" end \"]\" | \"!\""), vocab);
  const std::string first = "(" + std::string(150'000, 'a') + ")(";
  EXPECT_EQ(matcher.accept(first), first.size());
  const Matcher before = matcher.fork();
  const std::string second(150'000, 'b');
  EXPECT_EQ(matcher.accept(second), second.size());
  EXPECT_EQ(ids_of(matcher.mask()), fitting_by_force(matcher, *vocab));
  EXPECT_EQ(ids_of(matcher.mask()), (std::vector<int32_t>{2 + ')', 2 + 'a', 2 + 'b', 258, 259}));
  EXPECT_EQ(matcher.accept(")[[!]]"), 6u);
  EXPECT_TRUE(matcher.is_complete());
  matcher.rollback(2);
  EXPECT_EQ(ids_of(matcher.mask()), (std::vector<int32_t>{2 + 'a', 2 + 'b', 259}));
  EXPECT_FALSE(before.is_complete());
  EXPECT_FALSE(matcher.overflowed());
}

// Each character of a counted text is a state of its own. Its tokens are those of two sets, so no row is shared.
TEST(TokenMask, KeptMasksHaveALimitOfMemory) {
  std::vector<MaskVocab::Token> tokens = {{.text = "a"}, {.text = "b"}};
  while (tokens.size() < 400'000) tokens.push_back({});
  const auto vocab = std::make_shared<const MaskVocab>(std::move(tokens));
  const auto grammar = gbnf("root ::= ([ab]{1,2000} (!<[0]> \"a\" | !<[1]>))*");
  ExpressionArena arena = grammar->expressions();
  LexemeStates lexemes(arena, grammar->lexemes(), 10'000);
  ParserStates states(grammar->rules(), lexemes, arena);
  TokenMasks masks(grammar->rules(), arena, lexemes, states, *vocab);
  ParserStates::State state = states.start();
  size_t most = 0;
  bool is_dropped = false;
  for (int i = 0; i < 1000; ++i) {
    state = states.next(state, "a");
    const size_t before = masks.n_bytes();
    ASSERT_EQ(masks.of(state).size(), 400'000u);
    most = std::max(most, masks.n_bytes());
    is_dropped |= masks.n_bytes() < before;
  }
  EXPECT_TRUE(is_dropped);
  EXPECT_GT(most, TokenMasks::kMaxBytes);
  EXPECT_LT(most, TokenMasks::kMaxBytes + 1'000'000);
}

TEST(TokenMask, SearchesAreNeededForNewLexemesOnly) {
  const auto vocab = vocab_of({"ab"});
  Matcher matcher(gbnf("root ::= [ab]* [0-9]"), vocab);
  EXPECT_TRUE(matcher.needs_search());
  Matcher fork = matcher.fork();
  fork.mask();
  EXPECT_FALSE(matcher.needs_search());
  EXPECT_EQ(fork.accept("ab"), 2u);
  EXPECT_FALSE(fork.needs_search());  // the same lexeme
  EXPECT_EQ(fork.accept("1"), 1u);
  EXPECT_FALSE(fork.needs_search());  // no lexeme
  EXPECT_FALSE(Matcher(gbnf("root ::= [ab]")).needs_search());
}

// Each grammar finds what others have found about its lexemes in the cache of the vocabulary.
TEST(TokenMask, MasksAreTheSameForAnyStateOfTheCache) {
  const std::vector<std::string> schemas = {
      R"({"type": "string", "maxLength": 30})", R"({"type": "string", "minLength": 2, "maxLength": 9})",
      R"({"type": "object", "properties": {"name": {"type": "string"}, "names": {"type": "integer"}}})",
      R"({"type": "array", "items": {"type": "string", "pattern": "^[a-z]{2,40}$"}})"};
  const std::string text = R"(["name","na\u00e9me",{"name":"names and names","other":[1,"x"]}])";
  std::set<std::string> parts;
  add_parts(text, parts);
  const auto shared = vocab_of(parts);
  for (int round = 0; round < 2; ++round)
    for (const std::string& schema : schemas) {
      const GrammarResult grammar = Grammar::from_json_schema(schema);
      ASSERT_TRUE(grammar) << grammar.error().text();
      Matcher with(*grammar, shared), alone(*grammar, vocab_of(parts));
      for (const char c : std::string_view(R"({"name":"names and names")")) {
        EXPECT_EQ(ids_of(with.mask()), ids_of(alone.mask())) << schema;
        EXPECT_EQ(with.accept({&c, 1}), alone.accept({&c, 1}));
      }
      Matcher one(*grammar, shared);
      for (const char c : std::string_view(R"("names and na)")) {
        EXPECT_EQ(ids_of(one.mask()), fitting_by_force(one, *shared)) << schema;
        one.accept({&c, 1});
      }
    }
}

/// The text of a walk at random, and a hash of its masks.
std::pair<std::string, uint64_t> hashed_walk(Matcher matcher, const MaskVocab& vocab, uint64_t seed) {
  Rng rng(seed);
  std::string text;
  uint64_t hash = 14695981039346656037u;
  for (int step = 0; step < 60; ++step) {
    const std::vector<int32_t> ids = ids_of(matcher.mask());
    for (const int32_t id : ids) hash = (hash ^ static_cast<uint64_t>(id)) * 1099511628211u;
    if (ids.empty()) break;
    const int32_t id = ids[rng.next_u32() % ids.size()];
    EXPECT_TRUE(matcher.accept_token(id));
    text += vocab.token(id).text;
    if (step % 8 == 7) {  // a draft that is rejected
      const size_t n = matcher.accept("\"a\":1");
      if (n > 0) matcher.rollback(1);
    }
  }
  return {text, hash};
}

TEST(TokenMask, MasksAreTheSameForAnyNumberOfThreadsAndSequences) {
  constexpr size_t kSequences = 64;
  std::set<std::string> parts = {"\":", "\",\"", "\": \"", "},{", "a\":1", "abc", "\n  ", "12", "é"};
  const GrammarResult grammar = Grammar::from_json_schema(
      R"({"type": "array", "items": {"type": "object", "properties": {"a": {"type": "integer"},
          "b": {"type": "string", "maxLength": 40}}, "additionalProperties": {"type": "number"}}})");
  ASSERT_TRUE(grammar);
  std::vector<std::pair<std::string, uint64_t>> alone;
  const auto own_vocab = vocab_of(parts);
  for (size_t i = 0; i < kSequences; ++i) alone.push_back(hashed_walk(Matcher(*grammar, own_vocab), *own_vocab, i));
  for (const size_t n_threads : {1, 2, 8}) {
    const auto vocab = vocab_of(parts);
    const Matcher shared(*grammar, vocab);
    std::vector<std::pair<std::string, uint64_t>> found(kSequences);
    {
      std::vector<std::jthread> threads;
      for (size_t thread = 0; thread < n_threads; ++thread)
        threads.emplace_back([&, thread] {
          for (size_t i = thread; i < kSequences; i += n_threads) found[i] = hashed_walk(shared.fork(), *vocab, i);
        });
    }
    EXPECT_EQ(found, alone) << n_threads;
  }
}

TEST(VocabTree, TokensOfSubtreesAreTogether) {
  const VocabTree tree(
      {{"b", 5}, {"ab", 3}, {"a", 1}, {"abc", 9}, {"", 4}, {"ab", 2}, {"\xff", 7}, {std::string_view("x", 1), 8}});
  std::vector<std::tuple<int, int, int, std::vector<int32_t>>> found;  // byte, depth, height, tokens
  for (uint32_t i = 0; i < tree.nodes().size(); ++i) {
    const VocabTree::Node& node = tree.node(i);
    found.emplace_back(node.byte, node.depth, node.height,
                       std::vector<int32_t>(tree.tokens(i).begin(), tree.tokens(i).end()));
  }
  const decltype(found) expected = {{0, 0, 3, {}},    {'a', 1, 2, {1}}, {'b', 2, 1, {2, 3}}, {'c', 3, 0, {9}},
                                    {'b', 1, 0, {5}}, {'x', 1, 0, {8}}, {0xff, 1, 0, {7}}};
  EXPECT_EQ(found, expected);
  const auto below = tree.tokens_below(1);
  EXPECT_EQ(std::vector<int32_t>(below.begin(), below.end()), (std::vector<int32_t>{1, 2, 3, 9}));
  EXPECT_EQ(tree.node(1).end, 4u);
  EXPECT_EQ(VocabTree({}).nodes().size(), 1u);
  EXPECT_EQ(VocabTree({{std::string(2000, 'a'), 1}}).nodes().size(), 1u);
}

TEST(TokenRow, SetsAreTheSameAsListsAndAsBits) {
  Rng rng(3);
  constexpr size_t kTokens = 3000;
  for (int round = 0; round < 200; ++round) {
    TokenRow row(kTokens), other(kTokens);
    std::set<int32_t> expected, others;
    for (int step = 0; step < 6; ++step) {
      std::vector<int32_t> ids(rng.next_u32() % (step % 3 == 0 ? 900 : 20));
      for (int32_t& id : ids) id = static_cast<int32_t>(rng.next_u32() % kTokens);
      switch (rng.next_u32() % 4) {
        case 0:
          row.remove(ids);
          for (const int32_t id : ids) expected.erase(id);
          break;
        case 1:
          other = row;
          other.add(ids);
          others = expected;
          others.insert(ids.begin(), ids.end());
          break;
        case 2:
          row.add(other);
          expected.insert(others.begin(), others.end());
          break;
        default:
          row.add(ids);
          expected.insert(ids.begin(), ids.end());
      }
      ASSERT_EQ(ids_of(row), std::vector<int32_t>(expected.begin(), expected.end()));
      ASSERT_EQ(ids_of(other), std::vector<int32_t>(others.begin(), others.end()));
      ASSERT_EQ(row.is_empty(), expected.empty());
      ASSERT_TRUE(!row.is_list() || row.ids().size() == expected.size());
    }
  }
}

}  // namespace
}  // namespace tessera::text::grammar
