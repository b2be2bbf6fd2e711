// Compiled grammars are shared by requests, within a bound of memory.
#include "tessera/server/models/grammar_cache.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/server/api_support.h"

namespace tessera {
namespace {

using namespace testing;
using server::GrammarCache;
using text::grammar::Grammar;

class GrammarCaching : public ::testing::Test {
 protected:
  /// A grammar for one of many texts.
  static std::string gbnf(int i) { return "root ::= \"text " + std::to_string(i) + "\" [a-z]{3,9}"; }
  static text::grammar::GrammarResult get(GrammarCache& cache, int i) {
    const std::string source = gbnf(i);
    return cache.get(GrammarCache::Kind::gbnf, source, [&] { return Grammar::from_gbnf(source); });
  }
  static size_t one_bytes() { return GrammarCache::bytes_of(**Grammar::from_gbnf(gbnf(1))); }

  server::ModelMetrics metrics_;
};

TEST_F(GrammarCaching, ATextIsCompiledOnce) {
  GrammarCache cache(metrics_);
  const auto first = get(cache, 1), second = get(cache, 1), other = get(cache, 2);
  ASSERT_TRUE(first && second && other);
  EXPECT_EQ(*first, *second);
  EXPECT_NE(*first, *other);
  EXPECT_EQ(metrics_.grammars_compiled, 2u);
  EXPECT_EQ(metrics_.grammar_hits, 1u);
}

TEST_F(GrammarCaching, KindsAreKeptApartAndErrorsAreNotKept) {
  GrammarCache cache(metrics_);
  const auto compile = [] { return Grammar::from_gbnf("root ::= \"a\""); };
  const auto fails = [] { return Grammar::from_gbnf("root ::= ("); };
  EXPECT_TRUE(cache.get(GrammarCache::Kind::gbnf, "x", compile));
  EXPECT_FALSE(cache.get(GrammarCache::Kind::json_schema, "x", fails));
  EXPECT_FALSE(cache.get(GrammarCache::Kind::json_schema, "x", fails));
  EXPECT_EQ(metrics_.grammars_compiled, 3u);
}

TEST_F(GrammarCaching, TheLimitIsExact) {
  const size_t one = one_bytes();
  GrammarCache none(metrics_, one - 1), single(metrics_, one), two(metrics_, 2 * one);
  for (const int i : {1, 2}) {
    ASSERT_TRUE(get(none, i));
    ASSERT_TRUE(get(single, i));
    ASSERT_TRUE(get(two, i));
  }
  EXPECT_EQ(none.n_bytes(), 0u);
  EXPECT_EQ(single.n_bytes(), one);
  EXPECT_EQ(two.n_bytes(), 2 * one);
}

// The weights come from measurements. Whoever changes one measures again.
TEST_F(GrammarCaching, EachPartOfAGrammarHasItsWeight) {
  for (const char* source : {"root ::= \"a\"", "root ::= item+\nitem ::= \"a\" | \"b\" [0-9]{2,9} root?"}) {
    const auto grammar = Grammar::from_gbnf(source);
    ASSERT_TRUE(grammar);
    const auto& rules = (*grammar)->rules();
    EXPECT_EQ(GrammarCache::bytes_of(**grammar),
              131'072 + 320 * (*grammar)->expressions().n_nodes() + 1024 * (*grammar)->lexemes().size() +
                  2 * sizeof(text::grammar::Edge) * rules.n_edges() + 256 * rules.n_states() + 512 * rules.n_rules());
  }
}

TEST_F(GrammarCaching, TheLeastRecentlyUsedOnesGo) {
  const size_t one = one_bytes();
  GrammarCache cache(metrics_, 3 * one + one / 2);
  for (const int i : {1, 2, 3, 1, 4}) ASSERT_TRUE(get(cache, i));  // 2 goes
  EXPECT_LE(cache.n_bytes(), 3 * one + one / 2);
  EXPECT_EQ(metrics_.grammar_bytes, static_cast<int64_t>(cache.n_bytes()));
  metrics_.grammars_compiled = 0;
  for (const int i : {1, 3, 4}) ASSERT_TRUE(get(cache, i));
  EXPECT_EQ(metrics_.grammars_compiled, 0u);
  ASSERT_TRUE(get(cache, 2));
  EXPECT_EQ(metrics_.grammars_compiled, 1u);
}

TEST_F(GrammarCaching, WhatIsLargerThanAllRoomIsNotKept) {
  GrammarCache cache(metrics_, one_bytes() - 1);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(get(cache, 1));
  EXPECT_EQ(cache.n_bytes(), 0u);
  EXPECT_EQ(metrics_.grammars_compiled, 2u);
}

TEST_F(GrammarCaching, ThreadsShareIt) {
  GrammarCache cache(metrics_, 4 * one_bytes());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&cache, t] {
      for (int i = 0; i < 200; ++i) {
        const auto grammar = get(cache, (i * (t + 3)) % 9);
        EXPECT_TRUE(grammar && (*grammar)->rules().n_rules() > 0);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(cache.n_bytes(), 4 * one_bytes());
  EXPECT_EQ(metrics_.grammars_compiled + metrics_.grammar_hits, 800u);
}

class GrammarCachingApi : public ApiTest {};

TEST_F(GrammarCachingApi, ASecondRequestWithTheSameSchemaCompilesNothing) {
  ApiSetup setup;
  setup.options.api.has_metrics = true;
  start(std::move(setup));
  const ordered_json body = {{"prompt", "a"}, {"n_predict", 8}, {"seed", 3}, {"json_schema", {{"type", "boolean"}}}};
  const auto compiled = [&](int n, int n_hits) {
    const std::string text = get("/metrics").reply.body;
    const std::string of_model = "{model=\"story.gguf\"} ";
    EXPECT_NE(text.find("tessera_grammars_compiled_total" + of_model + std::to_string(n) + "\n"), std::string::npos);
    EXPECT_NE(text.find("tessera_grammar_cache_hits_total" + of_model + std::to_string(n_hits) + "\n"),
              std::string::npos);
  };
  const Answer first = post_json("/completion", body);
  compiled(1, 0);
  EXPECT_EQ(post_json("/completion", body).json["content"], first.json["content"]);
  compiled(1, 1);
  ordered_json other = body;
  other["json_schema"]["type"] = "null";
  post_json("/completion", other);
  compiled(2, 1);
}

}  // namespace
}  // namespace tessera
