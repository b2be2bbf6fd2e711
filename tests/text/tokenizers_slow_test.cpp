// Megabytes of repetitive text through every kind of tokenizer and every family of pre-tokenizers. Time must stay
// nearly linear and the stack constant, and the text must survive a round trip. Times are processor times of this
// thread, which other programs on the machine hardly affect. TESSERA_TEST_FULL=1 (scripts/slow_checks.json:
// ten-megabytes) uses five times the bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <set>

#include "tessera/text/detokenize.h"
#include "tessera/text/pre_tokenizer.h"
#include "tessera/text/utf8.h"
#include "tests/support/byte_tokens.h"
#include "tests/support/small_vocab.h"
#include "tests/support/testing.h"
#include "tests/support/vocab_from_gguf.h"

namespace tessera::text {
namespace {

const size_t kScale = std::getenv("TESSERA_TEST_FULL") != nullptr ? 5 : 1;
const size_t kNBytes = 2'000'000 * kScale;
const size_t kNFamilyBytes = 200'000 * kScale;  // there are 1400 cases

double thread_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

// Letters, digits, spaces, newlines, punctuation, other scripts, emoji and joiners, bytes that are not UTF-8.
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
  const double start = thread_seconds();
  const auto tokens = tokenizer.tokenize(text);
  const double seconds = thread_seconds() - start;
  ASSERT_OK(tokens);
  std::printf("%-14.*s %-18s %5.2f s, %zu tokens\n", static_cast<int>(name.size()), name.data(),
              quote_text(unit).c_str(), seconds, tokens->size());
  std::fflush(stdout);
  // Measured 0.02 to 1.0 s for 2 MB. A quadratic algorithm would need at least minutes.
  EXPECT_LT(seconds, 12.0 * static_cast<double>(kScale)) << name << " " << quote_text(unit);
  if (!comes_back) return;
  EXPECT_TRUE(detokenize(tokenizer, *tokens).value() == text) << name << " " << quote_text(unit);
}

TEST(Slow, MegabytesOfOneThingTakeSecondsInEveryVocabulary) {
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

TEST(Slow, MegabytesOfOneThingTakeSecondsInUnigramRwkvAndPlamoVocabularies) {
  for (const std::string_view model : {"t5", "rwkv", "plamo2"}) {
    const bool has_bytes = model == "plamo2";
    std::vector<testing::SmallToken> tokens{{"A"}, {"AA", -1}, {"AAAAAAAA", -1.5}, {" "}, {"a"}, {"."}, {"<", -2}};
    if (has_bytes)
      for (const testing::SmallToken& byte : testing::byte_tokens()) tokens.push_back(byte);
    VocabData data = testing::small_vocab(tokens);
    data.model = model;
    data.special_ids[static_cast<size_t>(SpecialToken::unknown)] = 0;
    const auto tokenizer = testing::make_tokenizer(data);
    for (const std::string_view unit : kUnits) expect_seconds(*tokenizer, model, unit, has_bytes);
  }
}

TEST(Slow, OneThingInEveryFamilyOfPreTokenizersTakesLinearTime) {
  std::set<std::string> families;
  for (const PreRow& row : pre_rows()) families.emplace(row.family);
  for (const std::string& family : families) {
    ASSERT_OK_AND_ASSIGN(const auto pre, PreTokenizer::create(family));
    double slowest = 0;
    for (const std::string_view unit : kUnits) {
      for (const std::string_view end : {"", "x", "\n"}) {  // the following text may affect the cut of the run
        const std::string text = repeated(unit, kNFamilyBytes).append(end);
        const double start = thread_seconds();
        PreTokenizer::Words words(pre, text);
        size_t n_bytes = 0;
        for (auto word = words.next(); !word.empty(); word = words.next()) n_bytes += word.size();
        const double seconds = thread_seconds() - start;
        EXPECT_EQ(n_bytes, text.size()) << family << " " << quote_text(unit);
        // Measured at most 0.04 s for 200 kB. A search to the end of the run for every 512 bytes took 21 s for 1 MB.
        // For a fifth of the bytes that would be a twenty-fifth of the time.
        EXPECT_LT(seconds, kScale == 1 ? 0.5 : 8) << family << " " << quote_text(unit);
        slowest = std::max(slowest, seconds);
      }
    }
    std::printf("%-14s %5.2f s at most\n", family.c_str(), slowest);
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace tessera::text
