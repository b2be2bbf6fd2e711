// Biases and steps of programs in samplers, and references to handles.
#include <cmath>
#include <limits>

#include "tests/capi/capi_support.h"

namespace tessera {
namespace {

using namespace testing;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// What a step of a program is told, and what it does.
struct StepLog {
  std::vector<uint64_t> counts{};
  std::vector<int32_t> accepted{};
  int n_resets = 0;
  int32_t only = -1;  // the token whose logit is raised
  int32_t answer = 0;

  static tessera_sampler_step step(StepLog& log, int32_t place) {
    tessera_sampler_step result;
    tessera_sampler_step_init(&result, sizeof result);
    EXPECT_EQ(result.place, TESSERA_STEP_FIRST);
    EXPECT_EQ(result.apply, nullptr);
    result.place = place;
    result.user = &log;
    result.apply = [](void* user, tessera_token_logit* candidates, uint64_t count) {
      auto& to = *static_cast<StepLog*>(user);
      to.counts.push_back(count);
      for (uint64_t i = 0; i < count; ++i) {
        if (candidates[i].token == to.only) candidates[i].logit += 100;
        candidates[i].token = -7;
      }
      return to.answer;
    };
    result.accept = [](void* user, int32_t token) { static_cast<StepLog*>(user)->accepted.push_back(token); };
    result.reset = [](void* user) { ++static_cast<StepLog*>(user)->n_resets; };
    return result;
  }
};

class CapiSteps : public ::testing::Test {
 protected:
  SamplerHandle create() const {
    tessera_sampler_options options;
    tessera_sampler_options_init(&options, sizeof options);
    options.temperature = 0;
    options.top_k = 2;
    options.order = "top_k";
    tessera_sampler* sampler = nullptr;
    EXPECT_SUCCESS(tessera_sampler_create(model_.get(), &options, 64, &sampler, error));
    return {sampler, tessera_sampler_release};
  }
  int32_t sampled(tessera_sampler* sampler) const {
    int32_t token = -1;
    EXPECT_SUCCESS(tessera_sampler_sample(sampler, logits_.data(), logits_.size(), &token, error));
    return token;
  }

  RuntimeHandle runtime_ = create_runtime_handle();
  ModelHandle model_ = open_story(runtime_.get(), false);
  std::vector<float> logits_ = [] {
    std::vector<float> logits(512, 0.0f);
    logits[10] = 9, logits[20] = 8, logits[30] = 7;
    return logits;
  }();
};

TEST_F(CapiSteps, BiasesAreAdded) {
  const SamplerHandle sampler = create();
  EXPECT_EQ(sampled(sampler.get()), 10);
  const tessera_token_bias biases[] = {{10, -kInfinity}, {30, 1}, {30, 1.5f}};
  EXPECT_SUCCESS(tessera_sampler_set_bias(sampler.get(), biases, 3, error));
  EXPECT_EQ(sampled(sampler.get()), 30);
  EXPECT_SUCCESS(tessera_sampler_set_bias(sampler.get(), biases, 1, error));
  EXPECT_EQ(sampled(sampler.get()), 20);
  for (const tessera_token_bias& bad : {tessera_token_bias{512, 1}, tessera_token_bias{-1, 1},
                                        tessera_token_bias{1, NAN}, tessera_token_bias{1, kInfinity}})
    EXPECT_STATUS(tessera_sampler_set_bias(sampler.get(), &bad, 1, error), TESSERA_INVALID_ARGUMENT, "logit_bias");
  EXPECT_STATUS(tessera_sampler_set_bias(sampler.get(), nullptr, 1, error), TESSERA_INVALID_ARGUMENT,
                "biases: is NULL");
  EXPECT_STATUS(tessera_sampler_set_bias(nullptr, biases, 1, error), TESSERA_INVALID_ARGUMENT, "sampler: is NULL");
  EXPECT_EQ(sampled(sampler.get()), 20);
  EXPECT_SUCCESS(tessera_sampler_set_bias(sampler.get(), nullptr, 0, error));
  EXPECT_EQ(sampled(sampler.get()), 10);
}

TEST_F(CapiSteps, StepsOfProgramsChangeCandidates) {
  const SamplerHandle sampler = create();
  StepLog first{.only = 77}, last{.only = 10};
  for (const auto& [log, place] : {std::pair{&last, TESSERA_STEP_LAST}, {&first, TESSERA_STEP_FIRST}}) {
    const tessera_sampler_step step = StepLog::step(*log, place);
    EXPECT_SUCCESS(tessera_sampler_add(sampler.get(), &step, error));
  }
  EXPECT_EQ(sampled(sampler.get()), 10);
  EXPECT_EQ(first.counts, std::vector<uint64_t>{512});
  EXPECT_EQ(last.counts, std::vector<uint64_t>{2});
  last.only = 30;  // is not among the two that are left
  EXPECT_EQ(sampled(sampler.get()), 77);
  EXPECT_SUCCESS(tessera_sampler_accept(sampler.get(), 77, error));
  EXPECT_EQ(first.accepted, std::vector<int32_t>{77});
  tessera_sampler_reset(sampler.get());
  EXPECT_EQ(first.n_resets, 1);
  // A copy has the same step with the same user.
  tessera_sampler* copied = nullptr;
  EXPECT_SUCCESS(tessera_sampler_clone(sampler.get(), &copied, error));
  const SamplerHandle copy(copied, tessera_sampler_release);
  EXPECT_EQ(sampled(copied), 77);
  EXPECT_EQ(first.counts.size(), 3u);
  EXPECT_SUCCESS(tessera_sampler_accept(copied, 5, error));
  EXPECT_EQ(first.accepted, (std::vector<int32_t>{77, 5}));

  int32_t token = -1;
  first.answer = 9;
  EXPECT_STATUS(tessera_sampler_sample(sampler.get(), logits_.data(), logits_.size(), &token, error), TESSERA_CANCELLED,
                "a step of the sampler stopped it: 9");
  EXPECT_EQ(token, -1);
}

TEST_F(CapiSteps, OtherFunctionsMayBeNull) {
  const SamplerHandle sampler = create();
  StepLog log{.only = 3};
  tessera_sampler_step step = StepLog::step(log, TESSERA_STEP_FIRST);
  step.accept = nullptr;
  step.reset = nullptr;
  EXPECT_SUCCESS(tessera_sampler_add(sampler.get(), &step, error));
  EXPECT_EQ(sampled(sampler.get()), 3);
  EXPECT_SUCCESS(tessera_sampler_accept(sampler.get(), 3, error));
  tessera_sampler_reset(sampler.get());
  EXPECT_TRUE(log.accepted.empty());
  EXPECT_EQ(log.n_resets, 0);
}

TEST_F(CapiSteps, WrongStepsAreRefused) {
  const SamplerHandle sampler = create();
  StepLog log;
  const auto refuse = [&](auto change, const std::string& text) {
    tessera_sampler_step step = StepLog::step(log, TESSERA_STEP_FIRST);
    change(step);
    EXPECT_STATUS(tessera_sampler_add(sampler.get(), &step, error), TESSERA_INVALID_ARGUMENT, text);
  };
  refuse([](auto& s) { s.size = 0; }, "step: size is 0");
  refuse([](auto& s) { s.apply = nullptr; }, "step->apply: is NULL");
  refuse([](auto& s) { s.place = 2; }, "place: 2, want TESSERA_STEP_FIRST or _LAST");
  refuse([](auto& s) { s.place = -1; }, "place: -1");
  const tessera_sampler_step step = StepLog::step(log, TESSERA_STEP_FIRST);
  EXPECT_STATUS(tessera_sampler_add(sampler.get(), nullptr, error), TESSERA_INVALID_ARGUMENT, "step: is NULL");
  EXPECT_STATUS(tessera_sampler_add(nullptr, &step, error), TESSERA_INVALID_ARGUMENT, "sampler: is NULL");
  EXPECT_STATUS(tessera_sampler_add(as_handle<tessera_sampler>(model_.get()), &step, error), TESSERA_INVALID_ARGUMENT,
                "sampler: is a handle of another kind");
  EXPECT_EQ(sampled(sampler.get()), 10);
  EXPECT_TRUE(log.counts.empty());
}

// Generation stops with the step's error, and goes on when the step does.
TEST_F(CapiSteps, GenerationUsesThem) {
  EXPECT_SUCCESS(tessera_model_load(model_.get(), nullptr, nullptr, nullptr, error));
  const SessionHandle session = create_session_handle(model_.get());
  const SamplerHandle sampler = create();
  StepLog log{.only = 42};
  const tessera_sampler_step step = StepLog::step(log, TESSERA_STEP_FIRST);
  EXPECT_SUCCESS(tessera_sampler_add(sampler.get(), &step, error));
  tessera_generation* created = nullptr;
  EXPECT_SUCCESS(tessera_generation_create(session.get(), sampler.get(), 0, nullptr, &created, error));
  const GenerationHandle generation(created, tessera_generation_release);
  const std::vector<int32_t> prompt = tokens_of(model_.get(), "Once");
  EXPECT_SUCCESS(tessera_generation_start(created, prompt.data(), prompt.size(), nullptr, error));
  EXPECT_EQ(log.n_resets, 1);
  tessera_generated next{};
  EXPECT_SUCCESS(tessera_generation_next(created, &next, nullptr, error));
  EXPECT_EQ(next.token, 42);
  log.answer = 1;
  EXPECT_STATUS(tessera_generation_next(created, &next, nullptr, error), TESSERA_CANCELLED, "stopped it: 1");
}

// Each kind of handle lives until its last reference is released.
TEST_F(CapiSteps, RetainedHandlesStay) {
  EXPECT_SUCCESS(tessera_model_load(model_.get(), nullptr, nullptr, nullptr, error));
  tessera_session* session = create_session_handle(model_.get()).release();
  tessera_sampler* sampler = create().release();
  tessera_model* model = model_.release();
  tessera_cancel* cancel = nullptr;
  EXPECT_SUCCESS(tessera_cancel_create(&cancel, error));
  tessera_generation* generation = nullptr;
  EXPECT_SUCCESS(tessera_generation_create(session, sampler, 0, nullptr, &generation, error));
  EXPECT_EQ(tessera_generation_retain(generation), generation);
  EXPECT_EQ(tessera_model_retain(model), model);
  EXPECT_EQ(tessera_session_retain(session), session);
  EXPECT_EQ(tessera_sampler_retain(sampler), sampler);
  EXPECT_EQ(tessera_cancel_retain(cancel), cancel);
  // The first release leaves everything as it was, the second one frees it: sanitizers see a use after it, and leaks.
  for (int n_left = 1; n_left >= 0; --n_left) {
    tessera_generation_release(generation);
    tessera_sampler_release(sampler);
    tessera_session_release(session);
    tessera_cancel_release(cancel);
    tessera_model_release(model);
    if (n_left == 0) break;
    EXPECT_EQ(tessera_model_is_loaded(model), 1);
    tessera_cancel_set(cancel);
    EXPECT_EQ(tessera_cancel_is_set(cancel), 1);
    EXPECT_EQ(sampled(sampler), 10);
    const int32_t token = 5;
    EXPECT_SUCCESS(tessera_session_append(session, 0, &token, 1, TESSERA_WANTS_OUTPUT, nullptr, error));
    EXPECT_NE(tessera_session_output(session, 0, nullptr), nullptr);
    EXPECT_SUCCESS(tessera_generation_start(generation, &token, 1, nullptr, error));
    tessera_generated next{};
    EXPECT_SUCCESS(tessera_generation_next(generation, &next, nullptr, error));
    EXPECT_GE(next.token, 0);
  }
}

}  // namespace
}  // namespace tessera
