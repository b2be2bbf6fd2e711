// Steps of programs in a chain: their place, what they see, and that they follow the chain's text and its copies.
#include "tessera/sample/program_step.h"

#include "tests/sample/sample_support.h"

namespace tessera::sample {
namespace {

using Seen = std::vector<std::pair<int32_t, float>>;

// Records what it sees and is told, and changes the logits by a function.
struct Record {
  std::vector<Seen> seen{};
  std::vector<int32_t> accepted{};
  int n_resets = 0, n_clones = 0;
};

class RecordingStep final : public ProgramStep {
 public:
  using Change = std::function<Result<>(std::span<TokenLogit>)>;
  RecordingStep(Record& record, Change change) : record_(record), change_(std::move(change)) {}

  Result<> apply(std::span<TokenLogit> candidates) override {
    Seen& seen = record_.seen.emplace_back();
    for (const TokenLogit& item : candidates) seen.emplace_back(item.id, item.logit);
    return change_(candidates);
  }
  void accept(int32_t token) override { record_.accepted.push_back(token); }
  void reset() override { ++record_.n_resets; }
  std::unique_ptr<ProgramStep> clone() const override {
    ++record_.n_clones;
    return std::make_unique<RecordingStep>(*this);
  }

 private:
  Record& record_;
  Change change_;
};

Result<> change_nothing(std::span<TokenLogit>) { return {}; }

std::unique_ptr<Chain> chain_of(const SamplerParams& params, size_t n_tokens) {
  auto chain = Chain::create(params, std::make_shared<TestVocab>(n_tokens), 256);
  EXPECT_OK(chain);
  return chain ? std::move(*chain) : nullptr;
}

SamplerParams top_2_half_temperature() {
  SamplerParams params = seeded();
  params.order = {SamplerKind::top_k, SamplerKind::temperature};
  params.top_k = 2;
  params.temp = 0.5f;
  return params;
}

TEST(ProgramStep, SeesCandidatesBeforeOrAfterTheOtherSteps) {
  SamplerParams params = top_2_half_temperature();
  params.logit_bias = {{1, -kInf}, {0, 0.5f}};
  const auto chain = chain_of(params, 5);
  Record first, last;
  chain->add(std::make_unique<RecordingStep>(last, change_nothing), StepPlace::last);
  chain->add(std::make_unique<RecordingStep>(first, change_nothing), StepPlace::first);
  ASSERT_OK(chain->sample(std::vector<float>{1, 9, 2, kNan, 3}));
  EXPECT_EQ(first.seen, (std::vector<Seen>{{{0, 1.5f}, {2, 2}, {4, 3}}}));
  EXPECT_EQ(last.seen, (std::vector<Seen>{{{4, 6}, {2, 4}}}));
  const auto top = chain->top_candidates(9);
  ASSERT_EQ(top.size(), 2u);
  EXPECT_EQ(top[0].id, 4);
  EXPECT_NEAR(top[0].prob, 1 / (1 + std::exp(-2.0)), kProbTolerance);
}

TEST(ProgramStep, ChangesAndRemovesCandidates) {
  const auto chain = chain_of(top_2_half_temperature(), 5);
  Record record;
  const auto change = [](std::span<TokenLogit> candidates) -> Result<> {
    for (TokenLogit& item : candidates) {
      if (item.id == 4) item.logit = -kInf;
      if (item.id == 3) item.logit = kNan;
      if (item.id == 0) item.logit = 10;
    }
    return {};
  };
  chain->add(std::make_unique<RecordingStep>(record, change), StepPlace::first);
  ASSERT_OK(chain->sample(std::vector<float>{1, 2, 3, 4, 5}));
  const auto top = chain->top_candidates(9);
  ASSERT_EQ(top.size(), 2u);
  EXPECT_EQ(top[0].id, 0);
  EXPECT_EQ(top[0].logit, 20);
  EXPECT_EQ(top[1].id, 2);
}

TEST(ProgramStep, OneCandidateThatIsLeftIsChosen) {
  for (const float temp : {0.0f, 0.8f}) {
    SamplerParams params = seeded();
    params.temp = temp;
    const auto chain = chain_of(params, 40);
    Record record;
    const auto change = [](std::span<TokenLogit> candidates) -> Result<> {
      for (TokenLogit& item : candidates) item.logit = item.id == 37 ? 0 : -kInf;
      return {};
    };
    chain->add(std::make_unique<RecordingStep>(record, change), StepPlace::last);
    std::vector<float> logits(40, 1.0f);
    logits[37] = 1.01f;
    ASSERT_OK_AND_ASSIGN(const int32_t token, chain->sample(logits));
    EXPECT_EQ(token, 37);
    EXPECT_EQ(chain->top_candidates(9).size(), 1u);
    const auto none = [](std::span<TokenLogit> candidates) -> Result<> {
      for (TokenLogit& item : candidates) item.logit = -kInf;
      return {};
    };
    chain->add(std::make_unique<RecordingStep>(record, none), StepPlace::last);
    EXPECT_ERROR(chain->sample(logits), "no token to choose");
  }
}

TEST(ProgramStep, DoesNotChangeDrawsIfItChangesNothing) {
  for (const auto& order : {default_order(), {SamplerKind::typical}, {SamplerKind::xtc}}) {
    SamplerParams params = seeded();
    params.order = order;
    params.typ_p = 0.7f;
    params.xtc_probability = 0.5f;
    const auto plain = chain_of(params, 300), with_steps = chain_of(params, 300);
    Record record;
    for (const StepPlace place : {StepPlace::first, StepPlace::last})
      with_steps->add(std::make_unique<RecordingStep>(record, change_nothing), place);
    Rng rng(5);
    for (int i = 0; i < 100; ++i) {
      const auto logits = random_logits(300, rng);
      ASSERT_OK_AND_ASSIGN(const int32_t want, plain->sample(logits));
      ASSERT_OK_AND_ASSIGN(const int32_t got, with_steps->sample(logits));
      ASSERT_EQ(got, want) << i;
    }
  }
}

TEST(ProgramStep, AnErrorEndsTheSample) {
  const auto chain = chain_of(seeded(), 4);
  Record first, second;
  const auto stop = [](std::span<TokenLogit>) -> Result<> { return fail(ErrorCode::cancelled, "enough"); };
  chain->add(std::make_unique<RecordingStep>(first, stop), StepPlace::first);
  chain->add(std::make_unique<RecordingStep>(second, stop), StepPlace::last);
  const auto stopped = chain->sample(std::vector<float>{1, 2, 3, 4});
  EXPECT_ERROR(stopped, "enough");
  EXPECT_EQ(stopped.error().code(), ErrorCode::cancelled);
  EXPECT_EQ(first.seen.size(), 1u);
  EXPECT_EQ(second.seen.size(), 0u);
}

TEST(ProgramStep, FollowsTextResetsAndCopies) {
  const auto chain = chain_of(seeded(), 4);
  Record record;
  chain->add(std::make_unique<RecordingStep>(record, change_nothing), StepPlace::last);
  ASSERT_OK(chain->accept_prompt(1));
  ASSERT_OK(chain->accept(3));
  EXPECT_ERROR(chain->accept(4), "token 4");
  EXPECT_EQ(record.accepted, (std::vector<int32_t>{1, 3}));
  chain->reset();
  EXPECT_EQ(record.n_resets, 1);
  const auto copy = chain->clone();
  EXPECT_EQ(record.n_clones, 1);
  ASSERT_OK(copy->sample(std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(record.seen.size(), 1u);
}

TEST(ChainBias, IsReplaced) {
  SamplerParams params = seeded();
  params.temp = 0;
  params.logit_bias = {{3, -kInf}};
  const auto chain = chain_of(params, 4);
  const std::vector<float> logits = {1, 2, 3, 4};
  EXPECT_EQ(chain->sample(logits).value(), 2);
  const auto copy = chain->clone();
  const LogitBias biases[] = {{0, 2}, {0, 2}};
  ASSERT_OK(chain->set_bias(biases));
  EXPECT_EQ(chain->sample(logits).value(), 0);
  chain->reset();
  EXPECT_EQ(chain->sample(logits).value(), 0);
  EXPECT_EQ(copy->sample(logits).value(), 2);
  for (const LogitBias& bad : {LogitBias{4, 1}, LogitBias{-1, 1}, LogitBias{1, kNan}, LogitBias{1, kInf}})
    EXPECT_ERROR(chain->set_bias(std::span(&bad, 1)), "logit_bias");
  EXPECT_EQ(chain->sample(logits).value(), 0);
  ASSERT_OK(chain->set_bias({}));
  EXPECT_EQ(chain->sample(logits).value(), 3);
}

}  // namespace
}  // namespace tessera::sample
