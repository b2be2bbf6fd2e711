// The parts of speculation: the index of texts, guesses by copies, measured times and shares, the length of drafts.
#include <gtest/gtest.h>

#include <limits>

#include "tessera/engine/speculative/best_guess.h"
#include "tessera/engine/speculative/match_drafter.h"
#include "tessera/engine/speculative/speculation.h"
#include "tessera/engine/speculative/speculator.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

using namespace testing;

std::vector<int32_t> tokens_of(std::string_view text) { return {text.begin(), text.end()}; }

std::string guess(Drafter& drafter, int64_t n_most, std::vector<int32_t>* confidences = nullptr) {
  std::string text;
  const auto add = [&](const DraftToken& guess) {
    text += static_cast<char>(guess.token);
    if (confidences != nullptr) confidences->push_back(guess.confidence);
    return true;
  };
  EXPECT_OK(drafter.draft({.n_most = n_most}, add, nullptr));
  return text;
}

std::vector<std::pair<int64_t, int64_t>> find(const TextIndex& index, std::string_view query) {
  std::vector<TextIndex::Match> matches;
  index.find(tokens_of(query), matches);
  std::vector<std::pair<int64_t, int64_t>> found;
  for (const TextIndex::Match& match : matches) found.emplace_back(match.end, match.length);
  std::ranges::sort(found);
  found.erase(std::ranges::unique(found).begin(), found.end());
  return found;
}

using Places = std::vector<std::pair<int64_t, int64_t>>;

TEST(TextIndex, FindsPlacesThatATokenFollows) {
  TextIndex index(100);
  EXPECT_EQ(find(index, "ab"), Places{});
  index.append(tokens_of("xab1yab2ab"));
  EXPECT_EQ(find(index, "zab"), (Places{{3, 2}, {7, 2}}));  // nothing follows the last one
  EXPECT_EQ(find(index, "yab"), (Places{{3, 2}, {7, 3}}));
  EXPECT_EQ(find(index, "b"), Places{});
  EXPECT_EQ(find(index, "ba"), Places{});
}

TEST(TextIndex, LongMatchesAreFoundBehindManyShortOnes) {
  TextIndex index(10000);
  index.append(tokens_of("abcdefgh!"));
  for (int i = 0; i < 500; ++i) index.append(tokens_of("gh?"));
  const Places found = find(index, "abcdefgh");
  EXPECT_EQ(found.front(), (std::pair<int64_t, int64_t>{8, 8}));
  EXPECT_LE(found.size(), 65u);  // a search is bounded
}

TEST(TextIndex, LengthsAreBounded) {
  TextIndex index(10000);
  index.append(tokens_of(std::string(200, 'a')));
  for (const auto& [end, length] : find(index, std::string(200, 'a'))) EXPECT_LE(length, TextIndex::kMostMatch);
}

TEST(TextIndex, NoMatchReachesOverTheStartOfAText) {
  TextIndex index(100);
  index.append(tokens_of("1ab"));
  index.end_text();
  index.end_text();  // no empty text
  index.append(tokens_of("ab2"));
  EXPECT_EQ(index.tokens().size(), 7u);
  EXPECT_EQ(find(index, "1ab"), (Places{{6, 2}}));  // the first one is at the end of its text
}

TEST(TextIndex, OldTokensGo) {
  for (const int64_t n_most : {2, 3, 8, 64}) {
    TextIndex index(n_most);
    for (int32_t i = 0; i < 1000; ++i) {
      index.append(i % 7);
      EXPECT_LE(std::ssize(index.tokens()), n_most);
      EXPECT_GE(std::ssize(index.tokens()), i < n_most ? 1 : n_most / 2);
      EXPECT_EQ(index.tokens().back(), i % 7);
    }
  }
  TextIndex index(100);
  for (int i = 0; i < 30; ++i) index.append(tokens_of("abc-"));
  EXPECT_FALSE(find(index, "ab").empty());
  index.clear();
  EXPECT_TRUE(find(index, "ab").empty());
}

TEST(TextIndex, GrowsWithItsText) {
  TextIndex index(1 << 20);
  for (int32_t i = 0; i < 5000; ++i) index.append(i);
  for (const int32_t i : {1, 500, 1023, 1024, 2047, 2048, 4998}) {
    std::vector<TextIndex::Match> matches;
    index.find(std::vector<int32_t>{i - 1, i}, matches);
    ASSERT_EQ(matches.size(), 1u) << i;
    EXPECT_EQ(matches[0].end, i + 1);
  }
}

TEST(MatchDrafter, NgramsCopyFromTheLastPlace) {
  MatchDrafter drafter(MatchKind::ngram);
  drafter.begin(tokens_of("xabc1..yabc2..zab"));
  EXPECT_EQ(guess(drafter, 4), "");  // only two tokens match
  drafter.append('c');
  EXPECT_EQ(guess(drafter, 4), "2..z");
  EXPECT_EQ(guess(drafter, 2), "2.");
  EXPECT_EQ(guess(drafter, 0), "");
  drafter.begin(tokens_of("abc"));
  EXPECT_EQ(guess(drafter, 4), "");
}

TEST(MatchDrafter, SuffixesCopyFromTheLongestMatch) {
  MatchDrafter drafter(MatchKind::suffix);
  drafter.begin(tokens_of("xyzabc1..abc2..xyzabc"));
  EXPECT_EQ(guess(drafter, 4), "1..a");  // that of length 6; the later one has 3
}

TEST(MatchDrafter, PlacesOfTheSameLengthVote) {
  MatchDrafter drafter(MatchKind::suffix);
  std::vector<int32_t> confidences;
  drafter.begin(tokens_of("ab1x. ab1y. ab1x. ab2z, ab"));
  EXPECT_EQ(guess(drafter, 3, &confidences), "1x.");
  // After the first guess the places of "ab2" are out, after the second that of "y" too.
  EXPECT_EQ(confidences[0] % 2, 0);
  EXPECT_EQ(confidences[1] % 2, 0);
  EXPECT_EQ(confidences[2] % 2, 1);
  drafter.begin(tokens_of("ab1 ab2 ab"));
  EXPECT_EQ(guess(drafter, 1), "2");  // a tie: the later one
}

TEST(MatchDrafter, LongerMatchesAreSurer) {
  MatchDrafter drafter(MatchKind::suffix);
  std::vector<int32_t> confidences;
  drafter.begin(tokens_of("abcdefghijklmnopqrstuvwxyz ab"));
  EXPECT_EQ(guess(drafter, 20, &confidences), "cdefghijklmnopqrstuv");
  EXPECT_EQ(confidences, (std::vector<int32_t>{1, 3, 5, 5, 7, 7, 7, 9, 9, 9, 9, 9, 9, 9, 11, 11, 11, 11, 11, 11}));
  for (int32_t i = 1; i < kConfidences; ++i) EXPECT_GE(drafter.prior(i), drafter.prior(i % 2 == 1 ? i - 1 : i - 2));
}

TEST(MatchDrafter, EarlierTextsCountForSuffixes) {
  TextIndex others(1000);
  others.append(tokens_of("the quick brown fox"));
  others.end_text();
  others.append(tokens_of("the quick"));
  MatchDrafter suffix(MatchKind::suffix, &others), ngram(MatchKind::ngram, &others);
  for (Drafter* drafter : {static_cast<Drafter*>(&suffix), static_cast<Drafter*>(&ngram)})
    drafter->begin(tokens_of("A quick"));
  EXPECT_EQ(guess(suffix, 100), " brown fox");  // up to the end of that text
  EXPECT_EQ(guess(ngram, 100), "");
  others.append(tokens_of(" dog"));  // it grows
  EXPECT_EQ(guess(suffix, 100).substr(0, 4), " dog");
}

TEST(Speculation, KindsHaveNamesAndDrafters) {
  constexpr std::pair<DraftKind, std::string_view> kKinds[] = {
      {DraftKind::ngram, "ngram"}, {DraftKind::suffix, "suffix"}, {DraftKind::model, "draft"}};
  for (const auto& [kind, name] : kKinds) {
    EXPECT_EQ(name_of(kind), name);
    EXPECT_EQ(draft_kind_from_name(name), kind);
  }
  EXPECT_EQ(draft_kind_from_name("none"), std::nullopt);
  TextIndex others(1000);
  others.append(tokens_of("the quick brown fox"));
  others.end_text();
  const auto no_time = [](int64_t) { return 0.0; };
  const auto n_guesses = [&](DraftKind kind) {
    const auto speculator = create_speculator({.kinds = {kind}, .adapts = false}, 256, {}, &others).value();
    speculator->begin(tokens_of("A quick"));
    return speculator->draft({.n_most = 100, .ms_with = no_time}, nullptr).value().size();
  };
  EXPECT_EQ(n_guesses(DraftKind::suffix), std::string_view(" brown fox").size());  // copies from other texts
  EXPECT_EQ(n_guesses(DraftKind::ngram), 0u);
  EXPECT_FALSE(create_speculator({.kinds = {DraftKind::model}}, 256, {}).has_value());
}

TEST(StepTimes, AFurtherTokenAddsItsMeasuredShare) {
  StepTimes times;
  times.learn(1, 10);
  times.learn(2, 15);
  EXPECT_DOUBLE_EQ(times.ms(2), 15);
  EXPECT_DOUBLE_EQ(times.ms(3), 20);  // of the same class
}

TEST(StepTimes, WideStepsCostTheirMeasuredShare) {
  StepTimes times;
  EXPECT_EQ(times.ms(1), 0);
  EXPECT_EQ(times.ms(8), 0);
  times.learn(1, 10);
  EXPECT_DOUBLE_EQ(times.ms(1), 10);
  EXPECT_GT(times.ms(8), 10);
  EXPECT_LT(times.ms(8), 20);  // a guess
  times.learn(8, 15);
  times.learn(8, 15);
  EXPECT_NEAR(times.ms(8), 15, 1);
  EXPECT_NEAR(times.ms(15), 20, 1.5);  // of the same class
  EXPECT_GT(times.ms(3), 10);
  times.learn(2, 10);
  EXPECT_NEAR(times.ms(2), 10, 0.1);  // of its own class now
  EXPECT_NEAR(times.ms(8), 15, 1);
  for (int i = 0; i < 100; ++i) times.learn(1, 20);
  EXPECT_NEAR(times.ms(1), 20, 0.1);
}

TEST(StepTimes, AnOutlierHardlyCounts) {
  StepTimes times;
  times.learn(1, 10);
  times.learn(1, 10000);
  EXPECT_LE(times.ms(1), 13);
  times.learn(4, 10000);  // tokens together do not take longer than one by one
  EXPECT_LE(times.ms(4), 4 * times.ms(1) + 1e-9);
  const double wide = times.ms(4);
  for (int i = 0; i < 500; ++i) times.note_narrow_step();
  EXPECT_LT(times.ms(4), wide * 0.7);  // it will be tried again
  StepTimes wide_first;
  wide_first.learn(4, 11.5);
  EXPECT_NEAR(wide_first.ms(1), 10, 0.1);
}

// A drafter with the next tokens of a list, of one confidence.
class ListDrafter final : public Drafter {
 public:
  ListDrafter(std::vector<int32_t> tokens, double ms) : tokens_(std::move(tokens)), ms_(ms) {}
  std::string_view name() const override { return "list"; }
  double prior(int32_t) const override { return 0.5; }
  double ms_per_token() const override { return ms_; }
  void begin(std::span<const int32_t>) override {}
  void append(int32_t) override {}
  Result<> draft(const DraftRequest& request, FunctionRef<bool(const DraftToken&)> add, const CancelToken*) override {
    ++n_asked;
    for (size_t i = 0; i < tokens_.size() && static_cast<int64_t>(i) < request.n_most; ++i)
      if (!add({.token = tokens_[i], .confidence = 3})) break;
    return {};
  }

  int n_asked = 0;

 private:
  std::vector<int32_t> tokens_;
  double ms_;
};

struct Asked {
  std::unique_ptr<Speculator> speculator;
  ListDrafter* drafter;
};

Asked speculator_of(std::vector<int32_t> tokens, double ms = 0) {
  std::vector<std::unique_ptr<Drafter>> drafters;
  auto drafter = std::make_unique<ListDrafter>(std::move(tokens), ms);
  ListDrafter* raw = drafter.get();
  drafters.push_back(std::move(drafter));
  return {.speculator = std::make_unique<Speculator>(std::move(drafters)), .drafter = raw};
}

size_t n_drafted(Speculator& speculator, double slope, int64_t n_most = 15, int64_t n_others = 0) {
  const auto ms_with = [&](int64_t n) { return 10 * (1 + slope * static_cast<double>(n)); };
  const auto guesses = speculator.draft({.n_most = n_most, .ms_with = ms_with, .n_others = n_others}, nullptr);
  EXPECT_OK(guesses);
  return guesses ? guesses->size() : 0;
}

TEST(BestGuess, HasTheProbabilityAsItsConfidence) {
  const auto guess_of = [](std::vector<float> logits) {
    const DraftToken guess = best_guess(logits);
    return std::pair(guess.token, guess.confidence);
  };
  EXPECT_EQ(guess_of({0, 100, 0}), std::pair(1, kConfidences - 1));  // its probability is 1
  EXPECT_EQ(guess_of({2, 2, -50, -50}), std::pair(0, kConfidences / 2));
  EXPECT_EQ(guess_of(std::vector<float>(100, 1.0f)), std::pair(0, 0));
  const float infinite = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(guess_of({0, infinite}).second, 0);
  EXPECT_EQ(guess_of({nan, nan}), std::pair(0, 0));
  EXPECT_EQ(guess_of({}), std::pair(0, 0));
}

TEST(BestGuess, TimesAreAveraged) {
  double average = 0;
  average_in(average, 4);
  EXPECT_EQ(average, 4);
  average_in(average, 14);
  EXPECT_DOUBLE_EQ(average, 5);
}

TEST(Speculator, LengthFollowsTheShareOfRightGuesses) {
  const std::vector<int32_t> guesses(15, 7);
  auto [right, of_right] = speculator_of(guesses);
  for (int i = 0; i < 30; ++i) {
    n_drafted(*right, 0.05);
    for (int j = 0; j < 15; ++j) right->append(7);
  }
  EXPECT_EQ(n_drafted(*right, 0.05), 15u);
  EXPECT_EQ(n_drafted(*right, 0.05, 6), 5u);  // lengths that have graphs
  auto [wrong, of_wrong] = speculator_of(guesses);
  for (int i = 0; i < 30; ++i) {
    n_drafted(*wrong, 0.05);
    wrong->append(8);
  }
  EXPECT_EQ(n_drafted(*wrong, 0.05), 0u);
  EXPECT_TRUE(wrong->was_shortened());
  EXPECT_EQ(wrong->counts().n_accepted, 0);
  // Guesses that no step verifies are measured too, so the draft grows again.
  for (int i = 0; i < 200; ++i) {
    n_drafted(*wrong, 0.05);
    for (int j = 0; j < 15; ++j) wrong->append(7);
  }
  EXPECT_EQ(n_drafted(*wrong, 0.05), 15u);
}

TEST(Speculator, CostlyStepsGetFewerGuesses) {
  auto [speculator, drafter] = speculator_of(std::vector<int32_t>(15, 7));
  const size_t cheap = n_drafted(*speculator, 0.01), dear = n_drafted(*speculator, 0.2);
  EXPECT_GT(cheap, dear);
  EXPECT_GT(dear, 0u);
  EXPECT_LT(n_drafted(*speculator, 0.01, 15, 7), cheap);  // the other texts would wait
  EXPECT_EQ(n_drafted(*speculator, 0.2, 15, 7), 0u);
  EXPECT_EQ(n_drafted(*speculator, 1), 0u);  // a half of the guesses is expected to be right
}

TEST(Speculator, WithoutAdaptationAllGuessesAreVerified) {
  std::vector<std::unique_ptr<Drafter>> drafters;
  drafters.push_back(std::make_unique<ListDrafter>(std::vector<int32_t>{}, 0));
  drafters.push_back(std::make_unique<ListDrafter>(std::vector<int32_t>(14, 7), 1000));
  drafters.push_back(std::make_unique<ListDrafter>(std::vector<int32_t>{5}, 0));
  Speculator speculator(std::move(drafters), false);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(n_drafted(speculator, 10), 14u);
    EXPECT_FALSE(speculator.was_shortened());
    speculator.append(8);
  }
}

TEST(Speculator, CountsVerifiedGuessesOnly) {
  auto [speculator, drafter] = speculator_of({7, 7, 7});
  EXPECT_EQ(n_drafted(*speculator, 0.01), 3u);
  for (const int32_t token : {7, 7, 8, 7}) speculator->append(token);
  EXPECT_EQ(speculator->counts().n_drafts, 1);
  EXPECT_EQ(speculator->counts().n_drafted, 3);
  EXPECT_EQ(speculator->counts().n_accepted, 2);
  n_drafted(*speculator, 5);  // none is worth it
  speculator->append(7);
  EXPECT_EQ(speculator->counts().n_drafts, 1);
  EXPECT_EQ(speculator->counts().n_accepted, 2);
  EXPECT_EQ(n_drafted(*speculator, 0.01), 3u);
  speculator->begin({});  // another text: its tokens are not compared with old guesses
  speculator->append(7);
  EXPECT_EQ(speculator->counts().n_accepted, 2);
  SpeculationCounts sum = speculator->counts();
  sum.add(speculator->counts());
  EXPECT_EQ(sum.n_drafted, 12);
}

TEST(Speculator, ADrafterThatTakesTimeIsAskedWhereItPays) {
  auto [cheap, of_cheap] = speculator_of(std::vector<int32_t>(15, 7), 0.5);
  EXPECT_GT(n_drafted(*cheap, 0.02), 1u);
  EXPECT_LT(n_drafted(*cheap, 0.02), 15u);  // each guess halves the chance of the next one
  auto [dear, of_dear] = speculator_of(std::vector<int32_t>(15, 7), 20);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(n_drafted(*dear, 0.02), 0u);
    dear->append(7);
  }
  EXPECT_GE(of_dear->n_asked, 2);  // it is tried now and then
  EXPECT_LE(of_dear->n_asked, 6);
}

TEST(Speculator, TheBestOfSeveralDraftersCounts) {
  std::vector<std::unique_ptr<Drafter>> drafters;
  drafters.push_back(std::make_unique<ListDrafter>(std::vector<int32_t>{1}, 0));
  drafters.push_back(std::make_unique<ListDrafter>(std::vector<int32_t>{2, 2, 2}, 0));
  auto model = std::make_unique<ListDrafter>(std::vector<int32_t>{3, 3, 3}, 0.1);
  ListDrafter* raw = model.get();
  drafters.push_back(std::move(model));
  Speculator speculator(std::move(drafters));
  const auto ms_with = [](int64_t) { return 10.0; };
  const auto guesses = speculator.draft({.n_most = 15, .ms_with = ms_with}, nullptr);
  ASSERT_OK(guesses);
  EXPECT_TRUE(std::ranges::equal(*guesses, std::vector<int32_t>{2, 2, 2}));
  EXPECT_EQ(raw->n_asked, 0);  // copies promise enough
}

}  // namespace
}  // namespace tessera
