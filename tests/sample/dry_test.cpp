// dry against its definition, and against a direct comparison of all pairs of positions.
#include "tests/sample/sample_support.h"

namespace tessera::sample {
namespace {

// Tokens are letters; '|' is its own token and a breaker.
constexpr std::string_view kLetters = "abcdefgh|";

class DryChain {
 public:
  explicit DryChain(const SamplerParams& params, std::vector<std::string> pieces = {}) {
    if (pieces.empty()) {
      for (const char letter : kLetters) pieces.emplace_back(1, letter);
    }
    n_tokens_ = pieces.size();
    sampler_ = make_dry({params, std::make_shared<TestVocab>(std::move(pieces)), 1024});
  }

  void accept(int32_t token) {
    sampler_->accept(token, history_);
    history_.push(token);
  }
  void accept(std::string_view text) {
    for (const char letter : text) accept(static_cast<int32_t>(kLetters.find(letter)));
  }
  void reset() {
    sampler_->reset();
    history_.clear();
  }

  /// The penalty of each token; tokens without a penalty are absent.
  std::map<int32_t, float> penalties() {
    Candidates candidates;
    candidates.assign(std::vector<float>(n_tokens_, 0.0f));
    SeededRng rng(1);
    sampler_->apply(candidates, history_, rng);
    std::map<int32_t, float> lost;
    for (const Candidate& item : candidates.items()) {
      if (item.logit != 0) lost[item.id] = -item.logit;
    }
    return lost;
  }

 private:
  size_t n_tokens_;
  std::unique_ptr<Sampler> sampler_;
  History history_{1024};
};

SamplerParams dry_params() {
  return {.dry_multiplier = 1, .dry_base = 2, .dry_penalty_last_n = -1, .dry_sequence_breakers = {"|"}};
}

using Lost = std::map<int32_t, float>;

TEST(Dry, PenaltyGrowsWithTheCopy) {
  DryChain chain(dry_params());
  chain.accept("abcdea");
  EXPECT_EQ(chain.penalties(), Lost{});  // a copy of 1 is shorter than allowed_length
  chain.accept("b");
  EXPECT_EQ(chain.penalties(), (Lost{{2, 1.0f}}));
  chain.accept("c");
  EXPECT_EQ(chain.penalties(), (Lost{{3, 2.0f}}));
  chain.accept("d");
  EXPECT_EQ(chain.penalties(), (Lost{{4, 4.0f}}));
}

TEST(Dry, LongestCopyOfATokenCounts) {
  DryChain chain(dry_params());
  chain.accept("abce|bce|abc");
  EXPECT_EQ(chain.penalties(), (Lost{{4, 2.0f}}));
}

TEST(Dry, CopyMayOverlapItself) {
  DryChain chain(dry_params());
  chain.accept("aaaaa");
  EXPECT_EQ(chain.penalties(), (Lost{{0, 4.0f}}));  // the text without its last token: a copy of 4
}

TEST(Dry, CopyEndsAtABreaker) {
  DryChain chain(dry_params());
  chain.accept("ab|cdeab|cd");
  EXPECT_EQ(chain.penalties(), (Lost{{4, 1.0f}}));  // "cd", not "ab|cd"
}

TEST(Dry, BreakerIsNeverPenalised) {
  DryChain chain(dry_params());
  chain.accept("ab|ab");
  EXPECT_EQ(chain.penalties(), Lost{});
}

TEST(Dry, BreakerMaySpanTokens) {
  auto params = dry_params();
  params.dry_sequence_breakers = {"</s>"};
  DryChain chain(params, {"x<", "/s", ">y", "a", "b"});
  const auto accept_all = [&](const std::vector<int32_t>& tokens) {
    for (const int32_t token : tokens) chain.accept(token);
  };
  accept_all({0, 1, 2, 3, 4, 0, 1, 2, 3});
  EXPECT_EQ(chain.penalties(), Lost{});  // only "a" since the breaker
  accept_all({4});
  EXPECT_EQ(chain.penalties(), (Lost{{0, 1.0f}}));
}

TEST(Dry, OnlyTheLastNAreSearched) {
  auto params = dry_params();
  params.dry_penalty_last_n = 4;
  DryChain chain(params);
  chain.accept("abcdab");
  EXPECT_EQ(chain.penalties(), Lost{});  // "cdab" contains "ab" once
}

TEST(Dry, ResetForgetsTheText) {
  DryChain chain(dry_params());
  chain.accept("abcab");
  chain.reset();
  EXPECT_EQ(chain.penalties(), Lost{});
  chain.accept("ab");
  EXPECT_EQ(chain.penalties(), Lost{});
}

TEST(Dry, HugePenaltyLeavesTheBestInfinityAlone) {
  auto params = dry_params();
  params.dry_base = 1000;
  const auto sampler = make_dry({params, std::make_shared<TestVocab>(2), 1024});
  History history(1024);
  for (int i = 0; i < 900; ++i) {
    sampler->accept(0, history);
    history.push(0);
  }
  Candidates candidates;
  candidates.assign(std::vector<float>{kInf, 1});
  SeededRng rng(1);
  sampler->apply(candidates, history, rng);
  EXPECT_EQ(candidates.max_logit(), kInf);
}

TEST(Dry, OffWithoutMultiplierOrWindow) {
  EXPECT_FALSE(make_with(make_dry, {}));
  EXPECT_FALSE(make_with(make_dry, {.dry_multiplier = 1, .dry_penalty_last_n = 0}));
}

/// The definition: every earlier position is compared with the end, token by token, back to a breaker.
Lost naive(const std::vector<int32_t>& text, size_t window, int32_t allowed) {
  const auto breaker = static_cast<int32_t>(kLetters.find('|'));
  const size_t first = text.size() - std::min(window, text.size());
  std::map<int32_t, int32_t> longest;
  for (size_t next = first + 1; next < text.size(); ++next) {
    int32_t length = 0;
    for (size_t back = 1; next >= first + back; ++back, ++length) {
      const int32_t token = text[text.size() - back];
      if (token == breaker || token != text[next - back]) break;
    }
    if (text[next] != breaker && length >= allowed) longest[text[next]] = std::max(longest[text[next]], length);
  }
  Lost lost;
  for (const auto& [id, length] : longest) lost[id] = std::exp2(static_cast<float>(length - allowed));
  return lost;
}

TEST(Dry, AgreesWithComparingAllPlaces) {
  Rng rng(51);
  for (int round = 0; round < 60; ++round) {
    auto params = dry_params();
    params.dry_allowed_length = 1 + static_cast<int32_t>(rng.next_u32() % 3);
    params.dry_penalty_last_n = static_cast<int32_t>(5 + rng.next_u32() % 60);
    DryChain chain(params);
    std::vector<int32_t> text;
    for (int i = 0; i < 80; ++i) {
      // Two letters repeat often; a breaker occurs sometimes.
      const auto token = static_cast<int32_t>(rng.next_u32() % 16 == 0 ? 8 : rng.next_u32() % 2);
      text.push_back(token);
      chain.accept(token);
      const auto want = naive(text, static_cast<size_t>(params.dry_penalty_last_n), params.dry_allowed_length);
      ASSERT_EQ(chain.penalties(), want) << "round " << round << ", token " << i;  // powers of 2: exact
    }
  }
}

}  // namespace
}  // namespace tessera::sample
