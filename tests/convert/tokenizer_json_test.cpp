// tokenizer.json: BPE of bytes and with byte fallback, unigram models, WordPiece, added tokens, and refusals.
#include "tessera/convert/vocabulary/tokenizer_json_vocabulary.h"

#include <gtest/gtest.h>

#include "tests/convert/vocabulary_files.h"

namespace tessera::convert {
namespace {

using namespace testing;
using text::SpecialToken;
using text::TokenType;

constexpr const char* kSpace = "\xE2\x96\x81";

Json byte_tokenizer() {
  return {{"pre_tokenizer", {{"type", "ByteLevel"}}},
          {"model",
           {{"type", "BPE"},
            {"vocab", {{"b", 1}, {"a", 0}, {"c", 2}, {"ab", 3}, {"abc", 4}}},
            {"merges", list({list({"a", "b"}), list({"ab", "c"})})}}}};
}
Json added(int64_t id, const char* text, bool is_special = false) {
  return {{"id", id}, {"content", text}, {"special", is_special}};
}

VocabularyReading read_tokenizer(const Json& json, const Json& config = Json::object(),
                                 const VocabularyOptions& options = {}) {
  TokenizerFiles files;
  files.write("tokenizer.json", json);
  return read_files(files, config, options);
}
std::string refusal_of(const Json& json) {
  const auto read = read_tokenizer(json).vocabulary;
  return read ? "read" : without(read.error().message(), "tokenizer.json: ");
}

TEST(ByteLevelBpe, HasTokensByTheirIdsAndMerges) {
  const Vocabulary vocabulary = read_tokenizer(byte_tokenizer()).vocabulary.value();
  EXPECT_EQ(vocabulary.model, "gpt2");
  EXPECT_EQ(vocabulary.pre, "gpt-2");
  EXPECT_EQ(vocabulary.tokens, (std::vector<std::string>{"a", "b", "c", "ab", "abc"}));
  EXPECT_EQ(vocabulary.types, std::vector(5, TokenType::normal));
  EXPECT_EQ(vocabulary.merges, (std::vector<std::string>{"a b", "ab c"}));
  EXPECT_TRUE(vocabulary.scores.empty());
  EXPECT_EQ(vocabulary.add_bos, false);
  EXPECT_EQ(vocabulary.add_eos, false);
}

TEST(ByteLevelBpe, IsFoundByNormalizerOrDecoderToo) {
  Json json = byte_tokenizer();
  const Json byte_level = json["pre_tokenizer"];
  json["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"Regex", "\\p{N}"}}}, {"behavior", "Isolated"}};
  EXPECT_EQ(refusal_of(json), "BPE neither of bytes nor with byte_fallback and U+2581 for spaces");
  for (const char* part : {"normalizer", "decoder"}) {
    Json with = json;
    with[part] = byte_level;
    EXPECT_EQ(read_tokenizer(with, Json::object(), {.pre = "qwen2"}).vocabulary.value().pre, "qwen2") << part;
  }
}

TEST(ByteLevelBpe, ReadsBothFormsOfMerges) {
  Json json = byte_tokenizer();
  json["model"]["merges"] = {"a b", "ab c"};
  EXPECT_EQ(read_tokenizer(json).vocabulary.value().merges, (std::vector<std::string>{"a b", "ab c"}));
  json["model"]["vocab"] = {{"a b", 0}, {"c", 1}, {"a bc", 2}};
  json["model"]["merges"] = list({list({"a b", "c"})});
  EXPECT_EQ(read_tokenizer(json).vocabulary.value().merges, std::vector<std::string>{"a\xC4\xA0"
                                                                                     "b c"});
}

TEST(ByteLevelBpe, RefusesBrokenMerges) {
  const auto refusal = [](const Json& merges) {
    Json json = byte_tokenizer();
    json["model"]["merges"] = merges;
    return refusal_of(json);
  };
  EXPECT_EQ(refusal(list({list({"a", "x"})})), "merge 0: \"x\" is no token");
  EXPECT_EQ(refusal(list({list({"x", "a"})})), "merge 0: \"x\" is no token");
  EXPECT_EQ(refusal(list({list({"a", "b"}), list({"b", "a"})})), "merge 1: \"ba\" is no token");
  EXPECT_EQ(refusal("a b"), "merges: no list");
  EXPECT_EQ(refusal(list({7})), "merges[0]: want a text or a pair of texts");
  EXPECT_EQ(refusal(list({list({"a", "b"}), list({"a", "b", "c"})})), "merges[1]: want a text or a pair of texts");
  EXPECT_EQ(refusal(list({list({"a", 7})})), "merges[0]: want a text or a pair of texts");
  EXPECT_EQ(refusal(list({list({"a", ""})})), "merges[0]: an empty part");
  EXPECT_EQ(refusal(list({list({"", "a"})})), "merges[0]: an empty part");
  for (const char* merge : {"ab", "a b c", "a ", " a", ""})
    EXPECT_EQ(refusal(list({merge})),
              "merges[0]: merge \"" + std::string(merge) + "\", want two parts and a space between");
}

TEST(ByteLevelBpe, RefusesBrokenVocabularies) {
  const auto refusal = [](const Json& vocab) {
    Json json = byte_tokenizer();
    json["model"]["vocab"] = vocab;
    json["model"]["merges"] = Json::array();
    return refusal_of(json);
  };
  EXPECT_EQ(refusal(7), "vocab: no object");
  EXPECT_EQ(refusal(nullptr), "vocab: no object");
  EXPECT_EQ(refusal({{"a", "0"}}), "vocab: token \"a\" has no integer as its id");
  EXPECT_EQ(refusal({{"a", 0.5}}), "vocab: token \"a\" has no integer as its id");
  EXPECT_EQ(refusal({{"a", UINT64_MAX}}), "vocab: token \"a\" has no integer as its id");
  EXPECT_EQ(refusal({{"a", 0}, {"b", 0}}), "tokens \"a\" and \"b\" have the same id 0");
  EXPECT_EQ(refusal({{"a", -1}}), "token \"a\" has the id -1");
  EXPECT_EQ(refusal({{"a", int64_t{1} << 31}}), "token \"a\" has the id 2147483648, limit 1048575");
  EXPECT_EQ(refusal(Json::object()), "tokenizer.ggml.tokens: no tokens for tokenizer model \"gpt2\"");
}

TEST(ByteLevelBpe, RefusesWordsWithMarks) {
  Json json = byte_tokenizer();
  json["model"]["continuing_subword_prefix"] = "";
  json["model"]["end_of_word_suffix"] = nullptr;
  EXPECT_EQ(refusal_of(json), "read");
  json["model"]["end_of_word_suffix"] = "</w>";
  EXPECT_EQ(refusal_of(json), "model: end_of_word_suffix \"</w>\"");
  json["model"]["end_of_word_suffix"] = "";
  json["model"]["continuing_subword_prefix"] = "##";
  EXPECT_EQ(refusal_of(json), "model: continuing_subword_prefix \"##\"");
}

TEST(ByteLevelBpe, TheOptionNamesThePreTokenizer) {
  Json json = byte_tokenizer();
  json["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers", {{{"type", "Whitespace"}}, {{"type", "ByteLevel"}}}}};
  EXPECT_EQ(refusal_of(json),
            "the pre-tokenizer is not known (option pre names one); its steps: Whitespace; ByteLevel");
  EXPECT_EQ(read_tokenizer(json, Json::object(), {.pre = "olmo"}).vocabulary.value().pre, "olmo");
}

TEST(ByteLevelBpe, WarnsOfWholeWords) {
  Json json = byte_tokenizer();
  json["model"]["ignore_merges"] = true;
  EXPECT_EQ(read_tokenizer(json).warnings,
            std::vector<std::string>{
                "tokenizer.json: ignore_merges is true, but the pre-tokenizer gpt-2 is known the other way"});
}

TEST(AddedTokensOfJson, AreControlOrUserDefined) {
  Json json = byte_tokenizer();
  json["added_tokens"] =
      list({added(4, "abc", true), added(6, "<s>", true), added(7, "x\xE2\x96\x81y"), added(8, "<|z|>")});
  const Vocabulary vocabulary = read_tokenizer(json).vocabulary.value();
  EXPECT_EQ(vocabulary.tokens, (std::vector<std::string>{"a", "b", "c", "ab", "abc", "[PAD5]", "<s>", "x y", "<|z|>"}));
  EXPECT_EQ((std::vector(vocabulary.types.begin() + 3, vocabulary.types.end())),
            (std::vector{TokenType::normal, TokenType::control, TokenType::unused, TokenType::control,
                         TokenType::user_defined, TokenType::control}));
}

TEST(AddedTokensOfJson, SettingsFillHolesAlone) {
  TokenizerFiles files;
  Json json = byte_tokenizer();
  json["added_tokens"] = list({added(6, "<s>", true)});
  files.write("tokenizer.json", json)
      .write("tokenizer_config.json",
             Json{{"added_tokens_decoder",
                   {{"5", {{"content", "<t>"}, {"special", true}}}, {"6", {{"content", "<u>"}, {"special", false}}}}}});
  const Vocabulary vocabulary = read_files(files).vocabulary.value();
  EXPECT_EQ(vocabulary.tokens[5], "<t>");
  EXPECT_EQ(vocabulary.tokens[6], "<s>");
  EXPECT_EQ(vocabulary.types[6], TokenType::control);
}

TEST(AddedTokensOfJson, RefusesBrokenOnes) {
  const auto refusal = [](const Json& tokens) {
    Json json = byte_tokenizer();
    json["added_tokens"] = tokens;
    return refusal_of(json);
  };
  EXPECT_EQ(refusal(nullptr), "read");
  EXPECT_EQ(refusal(7), "added_tokens: no list");
  EXPECT_EQ(refusal(list({7})), "added_tokens[0]: no integer id");
  EXPECT_EQ(refusal(list({added(5, "x"), {{"id", "6"}, {"content", "y"}}})), "added_tokens[1]: no integer id");
  EXPECT_EQ(refusal(list({{{"id", 6}}})), "added token 6: no content");
  EXPECT_EQ(refusal(list({added(4, "x")})), "tokens \"abc\" and \"x\" have the same id 4");
  EXPECT_EQ(refusal(list({added(5, "x"), added(5, "y")})), "tokens \"x\" and \"y\" have the same id 5");
  EXPECT_EQ(refusal(list({added(-5, "x")})), "token \"x\" has the id -5");
}

TEST(TokenizerJson, RefusesOtherModels) {
  EXPECT_EQ(refusal_of(7), "no object model");
  EXPECT_EQ(refusal_of({{"model", 7}}), "no object model");
  EXPECT_EQ(refusal_of({{"model", {{"type", "WordLevel"}}}}),
            "model: type \"WordLevel\", want BPE, Unigram or WordPiece");
  EXPECT_EQ(refusal_of({{"model", Json::object()}}), "model: type \"null\", want BPE, Unigram or WordPiece");
}

TEST(TokenizerJson, FilesOfOldVersionsDoNotNameTheirModel) {
  Json json = byte_tokenizer();
  json["model"].erase("type");
  EXPECT_EQ(read_tokenizer(json).vocabulary.value().model, "gpt2");
  EXPECT_EQ(read_tokenizer({{"model", {{"vocab", list({list({"a", 0.0})})}}}}).vocabulary.value().model, "t5");
  EXPECT_EQ(read_tokenizer({{"model", {{"vocab", {{"a", 0}}}, {"continuing_subword_prefix", "##"}}}})
                .vocabulary.value()
                .model,
            "bert");
}

TEST(TokenizerJson, RefusesBrokenJson) {
  TokenizerFiles files;
  files.write("tokenizer.json", R"({"model":{"vocab":{"a":0,"a":1}}})");
  EXPECT_ERROR(read_files(files).vocabulary, "tokenizer.json: not JSON: byte");
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += R"({"model":)";
  files.write("tokenizer.json", deep);
  EXPECT_ERROR(read_files(files).vocabulary, "tokenizer.json: ");
}

// A SentencePiece model as tokenizer.json: characters, and "th", "the".
Json fallback_tokenizer() {
  return {{"normalizer",
           {{"type", "Sequence"},
            {"normalizers",
             {{{"type", "Prepend"}, {"prepend", kSpace}},
              {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kSpace}}}}}},
          {"added_tokens", list({added(1, "<s>", true)})},
          {"model",
           {{"type", "BPE"},
            {"byte_fallback", true},
            {"unk_token", "<unk>"},
            {"vocab",
             {{"<unk>", 0},
              {"<s>", 1},
              {"<0x0A>", 2},
              {"t", 3},
              {"h", 4},
              {"e", 5},
              {"the", 6},
              {"th", 7},
              {"he", 8},
              {"et", 9}}},
            {"merges", {"t h", "h e", "th e", "t he"}}}}};
}

TEST(ByteFallbackBpe, ScoresByTheFirstMerge) {
  const Vocabulary vocabulary = read_tokenizer(fallback_tokenizer()).vocabulary.value();
  EXPECT_EQ(vocabulary.model, "llama");
  EXPECT_EQ(vocabulary.pre, "default");
  EXPECT_EQ(vocabulary.scores, (std::vector<float>{0, -1000, 0, 0, 0, 0, -2, 0, -1, -4}));
  EXPECT_EQ((std::vector(vocabulary.types.begin(), vocabulary.types.begin() + 4)),
            (std::vector{TokenType::unknown, TokenType::control, TokenType::byte, TokenType::normal}));
  EXPECT_TRUE(vocabulary.merges.empty());
  EXPECT_EQ(vocabulary.add_space_prefix, true);
  EXPECT_EQ(vocabulary.special_ids[to_size(SpecialToken::bos)], std::nullopt);
}

TEST(ByteFallbackBpe, TheSpaceInFrontIsThatOfNormalizerOrSettings) {
  Json json = fallback_tokenizer();
  json["normalizer"] = json["normalizer"]["normalizers"][1];
  EXPECT_EQ(read_tokenizer(json).vocabulary.value().add_space_prefix, false);
  json["normalizer"] = nullptr;
  EXPECT_EQ(refusal_of(json), "BPE neither of bytes nor with byte_fallback and U+2581 for spaces");
  json["pre_tokenizer"] = {{"type", "Metaspace"}, {"prepend_scheme", "first"}};
  EXPECT_EQ(read_tokenizer(json).vocabulary.value().add_space_prefix, true);
  TokenizerFiles files;
  files.write("tokenizer.json", json).write("tokenizer_config.json", Json{{"add_prefix_space", false}});
  EXPECT_EQ(read_files(files).vocabulary.value().add_space_prefix, false);
  json["model"]["byte_fallback"] = false;
  EXPECT_EQ(refusal_of(json), "BPE neither of bytes nor with byte_fallback and U+2581 for spaces");
}

TEST(ByteFallbackBpe, TokensBehindTheModelAreControlWhereSettingsNameThem) {
  Json json = fallback_tokenizer();
  json["added_tokens"] =
      list({added(10, "<a>", true), added(11, "<b>", true), added(12, "<c>", true), added(13, "<d>", true)});
  TokenizerFiles files;
  files.write("tokenizer.json", json)
      .write("tokenizer_config.json", Json{{"eot_token", "<a>"},
                                           {"additional_special_tokens", list({{{"content", "<b>"}}})},
                                           {"extra_special_tokens", {{"x", "<c>"}}}});
  const Vocabulary vocabulary = read_files(files).vocabulary.value();
  EXPECT_EQ((std::vector(vocabulary.types.begin() + 10, vocabulary.types.end())),
            (std::vector{TokenType::control, TokenType::control, TokenType::control, TokenType::user_defined}));
  EXPECT_EQ(vocabulary.scores[13], -1000);
}

TEST(ByteFallbackBpe, OfGemma4HasMergesAndVisibleTokens) {
  Json json = fallback_tokenizer();
  json["added_tokens"] = list({added(10, "<|channel>", true), added(11, "<|\"|>", true)});
  TokenizerFiles files;
  files.write("tokenizer.json", json)
      .write("tokenizer_config.json", Json{{"additional_special_tokens", {"<|channel>", "<|\"|>"}}});
  for (const char* name : {"Gemma4ForCausalLM", "Gemma4UnifiedForConditionalGeneration"}) {
    SCOPED_TRACE(name);
    const Vocabulary vocabulary = read_files(files, {{"architectures", list({name})}}).vocabulary.value();
    EXPECT_EQ(vocabulary.model, "gemma4");
    EXPECT_EQ(vocabulary.pre, "");
    EXPECT_EQ(vocabulary.merges.size(), 4u);
    EXPECT_EQ(vocabulary.scores[6], -2);
    EXPECT_EQ(vocabulary.add_space_prefix, false);
    EXPECT_EQ(vocabulary.types[10], TokenType::user_defined);
    EXPECT_EQ(vocabulary.types[11], TokenType::user_defined);
  }
}

TEST(UnigramJson, HasPiecesAndNormalizer) {
  const Json json{
      {"normalizer",
       {{"type", "Sequence"},
        {"normalizers",
         {{{"type", "Precompiled"}, {"precompiled_charsmap", "bWFw"}},
          {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", " "}}}}}},
      {"pre_tokenizer", {{"type", "Metaspace"}, {"prepend_scheme", "never"}}},
      {"added_tokens", list({added(0, "<pad>", true), added(1, "<unk>", true), added(4, "<x>")})},
      {"model",
       {{"type", "Unigram"},
        {"unk_id", 1},
        {"byte_fallback", true},
        {"vocab", list({list({"<pad>", 0.0}), list({"<unk>", 0}), list({"a", -1.5}), list({"<0x41>", -2})})}}}};
  const Vocabulary vocabulary = read_tokenizer(json, {{"vocab_size", 6}}).vocabulary.value();
  EXPECT_EQ(vocabulary.model, "t5");
  EXPECT_EQ(vocabulary.pre, "default");
  EXPECT_EQ(vocabulary.scores, (std::vector<float>{0, 0, -1.5f, -2, 0, -10000}));
  EXPECT_EQ(vocabulary.types, (std::vector{TokenType::control, TokenType::unknown, TokenType::normal, TokenType::byte,
                                           TokenType::user_defined, TokenType::unused}));
  EXPECT_EQ(vocabulary.special_ids[to_size(SpecialToken::unknown)], 1u);
  EXPECT_EQ(vocabulary.charsmap, (std::vector<uint8_t>{'m', 'a', 'p'}));
  EXPECT_EQ(vocabulary.add_space_prefix, false);
  EXPECT_EQ(vocabulary.remove_extra_whitespaces, true);
}

TEST(UnigramJson, KeepsSpacesUnlessAPartRemovesThem) {
  Json json{{"model", {{"type", "Unigram"}, {"vocab", list({list({"a", 0})})}}}};
  EXPECT_EQ(read_tokenizer(json).vocabulary.value().remove_extra_whitespaces, false);
  EXPECT_EQ(read_tokenizer(json).vocabulary.value().add_space_prefix, false);
  json["pre_tokenizer"] = {{"type", "Sequence"},
                           {"pretokenizers", {{{"type", "WhitespaceSplit"}}, {{"type", "Metaspace"}}}}};
  EXPECT_EQ(read_tokenizer(json).vocabulary.value().remove_extra_whitespaces, true);
  EXPECT_EQ(read_tokenizer(json).vocabulary.value().add_space_prefix, true);
  json["pre_tokenizer"] = nullptr;
  json["normalizer"] = {{"type", "Strip"}};
  EXPECT_EQ(read_tokenizer(json).vocabulary.value().remove_extra_whitespaces, true);
}

TEST(UnigramJson, RefusesBrokenOnes) {
  const auto refusal = [](const Json& vocab, const Json& unk = nullptr) {
    return refusal_of({{"model", {{"type", "Unigram"}, {"vocab", vocab}, {"unk_id", unk}}}});
  };
  EXPECT_EQ(refusal(Json::object()), "vocab: no list");
  EXPECT_EQ(refusal(list({list({"a", 0}), 7})), "vocab[1]: want a text and a score");
  EXPECT_EQ(refusal(list({list({"a", 0, 0})})), "vocab[0]: want a text and a score");
  EXPECT_EQ(refusal(list({list({7, 0})})), "vocab[0]: want a text and a score");
  EXPECT_EQ(refusal(list({list({"a", "0"})})), "vocab[0]: want a text and a score");
  EXPECT_EQ(refusal(list({list({"a", 1e300})})), "vocab[0]: a score of 1e+300");
  EXPECT_EQ(refusal(list({list({"a", 0})}), 1), "unk_id 1 of 1 tokens");
  EXPECT_EQ(refusal(list({list({"a", 0})}), -1), "unk_id -1 of 1 tokens");
  EXPECT_EQ(refusal_of({{"normalizer", {{"type", "Precompiled"}, {"precompiled_charsmap", "!"}}},
                        {"model", {{"type", "Unigram"}, {"vocab", list({list({"a", 0})})}}}}),
            "normalizer: precompiled_charsmap: \"!\": no base64");
  EXPECT_EQ(refusal_of({{"normalizer", 7}, {"model", {{"type", "Unigram"}, {"vocab", list({list({"a", 0})})}}}}),
            "normalizer: a part that is no object");
}

TEST(WordPieceJson, SpellsPiecesOfWords) {
  const Json json{{"normalizer", {{"type", "BertNormalizer"}, {"lowercase", false}, {"strip_accents", nullptr}}},
                  {"added_tokens", list({added(0, "[X]", true)})},
                  {"model",
                   {{"type", "WordPiece"},
                    {"continuing_subword_prefix", "@@"},
                    {"vocab", {{"[X]", 0}, {"a", 1}, {"@@b", 2}, {"@@", 3}, {"##c", 4}, {"[SEP]", 5}}}}}};
  const Vocabulary vocabulary = read_tokenizer(json).vocabulary.value();
  EXPECT_EQ(vocabulary.model, "bert");
  EXPECT_EQ(vocabulary.tokens, (std::vector<std::string>{"[X]",
                                                         "\xE2\x96\x81"
                                                         "a",
                                                         "b", "\xE2\x96\x81@@", "\xE2\x96\x81##c", "[SEP]"}));
  EXPECT_EQ(vocabulary.types[0], TokenType::control);
  EXPECT_EQ(vocabulary.types[5], TokenType::control);
  EXPECT_EQ(vocabulary.types[2], TokenType::normal);
  EXPECT_EQ(vocabulary.lowercase, false);
  EXPECT_EQ(vocabulary.strip_accents, false);
}

TEST(WordPieceJson, AccentsGoWithCaseUnlessTheFileSaysOtherwise) {
  TokenizerFiles files;
  Json json{{"model", {{"type", "WordPiece"}, {"vocab", {{"a", 0}}}}}};
  const auto flags = [&] {
    files.write("tokenizer.json", json);
    const Vocabulary vocabulary = read_files(files).vocabulary.value();
    return std::pair(*vocabulary.lowercase, *vocabulary.strip_accents);
  };
  EXPECT_EQ(flags(), std::pair(true, true));
  files.write("tokenizer_config.json", Json{{"do_lower_case", false}});
  EXPECT_EQ(flags(), std::pair(false, false));
  files.write("tokenizer_config.json", Json{{"do_lower_case", false}, {"strip_accents", true}});
  EXPECT_EQ(flags(), std::pair(false, true));
  json["normalizer"] = {{"type", "BertNormalizer"}, {"lowercase", true}, {"strip_accents", false}};
  EXPECT_EQ(flags(), std::pair(true, false));
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "Lowercase"}}, {{"type", "StripAccents"}}}}};
  EXPECT_EQ(flags(), std::pair(true, true));
}

}  // namespace
}  // namespace tessera::convert
