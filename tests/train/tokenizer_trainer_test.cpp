// Trained vocabularies of both kinds: merges compared with hand-computed and slow reference results, keys in the file,
// and errors.
#include "tessera/train/tokenizer_trainer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "tessera/base/rng.h"
#include "tessera/text/detokenize.h"
#include "tessera/text/tokenizer.h"
#include "tessera/text/utf8.h"
#include "tests/support/testing.h"
#include "tests/support/vocab_from_gguf.h"

namespace tessera::train {
namespace {

using Strings = std::vector<std::string>;
using text::TokenType;

constexpr std::string_view kSpace = "\xE2\x96\x81";
constexpr size_t kFirstPiece = 259;  // for SPM: after <unk>, <s>, </s> and the bytes

Result<TrainedVocab> train(const Strings& texts, const TokenizerTraining& options) {
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  return train_tokenizer(views, options);
}

std::unique_ptr<const text::Tokenizer> tokenizer_of(const TrainedVocab& vocab) {
  return text::Tokenizer::create(text::Vocab::create(vocab_data(vocab)).value()).value();
}

/// Writes the vocabulary to a file and returns the tokenizer read from it.
std::unique_ptr<const text::Tokenizer> through_a_file(const TrainedVocab& vocab) {
  GgufBuilder builder;
  builder.set("general.architecture", "llama");
  write_vocab(builder, vocab);
  const std::string path = testing::temporary_dir() / "trained.gguf";
  EXPECT_OK(GgufWriter::create(path, builder).value().finish());
  auto tokenizer = testing::tokenizer_from_gguf(path);
  EXPECT_OK(tokenizer);
  return std::move(tokenizer).value();
}

/// Texts of few different letters, so that many merges overlap.
Strings random_texts(uint64_t seed, std::string_view letters, size_t n_texts, size_t n_letters) {
  Rng rng(seed);
  Strings texts;
  for (size_t i = 0; i < n_texts; ++i) {
    std::string text;
    for (size_t k = rng.next_u32() % n_letters + 1; k > 0; --k) text += letters[rng.next_u32() % letters.size()];
    texts.push_back(std::move(text));
  }
  return texts;
}

TEST(TokenizerTrainer, MergesAreThoseOfTheExampleByHand) {
  // The text occurs twice. First aa: 8. Then ab: 4 and (aa)a: 4, of which a has the lower id. Then (aa)(ab): 4. All
  // other pairs occur twice, and the lower left symbol comes first.
  const Strings texts{"aaabdaaabac", "aaabdaaabac"};
  ASSERT_OK_AND_ASSIGN(const TrainedVocab vocab, train(texts, {.n_vocab = 300, .pre = "gpt-2"}));
  EXPECT_EQ(vocab.merges, (Strings{"a a", "a b", "aa ab", "a c", "d aaab", "aaab daaab", "aaabdaaab ac"}));
  const Strings tail(vocab.tokens.begin() + 256, vocab.tokens.end());
  EXPECT_EQ(tail, (Strings{"aa", "ab", "aaab", "ac", "daaab", "aaabdaaab", "aaabdaaabac", "<|begin_of_text|>",
                           "<|end_of_text|>"}));
  EXPECT_EQ(vocab.tokens[0], "!");
  EXPECT_EQ(vocab.tokens[255], "\xC5\x83");  // U+0143 is the last character, for byte 0xAD
  EXPECT_EQ(vocab.bos, 263);
  EXPECT_EQ(vocab.eos, 264);
  EXPECT_EQ(vocab.n_text_bytes, 22u);
  EXPECT_EQ(vocab.n_text_tokens, 2u);
}

/// Computes the merges by counting all pairs again before each merge. Symbols are texts, ordered by ids.
Strings slow_merges(const Strings& texts, size_t n_symbols) {
  std::map<std::string, size_t> ids;
  for (int byte = 33; byte < 127; ++byte) ids.emplace(std::string(1, static_cast<char>(byte)), ids.size());
  size_t n_ids = 256;
  std::vector<std::pair<std::string, std::string>> merges;
  Strings lines;
  while (true) {
    std::map<std::pair<std::string, std::string>, size_t> counts;
    for (const std::string& text : texts) {
      Strings word;
      for (const char c : text) word.emplace_back(1, c);
      for (size_t rank = 0; rank < merges.size();) {
        const auto& [left, right] = merges[rank];
        size_t at = 0;
        while (at + 1 < word.size() && (word[at] != left || word[at + 1] != right)) ++at;
        if (at + 1 >= word.size()) {
          ++rank;
          continue;
        }
        word[at] += right;
        word.erase(word.begin() + static_cast<ptrdiff_t>(at) + 1);
        rank = 0;  // earlier merges are applied first
      }
      for (size_t i = 1; i < word.size(); ++i) ++counts[{word[i - 1], word[i]}];
    }
    std::pair<std::string, std::string> best;
    size_t n_best = 1;
    for (const auto& [pair, n] : counts) {
      const auto order = [&](const auto& p) { return std::pair(ids.at(p.first), ids.at(p.second)); };
      if (n < n_best || n == 1 || (n == n_best && order(pair) > order(best))) continue;
      best = pair;
      n_best = n;
    }
    if (n_best == 1 || n_ids == n_symbols) return lines;
    if (ids.emplace(best.first + best.second, n_ids).second) ++n_ids;
    merges.push_back(best);
    lines.push_back(best.first + " " + best.second);
  }
}

TEST(TokenizerTrainer, MergesAreThoseOfCountingAllPairsAnewEachTime) {
  for (const std::string_view letters : {"ab", "abc", "aaaab", "abcdef"})
    for (uint64_t seed = 0; seed < testing::all_or_few<uint64_t>(6, 2); ++seed) {
      const Strings texts = random_texts(seed, letters, 40, 30);
      for (const size_t n_symbols : {270, 340}) {
        ASSERT_OK_AND_ASSIGN(const TrainedVocab vocab, train(texts, {.n_vocab = n_symbols + 2, .pre = "gpt-2"}));
        ASSERT_EQ(vocab.merges, slow_merges(texts, n_symbols)) << letters << " " << seed;
      }
    }
}

TEST(TokenizerTrainer, SpmPiecesAreThoseOfCountingAllTextsAnewEachTime) {
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const Strings texts = random_texts(seed, "aabc", 60, 24);
    ASSERT_OK_AND_ASSIGN(const TrainedVocab most,
                         train(texts, {.kind = TokenizerKind::spm, .n_vocab = 300, .character_coverage = 1}));
    // A tokenizer with only the first pieces divides the texts as they were when the next piece was chosen.
    for (size_t n_pieces = 0; kFirstPiece + n_pieces + 4 < most.tokens.size(); ++n_pieces) {
      const TokenizerTraining options{
          .kind = TokenizerKind::spm, .n_vocab = kFirstPiece + 4 + n_pieces, .character_coverage = 1};
      ASSERT_OK_AND_ASSIGN(const TrainedVocab vocab, train(texts, options));
      const auto tokenizer = tokenizer_of(vocab);
      std::map<std::string, size_t> counts;
      for (const std::string& text : texts) {
        const auto tokens = tokenizer->tokenize(text).value();
        for (size_t i = 1; i < tokens.size(); ++i)
          ++counts[vocab.tokens[static_cast<size_t>(tokens[i - 1])] + vocab.tokens[static_cast<size_t>(tokens[i])]];
      }
      size_t n_best = 0;
      for (const auto& [text, n] : counts) n_best = std::max(n_best, n);
      ASSERT_EQ(counts[most.tokens[kFirstPiece + n_pieces]], n_best) << seed << " " << n_pieces;
    }
  }
}

TEST(TokenizerTrainer, TheTokensOfTheTextAreAsManyAsCounted) {
  const Strings letters{"ab ",
                        "abc  .",
                        "aab1 \n",
                        "ab\xC3\xA9 \xE6\x97\xA5",
                        "a\xFF\x80 ",
                        "\xE2\x96\x81"
                        "ab"};
  for (const std::string& some : letters)
    for (const TokenizerKind kind : {TokenizerKind::bpe, TokenizerKind::spm})
      for (uint64_t seed = 0; seed < 4; ++seed) {
        const Strings texts = random_texts(seed, some, 50, 60);
        ASSERT_OK_AND_ASSIGN(const TrainedVocab vocab,
                             train(texts, {.kind = kind, .n_vocab = 320, .pre = "gpt-2", .character_coverage = 0.9}));
        const auto tokenizer = tokenizer_of(vocab);
        size_t n_tokens = 0;
        for (const std::string& text : texts) n_tokens += tokenizer->tokenize(text).value().size();
        EXPECT_EQ(n_tokens, vocab.n_text_tokens) << some << " " << seed;
      }
}

TEST(TokenizerTrainer, TheOrderOfDocumentsDoesNotCount) {
  Strings texts = random_texts(3, "abcde fgh. 12", 300, 80);
  for (const TokenizerKind kind : {TokenizerKind::bpe, TokenizerKind::spm}) {
    const TokenizerTraining options{.kind = kind, .n_vocab = 400};
    ASSERT_OK_AND_ASSIGN(const TrainedVocab once, train(texts, options));
    std::ranges::reverse(texts);
    ASSERT_OK_AND_ASSIGN(const TrainedVocab again, train(texts, options));
    EXPECT_EQ(once.tokens, again.tokens);
    EXPECT_EQ(once.merges, again.merges);
    EXPECT_EQ(once.scores, again.scores);
  }
}

struct Trained {
  TokenizerKind kind;
  std::string pre;
};
void PrintTo(const Trained& trained, std::ostream* out) { *out << trained.pre; }

class TrainedOnStories : public ::testing::TestWithParam<Trained> {
 protected:
  static constexpr size_t kVocab = 2000;
  Result<TrainedVocab> train_on(const std::string& path) const {
    return train({testing::read_all(path)}, {.kind = GetParam().kind, .n_vocab = kVocab, .pre = GetParam().pre});
  }
};

TEST_P(TrainedOnStories, AnyTextSurvivesTheRoundTripThroughAFile) {
  ASSERT_OK_AND_ASSIGN(const TrainedVocab vocab, train_on(testing::story_text()));
  ASSERT_EQ(vocab.tokens.size(), kVocab);
  const auto tokenizer = through_a_file(vocab);
  EXPECT_TRUE(tokenizer->warnings().empty());
  const auto expect_round_trip = [&](const std::string& text) {
    const bool is_spm = GetParam().kind == TokenizerKind::spm;
    if (is_spm && text.find(kSpace) != std::string::npos) return;  // SPM uses this character for spaces
    const auto tokens = tokenizer->tokenize(text, {.add_special = true});
    EXPECT_EQ(detokenize(*tokenizer, tokens.value()).value(), text);
    EXPECT_EQ(tokens->front(), vocab.bos);
  };
  for (const std::string text : nlohmann::json::parse(testing::read_all(testing::data_path("tokenizers/strings.json"))))
    expect_round_trip(text);
  std::string all_bytes;
  for (int byte = 0; byte < 256; ++byte) all_bytes += static_cast<char>(byte);
  for (const std::string& text : random_texts(1, all_bytes, 200, 200)) expect_round_trip(text);
}

TEST_P(TrainedOnStories, ItsTextIsShort) {
  ASSERT_OK_AND_ASSIGN(const TrainedVocab vocab, train_on(testing::story_text()));
  EXPECT_EQ(vocab.n_text_bytes, std::filesystem::file_size(testing::story_text()));
  // 3.8 bytes per token. A word that occurs 26 times is one token.
  EXPECT_GT(static_cast<double>(vocab.n_text_bytes) / static_cast<double>(vocab.n_text_tokens), 3.7);
  const std::string space = GetParam().kind == TokenizerKind::spm ? std::string(kSpace) : "\xC4\xA0";
  EXPECT_NE(std::ranges::find(vocab.tokens, space + "evening"), vocab.tokens.end());
}

INSTANTIATE_TEST_SUITE_P(Kinds, TrainedOnStories,
                         ::testing::Values(Trained{TokenizerKind::bpe, "llama-bpe"},
                                           Trained{TokenizerKind::bpe, "gpt-2"}, Trained{TokenizerKind::spm, "spm"}));

TEST(SpmTrainer, IdsAreInTheOrderOfSentencePiece) {
  const Strings texts{"abab abab", "ba"};
  ASSERT_OK_AND_ASSIGN(const TrainedVocab vocab,
                       train(texts, {.kind = TokenizerKind::spm, .n_vocab = 264, .character_coverage = 1}));
  EXPECT_EQ(vocab.tokens[0], "<unk>");
  EXPECT_EQ(vocab.tokens[1], "<s>");
  EXPECT_EQ(vocab.tokens[2], "</s>");
  EXPECT_EQ(vocab.tokens[3], "<0x00>");
  EXPECT_EQ(vocab.tokens[258], "<0xFF>");
  // The text consists of _abab twice and _ba. First ab: 4. Then _ab and abab: 2 each, of which the space symbol has the
  // lower id.
  const std::string space(kSpace);
  const Strings tail(vocab.tokens.begin() + kFirstPiece, vocab.tokens.end());
  EXPECT_EQ(tail, (Strings{"ab", space + "ab", space, "a", "b"}));
  const std::vector<float> scores(vocab.scores.begin() + kFirstPiece - 1, vocab.scores.end());
  EXPECT_EQ(scores, (std::vector<float>{0, 0, -1, -2, -3, -4}));
  EXPECT_EQ(vocab.types[0], TokenType::unknown);
  EXPECT_EQ(vocab.types[2], TokenType::control);
  EXPECT_EQ(vocab.types[258], TokenType::byte);
  EXPECT_EQ(vocab.types[259], TokenType::normal);
  EXPECT_EQ(vocab.unknown, 0);
  EXPECT_EQ(vocab.bos, 1);
  EXPECT_EQ(vocab.eos, 2);
}

TEST(SpmTrainer, PiecesKeepWithinWords) {
  Strings texts;
  for (int i = 0; i < 20; ++i) texts.push_back("the end. 1212  tea\n\n(the end) \n\ttea, the end. 1212");
  ASSERT_OK_AND_ASSIGN(const TrainedVocab vocab, train(texts, {.kind = TokenizerKind::spm, .n_vocab = 600}));
  const std::set<std::string> tokens(vocab.tokens.begin() + kFirstPiece, vocab.tokens.end());
  const std::string space(kSpace);
  for (const std::string& piece : {space + "the", space + "end", space + space + "tea", std::string("\n\n")})
    EXPECT_TRUE(tokens.contains(piece)) << piece;
  for (const std::string& token : tokens) {
    if (token.size() == 1) continue;
    EXPECT_EQ(token.find_first_of("0123456789"), std::string::npos) << token;
    const size_t sign = token.rfind(space);
    EXPECT_TRUE(sign == std::string::npos || token.find_first_not_of(space) > sign) << token;
    const bool has_space = sign != std::string::npos;
    EXPECT_FALSE(has_space && token.find('\n') != std::string::npos) << token;
    const bool has_letter = std::ranges::any_of(token, [](char c) { return c >= 'a' && c <= 'z'; });
    EXPECT_FALSE(has_letter && token.find_first_of(".,()\n\t") != std::string::npos) << token;
  }
}

TEST(SpmTrainer, RareCodePointsAreSpelledInBytes) {
  const Strings texts{std::string(990, 'a') +
                      "\xC3\xA9\xC3\xA9\xC3\xA9"
                      "b"};
  const auto tokens = [&](double coverage, size_t n_vocab = 1000) {
    const auto vocab = train(
        texts,
        {.kind = TokenizerKind::spm, .n_vocab = n_vocab, .add_space_prefix = false, .character_coverage = coverage});
    EXPECT_OK(vocab);
    return std::set<std::string>(vocab->tokens.begin() + kFirstPiece, vocab->tokens.end());
  };
  // 994 code points: 990 a, 3 e with an accent, 1 b.
  EXPECT_TRUE(tokens(1).contains("b"));
  EXPECT_TRUE(tokens(0.998).contains("\xC3\xA9"));
  EXPECT_FALSE(tokens(0.998).contains("b"));
  EXPECT_FALSE(tokens(0.99).contains("\xC3\xA9"));
  EXPECT_TRUE(tokens(0.99).contains("a"));
  EXPECT_EQ(tokens(1, 261), (std::set<std::string>{std::string(kSpace), "a"}));
}

TEST(SpmTrainer, ThePrefixIsOnlyInFrontOfADocument) {
  const auto n_tokens = [](bool begins, bool has_prefix) {
    bool is_read = false;
    const auto next = [&]() -> Result<std::optional<TextPiece>> {
      if (std::exchange(is_read, true)) return std::nullopt;
      return TextPiece{"ab", begins, true};
    };
    return train_tokenizer(
               next,
               {.kind = TokenizerKind::spm, .n_vocab = 280, .add_space_prefix = has_prefix, .character_coverage = 1})
        .value()
        .n_text_tokens;
  };
  EXPECT_EQ(n_tokens(true, true), 3u);
  EXPECT_EQ(n_tokens(false, true), 2u);
  EXPECT_EQ(n_tokens(true, false), 2u);
}

// Other programs read only these keys of the file.
TEST(TokenizerTrainer, TheFileHasEveryKeyThatReadersWant) {
  for (const TokenizerKind kind : {TokenizerKind::bpe, TokenizerKind::spm}) {
    const bool is_spm = kind == TokenizerKind::spm;
    ASSERT_OK_AND_ASSIGN(const TrainedVocab vocab,
                         train({"ab ab ab"}, {.kind = kind, .n_vocab = 270, .add_space_prefix = false}));
    GgufBuilder builder;
    write_vocab(builder, vocab);
    ASSERT_OK_AND_ASSIGN(const std::vector<std::byte> header, builder.header());
    ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::parse(header, "keys"));
    const Metadata& keys = file->metadata();
    EXPECT_EQ(keys.get<std::string_view>("tokenizer.ggml.model"), is_spm ? "llama" : "gpt2");
    EXPECT_EQ(keys.get<uint32_t>("tokenizer.ggml.bos_token_id"), static_cast<uint32_t>(vocab.bos));
    EXPECT_EQ(keys.get<uint32_t>("tokenizer.ggml.eos_token_id"), static_cast<uint32_t>(vocab.eos));
    EXPECT_EQ(keys.get<bool>("tokenizer.ggml.add_bos_token"), true);
    EXPECT_EQ(keys.get<bool>("tokenizer.ggml.add_eos_token"), false);
    EXPECT_EQ(keys.get<bool>("tokenizer.ggml.add_space_prefix"), false);
    EXPECT_EQ(keys.find("tokenizer.ggml.scores") != nullptr, is_spm);
    EXPECT_EQ(keys.find("tokenizer.ggml.merges") != nullptr, !is_spm);
    EXPECT_EQ(keys.find("tokenizer.ggml.unknown_token_id") != nullptr, is_spm);
    EXPECT_NE(keys.find("tokenizer.ggml.tokens"), nullptr);
    EXPECT_NE(keys.find("tokenizer.ggml.token_type"), nullptr);
    const text::VocabData data = vocab_data(vocab);
    EXPECT_EQ(data.add_bos, true);
    EXPECT_EQ(data.add_space_prefix, false);
  }
}

TEST(TokenizerTrainer, TheSmallestVocabulariesSpellAnyText) {
  const Strings texts{"some text"};
  for (const TokenizerKind kind : {TokenizerKind::bpe, TokenizerKind::spm}) {
    ASSERT_OK_AND_ASSIGN(const TrainedVocab vocab, train(texts, {.kind = kind, .n_vocab = min_vocab(kind)}));
    EXPECT_EQ(vocab.tokens.size(), min_vocab(kind));
    const auto tokenizer = through_a_file(vocab);
    const std::string text = "  caf\xC3\xA9 \xFF\n";
    EXPECT_EQ(detokenize(*tokenizer, tokenizer->tokenize(text).value()).value(), text);
  }
}

TEST(TokenizerTrainer, WhereNoPairOccursTwiceTheVocabularyIsSmaller) {
  for (const TokenizerKind kind : {TokenizerKind::bpe, TokenizerKind::spm}) {
    ASSERT_OK_AND_ASSIGN(const TrainedVocab vocab,
                         train({"abcdefg"}, {.kind = kind, .n_vocab = 1000, .character_coverage = 1}));
    EXPECT_EQ(vocab.tokens.size(), kind == TokenizerKind::bpe ? 258u : 267u);
  }
}

TEST(TokenizerTrainer, NoMergeSpellsASpecialToken) {
  // The words of this pre-tokenizer are all texts without digits.
  const Strings texts(8, "<|end_of_text|>");
  ASSERT_OK_AND_ASSIGN(const TrainedVocab vocab, train(texts, {.n_vocab = 400, .pre = "superbpe"}));
  EXPECT_EQ(std::ranges::count(vocab.tokens, "<|end_of_text|>"), 1);
  EXPECT_GE(vocab.merges.size(), 12u);
  const auto tokenizer = through_a_file(vocab);
  EXPECT_EQ(tokenizer->tokenize(texts[0], {.parse_special = true}).value(), std::vector<int32_t>{vocab.eos});
}

TEST(TokenizerTrainer, ControlTokensFollowTheVocabularyAndMatchOnlyOnRequest) {
  for (const TokenizerKind kind : {TokenizerKind::bpe, TokenizerKind::spm}) {
    const Strings texts(9, "<|user|>ab ab<|end|><|user|>");
    const size_t n_vocab = min_vocab(kind) + 4;
    ASSERT_OK_AND_ASSIGN(const TrainedVocab vocab, train(texts, {.kind = kind,
                                                                 .n_vocab = n_vocab,
                                                                 .pre = "gpt-2",
                                                                 .character_coverage = 1,
                                                                 .control_tokens = {"<|user|>", "<|end|>"}}));
    ASSERT_EQ(vocab.tokens.size(), n_vocab);
    const auto last = static_cast<int32_t>(vocab.tokens.size()) - 1;
    EXPECT_EQ(Strings(vocab.tokens.end() - 2, vocab.tokens.end()), (Strings{"<|user|>", "<|end|>"}));
    EXPECT_EQ(std::vector(vocab.types.end() - 2, vocab.types.end()), std::vector(2, TokenType::control));
    const auto tokenizer = through_a_file(vocab);
    const auto tokens = tokenizer->tokenize(texts[0], {.parse_special = true}).value();
    EXPECT_EQ(tokens.front(), last - 1);
    EXPECT_EQ(tokens.back(), last - 1);
    EXPECT_EQ(std::ranges::count(tokens, last), 1);
    EXPECT_EQ(vocab.n_text_tokens, 9 * tokens.size());
    EXPECT_EQ(std::ranges::count(tokenizer->tokenize(texts[0]).value(), last), 0);
  }
}

// The words of "superbpe" are all texts without digits, so "b<|" would be part of a word.
TEST(TokenizerTrainer, NoMergeCrossesAControlToken) {
  const Strings texts(8, "ab<|x|>ab<|x|>cd <|xy|>");
  const auto trained = [&](const std::string& pre) {
    return train(texts, {.n_vocab = 400, .pre = pre, .control_tokens = {"<|x|>", "<|xy|>"}});
  };
  ASSERT_OK_AND_ASSIGN(const TrainedVocab words, trained("gpt-2"));
  EXPECT_EQ(words.merges, (Strings{"a b", "c d"}));
  EXPECT_EQ(words.n_text_tokens, 8u * 7);
  ASSERT_OK_AND_ASSIGN(const TrainedVocab texts_without_digits, trained("superbpe"));
  EXPECT_EQ(texts_without_digits.merges, (Strings{"a b", "c d", "cd \xC4\xA0"}));
  EXPECT_EQ(texts_without_digits.n_text_tokens, 8u * 6);
}

TEST(TokenizerTrainer, OfTwoControlTokensAtAPlaceTheLongestCounts) {
  const Strings texts(8, "<a<a>5b");
  for (const Strings& controls : {Strings{"<a", "<a>"}, Strings{"<a>", "<a"}}) {
    ASSERT_OK_AND_ASSIGN(const TrainedVocab vocab, train(texts, {.n_vocab = 300, .control_tokens = controls}));
    EXPECT_EQ(vocab.n_text_tokens, 8u * 4);
    EXPECT_EQ(through_a_file(vocab)->tokenize(texts[0], {.parse_special = true})->size(), 4u);
  }
}

// The tokenizer puts a space behind each control token, also inside a long document that is read in pieces.
TEST(SpmTrainer, ASpaceFollowsAControlToken) {
  bool is_read = false;
  const auto next = [&]() -> Result<std::optional<TextPiece>> {
    if (std::exchange(is_read, true)) return std::nullopt;
    return TextPiece{"ab<|x|>ab", false, true};
  };
  ASSERT_OK_AND_ASSIGN(
      const TrainedVocab vocab,
      train_tokenizer(
          next, {.kind = TokenizerKind::spm, .n_vocab = 280, .character_coverage = 1, .control_tokens = {"<|x|>"}}));
  EXPECT_EQ(vocab.n_text_tokens, 4u);  // ab, the control token, the space, ab
}

TEST(TokenizerTrainer, BadControlTokensAreRefused) {
  const auto refusal = [](Strings controls, TokenizerKind kind = TokenizerKind::bpe) {
    return train({"a b a b"}, {.kind = kind, .n_vocab = 300, .control_tokens = std::move(controls)});
  };
  EXPECT_ERROR(refusal({"<|a|>", ""}), "control token: empty");
  EXPECT_ERROR(refusal({std::string(257, 'a')}), "257 bytes, limit 256");
  EXPECT_OK(refusal({std::string(256, 'a')}));
  EXPECT_ERROR(refusal({"<|a|>", "<|a|>"}), "control token \"<|a|>\": the vocabulary already has");
  EXPECT_ERROR(refusal({"<|end_of_text|>"}), "already has");
  EXPECT_ERROR(refusal({"</s>"}, TokenizerKind::spm), "already has");
  EXPECT_ERROR(refusal({"!"}), "already has");
  EXPECT_ERROR(train({"a"}, {.n_vocab = 259, .control_tokens = {"<|a|>", "<|b|>"}}),
               "want 260 (256 bytes, BOS and EOS, 2 control tokens)");
}

TEST(TokenizerTrainer, BadOptionsSayWhatIsWanted) {
  EXPECT_ERROR(train({"a"}, {.n_vocab = 257}),
               "vocabulary of 257 tokens: want 258 (256 bytes, BOS and EOS) to 1048576");
  EXPECT_ERROR(train({"a"}, {.n_vocab = kMaxTrainedVocab + 1}), "want 258");
  EXPECT_ERROR(train({"a"}, {.kind = TokenizerKind::spm, .n_vocab = 259}), "want 260 (256 bytes, unknown, BOS, EOS");
  EXPECT_ERROR(train({"a"}, {.n_vocab = 300, .pre = "no such"}), "pre-tokenizer \"no such\": not known");
  EXPECT_ERROR(train({"a"}, {.n_vocab = 300, .pre = "gemma4"}), "pre-tokenizer \"gemma4\": its tokens are not spelled");
  for (const double coverage : {0.0, -1.0, 1.1, std::nan("")})
    EXPECT_ERROR(train({"a"}, {.kind = TokenizerKind::spm, .n_vocab = 300, .character_coverage = coverage}),
                 "character coverage");
}

TEST(TokenizerTrainer, NoTextIsAnError) {
  for (const TokenizerKind kind : {TokenizerKind::bpe, TokenizerKind::spm}) {
    EXPECT_ERROR(train({}, {.kind = kind, .n_vocab = 300}), "text to train a tokenizer on: empty");
    EXPECT_ERROR(train({"", ""}, {.kind = kind, .n_vocab = 300}), "text to train a tokenizer on: empty");
  }
}

TEST(TokenizerTrainer, TheErrorOfItsSourceComesThrough) {
  const auto next = []() -> Result<std::optional<TextPiece>> { return fail(ErrorCode::io, "x.txt: gone"); };
  EXPECT_ERROR(train_tokenizer(next, {.n_vocab = 300}), "x.txt: gone");
}

TEST(TokenizerTrainer, StopsOnRequest) {
  CancelToken cancel;
  const std::vector<std::string_view> texts{"abab"};
  EXPECT_OK(train_tokenizer(texts, {.n_vocab = 300}, &cancel));
  cancel.cancel();
  EXPECT_ERROR(train_tokenizer(texts, {.n_vocab = 300}, &cancel), "interrupted");
}

TEST(TokenizerTrainer, OneWordOfAMillionLettersTakesNoTime) {
  const int n_letters = testing::all_or_few(1'000'000, 100'000);
  Rng rng(1);
  std::string text;
  for (int i = 0; i < n_letters; ++i) text += static_cast<char>('a' + rng.next_u32() % 26);
  for (const std::string& word : {text, std::string(text.size(), 'a')})
    for (const TokenizerKind kind : {TokenizerKind::bpe, TokenizerKind::spm}) {
      ASSERT_OK_AND_ASSIGN(const TrainedVocab vocab, train({word}, {.kind = kind, .n_vocab = 2000}));
      EXPECT_LE(vocab.tokens.size(), 2000u);
    }
}

TEST(TokenizerTrainer, BytesThatAreNoTextAreSpelledInBytes) {
  const Strings texts{std::string("\0\xFF\xFE\xC3\xED\xA0\x80 ab\xF0\x9F", 12), "\x80", "ab"};
  for (const TokenizerKind kind : {TokenizerKind::bpe, TokenizerKind::spm}) {
    ASSERT_OK_AND_ASSIGN(const TrainedVocab vocab, train(texts, {.kind = kind, .n_vocab = 300}));
    const auto tokenizer = through_a_file(vocab);
    for (const std::string& text : texts)
      EXPECT_EQ(detokenize(*tokenizer, tokenizer->tokenize(text).value()).value(), text);
    for (const std::string& token : vocab.tokens) EXPECT_TRUE(text::is_valid_utf8(token));
  }
}

}  // namespace
}  // namespace tessera::train
