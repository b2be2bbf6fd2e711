// The tokens of real vocabularies, as llama.cpp computes them, and their way back to text.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tessera/text/detokenize.h"
#include "tests/support/testing.h"
#include "tests/support/vocab_from_gguf.h"

namespace tessera::text {
namespace {

struct Golden {
  std::string_view name;
  std::string_view file;
};
void PrintTo(const Golden& golden, std::ostream* out) { *out << golden.name; }

class SpmGolden : public ::testing::TestWithParam<Golden> {};

TEST_P(SpmGolden, EveryStringGivesTheReferenceTokens) {
  TESSERA_SHARED_OR_SKIP(strings_path, "golden/tokenizers/strings.json");
  TESSERA_SHARED_OR_SKIP(tokens_path, fmt::format("golden/tokenizers/{}.tokens", GetParam().name));
  TESSERA_SHARED_OR_SKIP(vocab_path, std::string(GetParam().file));
  ASSERT_OK_AND_ASSIGN(const auto tokenizer, testing::tokenizer_from_gguf(vocab_path));
  const auto strings = nlohmann::json::parse(testing::read_all(strings_path));
  ASSERT_EQ(strings.size(), 330u);
  std::ifstream lines(tokens_path);
  for (const std::string text : strings) {
    std::string plain, special;
    ASSERT_TRUE(lines >> plain >> special);
    EXPECT_EQ(nlohmann::json(tokenizer->tokenize(text).value()).dump(), plain) << text;
    EXPECT_EQ(nlohmann::json(tokenizer->tokenize(text, {true, true}).value()).dump(), special) << text;
  }
}

TEST_P(SpmGolden, TextSurvivesTheRoundTrip) {
  TESSERA_SHARED_OR_SKIP(strings_path, "golden/tokenizers/strings.json");
  TESSERA_SHARED_OR_SKIP(vocab_path, std::string(GetParam().file));
  ASSERT_OK_AND_ASSIGN(const auto tokenizer, testing::tokenizer_from_gguf(vocab_path));
  for (const std::string text : nlohmann::json::parse(testing::read_all(strings_path))) {
    if (text.find("\xE2\x96\x81") != std::string::npos) continue;  // SPM writes its spaces so
    EXPECT_EQ(detokenize(*tokenizer, tokenizer->tokenize(text).value()).value(), text);
  }
}

INSTANTIATE_TEST_SUITE_P(Vocabularies, SpmGolden,
                         ::testing::Values(Golden{"llama-spm", "vocab/llama-spm.gguf"},
                                           Golden{"phi-3", "vocab/phi-3.gguf"},
                                           Golden{"stories260K", "models/stories260K.gguf"}));

}  // namespace
}  // namespace tessera::text
