// Pre-tokenizers of tokenizer.json: their steps, patterns that mean the same, and the names in GGUF files.
#include "tessera/convert/vocabulary/pre_steps.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "tessera/convert/vocabulary/pattern_equality.h"
#include "tessera/text/pre_families.h"
#include "tessera/text/pre_tokenizer.h"
#include "tests/support/testing.h"

namespace tessera::convert {
namespace {

Json split(const std::string& regex, const char* behavior = "Isolated", bool inverts = false) {
  return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", behavior}, {"invert", inverts}};
}
Json byte_level(bool use_regex) { return {{"type", "ByteLevel"}, {"use_regex", use_regex}}; }
Json steps(const std::vector<Json>& list) { return {{"type", "Sequence"}, {"pretokenizers", list}}; }

std::vector<std::string> warnings_of_last_name;

// The name of a pre-tokenizer, or the message of the refusal.
std::string name_of(const Json& json, bool whole_words = false, std::string_view class_name = "") {
  warnings_of_last_name.clear();
  const auto flat = flatten_pre_tokenizer(json);
  if (!flat) return flat.error().message();
  const auto name = name_pre_tokenizer(flat->steps, whole_words, class_name, warnings_of_last_name);
  return name ? *name : name.error().message();
}

constexpr const char* kClassic =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

TEST(PatternEquality, SpellingsOfOnePatternAreTheSame) {
  EXPECT_TRUE(same_pattern("a", "a"));
  EXPECT_TRUE(same_pattern("(?i:'s|'t)", "'[sS]|'[tT]"));
  EXPECT_TRUE(
      same_pattern("(?i:'s|'t|'re|'ve|'m|'ll|'d)", "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"));
  EXPECT_TRUE(same_pattern(R"([\r\n\p{L}])", R"([\p{L}\n\r])"));
  EXPECT_TRUE(same_pattern(R"(\p{N}{1,3})", R"(\p{N}\p{N}?\p{N}?)"));
  EXPECT_TRUE(same_pattern(R"(\p{L}++ ?)", R"(\p{L}+ ?)"));
  EXPECT_TRUE(same_pattern(R"(\x{4E00}|\/)", "\xE4\xB8\x80|/"));
  EXPECT_TRUE(same_pattern(R"([a-c&&[^b]])", "[ac]"));
  EXPECT_TRUE(same_pattern(R"(\s+(?!\S)|\s+)", R"(\s+(?!\S)|\s{1}\s*)"));
  EXPECT_TRUE(same_pattern(R"(\p{N}?a)", R"(a|\p{N}a)"));
}

TEST(PatternEquality, OtherPatternsAreNot) {
  EXPECT_FALSE(same_pattern("a", "b"));
  EXPECT_FALSE(same_pattern("a|ab", "ab|a"));
  EXPECT_FALSE(same_pattern(R"(\p{N}{1,3})", R"(\p{N}{1,2})"));
  EXPECT_FALSE(same_pattern(R"(\p{N}{1,3})", R"(\p{N})"));
  EXPECT_FALSE(same_pattern(R"(\s+(?!\S)|\s+)", R"(\s+)"));
  EXPECT_FALSE(same_pattern(R"(a$)", "a"));
  EXPECT_FALSE(same_pattern("'s", "'[sS]"));
  EXPECT_FALSE(same_pattern("(?:a)+", "a"));
}

TEST(PatternEquality, SyntaxThatTheParserReadsOtherwiseIsComparedAsText) {
  // Both sides of each line would be the same if they were parsed.
  EXPECT_FALSE(same_pattern(".", R"(\.)"));
  EXPECT_FALSE(same_pattern("^a", R"(\^a)"));
  EXPECT_FALSE(same_pattern("a+?b", R"(a+\?b)"));
  EXPECT_FALSE(same_pattern("a*?b", R"(a*\?b)"));
  EXPECT_FALSE(same_pattern("a??b", R"(a?\?b)"));
  EXPECT_FALSE(same_pattern("a{2}?b", R"(a{2}\?b)"));
  EXPECT_FALSE(same_pattern("[a[b]", R"([a\[b])"));
  EXPECT_FALSE(same_pattern("(?<a)", R"((\?<a))"));
  EXPECT_FALSE(same_pattern(R"(\w)", R"(\w|\w)"));
  EXPECT_FALSE(same_pattern("a|a", "("));
  EXPECT_TRUE(same_pattern("(?<a)", "(?<a)"));
  for (const char* text :
       {"(?=", "a(?!", "(?:",   "(?i:", "[",      "[a", "[a-", "[^",   "[a&&[", "[a&&[b", "[a&&[b]", "\\", "a\\",
        "[\\", "\\p{", "\\p{L", "\\x{", "\\x{41", "a{", "a{1", "a{1,", "a{,2}", "a{2,}",  ")",       "(",  "|"})
    EXPECT_FALSE(same_pattern(text, "a")) << text;
}

TEST(PatternEquality, LargePatternsAreComparedAsText) {
  const auto repeated = [](const std::string& part, size_t n) {
    std::string out;
    for (size_t i = 0; i < n; ++i) out += part;
    return out;
  };
  // Each pair differs by a group around it.
  const auto same = [](const std::string& pattern) { return same_pattern(pattern, "(?:" + pattern + ")"); };
  EXPECT_TRUE(same(repeated("a", 1000)));
  EXPECT_FALSE(same(repeated("a", 4096)));
  EXPECT_FALSE(same(repeated("a", 2100)));
  EXPECT_TRUE(same(repeated("(", 60) + "a" + repeated(")", 60)));
  EXPECT_FALSE(same(repeated("(", 64) + "a" + repeated(")", 64)));
  EXPECT_FALSE(same(repeated("(", 4000)));
  EXPECT_FALSE(same(repeated("[a]", 64)));
  EXPECT_TRUE(same("(a{8}){8}"));
  EXPECT_FALSE(same("(a{8}){9}"));
  EXPECT_FALSE(same("((((a{1000}){1000}){1000}){1000}){1000}"));
  EXPECT_TRUE(same("a{1,64}"));
  EXPECT_FALSE(same("a{1,65}"));
  EXPECT_TRUE(same(repeated("a", 1000) + "b{8}"));
  EXPECT_FALSE(same(repeated("a", 1025) + "b{8}"));
  EXPECT_FALSE(same("a*" + repeated("[ab]", 14) + "a?" + repeated("b?", 900)));
  std::string sets;
  for (int i = 0; i < 65; ++i) sets += "\\x{" + std::to_string(4000 + i) + "}";
  EXPECT_FALSE(same(sets));
}

TEST(PreSteps, OfTheFamiliesHaveTheirNames) {
  std::set<std::string_view> families;
  for (const text::FamilyStage& row : text::kFamilyStages) families.insert(row.family);
  // Stages of these families are code, which stands for patterns that are no patterns of ours, or of no known file.
  const std::set<std::string_view> in_code{"jais2", "deepseek-llm", "afmoe", "tiny-aya", "superbpe"};
  for (const std::string_view family : families) {
    std::vector<Json> list;
    for (const text::FamilyStage& row : text::kFamilyStages)
      if (row.family == family) list.push_back(split(std::string(row.stage)));
    list.push_back(byte_level(false));
    if (in_code.contains(family)) continue;
    const std::string name = name_of(steps(list));
    ASSERT_NE(text::find_pre(name), nullptr) << family << ": " << name;
    EXPECT_EQ(text::find_pre(name)->family, family) << name;
  }
}

TEST(PreSteps, OfTheHubHaveTheirNames) {
  const Json punctuation{{"type", "Punctuation"}, {"behavior", "Contiguous"}};
  const Json digits{{"type", "Digits"}, {"individual_digits", true}}, numbers{{"type", "Digits"}};
  EXPECT_EQ(name_of(byte_level(true)), "gpt-2");
  EXPECT_EQ(name_of({{"type", "ByteLevel"}}), "gpt-2");
  EXPECT_EQ(name_of(steps({digits, byte_level(true)})), "starcoder");
  EXPECT_EQ(name_of(steps({punctuation, byte_level(true), numbers, split("[0-9][0-9][0-9]")})), "falcon");
  EXPECT_EQ(name_of(steps({split(R"( ?[^(\s|[.,!?…。，、।۔،])]+)"), byte_level(false)})), "bloom");
  EXPECT_EQ(name_of(steps({split(R"( ?[^(\s|[.,!?…。，、।۔،])]+)"), digits, byte_level(false)})), "viking");
  EXPECT_EQ(name_of(steps({split(R"(\p{N}+)"), split(R"((?=(\d{3})+(?!\d)))"), byte_level(false)})), "superbpe");
  EXPECT_EQ(name_of({{"type", "WhitespaceSplit"}}), "whitespace");
  EXPECT_EQ(name_of(steps({split(R"(\d{1,3}(?=(?:\d{3})*\b))"),
                           split(TESSERA_PRE_O200K("\\p{N}{1,3}"), "Removed", true), byte_level(false)})),
            "tiny_aya");
  EXPECT_EQ(
      name_of(steps({split(
          R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+)"
          R"(|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S))"
          R"(|\s{1,2}(?!\S)|\s{1})")})),
      "jais-2");
  const Json isolated{{"type", "Punctuation"}, {"behavior", "Isolated"}};
  EXPECT_EQ(name_of(steps({split(R"(<sentinel:[0-9]+>)"), split(R"((IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z)"),
                           split(R"(([\t\n]|    |  ))"), digits, isolated, byte_level(true)})),
            "chameleon");
  std::vector<Json> deepseek;
  for (const text::FamilyStage& row : text::kFamilyStages)
    if (row.family == "deepseek-llm")
      deepseek.push_back(row.stage == "@trailing_space" ? split(R"(\s+$)") : split(std::string(row.stage)));
  EXPECT_EQ(name_of(steps(deepseek)), "deepseek-llm");
  deepseek.back() = digits;
  EXPECT_EQ(name_of(steps(deepseek)), "deepseek-llm");
}

TEST(PreSteps, WholeWordsAndTheClassChooseTheName) {
  const Json classic = steps({split(kClassic), byte_level(false)});
  EXPECT_EQ(name_of(classic, true), "llama-bpe");
  EXPECT_EQ(name_of(classic, false), "dbrx");
  EXPECT_EQ(name_of(classic, false, "Glm4ForCausalLM"), "glm4");
  EXPECT_EQ(name_of(classic, true, "Glm4ForCausalLM"), "llama-bpe");
  EXPECT_EQ(name_of(classic, true, "Lfm2ForCausalLM"), "lfm2");
  EXPECT_EQ(name_of(classic, false, "CohereForCausalLM"), "dbrx");
  EXPECT_TRUE(warnings_of_last_name.empty());
  EXPECT_EQ(name_of(byte_level(true), true), "gpt-2");
  EXPECT_EQ(warnings_of_last_name,
            std::vector<std::string>{"ignore_merges is true, but the pre-tokenizer gpt-2 is known the other way"});
}

TEST(PreSteps, AnotherSpellingHasTheSameName) {
  std::string spelled(kClassic);
  spelled.replace(0, spelled.find(")|") + 1, "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])");
  EXPECT_EQ(name_of(steps({split(spelled), byte_level(false)}), true), "llama-bpe");
  EXPECT_EQ(name_of(steps({steps({split(kClassic, "Removed", true)}), byte_level(false)}), true), "llama-bpe");
}

TEST(PreSteps, UnknownOnesAreRefusedWithTheirSteps) {
  const std::string start = "the pre-tokenizer is not known (option pre names one); its steps: ";
  EXPECT_EQ(name_of(nullptr), start + "none");
  EXPECT_EQ(name_of(steps({split("x", "MergedWithPrevious"), byte_level(true)})),
            start + "Split \"x\" MergedWithPrevious; ByteLevel");
  EXPECT_EQ(name_of(split(kClassic, "Removed")), start + "Split \"" + kClassic + "\" Removed");
  EXPECT_EQ(name_of(split("x", "MergedWithNext", true)), start + "Split \"x\" MergedWithNext inverted");
  const Json literal{{"type", "Split"}, {"pattern", {{"String", "a.b"}}}, {"behavior", "Isolated"}};
  const Json digits{{"type", "Digits"}, {"individual_digits", true}};
  EXPECT_EQ(name_of(steps({literal, digits, {{"type", "Digits"}}, {{"type", "Punctuation"}}, {{"type", "Metaspace"}}})),
            start + "Split \"a\\.b\" Isolated; Digits, each by itself; Digits; Punctuation; Metaspace");
}

TEST(PreSteps, RefusesBrokenOnes) {
  EXPECT_EQ(name_of(7), "pre_tokenizer: a step that is no object");
  EXPECT_EQ(name_of(Json::object()), "pre_tokenizer: a step without a type");
  EXPECT_EQ(name_of({{"type", "Split"}}), "pre_tokenizer: Split without a pattern");
  EXPECT_EQ(name_of({{"type", "Split"}, {"pattern", {{"Regex", 7}}}}), "pre_tokenizer: Split without a pattern");
  EXPECT_EQ(name_of(steps(std::vector<Json>(65, byte_level(true)))), "pre_tokenizer: more than 64 steps");
  EXPECT_EQ(name_of(steps({steps(std::vector<Json>(64, byte_level(true))), byte_level(true)})),
            "pre_tokenizer: more than 64 steps");
}

TEST(PreSteps, SayWhetherASpaceIsAdded) {
  const auto adds = [](const Json& json) { return flatten_pre_tokenizer(json).value().adds_space; };
  EXPECT_EQ(adds({{"type", "Metaspace"}}), true);
  EXPECT_EQ(adds({{"type", "Metaspace"}, {"add_prefix_space", false}}), false);
  EXPECT_EQ(adds({{"type", "Metaspace"}, {"prepend_scheme", "never"}, {"add_prefix_space", true}}), false);
  EXPECT_EQ(adds({{"type", "Metaspace"}, {"prepend_scheme", "first"}}), true);
  EXPECT_EQ(adds(byte_level(true)), std::nullopt);
  EXPECT_TRUE(
      flatten_pre_tokenizer(steps({{{"type", "WhitespaceSplit"}}, {{"type", "Metaspace"}}})).value().splits_at_spaces);
  EXPECT_FALSE(flatten_pre_tokenizer(byte_level(true)).value().splits_at_spaces);
  EXPECT_TRUE(flatten_pre_tokenizer(byte_level(false)).value().has_byte_level);
}

}  // namespace
}  // namespace tessera::convert
