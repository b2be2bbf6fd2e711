// Vocabularies in text files: vocab.json with merges.txt, vocab.txt, RWKV's list, and ranks of bytes.
#include "tessera/convert/vocabulary/text_vocabularies.h"

#include <gtest/gtest.h>

#include "tessera/convert/vocabulary/ranked_tokens.h"
#include "tessera/convert/vocabulary/rwkv_vocabulary.h"
#include "tessera/text/chat/builtin_templates.h"
#include "tests/convert/vocabulary_files.h"

namespace tessera::convert {
namespace {

using namespace testing;
using text::SpecialToken;
using text::TokenType;

TEST(VocabAndMerges, AreByteLevelBpe) {
  TokenizerFiles files;
  files.write("vocab.json", R"({"<s>":0,"a":1,"b":2,"ab":3})")
      .write("merges.txt", "#version: 0.2\r\na b\r\n\r\n")
      .write("tokenizer_config.json", Json{{"bos_token", "<s>"}});
  const Vocabulary vocabulary = read_files(files).vocabulary.value();
  EXPECT_EQ(vocabulary.model, "gpt2");
  EXPECT_EQ(vocabulary.pre, "gpt-2");
  EXPECT_EQ(vocabulary.merges, std::vector<std::string>{"a b"});
  EXPECT_EQ(vocabulary.types[0], TokenType::control);
  EXPECT_EQ(vocabulary.types[1], TokenType::normal);
  EXPECT_EQ(vocabulary.special_ids[to_size(SpecialToken::bos)], 0u);
  EXPECT_EQ(read_files(files, {{"architectures", list({"StableLmForCausalLM"})}}).vocabulary.value().pre, "stablelm2");
  EXPECT_EQ(read_files(files, Json::object(), {.pre = "qwen2"}).vocabulary.value().pre, "qwen2");
}

TEST(VocabAndMerges, TheVersionIsTheFirstLineAlone) {
  TokenizerFiles files;
  files.write("vocab.json", R"({"a":0,"b":1,"ab":2,"#version:":3,"#version:a":4})")
      .write("merges.txt", "a b\n#version: a\n");
  EXPECT_EQ(read_files(files).vocabulary.value().merges, (std::vector<std::string>{"a b", "#version: a"}));
}

TEST(VocabAndMerges, RefusesBrokenFiles) {
  TokenizerFiles files;
  const auto refusal = [&](const char* vocab, const char* merges) {
    files.write("vocab.json", vocab).write("merges.txt", merges);
    const auto read = read_files(files).vocabulary;
    return read ? "read" : read.error().message();
  };
  EXPECT_EQ(refusal("[]", ""), "vocab.json: vocab: no object");
  EXPECT_EQ(refusal(R"({"a":0,"b":0})", ""), "vocab.json: tokens \"a\" and \"b\" have the same id 0");
  EXPECT_EQ(refusal(R"({"a":0})", "#version\na b c\n"),
            "merges.txt: line 2: merge \"a b c\", want two parts and a space between");
  EXPECT_EQ(refusal(R"({"a":0})", "a b\n"), "merges.txt: merge 0: \"b\" is no token");
}

TEST(VocabAndMerges, NeedBothFiles) {
  TokenizerFiles files;
  files.write("vocab.json", R"({"a":0})").write("vocab.txt", "a\n");
  EXPECT_EQ(read_files(files).vocabulary.value().model, "bert");
}

TEST(VocabTxt, IsWordPiece) {
  TokenizerFiles files;
  files.write("vocab.txt", "[PAD]\n<x>\na\n##b")
      .write("tokenizer_config.json", Json{{"mask_token", "<x>"}, {"do_lower_case", false}});
  const Vocabulary vocabulary = read_files(files).vocabulary.value();
  EXPECT_EQ(vocabulary.tokens, (std::vector<std::string>{"[PAD]", "<x>",
                                                         "\xE2\x96\x81"
                                                         "a",
                                                         "b"}));
  EXPECT_EQ(vocabulary.types,
            (std::vector{TokenType::control, TokenType::control, TokenType::normal, TokenType::normal}));
  EXPECT_EQ(vocabulary.lowercase, false);
  EXPECT_TRUE(vocabulary.scores.empty());
  files.write("vocab.txt", "a\n\xff\n");
  EXPECT_ERROR(read_files(files).vocabulary, "vocab.txt: line 2: \"\\xFF\": not UTF-8");
}

TEST(PythonLiterals, AreRead) {
  EXPECT_EQ(parse_python_literal(R"('a\n\t\r\\\'\"b')").value(), "a\n\t\r\\'\"b");
  EXPECT_EQ(parse_python_literal(R"("it's")").value(), "it's");
  EXPECT_EQ(parse_python_literal(R"('\x80\u4e16\U0001f600')").value(), "\xc2\x80\xe4\xb8\x96\xf0\x9f\x98\x80");
  EXPECT_EQ(parse_python_literal(R"(b'\x80\xff')").value(), "\x80\xff");
  EXPECT_EQ(parse_python_literal("''").value(), "");
  for (const char* text : {"", "'", "a", "'a\"", "b", "c'a'"}) EXPECT_ERROR(parse_python_literal(text), "no literal");
  for (const char* text : {R"('\q')", R"('\x4')", R"('\x4g')", R"('\u123')", R"('\U00110000')", R"('\ud800')",
                           R"(b'\u1234')", R"(b'\U00000041')", R"('\')"})
    EXPECT_ERROR(parse_python_literal(text), "an unknown escape after byte");
}

TEST(PythonLiterals, AreWrittenAsRepr) {
  EXPECT_EQ(python_repr("a\n\t\r\\"), R"(a\n\t\r\\)");
  EXPECT_EQ(python_repr("it's"), "it's");
  EXPECT_EQ(python_repr("\"a\""), "\"a\"");
  EXPECT_EQ(python_repr("'\""), "\\'\"");
  EXPECT_EQ(python_repr(std::string("\0\x1f ~\x7f\xff", 6)), R"(\x00\x1f ~\x7f\xff)");
}

TEST(RwkvVocabulary, HasEscapedBytes) {
  TokenizerFiles files;
  std::string lines = "1 '\\x00' 1\n2 b'\\xff' 1\n3 'a b' 3\n";
  files.write("rwkv_vocab_v1.txt", lines);
  const Vocabulary vocabulary = read_files(files).vocabulary.value();
  EXPECT_EQ(vocabulary.model, "rwkv");
  EXPECT_EQ(vocabulary.tokens, (std::vector<std::string>{"<s>", "\\x00", "\\xff", "a b"}));
  EXPECT_EQ(vocabulary.types[0], TokenType::control);
  EXPECT_EQ(vocabulary.special_ids[to_size(SpecialToken::bos)], 0u);
  EXPECT_EQ(vocabulary.special_ids[to_size(SpecialToken::eos)], 0u);
  EXPECT_EQ(vocabulary.special_ids[to_size(SpecialToken::eot)], std::nullopt);
  EXPECT_EQ(vocabulary.chat_template, *text::find_builtin_template("rwkv-world"));
  EXPECT_EQ(vocabulary.add_bos, false);
  files.write("rwkv_vocab_v1.txt", lines + "261 'z' 1\n");
  EXPECT_EQ(read_files(files).vocabulary.value().special_ids[to_size(SpecialToken::eot)], 261u);
  files.write("rwkv_vocab_v1.txt", lines + "260 'z' 1\n");
  EXPECT_EQ(read_files(files).vocabulary.value().special_ids[to_size(SpecialToken::eot)], std::nullopt);
}

TEST(RwkvVocabulary, RefusesBrokenLines) {
  const auto refusal = [](const std::string& line) {
    TokenizerFiles files;
    files.write("rwkv_vocab_v1.txt", "1 'a' 1\n" + line + "\n");
    const auto read = read_files(files).vocabulary;
    return read ? "read" : read.error().message();
  };
  const std::string start = "rwkv_vocab_v1.txt: line 2: ";
  EXPECT_EQ(refusal("2 'b'"), start + "\"2 'b'\": want an id, a literal and a length");
  EXPECT_EQ(refusal("2"), start + "\"2\": want an id, a literal and a length");
  EXPECT_EQ(refusal("2 'b' 2"), start + "\"2 'b' 2\": 1 bytes, want 2");
  EXPECT_EQ(refusal("2 'b' -1"), start + "\"2 'b' -1\": 1 bytes, want -1");
  EXPECT_EQ(refusal("2x 'b' 1"), start + "\"2x\": want a number");
  EXPECT_EQ(refusal("2 'b' y"), start + "\"y\": want a number");
  EXPECT_EQ(refusal("2 b 1"), start + "\"b\": no literal of Python");
  EXPECT_EQ(refusal("1 'b' 1"), start + "tokens \"a\" and \"b\" have the same id 1");
  EXPECT_EQ(refusal("0 'b' 1"), start + "tokens \"<s>\" and \"b\" have the same id 0");
  EXPECT_EQ(refusal("99999999 'b' 1"), start + "token \"b\" has the id 99999999, limit 1048575");
}

TEST(RankedMerges, SplitIntoThePartsOfLowerRanks) {
  const RankedMerges merges = merges_of_ranks({"a", "b", "c", " ", "bc", "abc", "ab", "abcab", "\xff", "c "}).value();
  EXPECT_EQ(merges.merges, (std::vector<std::string>{"b c", "a bc", "a b", "abc ab", "c \xC4\xA0"}));
  EXPECT_EQ(merges.n_unreached, 0u);
}

TEST(RankedMerges, CountsTokensOutOfReach) {
  EXPECT_EQ(merges_of_ranks({"a", "b", "aba", "", "ab"}).value().n_unreached, 1u);
  EXPECT_EQ(merges_of_ranks({"a", "b", "aba", "", "ab"}).value().merges, std::vector<std::string>{"a b"});
}

TEST(RankedMerges, HaveLimits) {
  EXPECT_ERROR(merges_of_ranks({"a", "b", "a"}), "rank 2: token \"a\" has another rank too");
  EXPECT_OK(merges_of_ranks({std::string(512, 'a')}));
  EXPECT_ERROR(merges_of_ranks({std::string(513, 'a')}), "rank 0: more than 512 bytes");
  std::vector<std::string> tokens;
  for (int i = 0; i < (1 << 15); ++i) {
    std::string token(512, 'a');
    for (size_t bit = 0; bit < 15; ++bit) token[bit] = (i >> bit & 1) != 0 ? 'b' : 'a';
    tokens.push_back(token);
  }
  EXPECT_OK(merges_of_ranks(tokens));
  tokens.emplace_back("c");
  EXPECT_ERROR(merges_of_ranks(tokens), "rank 32768: more than 512 bytes, or more than 16777216 bytes of tokens");
}

TEST(Tiktoken, HasRanksAsIds) {
  TokenizerFiles files;
  files.write("qwen.tiktoken", "YQ== 0\nYg== 1\nYWI= 2\n")
      .write("tokenizer_config.json",
             Json{{"eos_token", "<e>"}, {"added_tokens_decoder", {{"4", {{"content", "<e>"}, {"special", true}}}}}});
  const Json qwen{{"architectures", list({"QWenLMHeadModel"})}};
  const Vocabulary vocabulary = read_files(files, qwen).vocabulary.value();
  EXPECT_EQ(vocabulary.model, "gpt2");
  EXPECT_EQ(vocabulary.pre, "qwen2");
  EXPECT_EQ(vocabulary.tokens, (std::vector<std::string>{"a", "b", "ab", "[PAD3]", "<e>"}));
  EXPECT_EQ(vocabulary.merges, std::vector<std::string>{"a b"});
  EXPECT_EQ(vocabulary.special_ids[to_size(SpecialToken::eos)], 4u);
  EXPECT_EQ(read_files(files, qwen, {.pre = "gpt-2"}).vocabulary.value().pre, "gpt-2");
  EXPECT_ERROR(read_files(files, {{"architectures", list({"Other"})}}).vocabulary,
               "qwen.tiktoken: the pre-tokenizer of \"Other\" is not known (option pre names one)");
}

TEST(Tiktoken, MayHaveTheNameOfASentencePieceModel) {
  EXPECT_TRUE(is_ranked_text("YQ== 0\n"));
  EXPECT_TRUE(is_ranked_text("YQ== 12\r\nx"));
  for (const char* text : {"", "YQ==\n", " 0\n", "YQ== \n", "YQ== x\n", "!! 0\n", "\x0a\x03YQ 0\n"})
    EXPECT_FALSE(is_ranked_text(text)) << text;
  TokenizerFiles files;
  files.write("tokenizer.model", "YQ== 0\r\nYg== 1");
  EXPECT_EQ(read_files(files, Json::object(), {.pre = "llama-bpe"}).vocabulary.value().tokens,
            (std::vector<std::string>{"a", "b"}));
}

TEST(Tiktoken, RefusesBrokenLines) {
  const auto refusal = [](const std::string& line) {
    TokenizerFiles files;
    files.write("tiktoken.model", "YQ== 0\n" + line + "\n");
    const auto read = read_files(files, Json::object(), {.pre = "gpt-2"}).vocabulary;
    return read ? "read" : read.error().message();
  };
  EXPECT_EQ(refusal("Yg=="), "tiktoken.model: line 2: \"\": want a number");
  EXPECT_EQ(refusal("!! 1"), "tiktoken.model: line 2: \"!!\": no base64");
  EXPECT_EQ(refusal(" 1"), "tiktoken.model: line 2: rank 1: an empty token");
  EXPECT_EQ(refusal("Yg== 0"), "tiktoken.model: line 2: two tokens of rank 0");
  EXPECT_EQ(refusal("Yg== -1"), "tiktoken.model: line 2: rank -1, want 0 to 1048575");
  EXPECT_EQ(refusal("Yg== 1048576"), "tiktoken.model: line 2: rank 1048576, want 0 to 1048575");
  EXPECT_EQ(refusal("YQ== 1"), "tiktoken.model: rank 1: token \"a\" has another rank too");
}

TEST(Tiktoken, WarnsOfTokensOutOfReach) {
  TokenizerFiles files;
  files.write("tiktoken.model", "YQ== 0\nYWFh 1\n");  // a, aaa
  EXPECT_EQ(read_files(files, Json::object(), {.pre = "gpt-2"}).warnings,
            std::vector<std::string>{"tiktoken.model: 1 tokens cannot be made by merges of lower ranks"});
}

constexpr const char* kTekkenPattern =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

Json tekken(int n_tokens, int n_special) {
  return {{"config",
           {{"pattern", kTekkenPattern}, {"default_vocab_size", n_tokens}, {"default_num_special_tokens", n_special}}},
          {"vocab", list({{{"rank", 0}, {"token_bytes", "YQ=="}},
                          {{"rank", 1}, {"token_bytes", "Yg=="}},
                          {{"rank", 2}, {"token_bytes", "YWI="}}})}};
}

VocabularyReading read_tekken_json(const Json& json, const VocabularyOptions& options = {}) {
  TokenizerFiles files;
  files.write("tekken.json", json);
  return read_files(files, Json::object(), options);
}

TEST(Tekken, HasRanksBehindSpecialTokens) {
  const Vocabulary vocabulary = read_tekken_json(tekken(25, 22)).vocabulary.value();
  EXPECT_EQ(vocabulary.pre, "tekken");
  EXPECT_EQ(vocabulary.tokens[0], "<unk>");
  EXPECT_EQ(vocabulary.tokens[19], "[TOOL_CONTENT]");
  EXPECT_EQ(vocabulary.tokens[20], "<SPECIAL_20>");
  EXPECT_EQ((std::vector(vocabulary.tokens.begin() + 21, vocabulary.tokens.end())),
            (std::vector<std::string>{"<SPECIAL_21>", "a", "b", "ab"}));
  EXPECT_EQ(vocabulary.types[21], TokenType::control);
  EXPECT_EQ(vocabulary.types[22], TokenType::normal);
  EXPECT_EQ(vocabulary.merges, std::vector<std::string>{"a b"});
  EXPECT_EQ(vocabulary.special_ids[0], 1u);
  EXPECT_EQ(vocabulary.special_ids[1], 2u);
  EXPECT_EQ(vocabulary.special_ids[2], 0u);
  EXPECT_EQ(vocabulary.add_bos, true);
  EXPECT_EQ(vocabulary.add_eos, false);
}

TEST(Tekken, DropsRanksBeyondItsSize) {
  const Vocabulary vocabulary = read_tekken_json(tekken(5, 3)).vocabulary.value();
  EXPECT_EQ(vocabulary.tokens, (std::vector<std::string>{"<unk>", "<s>", "</s>", "a", "b"}));
  EXPECT_TRUE(vocabulary.merges.empty());
}

TEST(Tekken, ListsItsSpecialTokens) {
  Json json = tekken(7, 4);
  json["special_tokens"] = list({{{"rank", 2}, {"token_str", "<x>"}}});
  EXPECT_EQ(read_tekken_json(json).vocabulary.value().tokens,
            (std::vector<std::string>{"<SPECIAL_0>", "<SPECIAL_1>", "<x>", "<SPECIAL_3>", "a", "b", "ab"}));
  json["special_tokens"] = list({{{"rank", 4}, {"token_str", "<x>"}}});
  EXPECT_ERROR(read_tekken_json(json).vocabulary, "tekken.json: special token 4: the limit is 4");
  json["special_tokens"] = list({{{"rank", -1}, {"token_str", "<x>"}}});
  EXPECT_ERROR(read_tekken_json(json).vocabulary, "tekken.json: token \"<x>\" has the id -1");
  json["special_tokens"] = list({{{"rank", 1}}});
  EXPECT_ERROR(read_tekken_json(json).vocabulary, "tekken.json: no text token_str");
}

TEST(Tekken, RefusesBrokenFiles) {
  const auto refusal = [](const Json& json) {
    const auto read = read_tekken_json(json).vocabulary;
    return read ? "read" : without(read.error().message(), "tekken.json: ");
  };
  EXPECT_EQ(refusal(list({})), "no object config");
  EXPECT_EQ(refusal(Json::object()), "no object config");
  EXPECT_EQ(refusal({{"config", 7}}), "no integer default_vocab_size");
  EXPECT_EQ(refusal(tekken(3, 4)), "3 tokens, 4 of them special, limit 1048576");
  EXPECT_EQ(refusal(tekken(3, -1)), "3 tokens, -1 of them special, limit 1048576");
  EXPECT_EQ(refusal(tekken(1048577, 4)), "1048577 tokens, 4 of them special, limit 1048576");
  Json json = tekken(7, 4);
  json["config"]["pattern"] = "x+";
  EXPECT_EQ(refusal(json), "the pre-tokenizer is not known (option pre names one); its steps: \"x+\"");
  EXPECT_EQ(read_tekken_json(json, {.pre = "gpt-4o"}).vocabulary.value().pre, "gpt-4o");
  json = tekken(7, 4);
  json["vocab"][1]["rank"] = 0;
  EXPECT_EQ(refusal(json), "two tokens of rank 0");
  json["vocab"][1]["rank"] = "1";
  EXPECT_EQ(refusal(json), "no integer rank");
  json["vocab"] = 7;
  EXPECT_EQ(refusal(json), "no list vocab");
}

}  // namespace
}  // namespace tessera::convert
