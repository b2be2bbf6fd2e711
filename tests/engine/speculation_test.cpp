// Speculation changes no token: texts with all kinds of guesses are those without.
#include <gtest/gtest.h>

#include "tessera/engine/generate.h"
#include "tessera/engine/speculative/model_drafter.h"
#include "tessera/engine/speculative/speculation.h"
#include "tests/support/arch_files.h"
#include "tests/support/engine_support.h"

namespace tessera {
namespace {

using namespace testing;

// Guesses the tokens of a known text, some of which are wrong, with any length.
class ScriptedDrafter final : public Drafter {
 public:
  ScriptedDrafter(std::vector<int32_t> text, uint32_t seed) : known_(std::move(text)), state_(seed) {}

  std::string_view name() const override { return "scripted"; }
  double prior(int32_t) const override { return 0.9; }
  void begin(std::span<const int32_t> text) override { n_ = text.size(); }
  void append(int32_t) override { ++n_; }
  Result<> draft(const DraftRequest& request, FunctionRef<bool(const DraftToken&)> add, const CancelToken*) override {
    const auto n = static_cast<size_t>(random() % static_cast<uint32_t>(request.n_most + 1));
    for (size_t i = n_; i < std::min(known_.size(), n_ + n); ++i)
      if (!add({.token = known_[i] ^ (random() % 4 == 0 ? 1 : 0), .confidence = 0})) break;
    return {};
  }

 private:
  uint32_t random() { return (state_ = state_ * 1664525u + 1013904223u) >> 8; }

  std::vector<int32_t> known_;
  uint32_t state_;
  size_t n_ = 0;
};

struct Written {
  std::vector<int32_t> prompt{};
  std::vector<int32_t> tokens{};
  StopReason stop = StopReason::none;
  bool operator==(const Written&) const = default;
};

Result<Written> generate(const std::shared_ptr<Engine>& engine, const SessionOptions& options,
                         const sample::SamplerParams& params, const GenerateOptions& generate,
                         std::vector<int32_t> prompt) {
  TESSERA_ASSIGN(const auto session, Session::create(engine, options));
  TESSERA_ASSIGN(const auto chain,
                 sample::Chain::create(params, sampling_vocab(engine), static_cast<int32_t>(session->n_ctx())));
  Generator generator(*session, *chain, 0, generate);
  Written text{.prompt = std::move(prompt)};
  TESSERA_TRY(generator.start(text.prompt, nullptr));
  while (true) {
    TESSERA_ASSIGN(const int32_t token, generator.next(nullptr));
    if (token < 0) break;
    text.tokens.push_back(token);
  }
  text.stop = generator.stop_reason();
  TESSERA_TRY(generator.remove_guesses());
  // The last token is returned before it is computed. After a rollback to a checkpoint more may be missing.
  const int64_t n_stored = *session->max_position(0) + 1;
  EXPECT_EQ(n_stored, generator.n_stored());
  return text;
}

std::vector<std::unique_ptr<Drafter>> one(std::unique_ptr<Drafter> drafter) {
  std::vector<std::unique_ptr<Drafter>> drafters;
  drafters.push_back(std::move(drafter));
  return drafters;
}

TEST(Speculation, EveryArchitectureWritesTheSameText) {
  for (const char* name : kArchFiles) {
    SCOPED_TRACE(name);
    ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(arch_model(name)));
    if (!engine->model().info().has_logits || !engine->model().info().is_causal) continue;
    const auto prompt = token_ids(*engine, 9);
    const GenerateOptions plain{.n_predict = 40, .ignore_end = true};
    const sample::SamplerParams params{.seed = 3, .temp = 0.7f};
    ASSERT_OK_AND_ASSIGN(const Written want, generate(engine, {.n_ctx = 80, .n_ubatch = 16}, params, plain, prompt));
    std::vector<int32_t> whole = prompt;
    whole.insert(whole.end(), want.tokens.begin(), want.tokens.end());
    for (const uint32_t seed : {1u, 2u}) {
      Speculator speculator(one(std::make_unique<ScriptedDrafter>(whole, seed)), false);
      GenerateOptions options = plain;
      options.speculator = &speculator;
      ASSERT_OK_AND_ASSIGN(
          const Written got,
          generate(engine, {.n_ctx = 80, .n_ubatch = 16, .n_outputs = 9, .n_checkpoints = 1}, params, options, prompt));
      EXPECT_EQ(got.tokens, want.tokens);
      EXPECT_GT(speculator.counts().n_accepted, 5);
      EXPECT_GT(speculator.counts().n_drafted, speculator.counts().n_accepted);
    }
  }
}

// A model and its speculators, which write many texts.
class SpeculatedStories : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(engine_, load_engine(story_model()));
    SessionOptions options{.n_ctx = 128, .n_ubatch = 64};
    ASSERT_OK_AND_ASSIGN(plain_, Session::create(engine_, options));
    SpeculationOptions{.kinds = {DraftKind::ngram}}.extend(options);
    ASSERT_OK_AND_ASSIGN(guessing_, Session::create(engine_, options));
    ASSERT_OK_AND_ASSIGN(draft_, Session::create(engine_, {.n_ctx = 96, .n_ubatch = 64}));
  }

  // Guesses do not depend on measured times.
  Result<std::unique_ptr<Speculator>> speculator(DraftKind kind) {
    return create_speculator({.kinds = {kind}, .n_most = 5, .adapts = false}, engine_->model().info().n_vocab,
                             {.session = draft_.get()});
  }

  Result<Written> write(Session& session, const sample::SamplerParams& params, const GenerateOptions& options,
                        std::span<const int32_t> prompt, int64_t most = -1) {
    TESSERA_TRY(session.clear());
    TESSERA_ASSIGN(const auto chain, sample::Chain::create(params, sampling_vocab(engine_), 128));
    Generator generator(session, *chain, 0, options);
    TESSERA_TRY(generator.start(prompt, nullptr));
    Written text;
    while (most < 0 || std::ssize(text.tokens) < most) {
      TESSERA_ASSIGN(const int32_t token, generator.next(nullptr));
      if (token < 0) break;
      text.tokens.push_back(token);
    }
    text.stop = generator.stop_reason();
    TESSERA_TRY(generator.remove_guesses());
    EXPECT_EQ(session.max_position(0).value() + 1, generator.n_stored());
    return text;
  }

  std::shared_ptr<Engine> engine_;
  std::unique_ptr<Session> plain_, guessing_, draft_;
};

TEST_F(SpeculatedStories, AThousandTextsOfEachKindAreTheSame) {
  const uint32_t n_texts = runs_all_cases() ? 1000 : 100;
  for (const DraftKind kind : {DraftKind::ngram, DraftKind::suffix, DraftKind::model}) {
    SCOPED_TRACE(name_of(kind));
    ASSERT_OK_AND_ASSIGN(const auto speculator, this->speculator(kind));
    for (uint32_t i = 0; i < n_texts; ++i) {
      const auto prompt = token_ids(*engine_, 1 + i % 20, i + 1);
      const sample::SamplerParams params{.seed = i, .temp = i % 4 == 0 ? 0.0f : 0.25f * static_cast<float>(i % 4)};
      GenerateOptions options{.n_predict = 10 + i % 60, .ignore_end = i % 2 == 0};
      ASSERT_OK_AND_ASSIGN(const Written want, write(*plain_, params, options, prompt));
      options.speculator = speculator.get();
      ASSERT_OK_AND_ASSIGN(const Written got, write(*guessing_, params, options, prompt));
      ASSERT_EQ(got, want) << i;
    }
    EXPECT_GT(speculator->counts().n_accepted, 0);
  }
}

TEST_F(SpeculatedStories, ContextsEndAndShiftAtTheSameToken) {
  const auto prompt = token_ids(*engine_, 7);
  for (const bool shifts : {false, true}) {
    GenerateOptions options{.n_predict = 400, .ignore_end = true, .context_shift = shifts, .n_keep = 3};
    ASSERT_OK_AND_ASSIGN(const Written want, write(*plain_, {.seed = 1, .temp = 0}, options, prompt));
    EXPECT_EQ(want.stop, shifts ? StopReason::n_predict : StopReason::context_full);
    ASSERT_OK_AND_ASSIGN(const auto speculator, this->speculator(DraftKind::suffix));
    options.speculator = speculator.get();
    ASSERT_OK_AND_ASSIGN(const Written got, write(*guessing_, {.seed = 1, .temp = 0}, options, prompt));
    EXPECT_EQ(got, want);
  }
}

TEST_F(SpeculatedStories, ATextMayEndAnywhere) {
  const auto prompt = token_ids(*engine_, 7);
  ASSERT_OK_AND_ASSIGN(const Written want, write(*plain_, {.seed = 1, .temp = 0}, {.ignore_end = true}, prompt, 50));
  std::vector<int32_t> whole = prompt;
  whole.insert(whole.end(), want.tokens.begin(), want.tokens.end());
  for (int64_t most = 1; most <= 50; ++most) {
    Speculator speculator(one(std::make_unique<ScriptedDrafter>(whole, 1)), false);
    const GenerateOptions options{.ignore_end = true, .speculator = &speculator};
    ASSERT_OK_AND_ASSIGN(const Written got, write(*guessing_, {.seed = 1, .temp = 0}, options, prompt, most));
    EXPECT_TRUE(std::ranges::equal(got.tokens, std::span(want.tokens).first(static_cast<size_t>(most))));
    EXPECT_LE(*guessing_->max_position(0) + 1, 7 + most);  // no guess is left
  }
}

TEST_F(SpeculatedStories, LogitsAreThoseOfTheNextToken) {
  const auto prompt = token_ids(*engine_, 7);
  std::vector<std::vector<float>> want;
  std::vector<int32_t> whole = prompt;
  for (const bool guesses : {false, true}) {
    Speculator speculator(one(std::make_unique<ScriptedDrafter>(whole, 3)), false);
    ASSERT_OK_AND_ASSIGN(const auto chain, sample::Chain::create({.seed = 1, .temp = 0}, sampling_vocab(engine_), 128));
    Session& session = guesses ? *guessing_ : *plain_;
    Generator generator(session, *chain, 0, {.ignore_end = true, .speculator = guesses ? &speculator : nullptr});
    ASSERT_OK(generator.start(prompt, nullptr));
    for (size_t i = 0; i < 40; ++i) {
      ASSERT_OK_AND_ASSIGN(const int32_t token, generator.next(nullptr));
      if (guesses) {
        EXPECT_TRUE(same_bits(generator.logits(), want[i])) << i;
      } else {
        want.emplace_back(generator.logits().begin(), generator.logits().end());
        whole.push_back(token);
      }
    }
    EXPECT_EQ(guesses, speculator.counts().n_accepted > 5);
  }
}

TEST_F(SpeculatedStories, ACancelledStepIsDoneAgain) {
  const auto prompt = token_ids(*engine_, 7);
  ASSERT_OK_AND_ASSIGN(const Written want, write(*plain_, {.seed = 1, .temp = 0}, {.ignore_end = true}, prompt, 40));
  std::vector<int32_t> whole = prompt;
  whole.insert(whole.end(), want.tokens.begin(), want.tokens.end());
  Speculator speculator(one(std::make_unique<ScriptedDrafter>(whole, 5)), false);
  ASSERT_OK_AND_ASSIGN(const auto chain, sample::Chain::create({.seed = 1, .temp = 0}, sampling_vocab(engine_), 128));
  Generator generator(*guessing_, *chain, 0, {.ignore_end = true, .speculator = &speculator});
  ASSERT_OK(generator.start(prompt, nullptr));
  CancelToken cancelled;
  cancelled.cancel();
  for (const int32_t token : want.tokens) {
    auto next = generator.next(&cancelled);  // works where the logits are there already
    if (!next) {
      EXPECT_EQ(next.error().code(), ErrorCode::cancelled);
      next = generator.next(nullptr);
    }
    ASSERT_OK(next);
    EXPECT_EQ(*next, token);
  }
}

// --- draft models

TEST_F(SpeculatedStories, TheModelItselfGuessesGreedyTextsRight) {
  ModelDrafter drafter(*draft_, 0, engine_->model().info().n_vocab);
  const auto prompt = token_ids(*engine_, 9);
  ASSERT_OK_AND_ASSIGN(const Written want, write(*plain_, {.seed = 1, .temp = 0}, {.ignore_end = true}, prompt, 100));
  drafter.begin(prompt);
  // Texts become longer than the draft's context of 96 tokens. Then it reads only their ends.
  for (size_t i = 0; i + 8 < want.tokens.size(); i += 3) {
    std::vector<int32_t> guesses;
    ASSERT_OK(drafter.draft(
        {.n_most = 6},
        [&](const DraftToken& guess) {
          EXPECT_GE(guess.confidence, 0);
          EXPECT_LT(guess.confidence, kConfidences);
          guesses.push_back(guess.token);
          return true;
        },
        nullptr));
    ASSERT_EQ(guesses.size(), 6u);
    const bool holds_text = 9 + i + 6 <= 96;
    EXPECT_TRUE(!holds_text || std::ranges::equal(guesses, std::span(want.tokens).subspan(i, 6))) << i;
    for (size_t j = i; j < i + 3; ++j) drafter.append(want.tokens[j]);
  }
  EXPECT_GT(drafter.ms_per_token(), 0);
  drafter.begin(std::span(prompt).first(3));  // another text
  int32_t first = -1;
  const auto take = [&](const DraftToken& guess) {
    first = guess.token;
    return false;
  };
  ASSERT_OK(drafter.draft({.n_most = 6}, take, nullptr));
  ASSERT_OK_AND_ASSIGN(const Written other,
                       write(*plain_, {.seed = 1, .temp = 0}, {.ignore_end = true}, std::span(prompt).first(3), 1));
  EXPECT_EQ(first, other.tokens.front());
}

TEST(DraftModel, EveryArchitectureCanDraftForItself) {
  for (const char* name : {"llama-dense", "gemma3-dense", "mamba-dense", "jamba-dense", "lfm2-dense"}) {
    SCOPED_TRACE(name);
    ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(arch_model(name)));
    ASSERT_OK_AND_ASSIGN(const auto draft, Session::create(engine, {.n_ctx = 64, .n_ubatch = 16, .n_checkpoints = 1}));
    ASSERT_OK_AND_ASSIGN(const auto plain, Session::create(engine, {.n_ctx = 64, .n_ubatch = 16}));
    ASSERT_OK_AND_ASSIGN(const auto want, greedy_ids(*plain, token_ids(*engine, 5), 30));
    ModelDrafter drafter(*draft, 0, engine->model().info().n_vocab);
    drafter.begin(std::span(want).first(5));
    for (size_t i = 5; i + 4 < want.size(); ++i) {
      std::vector<int32_t> guesses;
      const auto add = [&](const DraftToken& guess) {
        guesses.push_back(guess.token);
        return guesses.size() < 4;
      };
      ASSERT_OK(drafter.draft({.n_most = 8}, add, nullptr));
      EXPECT_TRUE(std::ranges::equal(guesses, std::span(want).subspan(i, 4))) << i;
      drafter.append(want[i]);
    }
  }
}

TEST(DraftModel, OneWithMoreTokensGuessesOnlyTheModelsOwn) {
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(arch_model("llama-dense")));
  ASSERT_OK_AND_ASSIGN(const auto draft, Session::create(engine, {.n_ctx = 64, .n_ubatch = 16}));
  constexpr int64_t kFewTokens = 9;
  ASSERT_GT(engine->model().info().n_vocab, 4 * kFewTokens);
  ModelDrafter drafter(*draft, 0, kFewTokens);
  drafter.begin(std::vector<int32_t>{1, 2, 3});
  std::vector<int32_t> guesses;
  const auto add = [&](const DraftToken& guess) {
    guesses.push_back(guess.token);
    return true;
  };
  ASSERT_OK(drafter.draft({.n_most = 20}, add, nullptr));
  EXPECT_EQ(guesses.size(), 20u);
  for (const int32_t token : guesses) EXPECT_LT(token, kFewTokens);
}

TEST(DraftModel, OtherTokensAreRefused) {
  ASSERT_OK_AND_ASSIGN(const auto story, load_engine(story_model()));
  ASSERT_OK_AND_ASSIGN(const auto other, load_engine(arch_model("llama-dense")));
  ASSERT_OK(require_draft_model(*story, *story));
  EXPECT_ERROR(require_draft_model(*other, *story), "not a draft model for");
  EXPECT_ERROR(create_speculator({.kinds = {DraftKind::model}}, 10, {}), "no draft model");
  EXPECT_EQ(create_speculator({}, 10, {}).value(), nullptr);
}

}  // namespace
}  // namespace tessera
