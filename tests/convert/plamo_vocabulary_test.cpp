// tokenizer.jsonl of PLaMo 2 and 3.
#include "tessera/convert/vocabulary/plamo_vocabulary.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/convert/plamo_files.h"
#include "tests/convert/vocabulary_files.h"

namespace tessera::convert {
namespace {

using namespace testing;
using text::SpecialToken;
using text::TokenType;

std::string plamo_refusal(const std::string& lines) {
  TokenizerFiles files;
  files.write("tokenizer.jsonl", lines);
  const auto read = read_files(files).vocabulary;
  return read ? "read" : read.error().message();
}

TEST(PlamoVocabulary, LinesAreTokens) {
  TokenizerFiles files;
  files.write("tokenizer.jsonl", plamo_lines() + "[\"\\u3042\\n\", -7.25, \"NORMAL\", 1, null]\r\n\n[\"x\", 3]");
  const Vocabulary vocabulary = read_files(files).vocabulary.value();
  EXPECT_EQ(vocabulary.model, "plamo2");
  EXPECT_EQ(vocabulary.pre, "default");
  ASSERT_EQ(vocabulary.tokens.size(), kPlamoFirst + 2);
  EXPECT_EQ(vocabulary.tokens[kPlamoFirstByte + 0x41], "<0x41>");
  EXPECT_EQ(vocabulary.types[kPlamoFirstByte + 0x41], TokenType::byte);
  EXPECT_EQ(vocabulary.tokens[kPlamoFirst], "\xE3\x81\x82\n");
  EXPECT_EQ(vocabulary.scores[kPlamoFirst], -7.25f);
  EXPECT_EQ(vocabulary.types[kPlamoFirst], TokenType::normal);
  EXPECT_EQ(vocabulary.tokens[kPlamoFirst + 1], "x");
  EXPECT_EQ(vocabulary.scores[kPlamoFirst + 1], 3.0f);
  EXPECT_EQ(vocabulary.types[kPlamoFirst + 1], TokenType::normal);
  EXPECT_EQ(vocabulary.types[0], TokenType::unknown);
  EXPECT_EQ(vocabulary.types[1], TokenType::control);
  EXPECT_EQ(vocabulary.types[4], TokenType::control) << "by its text alone";
}

TEST(PlamoVocabulary, KnowsItsSpecialTokens) {
  TokenizerFiles files;
  files.write("tokenizer.jsonl", plamo_lines() + "[\"</s>\", -20.0, \"NORMAL\"]\n");
  const auto ids = [&] { return read_files(files).vocabulary.value().special_ids; };
  EXPECT_EQ(ids()[to_size(SpecialToken::unknown)], 0u);
  EXPECT_EQ(ids()[to_size(SpecialToken::bos)], 1u);
  EXPECT_EQ(ids()[to_size(SpecialToken::eos)], 2u);
  EXPECT_EQ(ids()[to_size(SpecialToken::padding)], 3u);
  EXPECT_EQ(ids()[to_size(SpecialToken::eot)], 4u) << "<|plamo:op|> ends a turn";
  files.write("tokenizer_config.json", Json{{"eos_token", "<|plamo:pad|>"}, {"add_bos_token", true}});
  EXPECT_EQ(ids()[to_size(SpecialToken::eos)], 3u);
  const Vocabulary vocabulary = read_files(files).vocabulary.value();
  EXPECT_EQ(vocabulary.add_bos, true);
  EXPECT_EQ(vocabulary.add_eos, false);
  EXPECT_EQ(vocabulary.add_space_prefix, false);
  EXPECT_EQ(vocabulary.types.back(), TokenType::normal) << "</s> is text of HTML";
  files.write("tokenizer_config.json", Json::object());
  EXPECT_EQ(read_files(files).vocabulary.value().add_bos, false);
}

TEST(PlamoVocabulary, IsAsLargeAsTheModel) {
  TokenizerFiles files;
  files.write("tokenizer.jsonl", plamo_lines());
  const auto sized = [&](int64_t n) { return read_files(files, Json{{"vocab_size", n}}).vocabulary; };
  const Vocabulary larger = sized(kPlamoFirst + 2).value();
  EXPECT_EQ(larger.tokens.back(), fmt::format("[PAD{}]", kPlamoFirst + 1));
  EXPECT_EQ(larger.types.back(), TokenType::unused);
  EXPECT_ERROR(sized(kPlamoFirst - 1), "token \"<0xFF>\" has the id 260, but vocab_size is 260");
}

TEST(PlamoVocabulary, SettingsAddOnlyWhatTheFileLacks) {
  TokenizerFiles files;
  files.write("tokenizer.jsonl", plamo_lines())
      .write("tokenizer_config.json",
             Json{{"added_tokens_decoder",
                   {{"0", {{"content", "<|plamo:unk|>"}, {"special", true}}},
                    {std::to_string(kPlamoFirst), {{"content", "<|plamo:new|>"}, {"special", true}}}}}});
  const Vocabulary vocabulary = read_files(files).vocabulary.value();
  EXPECT_EQ(vocabulary.types[0], TokenType::unknown);
  EXPECT_EQ(vocabulary.scores[0], 0.0f);
  EXPECT_EQ(vocabulary.tokens.back(), "<|plamo:new|>");
  EXPECT_EQ(vocabulary.types.back(), TokenType::control);
}

TEST(PlamoVocabulary, WarnsOfSettingsThatGgufCannotSay) {
  TokenizerFiles files;
  files.write("tokenizer.jsonl", plamo_lines())
      .write("tokenizer_config.json", Json{{"break_around_consecutive_spaces_threshold", nullptr},
                                           {"break_around_repeated_chars_threshold", 8}});
  EXPECT_EQ(
      read_files(files).warnings,
      std::vector<std::string>{"tokenizer_config.json: GGUF has no key for break_around_repeated_chars_threshold: "
                               "long runs of a character may get other tokens"});
}

TEST(PlamoVocabulary, RefusesBrokenLines) {
  const std::string start = "tokenizer.jsonl: line 1: ";
  const auto expect_refused = [&](const std::string& line, const std::string& part) {
    const std::string error = plamo_refusal(line + "\n" + plamo_lines());
    EXPECT_TRUE(error.starts_with(start)) << error;
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  for (const char* row : {"{}", "3", "null", "[]", "[\"a\"]", "[1, 2]", "[\"a\", \"b\"]", "[\"a\", null, \"NORMAL\"]",
                          "[\"a\", 1, 2]", "[[\"a\"], 1]"})
    expect_refused(row, "want a list of a text, a score and a type");
  expect_refused("[\"a\", NaN]", "not JSON");
  expect_refused("[\"a\", -Infinity]", "not JSON");
  expect_refused("[\"a\", 1", "not JSON");
  expect_refused("[\"a\xFF\", 1]", "not JSON");
  expect_refused("[\"a\", 1e999]", "not JSON");
  expect_refused("[\"a\", -1e39]", "token \"a\": a score of -1e+39");
  expect_refused("[\"\\ud800\", 1]", "not JSON");
  expect_refused(std::string(100'000, '['), "JSON");
  std::string wide = "[\"a\", 1, \"NORMAL\"";
  for (int i = 0; i < 1000; ++i) wide += ",1";
  expect_refused(wide + "]", "too many values");
}

TEST(PlamoVocabulary, HasAllBytesOnce) {
  EXPECT_EQ(plamo_refusal("[\"a\", 0]\n"), "tokenizer.jsonl: no token <0x00> of type BYTE");
  std::string lines = plamo_lines();
  lines.replace(lines.find("<0x41>"), 6, "<0x42>");
  EXPECT_EQ(plamo_refusal(lines), "tokenizer.jsonl: no token <0x41> of type BYTE");
  for (const std::string text : {"<0x-1>", "<0x4 >", "<0x4>", "<0xG1>", "<0x041>", "A"}) {
    std::string other = plamo_lines();
    other.replace(other.find("<0x41>"), 6, text);
    EXPECT_EQ(plamo_refusal(other), fmt::format("tokenizer.jsonl: line {}: token \"{}\": its type is BYTE, want <0x00> "
                                                "to <0xFF>",
                                                kPlamoFirstByte + 0x41 + 1, text));
  }
  std::string twice = plamo_lines() + "[\"<0x41>\", 0, \"BYTE\"]\n";
  EXPECT_NE(plamo_refusal(twice).find("are both the byte"), std::string::npos) << plamo_refusal(twice);
}

}  // namespace
}  // namespace tessera::convert
