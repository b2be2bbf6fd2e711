// Parts of all kinds of vocabularies: which file is read, the size of the model, special tokens, ends of texts, chat
// templates, and the keys of the result.
#include "tessera/convert/vocabulary/vocabulary.h"

#include <gtest/gtest.h>

#include "tessera/convert/vocabulary/added_tokens.h"
#include "tessera/convert/vocabulary/base64.h"
#include "tessera/convert/vocabulary/token_table.h"
#include "tessera/convert/vocabulary/vocabulary_classes.h"
#include "tessera/gguf/reader.h"
#include "tessera/text/chat/builtin_templates.h"
#include "tests/convert/plamo_files.h"
#include "tests/convert/vocabulary_files.h"

namespace tessera::convert {
namespace {

using namespace testing;
using text::SpecialToken;
using text::TokenType;

std::optional<uint32_t> id_of(const Vocabulary& vocabulary, SpecialToken which) {
  return vocabulary.special_ids[to_size(which)];
}

// A vocabulary of words, one per line.
TokenizerFiles& write_words(TokenizerFiles& files, const std::string& words) { return files.write("vocab.txt", words); }

TEST(TokenTable, KeepsOneTokenPerId) {
  TokenTable tokens;
  ASSERT_OK(tokens.add(2, {"c", 1, TokenType::normal}));
  EXPECT_EQ(tokens.n_ids(), 3u);
  EXPECT_EQ(tokens.find(1), nullptr);
  EXPECT_EQ(tokens.find(3), nullptr);
  EXPECT_EQ(tokens.find(-1), nullptr);
  EXPECT_EQ(tokens.find(2)->text, "c");
  EXPECT_ERROR(tokens.add(2, {"d", 0, TokenType::normal}), "tokens \"c\" and \"d\" have the same id 2");
  EXPECT_ERROR(tokens.add(-1, {"d", 0, TokenType::normal}), "token \"d\" has the id -1");
  EXPECT_ERROR(tokens.put(1 << 20, {"d", 0, TokenType::normal}), "token \"d\" has the id 1048576, limit 1048575");
  ASSERT_OK(tokens.put(2, {"d", 0, TokenType::normal}));
  EXPECT_EQ(tokens.find(2)->text, "d");
  ASSERT_OK(tokens.fill(5, -7));
  EXPECT_EQ(tokens.n_ids(), 5u);
  EXPECT_EQ(tokens.find(2)->text, "d");
  EXPECT_EQ(tokens.find(0)->text, "[PAD0]");
  EXPECT_EQ(tokens.find(4)->score, -7);
  EXPECT_EQ(tokens.find(4)->type, TokenType::unused);
  ASSERT_OK(tokens.fill(2, 0));
  EXPECT_EQ(tokens.n_ids(), 5u);
  tokens.cut(6);
  EXPECT_EQ(tokens.n_ids(), 5u);
  tokens.cut(2);
  EXPECT_EQ(tokens.n_ids(), 2u);
  EXPECT_ERROR(tokens.fill((1 << 20) + 1, 0), "a vocabulary of 1048577 tokens, limit 1048576");
  ASSERT_OK(tokens.put((1 << 20) - 1, {"d", 0, TokenType::normal}));
}

TEST(Base64, DecodesWithAndWithoutPadding) {
  EXPECT_EQ(decode_base64("").value(), "");
  EXPECT_EQ(decode_base64("Zg==").value(), "f");
  EXPECT_EQ(decode_base64("Zg").value(), "f");
  EXPECT_EQ(decode_base64("Zm8=").value(), "fo");
  EXPECT_EQ(decode_base64("Zm9v").value(), "foo");
  EXPECT_EQ(decode_base64("Zm9vYg==").value(), "foob");
  EXPECT_EQ(decode_base64("+/+/").value(), "\xfb\xff\xbf");
  EXPECT_EQ(decode_base64("AZaz09+/").value(), "\x01\x96\xb3\xd3\xdf\xbf");
  for (const char* text :
       {"Z", "Zm9vY", "Zg=", "Z===", "Zh==", "Zm9=", "Zm v", "Zg==Zg==", "[///", "`aaa", "{aaa", ":aaa"})
    EXPECT_ERROR(decode_base64(text), "no base64");
}

TEST(AddedTokens, SomeLookSpecial) {
  for (const char* text : {"<pad>", "<mask>", "<2mass>", "[@BOS@]", "<|x|>", "<||>", "<unused>", "<unused12>",
                           "<\xEF\xBD\x9Cx\xEF\xBD\x9C>"})
    EXPECT_TRUE(looks_special(text)) << text;
  for (const char* text : {"", "<|>", "<s>", "<|x>", "x|>", "pad", "<unuse>", "[BOS]"})
    EXPECT_FALSE(looks_special(text)) << text;
}

TEST(ReadVocabulary, NamesTheFilesThatItLooksFor) {
  TokenizerFiles files;
  const auto read = read_files(files).vocabulary;
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code(), ErrorCode::not_found);
  EXPECT_NE(read.error().message().find("no vocabulary: none of tokenizer.model,"), std::string::npos);
}

TEST(ReadVocabulary, TheFirstKindOfFileCounts) {
  TokenizerFiles files;
  const auto model = [&] { return read_files(files).vocabulary.value().model; };
  files.write("tokenizer.jsonl", plamo_lines());
  EXPECT_EQ(model(), "plamo2");
  files.write("rwkv_vocab_v20230424.txt", "1 'a' 1\n");
  EXPECT_EQ(model(), "rwkv");
  files.write("vocab.txt", "a\nb\n");
  EXPECT_EQ(model(), "bert");
  files.write("vocab.json", R"({"a":0,"b":1,"ab":2})").write("merges.txt", "#version: 0.2\na b\n");
  EXPECT_EQ(model(), "gpt2");
  files.write("tokenizer.json", R"({"model":{"type":"Unigram","vocab":[["a",0.0]]}})");
  EXPECT_EQ(model(), "t5");
  files.write("tokenizer.model", protobuf::piece("a", 0) + protobuf::trainer(2, 0, -1, -1, -1));
  EXPECT_EQ(model(), "llama");
}

TEST(ReadVocabulary, RefusesAnUnknownNameOfAPreTokenizer) {
  TokenizerFiles files;
  write_words(files, "a\n");
  EXPECT_ERROR(read_files(files, Json::object(), {.pre = "nonsense"}).vocabulary,
               "pre-tokenizer \"nonsense\": not known");
}

TEST(ReadVocabulary, RefusesBrokenSettings) {
  TokenizerFiles files;
  write_words(files, "a\n").write("tokenizer_config.json", "[]");
  EXPECT_ERROR(read_files(files).vocabulary, "tokenizer_config.json: no object");
  files.write("tokenizer_config.json", "{");
  EXPECT_ERROR(read_files(files).vocabulary, "tokenizer_config.json: not JSON");
  files.write("tokenizer_config.json", std::string(100'000, '[') + std::string(100'000, ']'));
  EXPECT_ERROR(read_files(files).vocabulary, "tokenizer_config.json: ");
}

TEST(ReadVocabulary, HasTheSizeOfTheModel) {
  TokenizerFiles files;
  write_words(files, "a\nb\nc\n");
  EXPECT_EQ(read_files(files, {{"vocab_size", 3}}).vocabulary.value().tokens.size(), 3u);
  EXPECT_EQ(read_files(files, {{"vocab_size", 5}}).vocabulary.value().tokens[4], "[PAD4]");
  EXPECT_ERROR(read_files(files, {{"vocab_size", 2}}).vocabulary,
               "vocab.txt: token \"\xE2\x96\x81"
               "c\" has the id 2, but vocab_size is 2");
  EXPECT_ERROR(read_files(files, {{"vocab_size", 0}}).vocabulary, "config.json: vocab_size is 0, want an integer");
  EXPECT_ERROR(read_files(files, {{"vocab_size", 1048577}}).vocabulary, "want an integer from 1 to 1048576");
  const auto size_of = [&](const char* name, int n) {
    return read_files(files, {{"architectures", list({name})}, {"vocab_size", n}}).vocabulary.value().tokens.size();
  };
  EXPECT_EQ(size_of("MambaForCausalLM", 9), 16u);
  EXPECT_EQ(size_of("MambaForCausalLM", 8), 8u);
  EXPECT_EQ(size_of("Mamba2ForCausalLM", 9), 16u);
  EXPECT_EQ(size_of("Mamba2ForCausalLM", 17), 32u);
  EXPECT_EQ(size_of("GraniteMoeHybridForCausalLM", 17), 24u);
  EXPECT_EQ(size_of("BertModel", 17), 17u);
}

TEST(ReadVocabulary, LeavesOutAddedTokensThatTheModelLacks) {
  TokenizerFiles files;
  write_words(files, "a\nb\n")
      .write("added_tokens.json", Json{{"c", 2}, {"d", 3}, {"e", 5}})
      .write("tokenizer_config.json", Json{{"add_bos_token", false}, {"add_eos_token", false}});
  const VocabularyReading reading = read_files(files, {{"vocab_size", 3}});
  EXPECT_EQ(reading.vocabulary.value().tokens.size(), 3u);
  EXPECT_EQ(reading.warnings, std::vector<std::string>{
                                  "vocab.txt: 2 added tokens are left out, for vocab_size is 3; the first is \"d\""});
}

TEST(ReadVocabulary, ChecksThatTheResultCanBeLoaded) {
  TokenizerFiles files;
  write_words(files, "a\na\n");
  EXPECT_ERROR(read_files(files).vocabulary, "vocab.txt: tokenizer.ggml.tokens: 0 and 1 are both");
}

TEST(ReadVocabulary, CountsTheTypesOfTokens) {
  TokenizerFiles files;
  write_words(files, "a\n");
  EXPECT_EQ(read_files(files).vocabulary.value().token_type_count, std::nullopt);
  EXPECT_EQ(read_files(files, {{"type_vocab_size", 2}}).vocabulary.value().token_type_count, 2u);
  EXPECT_ERROR(read_files(files, {{"type_vocab_size", -1}}).vocabulary, "type_vocab_size is -1");
}

TEST(SpecialTokens, SettingsComeBeforeTheConfig) {
  TokenizerFiles files;
  write_words(files, "<a>\n<b>\n<c>\n[CLS]\n[SEP]\n")
      .write("tokenizer_config.json",
             Json{{"bos_token", "<a>"}, {"eos_token", {{"content", "<b>"}}}, {"unk_token", nullptr}});
  const VocabularyReading reading = read_files(
      files, {{"bos_token_id", 2}, {"eos_token_id", 2}, {"pad_token_id", {2, 1}}, {"mask_token_id", Json::array()}});
  const Vocabulary& vocabulary = reading.vocabulary.value();
  EXPECT_EQ(id_of(vocabulary, SpecialToken::bos), 0u);
  EXPECT_EQ(id_of(vocabulary, SpecialToken::eos), 1u);
  EXPECT_EQ(id_of(vocabulary, SpecialToken::padding), 2u);
  EXPECT_EQ(id_of(vocabulary, SpecialToken::unknown), std::nullopt);
  EXPECT_EQ(id_of(vocabulary, SpecialToken::mask), std::nullopt);
  EXPECT_TRUE(reading.warnings.empty());
}

TEST(SpecialTokens, ThatAreNoTokensAreLeftOut) {
  TokenizerFiles files;
  write_words(files, "a\nb\n").write("tokenizer_config.json", Json{{"pad_token", "<x>"}});
  const VocabularyReading reading =
      read_files(files, {{"eos_token_id", 2}, {"unk_token_id", -1}, {"mask_token_id", 1}});
  EXPECT_EQ(id_of(reading.vocabulary.value(), SpecialToken::eos), std::nullopt);
  EXPECT_EQ(id_of(reading.vocabulary.value(), SpecialToken::unknown), std::nullopt);
  EXPECT_EQ(id_of(reading.vocabulary.value(), SpecialToken::mask), 1u);
  ASSERT_EQ(reading.warnings.size(), 4u);
  EXPECT_EQ(reading.warnings[0], "config.json: eos_token_id is 2, but there are 2 tokens");
  EXPECT_EQ(reading.warnings[1], "tokenizer_config.json: pad_token is \"<x>\", which is no token");
  EXPECT_EQ(reading.warnings[2], "vocab.txt: add_bos_token is true, but no such token is known");
  EXPECT_EQ(reading.warnings[3], "vocab.txt: add_eos_token is true, but no such token is known");
  EXPECT_ERROR(read_files(files, {{"eos_token_id", "two"}}).vocabulary, "config.json: eos_token_id is \"two\"");
  EXPECT_ERROR(read_files(files, {{"eos_token_id", list({"two"})}}).vocabulary,
               "config.json: eos_token_id is [\"two\"]");
}

TEST(SpecialTokens, ClsAndSepTakeThePlacesOfBosAndEos) {
  TokenizerFiles files;
  write_words(files, "a\n[CLS]\n[SEP]\n[MASK]\n")
      .write("tokenizer_config.json", Json{{"cls_token", "[CLS]"}, {"sep_token", "[SEP]"}, {"mask_token", "[MASK]"}});
  const Vocabulary vocabulary = read_files(files).vocabulary.value();
  EXPECT_EQ(id_of(vocabulary, SpecialToken::cls), 1u);
  EXPECT_EQ(id_of(vocabulary, SpecialToken::bos), 1u);
  EXPECT_EQ(id_of(vocabulary, SpecialToken::separator), 2u);
  EXPECT_EQ(id_of(vocabulary, SpecialToken::eos), 2u);
  EXPECT_EQ(id_of(vocabulary, SpecialToken::mask), 3u);
  EXPECT_EQ(vocabulary.add_bos, true);
  EXPECT_EQ(vocabulary.add_eos, true);
  EXPECT_EQ(vocabulary.add_sep, false);
}

TEST(SpecialTokens, ATokenThatIsNotNormalIsPreferred) {
  TokenizerFiles files;
  files.write("tokenizer.model", protobuf::piece("<e>", 0) + protobuf::trainer(2, 0, -1, -1, -1))
      .write("tokenizer_config.json",
             Json{{"eos_token", "<e>"}, {"added_tokens_decoder", {{"1", {{"content", "<e>"}, {"special", true}}}}}});
  EXPECT_EQ(id_of(read_files(files).vocabulary.value(), SpecialToken::eos), 1u);
}

TEST(SpecialTokens, ClassesHaveRules) {
  EXPECT_EQ(class_tokens("LlamaForCausalLM", 32000).size(), 0u);
  EXPECT_EQ(class_tokens("LlamaForCausalLM", 32016).size(), 4u);
  EXPECT_EQ(class_tokens("NemotronForCausalLM", 5).size(), 2u);
  EXPECT_EQ(class_padding("Other"), 1u);
  EXPECT_EQ(class_pre("Other"), "");
  EXPECT_EQ(ranked_class_pre("Other"), "");
  EXPECT_EQ(ranked_class_pre("QWenLMHeadModel"), "qwen2");
  TokenizerFiles files;
  write_words(files, "[UNK]\nb\n")
      .write("added_tokens.json", Json{{"<|user|>", 2}})
      .write("tokenizer_config.json", Json{{"unk_token", "[UNK]"}});
  // Token 107 of Gemma is beyond this vocabulary, and so are some texts of GLM's tokens.
  EXPECT_EQ(
      id_of(read_files(files, {{"architectures", list({"GemmaForCausalLM"})}}).vocabulary.value(), SpecialToken::eot),
      std::nullopt);
  const Vocabulary glm = read_files(files, {{"architectures", list({"Glm4ForCausalLM"})}}).vocabulary.value();
  EXPECT_EQ(id_of(glm, SpecialToken::eot), 2u);
  EXPECT_EQ(id_of(glm, SpecialToken::unknown), 0u);
  EXPECT_EQ(id_of(glm, SpecialToken::bos), std::nullopt);
  const Vocabulary nemotron = read_files(files, {{"architectures", list({"NemotronForCausalLM"})}}).vocabulary.value();
  EXPECT_EQ(id_of(nemotron, SpecialToken::unknown), 1u);
}

TEST(SpecialTokens, LagunaListsTheEndOfATurn) {
  TokenizerFiles files;
  write_words(files, "a\nb\nc\n")
      .write("added_tokens.json", Json{{"</assistant>", 3}})
      .write("tokenizer_config.json", Json{{"chat_template", "older"}})
      .write("chat_template.jinja", "newer");
  Json config = {
      {"architectures", list({"LagunaForCausalLM"})}, {"bos_token_id", 1}, {"eos_token_id", list({2, 1, 3})}};
  const Vocabulary laguna = read_files(files, config).vocabulary.value();
  EXPECT_EQ(id_of(laguna, SpecialToken::eos), 2u);
  EXPECT_EQ(id_of(laguna, SpecialToken::eot), 3u);
  EXPECT_EQ(laguna.types[3], TokenType::control);
  EXPECT_EQ(laguna.chat_template, "newer");
  config["eos_token_id"] = 2;
  EXPECT_EQ(id_of(read_files(files, config).vocabulary.value(), SpecialToken::eot), std::nullopt);
  config["eos_token_id"] = list({2, 9});
  EXPECT_EQ(id_of(read_files(files, config).vocabulary.value(), SpecialToken::eot), std::nullopt);
  config["eos_token_id"] = list({2, 3});
  config["architectures"] = list({"LlamaForCausalLM"});
  const Vocabulary other = read_files(files, config).vocabulary.value();
  EXPECT_EQ(id_of(other, SpecialToken::eot), std::nullopt);
  EXPECT_EQ(other.types[3], TokenType::user_defined);
  EXPECT_EQ(other.chat_template, "older");
}

// A byte-level tokenizer.json with tokens a to d and a post-processor.
Json processed_tokenizer(const Json& post_processor) {
  return {{"pre_tokenizer", {{"type", "ByteLevel"}}},
          {"post_processor", post_processor},
          {"model", {{"type", "BPE"}, {"vocab", {{"a", 0}, {"b", 1}, {"c", 2}, {"d", 3}}}, {"merges", Json::array()}}}};
}
Json special(const char* token) { return {{"SpecialToken", {{"id", token}, {"type_id", 0}}}}; }
Json sequence(const char* name) { return {{"Sequence", {{"id", name}, {"type_id", 0}}}}; }
Json template_of(const Json& single, const Json& pair) {
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}};
}

struct Ends {
  bool bos, eos, sep;
  bool operator==(const Ends&) const = default;
};
Ends ends_of(const Json& post_processor, const Json& settings = Json::object()) {
  TokenizerFiles files;
  files.write("tokenizer.json", processed_tokenizer(post_processor)).write("tokenizer_config.json", settings);
  const Vocabulary vocabulary = read_files(files).vocabulary.value();
  return {*vocabulary.add_bos, *vocabulary.add_eos, *vocabulary.add_sep};
}

TEST(TextEnds, AreThoseOfTheTemplate) {
  const Json a = sequence("A"), b = sequence("B");
  EXPECT_EQ(ends_of(nullptr), (Ends{false, false, false}));
  EXPECT_EQ(ends_of(template_of(list({a}), list({a, b}))), (Ends{false, false, false}));
  EXPECT_EQ(ends_of(template_of(list({special("a"), a}), list({special("a"), a, special("a"), b}))),
            (Ends{true, false, false}));
  EXPECT_EQ(ends_of(template_of(list({a, special("b")}), list({a, special("b"), b, special("b")}))),
            (Ends{false, true, false}));
  EXPECT_EQ(ends_of(template_of(list({a, special("b")}), list({a, special("b"), special("b"), b, special("b")}))),
            (Ends{false, true, true}));
  EXPECT_EQ(ends_of(template_of(list({a}), list({a, special("c"), b}))), (Ends{false, false, true}));
  EXPECT_EQ(ends_of({{"type", "Sequence"},
                     {"processors", {{{"type", "ByteLevel"}}, template_of(list({special("a"), a}), nullptr)}}}),
            (Ends{true, false, false}));
  const Json cls = list({"a", 0}), sep = list({"b", 1});
  EXPECT_EQ(ends_of({{"type", "RobertaProcessing"}, {"cls", cls}, {"sep", sep}}), (Ends{true, true, true}));
  EXPECT_EQ(ends_of({{"type", "BertProcessing"}, {"cls", cls}, {"sep", sep}}), (Ends{true, true, false}));
}

TEST(TextEnds, SettingsComeBeforeTheTemplate) {
  const Json a = sequence("A");
  const Json both = template_of(list({special("a"), a, special("b")}), nullptr);
  EXPECT_EQ(ends_of(both), (Ends{true, true, false}));
  EXPECT_EQ(ends_of(both, {{"add_bos_token", false}}), (Ends{false, true, false}));
  EXPECT_EQ(ends_of(both, {{"add_eos_token", false}}), (Ends{true, false, false}));
  EXPECT_EQ(ends_of(nullptr, {{"add_bos_token", true}, {"bos_token", "a"}}), (Ends{true, false, false}));
  EXPECT_EQ(ends_of(nullptr, {{"add_eos_token", true}, {"eos_token", "a"}}), (Ends{false, true, false}));
}

TEST(TextEnds, NameTheTokensThatNothingElseNames) {
  TokenizerFiles files;
  files.write("tokenizer.json", processed_tokenizer(template_of(
                                    list({special("b"), sequence("A"), special("c"), special("d")}), nullptr)));
  const VocabularyReading reading = read_files(files);
  EXPECT_EQ(id_of(reading.vocabulary.value(), SpecialToken::bos), 1u);
  EXPECT_EQ(id_of(reading.vocabulary.value(), SpecialToken::eos), 3u);
  EXPECT_EQ(reading.warnings,
            std::vector<std::string>{
                "tokenizer.json: 2 tokens are added at an end of texts, of which GGUF can say \"d\" alone"});
}

TEST(TextEnds, OfAnotherTokenThanBosAreAWarning) {
  TokenizerFiles files;
  files.write("tokenizer.json", processed_tokenizer(template_of(list({special("b"), sequence("A")}), nullptr)))
      .write("tokenizer_config.json", Json{{"bos_token", "a"}});
  const VocabularyReading reading = read_files(files);
  EXPECT_EQ(reading.vocabulary.value().add_bos, false);
  EXPECT_EQ(reading.warnings,
            std::vector<std::string>{"tokenizer.json: \"b\" is added to texts, which GGUF cannot say beside \"a\""});
}

TEST(TextEnds, OfPairModelsHaveThree) {
  TokenizerFiles files;
  files.write("vocab.json", R"({"<s>":0,"</s>":1,"a":2})")
      .write("merges.txt", "#version: 0.2\n")
      .write("tokenizer_config.json", Json{{"bos_token", "<s>"}, {"eos_token", "</s>"}});
  const Vocabulary vocabulary = read_files(files, {{"architectures", list({"RobertaModel"})}}).vocabulary.value();
  EXPECT_EQ(vocabulary.pre, "roberta-bpe");
  EXPECT_TRUE(*vocabulary.add_bos && *vocabulary.add_eos && *vocabulary.add_sep);
}

TEST(TextEnds, RefusesBrokenPostProcessors) {
  const auto refusal = [](const Json& post_processor) {
    TokenizerFiles files;
    files.write("tokenizer.json", processed_tokenizer(post_processor));
    const auto read = read_files(files).vocabulary;
    return read ? "read" : read.error().message();
  };
  EXPECT_EQ(refusal(7), "tokenizer.json: post_processor: a part that is no object");
  EXPECT_EQ(refusal(template_of(list({7}), nullptr)),
            "tokenizer.json: post_processor: a template has a part that is neither a token nor a text");
  EXPECT_EQ(refusal(template_of("a", nullptr)),
            "tokenizer.json: post_processor: a template is no list of at most 64 parts");
  EXPECT_EQ(refusal({{"type", "BertProcessing"}, {"cls", list({"a", 0})}}),
            "tokenizer.json: post_processor: sep: want a token and its id");
  Json many = Json::array();
  for (int i = 0; i < 64; ++i) many.push_back({{"type", "ByteLevel"}});
  EXPECT_EQ(refusal({{"type", "Sequence"}, {"processors", many}}), "read");
  many.push_back({{"type", "ByteLevel"}});
  EXPECT_EQ(refusal({{"type", "Sequence"}, {"processors", many}}),
            "tokenizer.json: post_processor: more than 64 parts");
}

TEST(ChatTemplates, AreFoundInTheirOrder) {
  TokenizerFiles files;
  write_words(files, "a\n");
  EXPECT_EQ(read_files(files).vocabulary.value().chat_template, "");
  files.write("chat_template.json", Json{{"chat_template", "json"}});
  EXPECT_EQ(read_files(files).vocabulary.value().chat_template, "json");
  files.write("chat_template.jinja", "jinja");
  EXPECT_EQ(read_files(files).vocabulary.value().chat_template, "jinja");  // without a folder of others
  files.write("additional_chat_templates/tool use.jinja", "tools")
      .write("additional_chat_templates/notes.txt", "notes");
  const Vocabulary jinja = read_files(files).vocabulary.value();
  EXPECT_EQ(jinja.chat_template, "jinja");
  ASSERT_EQ(jinja.named_templates.size(), 1u);
  EXPECT_EQ(jinja.named_templates[0].name, "tool_use");
  EXPECT_EQ(jinja.named_templates[0].source, "tools");
  files.write("tokenizer_config.json",
              Json{{"chat_template",
                    {{{"name", "default"}, {"template", "first"}}, {{"name", "rag"}, {"template", "second"}}}}});
  const Vocabulary list = read_files(files).vocabulary.value();
  EXPECT_EQ(list.chat_template, "first");
  ASSERT_EQ(list.named_templates.size(), 1u);
  EXPECT_EQ(list.named_templates[0].name, "rag");
  EXPECT_EQ(list.named_templates[0].source, "second");
  files.write("tokenizer_config.json", Json{{"chat_template", "text"}});
  EXPECT_EQ(read_files(files).vocabulary.value().chat_template, "text");
}

TEST(ChatTemplates, FaultsAreWarnings) {
  TokenizerFiles files;
  write_words(files, "a\n").write("tokenizer_config.json", Json{{"chat_template", "one\n{% for %}"}});
  const VocabularyReading reading = read_files(files);
  EXPECT_EQ(reading.vocabulary.value().chat_template, "one\n{% for %}");
  ASSERT_GE(reading.warnings.size(), 1u);
  EXPECT_TRUE(std::ranges::any_of(reading.warnings, [](const std::string& warning) {
    return warning.starts_with("tokenizer_config.json: chat template: 2:");
  })) << reading.warnings[0];
}

TEST(ChatTemplates, RefusesOtherTypes) {
  TokenizerFiles files;
  write_words(files, "a\n");
  const auto refusal = [&](const Json& json) {
    files.write("tokenizer_config.json", Json{{"chat_template", json}});
    const auto read = read_files(files).vocabulary;
    return read ? "read" : read.error().message();
  };
  const std::string wrong = "tokenizer_config.json: chat_template: want a text, or a list of names and templates";
  EXPECT_EQ(refusal(7), wrong);
  EXPECT_EQ(refusal(list({7})), wrong);
  EXPECT_EQ(refusal(list({{{"name", "x"}}})), wrong);
  EXPECT_EQ(refusal(list({{{"name", 7}, {"template", "x"}}})), wrong);
  EXPECT_EQ(refusal({{{"name", "a b"}, {"template", "x"}}, {{"name", "a_b"}, {"template", "x"}}}),
            "tokenizer_config.json: chat template \"a_b\": the name is taken, or there are more than 100");
  files.write("tokenizer_config.json", "{}").write("chat_template.json", "{}");
  EXPECT_ERROR(read_files(files).vocabulary, "chat_template.json: no chat_template");
  files.write("chat_template.jinja", "\xff");
  EXPECT_ERROR(read_files(files).vocabulary, "chat_template.jinja: not UTF-8");
}

TEST(AddVocabulary, WritesWhatIsKnown) {
  Vocabulary vocabulary{
      .model = "gpt2", .pre = "gpt-2", .tokens = {"a", "b"}, .types = {TokenType::normal, TokenType::control}};
  const auto keys_of = [](const Vocabulary& written) {
    GgufBuilder builder;
    EXPECT_TRUE(add_vocabulary(written, builder).has_value());
    const auto bytes = gguf_to_bytes(builder, {}).value();
    std::map<std::string, std::string> keys;
    const auto file = GgufFile::parse(bytes, "test").value();
    for (const auto& [key, value] : file->metadata().entries()) keys.emplace(key, to_string(value));
    return keys;
  };
  const std::map<std::string, std::string> least{{"tokenizer.ggml.model", "\"gpt2\""},
                                                 {"tokenizer.ggml.pre", "\"gpt-2\""},
                                                 {"tokenizer.ggml.token_type", "[1, 3]"},
                                                 {"tokenizer.ggml.tokens", "[\"a\", \"b\"]"}};
  EXPECT_EQ(keys_of(vocabulary), least);
  vocabulary.pre = "";
  vocabulary.scores = {1, -2.5f};
  vocabulary.merges = {"a b"};
  for (uint32_t i = 0; i < text::kNSpecialTokens; ++i) vocabulary.special_ids[i] = i;
  vocabulary.add_bos = true;
  vocabulary.add_eos = false;
  vocabulary.add_sep = true;
  vocabulary.add_space_prefix = false;
  vocabulary.remove_extra_whitespaces = true;
  vocabulary.lowercase = false;
  vocabulary.strip_accents = true;
  vocabulary.charsmap = {1, 255};
  vocabulary.token_type_count = 2;
  vocabulary.chat_template = "x";
  vocabulary.named_templates = {{"rag", "y"}};
  const std::map<std::string, std::string> all{{"tokenizer.chat_template", "\"x\""},
                                               {"tokenizer.chat_template.rag", "\"y\""},
                                               {"tokenizer.chat_templates", "[\"rag\"]"},
                                               {"tokenizer.ggml.add_bos_token", "true"},
                                               {"tokenizer.ggml.add_eos_token", "false"},
                                               {"tokenizer.ggml.add_sep_token", "true"},
                                               {"tokenizer.ggml.add_space_prefix", "false"},
                                               {"tokenizer.ggml.bos_token_id", "0"},
                                               {"tokenizer.ggml.cls_token_id", "5"},
                                               {"tokenizer.ggml.eom_token_id", "8"},
                                               {"tokenizer.ggml.eos_token_id", "1"},
                                               {"tokenizer.ggml.eot_token_id", "7"},
                                               {"tokenizer.ggml.fim_mid_token_id", "11"},
                                               {"tokenizer.ggml.fim_pad_token_id", "12"},
                                               {"tokenizer.ggml.fim_pre_token_id", "9"},
                                               {"tokenizer.ggml.fim_rep_token_id", "13"},
                                               {"tokenizer.ggml.fim_sep_token_id", "14"},
                                               {"tokenizer.ggml.fim_suf_token_id", "10"},
                                               {"tokenizer.ggml.mask_token_id", "6"},
                                               {"tokenizer.ggml.merges", "[\"a b\"]"},
                                               {"tokenizer.ggml.model", "\"gpt2\""},
                                               {"tokenizer.ggml.normalizer.lowercase", "false"},
                                               {"tokenizer.ggml.normalizer.strip_accents", "true"},
                                               {"tokenizer.ggml.padding_token_id", "4"},
                                               {"tokenizer.ggml.precompiled_charsmap", "[1, 255]"},
                                               {"tokenizer.ggml.remove_extra_whitespaces", "true"},
                                               {"tokenizer.ggml.scores", "[1, -2.5]"},
                                               {"tokenizer.ggml.seperator_token_id", "3"},
                                               {"tokenizer.ggml.token_type", "[1, 3]"},
                                               {"tokenizer.ggml.token_type_count", "2"},
                                               {"tokenizer.ggml.tokens", "[\"a\", \"b\"]"},
                                               {"tokenizer.ggml.unknown_token_id", "2"}};
  EXPECT_EQ(keys_of(vocabulary), all);
}

TEST(AddVocabulary, RefusesOtherNumbersOfTypesAndScores) {
  GgufBuilder builder;
  Vocabulary vocabulary{.model = "gpt2", .tokens = {"a", "b"}, .types = {TokenType::normal}};
  EXPECT_ERROR(add_vocabulary(vocabulary, builder), "vocabulary: 2 tokens, 1 types, 0 scores");
  vocabulary.types.push_back(TokenType::normal);
  vocabulary.scores = {0};
  EXPECT_ERROR(add_vocabulary(vocabulary, builder), "vocabulary: 2 tokens, 2 types, 1 scores");
}

}  // namespace
}  // namespace tessera::convert
