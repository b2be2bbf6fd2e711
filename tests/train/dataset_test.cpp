// Datasets: windows and targets in both layouts, special tokens, the evaluation share, the order, and errors.
#include "tessera/train/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "tests/support/small_vocab.h"
#include "tests/support/testing.h"

namespace tessera::train {
namespace {

using Ids = std::vector<int32_t>;
using Strings = std::vector<std::string>;

constexpr int32_t kBos = 1;
constexpr int32_t kEos = 2;

/// Letters a to z are tokens 3 to 28, the space is 29, followed by bytes.
std::unique_ptr<const text::Tokenizer> letters(bool adds_bos = true, bool adds_space_prefix = false) {
  static const std::string all = "abcdefghijklmnopqrstuvwxyz";
  std::vector<testing::SmallToken> tokens;
  for (size_t i = 0; i < all.size(); ++i) tokens.push_back({std::string_view(all).substr(i, 1)});
  tokens.push_back({"\xE2\x96\x81"});
  static const Strings bytes = [] {
    Strings texts;
    for (int byte = 0; byte < 256; ++byte) texts.push_back(fmt::format("<0x{:02X}>", byte));
    return texts;
  }();
  for (const std::string& byte : bytes) tokens.push_back({byte, 0, text::TokenType::byte});
  text::VocabData data = testing::small_vocab(tokens);
  data.add_bos = adds_bos;
  data.add_space_prefix = adds_space_prefix;
  return testing::make_tokenizer(data);
}

Result<Dataset> make(const Strings& documents, const DatasetOptions& options,
                     std::unique_ptr<const text::Tokenizer> tokenizer = letters()) {
  size_t i = 0;
  const auto next = [&]() -> Result<std::optional<TextPiece>> {
    if (i == documents.size()) return std::nullopt;
    return TextPiece{documents[i++]};
  };
  return Dataset::create(next, *tokenizer, options);
}

/// n letters in alphabetical order, repeated.
std::string text_of(size_t n) {
  std::string text;
  for (size_t i = 0; i < n; ++i) text += static_cast<char>('a' + i % 26);
  return text;
}

struct Filled {
  Ids tokens, targets;
};
Filled filled(const Dataset& dataset, size_t window) {
  const auto n = static_cast<size_t>(dataset.n_ctx());
  Filled got{Ids(n), Ids(n)};
  dataset.fill(window, got.tokens, got.targets);
  return got;
}

TEST(Dataset, PackedWindowsAreTheTextInOrder) {
  ASSERT_OK_AND_ASSIGN(const Dataset dataset, make({"abc", "de"}, {.n_ctx = 2}));
  EXPECT_EQ(dataset.n_tokens(), 9u);
  EXPECT_EQ(dataset.n_documents(), 2u);
  ASSERT_EQ(dataset.n_windows(), 4u);
  Ids tokens, targets;
  for (size_t i = 0; i < 4; ++i) {
    const Filled got = filled(dataset, i);
    tokens.insert(tokens.end(), got.tokens.begin(), got.tokens.end());
    targets.insert(targets.end(), got.targets.begin(), got.targets.end());
  }
  EXPECT_EQ(tokens, (Ids{kBos, 3, 4, 5, kEos, kBos, 6, 7}));
  EXPECT_EQ(targets, (Ids{3, 4, 5, kEos, kBos, 6, 7, kEos}));
}

TEST(Dataset, TargetsAcrossDocumentsAreLeftOutWhereThatIsWanted) {
  ASSERT_OK_AND_ASSIGN(const Dataset dataset, make({"abc", "de", "f"}, {.n_ctx = 11, .mask_boundaries = true}));
  EXPECT_EQ(filled(dataset, 0).tokens, (Ids{kBos, 3, 4, 5, kEos, kBos, 6, 7, kEos, kBos, 8}));
  EXPECT_EQ(filled(dataset, 0).targets, (Ids{3, 4, 5, kEos, kNoTarget, 6, 7, kEos, kNoTarget, 8, kEos}));
  ASSERT_OK_AND_ASSIGN(const Dataset cut, make({"abc", "de"}, {.n_ctx = 5, .mask_boundaries = true}));
  EXPECT_EQ(filled(cut, 0).targets, (Ids{3, 4, 5, kEos, kNoTarget}));  // the document begins where the window ends
}

TEST(Dataset, SpecialTokensAreThoseOfTheVocabularyAndOptions) {
  const auto first = [](const DatasetOptions& options, bool adds_bos) {
    return filled(make({"ab", "c", "defghi"}, options, letters(adds_bos)).value(), 0).tokens;
  };
  EXPECT_EQ(first({.n_ctx = 5}, true), (Ids{kBos, 3, 4, kEos, kBos}));
  EXPECT_EQ(first({.n_ctx = 5}, false), (Ids{3, 4, kEos, 5, kEos}));
  EXPECT_EQ(first({.n_ctx = 5, .end_documents = false}, false), (Ids{3, 4, 5, 6, 7}));
  ASSERT_OK_AND_ASSIGN(const Dataset plain, make({"<s>"}, {.n_ctx = 1, .end_documents = false}));
  EXPECT_EQ(plain.n_tokens(), 4u);
  ASSERT_OK_AND_ASSIGN(const Dataset parsed,
                       make({"<s>"}, {.n_ctx = 1, .end_documents = false, .parse_special = true}));
  EXPECT_EQ(parsed.n_tokens(), 2u);
}

TEST(Dataset, PaddedWindowsHoldOneDocumentEach) {
  const DatasetOptions options{.n_ctx = 4, .layout = WindowLayout::padded};
  ASSERT_OK_AND_ASSIGN(const Dataset dataset, make({"abcdef", "g", "abcde"}, options));
  ASSERT_EQ(dataset.n_windows(), 5u);
  EXPECT_EQ(filled(dataset, 0).tokens, (Ids{kBos, 3, 4, 5}));
  EXPECT_EQ(filled(dataset, 0).targets, (Ids{3, 4, 5, 6}));
  EXPECT_EQ(filled(dataset, 1).tokens, (Ids{6, 7, 8, kEos}));  // three inputs, then padding
  EXPECT_EQ(filled(dataset, 1).targets, (Ids{7, 8, kEos, kNoTarget}));
  EXPECT_EQ(filled(dataset, 2).tokens, (Ids{kBos, 9, kEos, kEos}));
  EXPECT_EQ(filled(dataset, 2).targets, (Ids{9, kEos, kNoTarget, kNoTarget}));
  EXPECT_EQ(filled(dataset, 4).targets, (Ids{7, kEos, kNoTarget, kNoTarget}));
}

TEST(Dataset, WholeWindowsHoldTheDocumentsThatFit) {
  const DatasetOptions options{.n_ctx = 7, .layout = WindowLayout::whole};
  // Of 3, 4, 4, 9 and 3 tokens. The first two are 7 tokens; with the third they would be 11.
  ASSERT_OK_AND_ASSIGN(const Dataset dataset, make({"a", "bc", "de", "abcdefg", "f"}, options));
  ASSERT_EQ(dataset.n_windows(), 5u);
  EXPECT_EQ(filled(dataset, 0).tokens, (Ids{kBos, 3, kEos, kBos, 4, 5, kEos}));
  EXPECT_EQ(filled(dataset, 0).targets, (Ids{3, kEos, kBos, 4, 5, kEos, kNoTarget}));
  EXPECT_EQ(filled(dataset, 1).tokens, (Ids{kBos, 6, 7, kEos, kEos, kEos, kEos}));
  EXPECT_EQ(filled(dataset, 1).targets, (Ids{6, 7, kEos, kNoTarget, kNoTarget, kNoTarget, kNoTarget}));
  EXPECT_EQ(filled(dataset, 2).tokens, (Ids{kBos, 3, 4, 5, 6, 7, 8}));  // too long: cut
  EXPECT_EQ(filled(dataset, 3).targets[0], kEos);
  EXPECT_EQ(filled(dataset, 4).tokens, (Ids{kBos, 8, kEos, kEos, kEos, kEos, kEos}));
}

TEST(Dataset, AWholeWindowIsFullWithItsLastTarget) {
  // Two documents of 4 tokens are 7 inputs and their targets.
  for (const auto& [n_ctx, n_windows] : {std::pair{7, 1u}, {6, 2u}, {8, 1u}}) {
    ASSERT_OK_AND_ASSIGN(const Dataset dataset, make({"ab", "cd"}, {.n_ctx = n_ctx, .layout = WindowLayout::whole}));
    EXPECT_EQ(dataset.n_windows(), n_windows) << n_ctx;
  }
}

TEST(Dataset, NoTokenIsATargetTwice) {
  for (const WindowLayout layout : {WindowLayout::packed, WindowLayout::padded, WindowLayout::whole}) {
    ASSERT_OK_AND_ASSIGN(const Dataset dataset, make({text_of(26)}, {.n_ctx = 3, .layout = layout}));
    std::multiset<int32_t> targets;
    for (size_t i = 0; i < dataset.n_windows(); ++i)
      for (const int32_t target : filled(dataset, i).targets) targets.insert(target);
    for (int32_t letter = 3; letter < 29; ++letter) EXPECT_EQ(targets.count(letter), 1u) << letter;
  }
}

TEST(Dataset, AnEpochVisitsEveryTrainingWindowOnceAndNoneOfTheOthers) {
  for (const EvalChoice choice : {EvalChoice::tail, EvalChoice::scattered})
    for (const double share : {0.0, 0.01, 0.1, 0.3, 0.5})
      for (const size_t n_windows : {2, 3, 10, 101}) {
        const DatasetOptions options{.n_ctx = 1, .eval_choice = choice, .eval_share = share, .seed = 5};
        ASSERT_OK_AND_ASSIGN(const Dataset dataset, make({text_of(n_windows - 1)}, options));
        ASSERT_EQ(dataset.n_windows(), n_windows);
        const auto n_eval = static_cast<size_t>(share * static_cast<double>(n_windows));
        EXPECT_EQ(dataset.n_eval_windows(), share == 0 ? 0 : std::max<size_t>(1, n_eval));
        std::set<size_t> all;
        for (size_t i = 0; i < dataset.n_eval_windows(); ++i) all.insert(dataset.eval_window(i));
        ASSERT_EQ(all.size(), dataset.n_eval_windows());
        for (uint64_t epoch = 0; epoch < 3; ++epoch) {
          std::set<size_t> seen = all;
          for (size_t i = 0; i < dataset.n_train_windows(); ++i)
            seen.insert(dataset.train_window(epoch * dataset.n_train_windows() + i));
          EXPECT_EQ(seen.size(), n_windows) << share << " " << n_windows;
          EXPECT_EQ(*seen.rbegin(), n_windows - 1);
        }
      }
}

std::vector<size_t> epoch_of(const Dataset& dataset, uint64_t epoch) {
  std::vector<size_t> order;
  for (size_t i = 0; i < dataset.n_train_windows(); ++i)
    order.push_back(dataset.train_window(epoch * dataset.n_train_windows() + i));
  return order;
}

TEST(Dataset, EpochsAndSeedsHaveOrdersOfTheirOwn) {
  ASSERT_OK_AND_ASSIGN(const Dataset dataset, make({text_of(100)}, {.n_ctx = 1, .seed = 5}));
  ASSERT_OK_AND_ASSIGN(const Dataset again, make({text_of(100)}, {.n_ctx = 1, .seed = 5}));
  ASSERT_OK_AND_ASSIGN(const Dataset other, make({text_of(100)}, {.n_ctx = 1, .seed = 6}));
  EXPECT_EQ(epoch_of(dataset, 3), epoch_of(again, 3));
  EXPECT_NE(epoch_of(dataset, 3), epoch_of(dataset, 4));
  EXPECT_NE(epoch_of(dataset, 3), epoch_of(other, 3));
  EXPECT_FALSE(std::ranges::is_sorted(epoch_of(dataset, 0)));
}

TEST(Dataset, EvaluationWindowsAreTheLastOrOneInEveryFew) {
  DatasetOptions options{.n_ctx = 1, .eval_share = 0.1, .seed = 2};
  ASSERT_OK_AND_ASSIGN(const Dataset tail, make({text_of(99)}, options));
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(tail.eval_window(i), 90 + i);
  options.eval_choice = EvalChoice::scattered;
  std::set<size_t> offsets;
  for (options.seed = 0; options.seed < 20; ++options.seed) {
    ASSERT_OK_AND_ASSIGN(const Dataset scattered, make({text_of(99)}, options));
    offsets.insert(scattered.eval_window(0));
    for (size_t i = 0; i < 10; ++i) EXPECT_EQ(scattered.eval_window(i), scattered.eval_window(0) + 10 * i);
  }
  EXPECT_LT(*offsets.rbegin(), 10u);
  EXPECT_GT(offsets.size(), 4u);
}

TEST(Dataset, FilesInPiecesGiveTheTokensOfTheWhole) {
  std::string text;
  for (int i = 0; i < 2000; ++i) text += i % 11 == 0 ? "\n" : i % 97 == 0 ? "|" : " some words";
  const std::string path = testing::write_temporary("text.txt", text);
  for (const bool adds_space_prefix : {false, true}) {
    const auto tokenizer = letters(true, adds_space_prefix);
    ASSERT_OK_AND_ASSIGN(const Dataset whole, Dataset::read({path}, "|", *tokenizer, {.n_ctx = 16}));
    TextReader reader({path}, "|", 50);
    ASSERT_OK_AND_ASSIGN(const Dataset pieces,
                         Dataset::create([&] { return reader.next(); }, *tokenizer, {.n_ctx = 16}));
    EXPECT_GT(whole.n_documents(), 5u);
    EXPECT_EQ(whole.fingerprint(), pieces.fingerprint());
  }
}

TEST(Dataset, TheFingerprintKnowsTextAndOptions) {
  const DatasetOptions options{.n_ctx = 4, .eval_share = 0.2};
  const uint64_t own = make({text_of(60)}, options)->fingerprint();
  EXPECT_EQ(make({text_of(60)}, options)->fingerprint(), own);
  EXPECT_NE(make({text_of(61)}, options)->fingerprint(), own);
  EXPECT_NE(make({text_of(60)}, {.n_ctx = 5, .eval_share = 0.2})->fingerprint(), own);
  EXPECT_NE(make({text_of(60)}, {.n_ctx = 4, .eval_share = 0.3})->fingerprint(), own);
  EXPECT_NE(make({text_of(60)}, {.n_ctx = 4, .eval_share = 0.2, .seed = 1})->fingerprint(), own);
  EXPECT_NE(make({text_of(60)}, {.n_ctx = 4, .eval_share = 0.2, .mask_boundaries = true})->fingerprint(), own);
  EXPECT_NE(make({text_of(60)}, {.n_ctx = 4, .eval_choice = EvalChoice::scattered, .eval_share = 0.2})->fingerprint(),
            own);
}

TEST(Dataset, BytesThatAreNotUtf8AreTokens) {
  ASSERT_OK_AND_ASSIGN(const Dataset dataset, make({"a\xFF\x80"}, {.n_ctx = 4}));
  EXPECT_EQ(filled(dataset, 0).targets, (Ids{3, 30 + 0xFF, 30 + 0x80, kEos}));
}

TEST(Dataset, TooLittleTextIsAnErrorWithBothNumbers) {
  EXPECT_ERROR(make({}, {.n_ctx = 4}), "text to train on: empty");
  EXPECT_ERROR(make({}, {.n_ctx = 4, .layout = WindowLayout::padded}), "text to train on: empty");
  EXPECT_ERROR(make({"ab"}, {.n_ctx = 4}), "text to train on: 4 tokens, want at least 5: a context of 4 and the next");
  EXPECT_ERROR(make({"abcd"}, {.n_ctx = 4, .eval_share = 0.1}), "6 tokens fill one context of 4; to set some apart");
  EXPECT_OK(make({"abc"}, {.n_ctx = 4}));
  EXPECT_ERROR(make({"a", "b"}, {.n_ctx = 4, .layout = WindowLayout::padded, .end_documents = false}, letters(false)),
               "no document of its 2 has two tokens");
}

TEST(Dataset, BadOptionsSayWhatIsWanted) {
  for (const int64_t n_ctx : {int64_t{0}, int64_t{-1}, int64_t{1} << 31, INT64_MAX})
    EXPECT_ERROR(make({"abc"}, {.n_ctx = n_ctx}), "want 1 to 2147483646");
  for (const double share : {-0.1, 0.6, std::nan("")})
    EXPECT_ERROR(make({"abc"}, {.n_ctx = 1, .eval_share = share}), "want 0 to 0.5");
}

TEST(Dataset, ErrorsOfFilesAndTokenizersComeThrough) {
  EXPECT_ERROR(Dataset::read({"/no/such.txt"}, "", *letters(), {.n_ctx = 1}), "/no/such.txt: cannot open");
  text::VocabData data = testing::small_vocab({{"a"}});
  data.special_ids[static_cast<size_t>(text::SpecialToken::unknown)] = -1;
  EXPECT_ERROR(make({"abc"}, {.n_ctx = 1}, testing::make_tokenizer(data)), "no token, byte tokens or unknown");
}

TEST(Dataset, StopsOnRequest) {
  CancelToken cancel;
  cancel.cancel();
  const std::string path = testing::write_temporary("text.txt", "abc");
  EXPECT_ERROR(Dataset::read({path}, "", *letters(), {.n_ctx = 1}, &cancel), "interrupted");
}

}  // namespace
}  // namespace tessera::train
