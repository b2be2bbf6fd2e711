// The chain: its default against a plain double-precision reference, order, hostile logits, reproducibility.
#include "tessera/sample/chain.h"

#include "tests/sample/sample_support.h"

namespace tessera::sample {
namespace {

std::unique_ptr<Chain> make_chain(const SamplerParams& params, size_t n_tokens) {
  auto chain = Chain::create(params, std::make_shared<TestVocab>(n_tokens), 256);
  EXPECT_OK(chain);
  return chain ? std::move(*chain) : nullptr;
}

std::map<int32_t, double> all_probs(Chain& chain) {
  std::map<int32_t, double> probs;
  for (const Candidate& item : chain.top_candidates(std::numeric_limits<size_t>::max())) probs[item.id] = item.prob;
  return probs;
}

/// The default chain with a repeat penalty, implemented by its definition: sort all, cut, normalise.
std::map<int32_t, double> reference_chain(const SamplerParams& params, const std::vector<float>& logits,
                                          const std::vector<int32_t>& text) {
  struct Token {
    int32_t id;
    double logit;
  };
  std::vector<Token> tokens;
  for (size_t i = 0; i < logits.size(); ++i) {
    const auto id = static_cast<int32_t>(i);
    auto logit = static_cast<double>(logits[i]);
    const bool is_recent = std::ranges::find(text, id) != text.end();
    const auto repeat = static_cast<double>(params.repeat_penalty);
    if (is_recent) logit = logit > 0 ? logit / repeat : logit * repeat;
    tokens.push_back({id, logit});
  }
  std::ranges::stable_sort(tokens, std::greater{}, &Token::logit);
  const auto probs = [&] {
    std::vector<double> values;
    for (const Token& token : tokens) values.push_back(token.logit);
    return softmax_of(values);
  };
  if (params.top_k > 0) tokens.resize(std::min(tokens.size(), static_cast<size_t>(params.top_k)));
  double sum = 0;
  size_t n = 0;
  for (const double p : probs()) {
    ++n;
    if ((sum += p) >= static_cast<double>(params.top_p)) break;
  }
  tokens.resize(n);
  const double least = probs().front() * static_cast<double>(params.min_p);
  n = static_cast<size_t>(std::ranges::count_if(probs(), [&](double p) { return p >= least; }));
  tokens.resize(n);
  for (Token& token : tokens) token.logit /= static_cast<double>(params.temp);
  const auto final_probs = probs();
  std::map<int32_t, double> result;
  for (size_t i = 0; i < tokens.size(); ++i) result[tokens[i].id] = final_probs[i];
  return result;
}

TEST(Chain, DefaultAgreesWithAPlainReference) {
  Rng rng(71);
  for (int round = 0; round < 200; ++round) {
    SamplerParams params = seeded();
    if (round % 2 == 1) params.repeat_penalty = 1.2f;
    if (round % 5 == 4) params.top_k = 0;
    const size_t n_tokens = 50 + rng.next_u32() % 3000;
    const auto chain = make_chain(params, n_tokens);
    std::vector<int32_t> text;
    for (int i = 0; i < 30; ++i) text.push_back(static_cast<int32_t>(rng.next_u32() % n_tokens));
    for (const int32_t token : text) ASSERT_OK(chain->accept(token));
    const auto logits = random_logits(n_tokens, rng, 1 + static_cast<float>(round % 12));
    ASSERT_OK_AND_ASSIGN(const int32_t token, chain->sample(logits));
    const auto want = reference_chain(params, logits, text);
    EXPECT_TRUE(want.contains(token));
    // Penalised and scaled logits are rounded to float, with an error of 2^-24 of at most 15: 1e-6 in a logit, and so
    // in a probability.
    expect_same_probs(all_probs(*chain), want, 2e-6);
  }
}

TEST(Chain, ProbabilitiesSumToOneAndDescend) {
  Rng rng(72);
  const auto chain = make_chain(seeded(), 1000);
  ASSERT_OK(chain->sample(random_logits(1000, rng, 3)));
  double sum = 0, last = 1;
  for (const Candidate& item : chain->top_candidates(1000)) {
    EXPECT_LE(item.prob, last);
    last = item.prob;
    sum += item.prob;
  }
  EXPECT_NEAR(sum, 1, kProbTolerance);
  EXPECT_EQ(chain->top_candidates(3).size(), 3u);
}

TEST(Chain, OrderOfStepsIsObeyed) {
  // After division by 4 every token passes min_p 0.5. Before it, only the best does.
  const std::vector<float> logits = {0, 1, 2};
  SamplerParams params = seeded();
  params.temp = 4;
  params.min_p = 0.5f;
  params.order = {SamplerKind::min_p, SamplerKind::temperature};
  auto chain = make_chain(params, 3);
  ASSERT_OK(chain->sample(logits));
  EXPECT_EQ(chain->top_candidates(9).size(), 1u);
  params.order = {SamplerKind::temperature, SamplerKind::min_p};
  chain = make_chain(params, 3);
  ASSERT_OK(chain->sample(logits));
  EXPECT_EQ(chain->top_candidates(9).size(), 3u);
}

TEST(Chain, TemperatureZeroAndBelowIsGreedyAtTheLowestId) {
  for (const float temp : {0.0f, -1.0f, 1e-8f}) {
    for (const int32_t mirostat : {0, 1, 2}) {
      SamplerParams params = seeded();
      params.temp = temp;
      params.mirostat = mirostat;
      params.dynatemp_range = 1;
      const auto chain = make_chain(params, 200);
      std::vector<float> logits(200, -1.0f);
      logits[70] = logits[150] = 2;
      for (int i = 0; i < 20; ++i) {
        ASSERT_OK_AND_ASSIGN(const int32_t token, chain->sample(logits));
        EXPECT_EQ(token, 70);
      }
      EXPECT_EQ(chain->top_candidates(5).front().prob, 1);
    }
  }
}

TEST(Chain, MirostatLeavesOutTheSteps) {
  SamplerParams params = seeded();
  params.mirostat = 2;
  params.top_k = 1;
  const auto chain = make_chain(params, 8);
  ASSERT_OK(chain->sample(std::vector<float>(8, 1.0f)));
  EXPECT_EQ(chain->top_candidates(9).size(), 8u);
}

TEST(Chain, HostileLogitsNeverCrash) {
  const float specials[] = {kNan, kInf, -kInf, 3.4e38f, -3.4e38f, 1e-45f, 0, -0.0f, 1};
  Rng rng(73);
  for (int round = 0; round < 600; ++round) {
    SamplerParams params = seeded(round);
    params.mirostat = round % 3;
    params.top_n_sigma = round % 2 == 0 ? 1.0f : -1.0f;
    params.typ_p = 0.9f;
    params.xtc_probability = 0.5f;
    params.repeat_penalty = 1.1f;
    params.frequency_penalty = 0.1f;
    params.dry_multiplier = 0.8f;
    params.dynatemp_range = round % 4 == 0 ? 0.9f : 0.0f;
    params.min_keep = round % 5;
    const auto chain = make_chain(params, 100);
    for (int step = 0; step < 4; ++step) {
      std::vector<float> logits(100);
      for (float& logit : logits) logit = specials[rng.next_u32() % (1 + rng.next_u32() % 9)];
      const auto token = chain->sample(logits);
      const bool any = std::ranges::any_of(logits, [](float x) { return x > -kInf; });
      ASSERT_EQ(token.has_value(), any) << "round " << round;
      if (!any) continue;
      EXPECT_GT(logits[static_cast<size_t>(*token)], -kInf);
      ASSERT_OK(chain->accept(*token));
    }
  }
}

TEST(Chain, PlusInfinityIsCertain) {
  const auto chain = make_chain(seeded(), 100);
  std::vector<float> logits(100, 3e38f);
  logits[42] = kInf;
  ASSERT_OK_AND_ASSIGN(const int32_t token, chain->sample(logits));
  EXPECT_EQ(token, 42);
}

TEST(Chain, NothingToChooseIsAnErrorAndTheChainGoesOn) {
  const auto chain = make_chain(seeded(), 3);
  EXPECT_ERROR(chain->sample(std::vector<float>{kNan, -kInf, kNan}), "all 3 logits are NaN, -inf or banned");
  EXPECT_OK(chain->sample(std::vector<float>{1, 2, 3}));
}

TEST(Chain, BanningEveryTokenIsAnError) {
  SamplerParams params = seeded();
  params.logit_bias = {{0, -kInf}, {1, -kInf}};
  EXPECT_ERROR(make_chain(params, 2)->sample(std::vector<float>{1, 2}), "banned");
}

TEST(Chain, WrongCountsAndTokensAreErrors) {
  const auto chain = make_chain(seeded(), 3);
  EXPECT_ERROR(chain->sample(std::vector<float>{1, 2}), "2 logits for a vocabulary of 3");
  EXPECT_ERROR(chain->accept(3), "token 3, range 0 to 2");
  EXPECT_ERROR(chain->accept(-1), "token -1");
}

TEST(Chain, CreateChecksWhatItIsGiven) {
  const auto vocab = std::make_shared<TestVocab>(size_t{4});
  EXPECT_ERROR(Chain::create({}, vocab, 16), "seed: got -1 (random)");
  EXPECT_ERROR(Chain::create(seeded(), vocab, 0), "context of 0 tokens");
  EXPECT_ERROR(Chain::create(seeded(), std::make_shared<TestVocab>(size_t{0}), 16), "vocabulary of 0");
  SamplerParams params = seeded();
  params.temp = kNan;
  EXPECT_ERROR(Chain::create(params, vocab, 16), "temp: got nan, range");
  params = seeded();
  params.logit_bias = {{4, 1}};
  EXPECT_ERROR(Chain::create(params, vocab, 16), "logit_bias: token 4, range 0 to 3");
}

/// Samples 60 tokens from logits that depend only on the step.
std::vector<int32_t> generate(Chain& chain) {
  Rng rng(74);
  std::vector<int32_t> tokens;
  for (int i = 0; i < 60; ++i) {
    const int32_t token = chain.sample(random_logits(300, rng, 4)).value_or(-1);
    tokens.push_back(token);
    EXPECT_OK(chain.accept(token));
  }
  return tokens;
}

SamplerParams everything_on() {
  SamplerParams params = seeded();
  params.repeat_penalty = 1.1f;
  params.dry_multiplier = 0.8f;
  params.xtc_probability = 0.3f;
  params.typ_p = 0.9f;
  return params;
}

TEST(Chain, SeedReproducesTheTextAndAnotherDoesNot) {
  auto params = everything_on();
  const auto text = generate(*make_chain(params, 300));
  EXPECT_EQ(generate(*make_chain(params, 300)), text);
  params.seed = 8;
  EXPECT_NE(generate(*make_chain(params, 300)), text);
}

TEST(Chain, ResetIsAsCreated) {
  const auto chain = make_chain(everything_on(), 300);
  const auto text = generate(*chain);
  chain->reset();
  EXPECT_EQ(chain->history().size(), 0u);
  EXPECT_EQ(generate(*chain), text);
}

TEST(Chain, CloneGoesOnAlikeAndApart) {
  const auto chain = make_chain(everything_on(), 300);
  generate(*chain);
  const auto copy = chain->clone();
  const auto text = generate(*chain);
  EXPECT_EQ(generate(*copy), text);
}

TEST(Chain, HistoryHoldsTheLatestTokens) {
  SamplerParams params = seeded();
  params.n_prev = 3;
  params.repeat_last_n = params.dry_penalty_last_n = 0;
  const auto chain = make_chain(params, 10);
  for (const int32_t token : {1, 2, 3, 4}) ASSERT_OK(chain->accept(token));
  ASSERT_EQ(chain->history().size(), 3u);
  EXPECT_EQ(chain->history()[0], 4);
  EXPECT_EQ(chain->history()[2], 2);
}

/// Allows even tokens, and after token 4 nothing more.
class EvenTokens final : public TokenMask {
 public:
  explicit EvenTokens(std::vector<int32_t>& accepted) : accepted_(accepted) {}
  Result<Allowed> allowed() override { return Allowed{.ids = ids_}; }
  void prepare() override {}
  bool is_finished() const override { return !accepted_.empty() && accepted_.back() == 4; }
  std::vector<int32_t> forced() override { return {}; }
  Result<> accept(int32_t token) override {
    if (token % 2 != 0) return fail(ErrorCode::invalid_argument, "{} is odd", token);
    accepted_.push_back(token);
    return {};
  }
  void reset() override { accepted_.clear(); }
  std::unique_ptr<TokenMask> clone() const override { return std::make_unique<EvenTokens>(accepted_); }

 private:
  std::vector<int32_t>& accepted_;
  std::vector<int32_t> ids_ = {0, 2, 4};
};

TEST(Chain, AMaskLeavesOnlyItsTokensAndSeesNoPrompt) {
  std::vector<int32_t> accepted;
  const auto chain = make_chain({.seed = 1, .temp = 0}, 6);
  chain->constrain(std::make_unique<EvenTokens>(accepted));
  ASSERT_OK(chain->accept_prompt(3));
  const std::vector<float> logits = {1, 9, 5, 8, 2, 7};
  EXPECT_EQ(*chain->sample(logits), 2);
  ASSERT_OK(chain->accept(2));
  EXPECT_EQ(chain->accept(3).error().message(), "3 is odd");
  EXPECT_EQ(accepted, std::vector<int32_t>{2});
  EXPECT_EQ(chain->history().size(), 2u);
  EXPECT_EQ(*chain->clone()->sample(logits), 2);
  EXPECT_FALSE(chain->mask()->is_finished());
  ASSERT_OK(chain->accept(4));
  EXPECT_TRUE(chain->mask()->is_finished());
  chain->reset();
  EXPECT_TRUE(accepted.empty());
  EXPECT_EQ(chain->sample({{-kInf, 9, -kInf, 8, -kInf, 7}}).error().message(),
            "sampler: no token to choose, all 6 logits are NaN, -inf or banned, or the grammar does not allow them");
}

}  // namespace
}  // namespace tessera::sample
