// Megabytes of one thing through every kind of tokenizer and every family of pre-tokenizers: time stays near linear,
// the stack constant, and the text comes back.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <set>

#include "tessera/text/detokenize.h"
#include "tessera/text/pre_tokenizer.h"
#include "tessera/text/utf8.h"
#include "tests/support/small_vocab.h"
#include "tests/support/testing.h"
#include "tests/support/vocab_from_gguf.h"

namespace tessera::text {
namespace {

constexpr size_t kNBytes = 10'000'000;
constexpr size_t kNFamilyBytes = 1'000'000;  // there are 1400 cases

// Letters, digits, spaces, newlines, signs, other scripts, emoji and what joins them, bytes that are not UTF-8.
constexpr std::string_view kUnits[] = {"A",
                                       "a",
                                       "\n",
                                       " ",
                                       ".",
                                       "<",
                                       "7",
                                       "\xE4\xBD\xA0",
                                       "\xF0\x9F\x98\x80",
                                       "\xE2\x80\x8D",
                                       "\xCC\x81",
                                       "\x80",
                                       "\xF0",
                                       "\xC0\xAF",
                                       "<|end|>",
                                       "the cat. "};

std::string repeated(std::string_view unit, size_t n_bytes) {
  std::string text;
  while (text.size() < n_bytes) text += unit;
  return text;
}

void expect_seconds(const Tokenizer& tokenizer, std::string_view name, std::string_view unit, bool comes_back) {
  const std::string text = repeated(unit, kNBytes);
  const auto start = std::chrono::steady_clock::now();
  const auto tokens = tokenizer.tokenize(text);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  ASSERT_OK(tokens);
  std::printf("%-14.*s %-18s %5.2f s, %zu tokens\n", static_cast<int>(name.size()), name.data(),
              quote_text(unit).c_str(), seconds, tokens->size());
  std::fflush(stdout);
  // Measured 0.1 to 7 s on a busy core; anything quadratic takes hours.
  EXPECT_LT(seconds, 60) << name << " " << quote_text(unit);
  if (!comes_back) return;
  EXPECT_TRUE(detokenize(tokenizer, *tokens).value() == text) << name << " " << quote_text(unit);
}

TEST(Slow, TenMegabytesOfOneThingTakeSecondsInEveryVocabulary) {
  struct Case {
    std::string_view name;
    bool comes_back;
  };
  for (const auto& [name, comes_back] :
       {Case{"phi-3", true}, Case{"gpt-2", true}, Case{"deepseek-llm", false}, Case{"bert-bge", false}}) {
    TESSERA_SHARED_OR_SKIP(vocab_path, fmt::format("vocab/{}.gguf", name));
    ASSERT_OK_AND_ASSIGN(const auto tokenizer, testing::tokenizer_from_gguf(vocab_path));
    for (const std::string_view unit : kUnits) expect_seconds(*tokenizer, name, unit, comes_back);
  }
}

TEST(Slow, TenMegabytesOfOneThingTakeSecondsInUnigramAndRwkvVocabularies) {
  for (const std::string_view model : {"t5", "rwkv"}) {
    VocabData data = testing::small_vocab({{"A"}, {"AA", -1}, {"AAAAAAAA", -1.5}, {" "}, {"a"}, {"."}, {"<", -2}});
    data.model = model;
    data.special_ids[static_cast<size_t>(SpecialToken::unknown)] = 0;
    const auto tokenizer = testing::make_tokenizer(data);
    for (const std::string_view unit : kUnits) expect_seconds(*tokenizer, model, unit, false);
  }
}

TEST(Slow, AMegabyteOfOneThingTakesLessThanASecondInEveryFamilyOfPreTokenizers) {
  std::set<std::string> families;
  for (const PreRow& row : pre_rows()) families.emplace(row.family);
  for (const std::string& family : families) {
    ASSERT_OK_AND_ASSIGN(const auto pre, PreTokenizer::create(family));
    double slowest = 0;
    for (const std::string_view unit : kUnits) {
      for (const std::string_view end : {"", "x", "\n"}) {  // what follows may decide what the run is
        const std::string text = repeated(unit, kNFamilyBytes).append(end);
        const auto start = std::chrono::steady_clock::now();
        PreTokenizer::Words words(pre, text);
        size_t n_bytes = 0;
        for (auto word = words.next(); !word.empty(); word = words.next()) n_bytes += word.size();
        const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        EXPECT_EQ(n_bytes, text.size()) << family << " " << quote_text(unit);
        // Measured below 0.5 s on a busy core; a search to the end of the run for every 512 bytes took 21 s.
        EXPECT_LT(seconds, 8) << family << " " << quote_text(unit);
        slowest = std::max(slowest, seconds);
      }
    }
    std::printf("%-14s %5.2f s at most\n", family.c_str(), slowest);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace tessera::text
