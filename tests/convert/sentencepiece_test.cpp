// SentencePiece models: the wire format, the fields, types and scores of tokens, and refusals.
#include "tessera/convert/vocabulary/sentencepiece.h"

#include <gtest/gtest.h>

#include <limits>

#include "tessera/convert/vocabulary/protobuf.h"
#include "tests/convert/vocabulary_files.h"

namespace tessera::convert {
namespace {

using namespace testing;
using protobuf::bytes;
using protobuf::integer;
using protobuf::piece;
using protobuf::real;
using protobuf::trainer;
using protobuf::varint;
using text::TokenType;

// The first field of a message.
Result<ProtobufField> first_field(const std::string& message) {
  auto field = ProtobufReader(message).next();
  if (!field) return forward_error(field);
  return field->value();
}

TEST(Protobuf, ReadsFieldsOfAllTypes) {
  const std::string message = integer(1, 300) + real(2, 1.5f) + bytes(3, "text") + varint(4 << 3 | 1) +
                              number_bytes(uint64_t{7}) + integer((1 << 29) - 1, -1);
  ProtobufReader reader(message);
  const auto next = [&] { return reader.next().value().value(); };
  EXPECT_EQ(next().as_int32().value(), 300);
  const ProtobufField real_field = next();
  EXPECT_EQ(real_field.as_float().value(), 1.5f);
  EXPECT_EQ(real_field.offset, 3u);
  EXPECT_EQ(next().as_bytes().value(), "text");
  const ProtobufField fixed = next();
  EXPECT_EQ(fixed.number, 4u);
  EXPECT_EQ(fixed.bits, 7u);
  const ProtobufField last = next();
  EXPECT_EQ(last.number, (1u << 29) - 1);
  EXPECT_EQ(last.as_int32().value(), -1);
  EXPECT_EQ(last.as_bool().value(), true);
  EXPECT_EQ(reader.next().value(), std::nullopt);
}

TEST(Protobuf, RefusesOtherTypes) {
  EXPECT_ERROR(first_field(integer(7, 1))->as_float(), "field 7 at byte 0: wire type 0, want a float");
  EXPECT_ERROR(first_field(integer(7, 1))->as_bytes(), "field 7 at byte 0: wire type 0, want bytes");
  EXPECT_ERROR(first_field(real(7, 1))->as_int32(), "field 7 at byte 0: wire type 5, want an integer");
  EXPECT_ERROR(first_field(real(7, 1))->as_bool(), "field 7 at byte 0: wire type 5, want true or false");
  EXPECT_ERROR(first_field(integer(7, int64_t{1} << 31))->as_int32(), "field 7 at byte 0: 2147483648, want 32 bits");
  EXPECT_EQ(first_field(integer(7, (int64_t{1} << 31) - 1))->as_int32().value(), INT32_MAX);
  EXPECT_EQ(first_field(integer(7, 0))->as_bool().value(), false);
}

TEST(Protobuf, RefusesWhatIsNoMessage) {
  EXPECT_ERROR(first_field(varint(0)), "field 0 at byte 0, want 1 to 536870911");
  EXPECT_ERROR(first_field(varint(uint64_t{1} << 32)), "field 536870912 at byte 0");
  EXPECT_ERROR(first_field("\x08"), "ends inside a number at byte 1");
  EXPECT_ERROR(first_field("\x08\x80"), "ends inside a number at byte 2");
  EXPECT_EQ(first_field("\x08" + std::string(9, '\xff') + "\x01").value().bits, UINT64_MAX);
  EXPECT_ERROR(first_field("\x08" + std::string(9, '\xff') + "\x02"), "a number of more than 64 bits at byte 10");
  EXPECT_ERROR(first_field("\x08" + std::string(10, '\x80')), "a number of more than 64 bits at byte 10");
  EXPECT_ERROR(first_field(varint(1 << 3 | 5) + "abc"), "ends inside a number at byte 4");
  EXPECT_ERROR(first_field(varint(1 << 3 | 1) + "1234567"), "ends inside a number at byte 8");
  EXPECT_ERROR(first_field(varint(1 << 3 | 2) + varint(5) + "1234"), "field 1 at byte 0: 5 bytes, 4 are left");
  EXPECT_ERROR(first_field(varint(1 << 3 | 2) + varint(UINT64_MAX)), "18446744073709551615 bytes, 0 are left");
  for (const unsigned group : {3u, 4u, 6u, 7u})
    EXPECT_ERROR(first_field(varint(2 << 3 | group)), "field 2 at byte 0: wire type " + std::to_string(group));
}

std::string refusal_of_model(const std::string& model) {
  const auto parsed = parse_sentencepiece(model);
  return parsed ? "read" : parsed.error().message();
}

TEST(SentencePiece, ReadsAllFields) {
  const std::string model = piece("<unk>", 0, 2) + piece("a", -1.5f) + trainer(2, 0, 5, 6, 7) +
                            bytes(3, bytes(2, "map") + integer(3, 0) + integer(4, 0)) + bytes(4, "other");
  const SentencePieceModel parsed = parse_sentencepiece(model).value();
  ASSERT_EQ(parsed.pieces.size(), 2u);
  EXPECT_EQ(parsed.pieces[1].text, "a");
  EXPECT_EQ(parsed.pieces[1].score, -1.5f);
  EXPECT_EQ(parsed.pieces[0].kind, SentencePieceModel::Kind::unknown);
  EXPECT_EQ(parsed.pieces[1].kind, SentencePieceModel::Kind::normal);
  EXPECT_EQ(parsed.algorithm, SentencePieceModel::Algorithm::bpe);
  EXPECT_EQ(parsed.bos_id, 5);
  EXPECT_EQ(parsed.eos_id, 6);
  EXPECT_EQ(parsed.pad_id, 7);
  EXPECT_EQ(parsed.charsmap, "map");
  EXPECT_FALSE(parsed.add_dummy_prefix);
  EXPECT_FALSE(parsed.remove_extra_whitespaces);
}

TEST(SentencePiece, FieldsThatAreMissingHaveTheDefaultsOfTheFormat) {
  const std::string model = piece("a", 0);
  const SentencePieceModel parsed = parse_sentencepiece(model).value();
  EXPECT_EQ(parsed.algorithm, SentencePieceModel::Algorithm::unigram);
  EXPECT_EQ(parsed.unk_id, 0);
  EXPECT_EQ(parsed.bos_id, 1);
  EXPECT_EQ(parsed.eos_id, 2);
  EXPECT_EQ(parsed.pad_id, -1);
  EXPECT_TRUE(parsed.add_dummy_prefix && parsed.remove_extra_whitespaces);
}

TEST(SentencePiece, RefusesBrokenModels) {
  EXPECT_EQ(refusal_of_model(""), "no pieces: not a model of SentencePiece");
  EXPECT_EQ(refusal_of_model(piece("a", 0) + piece("", 0)), "piece 1: text \"\", want UTF-8");
  EXPECT_EQ(refusal_of_model(piece("\xff", 0)), "piece 0: text \"\\xFF\", want UTF-8");
  EXPECT_EQ(refusal_of_model(piece("a", std::numeric_limits<float>::infinity())), "piece 0: a score of inf");
  EXPECT_EQ(refusal_of_model(piece("a", 0, 7)), "piece 0: kind 7, want 1 to 6");
  EXPECT_EQ(refusal_of_model(piece("a", 0, -1)), "piece 0: kind -1, want 1 to 6");
  EXPECT_EQ(refusal_of_model(piece("a", 0) + trainer(5, 0, 1, 2, 3)), "model type 5, want 1 to 4");
  EXPECT_EQ(refusal_of_model(piece("a", 0) + trainer(0, 0, 1, 2, 3)), "model type 0, want 1 to 4");
  EXPECT_EQ(refusal_of_model(integer(1, 3)), "field 1 at byte 0: wire type 0, want bytes");
  EXPECT_EQ(refusal_of_model(bytes(1, "\x0a\x05x")), "piece 0: field 1 at byte 0: 5 bytes, 1 are left");
}

TEST(SentencePiece, RefusesMorePiecesThanAVocabularyHas) {
  std::string model;
  const std::string one = bytes(1, bytes(1, "a"));
  for (size_t i = 0; i < kMaxVocabularyTokens; ++i) model += one;
  EXPECT_EQ(refusal_of_model(model), "read");
  EXPECT_EQ(refusal_of_model(model + one), "more than 1048576 pieces");
}

std::string small_model(int type) {
  return piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) + piece("<0x41>", 0, 6) +
         piece("\xE2\x96\x81", -1) + piece("user", -2, 4) + piece("unused", -3, 5) + trainer(type, 0, 1, 2, -1);
}

TEST(SentencePieceVocabulary, HasTheTypesOfThePieces) {
  TokenizerFiles files;
  files.write("tokenizer.model", small_model(2) + bytes(3, integer(3, 0)));
  const Vocabulary vocabulary = read_files(files).vocabulary.value();
  EXPECT_EQ(vocabulary.model, "llama");
  EXPECT_EQ(vocabulary.pre, "default");
  EXPECT_EQ(vocabulary.types, (std::vector{TokenType::unknown, TokenType::control, TokenType::control, TokenType::byte,
                                           TokenType::normal, TokenType::normal, TokenType::unused}));
  EXPECT_EQ(vocabulary.scores, (std::vector<float>{0, 0, 0, 0, -1, -2, -3}));
  EXPECT_EQ(vocabulary.special_ids[0], 1u);
  EXPECT_EQ(vocabulary.special_ids[1], 2u);
  EXPECT_EQ(vocabulary.special_ids[2], 0u);
  EXPECT_EQ(vocabulary.special_ids[4], std::nullopt);
  EXPECT_EQ(vocabulary.add_bos, true);
  EXPECT_EQ(vocabulary.add_eos, false);
  EXPECT_EQ(vocabulary.add_space_prefix, false);
  EXPECT_EQ(vocabulary.remove_extra_whitespaces, std::nullopt);
}

TEST(SentencePieceVocabulary, SettingsDecideTheSpaceInFront) {
  TokenizerFiles files;
  files.write("tokenizer.model", small_model(2));
  EXPECT_EQ(read_files(files).vocabulary.value().add_space_prefix, true);
  files.write("tokenizer_config.json", Json{{"add_prefix_space", false}});
  EXPECT_EQ(read_files(files).vocabulary.value().add_space_prefix, false);
}

TEST(SentencePieceVocabulary, OfAUnigramModelHasItsNormalizer) {
  TokenizerFiles files;
  files.write("spiece.model", small_model(1) + bytes(3, bytes(2, "map") + integer(3, 0) + integer(4, 1)));
  const Vocabulary vocabulary = read_files(files).vocabulary.value();
  EXPECT_EQ(vocabulary.model, "t5");
  EXPECT_EQ(vocabulary.add_space_prefix, false);
  EXPECT_EQ(vocabulary.remove_extra_whitespaces, true);
  EXPECT_EQ(vocabulary.charsmap, (std::vector<uint8_t>{'m', 'a', 'p'}));
  EXPECT_EQ(vocabulary.add_bos, false);
  EXPECT_EQ(vocabulary.add_eos, true);
}

TEST(SentencePieceVocabulary, OfXlmRobertaHasOtherIds) {
  TokenizerFiles files;
  files.write("sentencepiece.bpe.model",
              piece("<unk>", 0, 2) + piece("<s>", 0, 3) + piece("</s>", 0, 3) + piece(",", -3) + piece(".", -4));
  const Vocabulary vocabulary =
      read_files(files, {{"architectures", list({"XLMRobertaModel"})}, {"type_vocab_size", 1}}).vocabulary.value();
  EXPECT_EQ(vocabulary.tokens, (std::vector<std::string>{"<s>", "<pad>", "</s>", "<unk>", ",", ".", "<mask>"}));
  EXPECT_EQ(vocabulary.types[3], TokenType::unknown);
  EXPECT_EQ(vocabulary.types[6], TokenType::control);
  EXPECT_EQ(vocabulary.scores, (std::vector<float>{0, 0, 0, 0, -3, -4, 0}));
  EXPECT_EQ(vocabulary.special_ids[0], 0u);
  EXPECT_EQ(vocabulary.special_ids[1], 2u);
  EXPECT_EQ(vocabulary.special_ids[2], 3u);
  EXPECT_EQ(vocabulary.special_ids[4], 1u);
  EXPECT_EQ(vocabulary.add_bos, true);
  EXPECT_EQ(vocabulary.add_eos, true);
  EXPECT_EQ(vocabulary.token_type_count, 1u);
}

TEST(SentencePieceVocabulary, IsFilledToTheSizeOfTheModel) {
  TokenizerFiles files;
  files.write("tokenizer.model", small_model(2));
  const Vocabulary vocabulary = read_files(files, {{"vocab_size", 9}}).vocabulary.value();
  EXPECT_EQ(vocabulary.tokens.size(), 9u);
  EXPECT_EQ(vocabulary.tokens[8], "[PAD8]");
  EXPECT_EQ(vocabulary.scores[8], -10000);
  EXPECT_EQ(vocabulary.types[8], TokenType::unused);
}

TEST(SentencePieceVocabulary, TakesAddedTokens) {
  TokenizerFiles files;
  files.write("tokenizer.model", small_model(2))
      .write("added_tokens.json", Json{{"<a>", 7}, {"<b>", 8}})
      .write("tokenizer_config.json", Json{{"added_tokens_decoder",
                                            {{"2", {{"content", "</s>"}, {"special", false}}},
                                             {"8", {{"content", "<b>"}, {"special", true}}},
                                             {"9", {{"content", "x\xE2\x96\x81y"}, {"special", false}}},
                                             {"10", {{"content", "<|c|>"}, {"special", false}}}}}});
  const Vocabulary vocabulary = read_files(files).vocabulary.value();
  EXPECT_EQ(vocabulary.tokens[9], "x y");
  EXPECT_EQ((std::vector(vocabulary.types.begin() + 7, vocabulary.types.end())),
            (std::vector{TokenType::user_defined, TokenType::control, TokenType::user_defined, TokenType::control}));
  EXPECT_EQ(vocabulary.types[2], TokenType::user_defined);
  EXPECT_EQ(vocabulary.scores[2], -1000);
  EXPECT_EQ(vocabulary.scores[7], -1000);
  const Vocabulary phi3 = read_files(files, {{"architectures", list({"Phi3ForCausalLM"})}}).vocabulary.value();
  EXPECT_EQ(phi3.types[10], TokenType::user_defined);
}

TEST(SentencePieceVocabulary, RefusesOtherModelsAndBrokenAddedTokens) {
  TokenizerFiles files;
  const auto refusal = [&] { return read_files(files).vocabulary.error().message(); };
  files.write("tokenizer.model", small_model(3));
  EXPECT_EQ(refusal(), "tokenizer.model: model type 3, want unigram (1) or BPE (2)");
  files.write("tokenizer.model", "\x0a\x7f");
  EXPECT_EQ(refusal(), "tokenizer.model: field 1 at byte 0: 127 bytes, 0 are left");
  files.write("tokenizer.model", small_model(2)).write("added_tokens.json", "[]");
  EXPECT_EQ(refusal(), "added_tokens.json: no object");
  files.write("added_tokens.json", Json{{"a", "1"}});
  EXPECT_EQ(refusal(), "added_tokens.json: token \"a\" has no integer as its id");
  files.write("added_tokens.json", Json{{"a", -1}});
  EXPECT_EQ(refusal(), "added_tokens.json: token \"a\" has the id -1");
  files.write("added_tokens.json", "{}");
  files.write("tokenizer_config.json", Json{{"added_tokens_decoder", {{"7x", {{"content", "a"}}}}}});
  EXPECT_EQ(refusal(), "tokenizer_config.json: added_tokens_decoder: id \"7x\", want a number");
  files.write("tokenizer_config.json", Json{{"added_tokens_decoder", {{"2147483648", {{"content", "a"}}}}}});
  EXPECT_EQ(refusal(), "tokenizer_config.json: token \"a\" has the id 2147483648, limit 1048575");
  files.write("tokenizer_config.json", Json{{"added_tokens_decoder", {{"7", {{"text", "a"}}}}}});
  EXPECT_EQ(refusal(), "tokenizer_config.json: added token 7: no content");
  files.write("tokenizer_config.json", Json{{"added_tokens_decoder", {{"7", "a"}}}});
  EXPECT_EQ(refusal(), "tokenizer_config.json: added token 7: no content");
  files.write("tokenizer_config.json", Json{{"added_tokens_decoder", 7}});
  EXPECT_EQ(refusal(), "tokenizer_config.json: added_tokens_decoder: no object");
}

}  // namespace
}  // namespace tessera::convert
