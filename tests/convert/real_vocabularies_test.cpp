// Vocabularies of published models: a test writes the files that the hubs have for one, and reads the same arrays.
#include <gtest/gtest.h>

#include "tessera/gguf/keys.h"
#include "tessera/gguf/reader.h"
#include "tests/convert/vocabulary_files.h"

namespace tessera::convert {
namespace {

using namespace testing;
using text::TokenType;

struct StoredVocabulary {
  std::unique_ptr<GgufFile> file;
  std::vector<std::string_view> tokens{};
  std::vector<TokenType> types{};
  std::vector<float> scores{};
  std::vector<std::string_view> merges{};
};

StoredVocabulary load(const std::string& path) {
  StoredVocabulary stored{GgufFile::open(path).value()};
  const Metadata& metadata = stored.file->metadata();
  stored.tokens = metadata.get_vector<std::string_view>(keys::kTokens).value();
  const std::vector<int32_t> types = metadata.get_vector<int32_t>(keys::kTokenTypes).value();
  for (const int32_t type : types) stored.types.push_back(static_cast<TokenType>(type));
  if (auto scores = metadata.get_vector<float>(keys::kScores)) stored.scores = *scores;
  if (auto merges = metadata.get_vector<std::string_view>(keys::kMerges)) stored.merges = *merges;
  return stored;
}

void expect_tokens(const Vocabulary& vocabulary, const StoredVocabulary& stored) {
  ASSERT_EQ(vocabulary.tokens.size(), stored.tokens.size());
  for (size_t i = 0; i < stored.tokens.size(); ++i) {
    ASSERT_EQ(vocabulary.tokens[i], stored.tokens[i]) << i;
    ASSERT_EQ(vocabulary.types[i], stored.types[i]) << i << " " << stored.tokens[i];
  }
}

Json added_token(size_t id, std::string_view text, TokenType type) {
  return {{"id", id}, {"content", text}, {"special", type == TokenType::control}};
}

// An object {text: id}, written piece by piece: an object in memory searches all keys for each new one.
class VocabText {
 public:
  void add(std::string_view text, size_t id) {
    text_ += text_.empty() ? "{" : ",";
    text_ += Json(text).dump() + ":" + std::to_string(id);
  }
  std::string take() { return std::move(text_) + "}"; }

 private:
  std::string text_;
};

// The text of a tokenizer.json: members, and a BPE model.
std::string tokenizer_text(const Json& members, const Json& model, VocabText& vocab,
                           const std::vector<std::string>& merges) {
  std::string text = model.dump();
  text.insert(1, "\"vocab\":" + vocab.take() + ",\"merges\":" + Json(merges).dump() + ",");
  std::string whole = members.dump();
  return whole.insert(1, "\"model\":" + text + ",");
}

// The pre-tokenizers of the files in the order of their steps.
Json pre_tokenizer_of(const std::string& pre) {
  const Json bytes{{"type", "ByteLevel"}, {"use_regex", true}}, plain{{"type", "ByteLevel"}, {"use_regex", false}};
  const auto split = [](const char* regex) -> Json {
    return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}, {"invert", false}};
  };
  const auto sequence = [](std::vector<Json> steps) -> Json {
    return {{"type", "Sequence"}, {"pretokenizers", std::move(steps)}};
  };
  const Json digits{{"type", "Digits"}, {"individual_digits", true}};
  if (pre == "falcon")
    return sequence({{{"type", "Punctuation"}, {"behavior", "Contiguous"}},
                     bytes,
                     {{"type", "Digits"}, {"individual_digits", false}},
                     split("[0-9][0-9][0-9]")});
  if (pre == "starcoder") return sequence({digits, bytes});
  return bytes;
}

class ByteLevelVocabulary : public ::testing::TestWithParam<const char*> {};

TEST_P(ByteLevelVocabulary, OfATokenizerJsonIsTheSame) {
  const std::string name = GetParam();
  TESSERA_SHARED_OR_SKIP(path, "vocab/" + name + ".gguf");
  const StoredVocabulary stored = load(path);
  const std::string pre(stored.file->metadata().get<std::string_view>(keys::kTokenizerPre).value());
  VocabText vocab;
  Json added = Json::array();
  for (size_t i = stored.tokens.size(); i-- > 0;) {
    if (stored.types[i] == TokenType::normal) vocab.add(stored.tokens[i], i);
    if (stored.types[i] == TokenType::control) added.push_back(added_token(i, stored.tokens[i], stored.types[i]));
  }
  TokenizerFiles files;
  files.write("tokenizer.json", tokenizer_text({{"added_tokens", added}, {"pre_tokenizer", pre_tokenizer_of(pre)}},
                                               {{"type", "BPE"}}, vocab, {stored.merges.begin(), stored.merges.end()}));
  const VocabularyReading reading = read_files(files, {{"vocab_size", stored.tokens.size()}});
  ASSERT_OK(reading.vocabulary);
  expect_tokens(*reading.vocabulary, stored);
  EXPECT_EQ(reading.vocabulary->pre, pre);
  EXPECT_TRUE(std::ranges::equal(reading.vocabulary->merges, stored.merges));
  EXPECT_TRUE(reading.warnings.empty());
}

INSTANTIATE_TEST_SUITE_P(Models, ByteLevelVocabulary, ::testing::Values("gpt-2", "falcon", "starcoder"),
                         [](const auto& test) { return test.param == std::string("gpt-2") ? "gpt2" : test.param; });

TEST(RealVocabularies, OfVocabJsonAndMergesIsTheSame) {
  TESSERA_SHARED_OR_SKIP(path, "vocab/gpt-2.gguf");
  const StoredVocabulary stored = load(path);
  VocabText vocab;
  for (size_t i = 0; i < stored.tokens.size(); ++i) vocab.add(stored.tokens[i], i);
  std::string merges = "#version: 0.2\n";
  for (const std::string_view merge : stored.merges) merges += std::string(merge) + "\n";
  TokenizerFiles files;
  files.write("vocab.json", vocab.take()).write("merges.txt", merges);
  files.write("tokenizer_config.json", Json{{"bos_token", "<|endoftext|>"}, {"eos_token", "<|endoftext|>"}});
  ASSERT_OK_AND_ASSIGN(const Vocabulary vocabulary, read_files(files).vocabulary);
  expect_tokens(vocabulary, stored);
  EXPECT_TRUE(std::ranges::equal(vocabulary.merges, stored.merges));
  EXPECT_EQ(vocabulary.special_ids[0], 50256u);
}

// Reserved ids of DeepSeek's files are user-defined in the stored vocabulary, which is of an older version.
TEST(RealVocabularies, OfDeepseekHasAddedTokens) {
  TESSERA_SHARED_OR_SKIP(path, "vocab/deepseek-llm.gguf");
  StoredVocabulary stored = load(path);
  VocabText vocab;
  Json added = Json::array();
  for (size_t i = 0; i < stored.tokens.size(); ++i) {
    if (stored.types[i] == TokenType::normal) vocab.add(stored.tokens[i], i);
    if (stored.tokens[i].starts_with("[PAD"))
      stored.types[i] = TokenType::unused;
    else if (stored.types[i] != TokenType::normal)
      added.push_back(added_token(i, stored.tokens[i], stored.types[i]));
  }
  TokenizerFiles files;
  files.write("tokenizer.json", tokenizer_text({{"added_tokens", added}, {"decoder", {{"type", "ByteLevel"}}}},
                                               {{"type", "BPE"}}, vocab, {stored.merges.begin(), stored.merges.end()}));
  ASSERT_OK_AND_ASSIGN(const Vocabulary vocabulary,
                       read_files(files, {{"vocab_size", stored.tokens.size()}}, {.pre = "deepseek-llm"}).vocabulary);
  expect_tokens(vocabulary, stored);
  EXPECT_TRUE(std::ranges::equal(vocabulary.merges, stored.merges));
}

std::string sentencepiece_of(const StoredVocabulary& stored, size_t n_pieces) {
  std::string model;
  for (size_t i = 0; i < n_pieces; ++i) {
    const int kind = i == 0 ? 2 : i < 3 ? 3 : static_cast<int>(stored.types[i]);
    model += protobuf::piece(stored.tokens[i], i < 3 ? 0 : stored.scores[i], kind == 1 ? 0 : kind);
  }
  return model + protobuf::trainer(2, 0, 1, 2, -1);
}

TEST(RealVocabularies, OfASentencePieceModelIsTheSame) {
  TESSERA_SHARED_OR_SKIP(path, "vocab/llama-spm.gguf");
  const StoredVocabulary stored = load(path);
  TokenizerFiles files;
  files.write("tokenizer.model", sentencepiece_of(stored, stored.tokens.size()));
  ASSERT_OK_AND_ASSIGN(const Vocabulary vocabulary, read_files(files, {{"vocab_size", 32000}}).vocabulary);
  expect_tokens(vocabulary, stored);
  EXPECT_EQ(vocabulary.scores, stored.scores);
}

// The stored vocabulary is of an older version, in which ids without a token are unknown tokens.
TEST(RealVocabularies, OfASentencePieceModelWithAddedTokensIsTheSame) {
  TESSERA_SHARED_OR_SKIP(path, "vocab/phi-3.gguf");
  StoredVocabulary stored = load(path);
  Json decoder = Json::object();
  for (size_t i = 0; i < stored.tokens.size(); ++i) {
    if (stored.tokens[i].starts_with("[PAD"))
      stored.types[i] = TokenType::unused;
    else if (i < 3 || i >= 32000)
      decoder[std::to_string(i)] = added_token(i, stored.tokens[i], stored.types[i]);
  }
  TokenizerFiles files;
  files.write("tokenizer.model", sentencepiece_of(stored, 32000))
      .write("tokenizer_config.json", Json{{"added_tokens_decoder", decoder}});
  const Json config{{"vocab_size", 32064}, {"architectures", list({"Phi3ForCausalLM"})}};
  ASSERT_OK_AND_ASSIGN(const Vocabulary vocabulary, read_files(files, config).vocabulary);
  expect_tokens(vocabulary, stored);
  EXPECT_EQ(vocabulary.scores, stored.scores);
}

// All pairs of tokens whose text is a token are merges, in the order of the scores. So the scores by merges order the
// tokens as the scores of the model do.
TEST(RealVocabularies, OfMergesWithByteFallbackHasTheOrderOfTheScores) {
  TESSERA_SHARED_OR_SKIP(path, "vocab/llama-spm.gguf");
  const StoredVocabulary stored = load(path);
  std::map<std::string_view, size_t> ids;
  VocabText vocab;
  std::vector<size_t> normal;
  for (size_t i = 0; i < stored.tokens.size(); ++i) {
    vocab.add(stored.tokens[i], i);
    if (stored.types[i] == TokenType::normal) ids.emplace(stored.tokens[i], i), normal.push_back(i);
  }
  std::ranges::stable_sort(normal, std::greater<>(), [&](size_t i) { return stored.scores[i]; });
  std::vector<std::string> merges;
  std::vector<size_t> made;
  for (const size_t i : normal) {
    const std::string_view text = stored.tokens[i];
    const size_t n_before = merges.size();
    for (size_t at = 1; at < text.size(); ++at)
      if (ids.contains(text.substr(0, at)) && ids.contains(text.substr(at)))
        merges.push_back(std::string(text.substr(0, at)) + " " + std::string(text.substr(at)));
    if (merges.size() > n_before) made.push_back(i);
  }
  const Json normalizer{{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\xE2\x96\x81"}};
  TokenizerFiles files;
  files.write("tokenizer.json",
              tokenizer_text({{"normalizer", normalizer}}, {{"type", "BPE"}, {"byte_fallback", true}}, vocab, merges));
  ASSERT_OK_AND_ASSIGN(const Vocabulary vocabulary, read_files(files).vocabulary);
  ASSERT_GT(made.size(), 20000u);
  EXPECT_EQ(vocabulary.scores[made[0]], 0);
  for (size_t i = 1; i < made.size(); ++i)
    ASSERT_LT(vocabulary.scores[made[i]], vocabulary.scores[made[i - 1]]) << stored.tokens[made[i]];
}

TEST(RealVocabularies, OfWordPiecesIsTheSame) {
  TESSERA_SHARED_OR_SKIP(path, "vocab/bert-bge.gguf");
  const StoredVocabulary stored = load(path);
  std::string lines;
  for (const std::string_view token : stored.tokens) lines += std::string(token) + "\n";
  TokenizerFiles files;
  files.write("vocab.txt", lines);
  ASSERT_OK_AND_ASSIGN(const Vocabulary vocabulary, read_files(files, {{"vocab_size", 30522}}).vocabulary);
  ASSERT_EQ(vocabulary.tokens.size(), stored.tokens.size());
  for (size_t i = 0; i < stored.tokens.size(); ++i) {
    // The stored vocabulary is of an older version, in which pieces are spelled as in the file.
    std::string wanted(stored.tokens[i]);
    if (stored.types[i] == TokenType::normal)
      wanted = wanted.size() > 2 && wanted.starts_with("##") ? wanted.substr(2) : "\xE2\x96\x81" + wanted;
    ASSERT_EQ(vocabulary.tokens[i], wanted);
    ASSERT_EQ(vocabulary.types[i], stored.types[i]);
  }
}

}  // namespace
}  // namespace tessera::convert
