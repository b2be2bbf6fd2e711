// Vocabularies from the keys of a model file: valid ones, and errors that name the key.
#include "tessera/engine/vocab_loader.h"

#include <gtest/gtest.h>

#include <functional>

#include "tessera/gguf/keys.h"
#include "tessera/gguf/reader.h"
#include "tessera/gguf/writer.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

using Strings = std::vector<std::string>;

GgufBuilder small_builder() {
  GgufBuilder builder;
  builder.set(keys::kArchitecture, "llama");
  builder.set(keys::kTokenizerModel, "llama");
  builder.set_array(keys::kTokens, Strings{"<unk>", "<s>", "</s>", "a"});
  builder.set_array(keys::kScores, std::vector<float>{0, 0, 0, -1});
  builder.set_array(keys::kTokenTypes, std::vector<int32_t>{2, 3, 3, 1});
  return builder;
}

/// Writes, reads and loads the builder's file, and calls `check` with the result while the file is open.
void with_loaded(const GgufBuilder& builder, const std::function<void(Result<text::VocabData>)>& check) {
  ASSERT_OK_AND_ASSIGN(const auto bytes, gguf_to_bytes(builder, {}));
  ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::parse(bytes, "small.gguf"));
  check(load_vocab_data(file->metadata()));
}

void expect_error(const GgufBuilder& builder, std::string_view part) {
  with_loaded(builder, [&](const auto& data) { EXPECT_ERROR(data, part); });
}

TEST(VocabLoader, ReadsWhatTheFileSays) {
  GgufBuilder builder = small_builder();
  builder.set(keys::kName, "Small");
  builder.set(keys::kTokenizerPre, "default");
  builder.set(keys::kEosId, uint32_t{3});
  builder.set(keys::kPaddingId, uint32_t{0xFFFFFFFF});
  builder.set(keys::kAddBos, false);
  builder.set_array(keys::kMerges, Strings{"a b"});
  with_loaded(builder, [](const Result<text::VocabData>& data) {
    ASSERT_OK(data);
    EXPECT_EQ(data->model, "llama");
    EXPECT_EQ(data->pre, "default");
    EXPECT_EQ(data->architecture, "llama");
    EXPECT_EQ(data->name, "Small");
    EXPECT_EQ(data->tokens, (std::vector<std::string_view>{"<unk>", "<s>", "</s>", "a"}));
    EXPECT_EQ(data->scores, (std::vector<float>{0, 0, 0, -1}));
    EXPECT_EQ(data->types, (std::vector<int32_t>{2, 3, 3, 1}));
    EXPECT_EQ(data->merges, (std::vector<std::string_view>{"a b"}));
    EXPECT_EQ(data->special_ids[static_cast<size_t>(text::SpecialToken::eos)], 3);
    EXPECT_EQ(data->special_ids[static_cast<size_t>(text::SpecialToken::padding)], 0xFFFFFFFF);
    EXPECT_EQ(data->special_ids[static_cast<size_t>(text::SpecialToken::bos)], std::nullopt);
    EXPECT_EQ(data->add_bos, false);
    EXPECT_EQ(data->add_eos, std::nullopt);
  });
}

TEST(VocabLoader, EachKeyOfAnotherTypeIsAnErrorThatNamesIt) {
  for (const std::string_view key : {keys::kTokenizerModel,
                                     keys::kTokenizerPre,
                                     keys::kTokens,
                                     keys::kScores,
                                     keys::kTokenTypes,
                                     keys::kMerges,
                                     keys::kBosId,
                                     keys::kEosId,
                                     keys::kUnknownId,
                                     keys::kSeparatorId,
                                     keys::kPaddingId,
                                     keys::kClsId,
                                     keys::kMaskId,
                                     keys::kEotId,
                                     keys::kEomId,
                                     keys::kFimPrefixId,
                                     keys::kFimSuffixId,
                                     keys::kFimMiddleId,
                                     keys::kFimPaddingId,
                                     keys::kFimRepositoryId,
                                     keys::kFimSeparatorId,
                                     keys::kAddBos,
                                     keys::kAddEos,
                                     keys::kAddSpacePrefix,
                                     keys::kRemoveExtraWhitespaces}) {
    GgufBuilder builder = small_builder();
    builder.set(key, 1.5);
    expect_error(builder, key);
  }
}

TEST(VocabLoader, ArraysOfAnotherElementTypeAreErrors) {
  for (const std::string_view key : {keys::kTokens, keys::kScores, keys::kMerges}) {
    GgufBuilder builder = small_builder();
    builder.set_array(key, std::vector<uint8_t>{1, 2, 3, 4});
    expect_error(builder, key);
  }
  GgufBuilder builder = small_builder();
  builder.set_array(keys::kTokenTypes, std::vector<float>{1, 1, 1, 1});
  expect_error(builder, keys::kTokenTypes);
}

TEST(VocabLoader, ArraysOfAnotherLengthAreErrorsOfTheVocabulary) {
  for (const size_t n : {0, 1, 3, 5}) {
    GgufBuilder builder = small_builder();
    builder.set_array(keys::kScores, std::vector<float>(n));
    with_loaded(builder, [](Result<text::VocabData> data) {
      ASSERT_OK(data);
      EXPECT_ERROR(text::Vocab::create(std::move(*data)), keys::kScores);
    });
  }
}

TEST(VocabLoader, MissingModelOrTokensAreErrors) {
  GgufBuilder without_model = small_builder();
  without_model.remove(keys::kTokenizerModel);
  expect_error(without_model, keys::kTokenizerModel);
  GgufBuilder without_tokens = small_builder();
  without_tokens.remove(keys::kTokens);
  expect_error(without_tokens, keys::kTokens);
}

TEST(VocabLoader, AModelWithoutVocabularyNeedsNoTokens) {
  GgufBuilder builder;
  builder.set(keys::kArchitecture, "llama");
  builder.set(keys::kTokenizerModel, "no_vocab");
  builder.set("llama.vocab_size", uint32_t{256});
  with_loaded(builder, [](const Result<text::VocabData>& data) {
    ASSERT_OK(data);
    EXPECT_EQ(data->n_tokens, 256u);
    EXPECT_TRUE(data->tokens.empty());
  });
}

}  // namespace
}  // namespace tessera
