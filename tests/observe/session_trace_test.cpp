// The timeline and the measured steps of a session that the caller drives.
#include "tessera/observe/session_trace.h"

#include <nlohmann/json.hpp>

#include "tessera/observe/graph_report.h"
#include "tests/support/engine_support.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::arch_model;
using testing::load_engine;
using testing::story_model;
using testing::token_ids;

std::vector<std::string> phases_of(const std::string& text) {
  std::vector<std::string> names;
  const json trace = json::parse(text);
  for (const json& event : trace["traceEvents"])
    if (event["ph"] == "X" && event["tid"] == 1) names.push_back(event["name"]);
  return names;
}

TEST(SessionTrace, NamesStepsByWhatTheyCompute) {
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(story_model()));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, {.n_ctx = 64, .n_ubatch = 4}));
  const std::vector<int32_t> ids = token_ids(*engine, 8);
  std::string text;
  {
    observe::SessionTrace trace(*session);
    EXPECT_EQ(phases_of(trace.json()), std::vector<std::string>{});
    ASSERT_OK(session->decode(Batch::prompt(std::span(ids).first(6), 0, 0)));
    for (int i = 6; i < 8; ++i) {
      trace.add_phase("sample", observe::TraceEvents::Clock::now());
      ASSERT_OK(session->decode(Batch::prompt(std::span(ids).subspan(static_cast<size_t>(i), 1), i, 0)));
    }
    ASSERT_OK(session->decode(Batch::prompt(std::span(ids).first(3), 8, 0)));
    ASSERT_OK(session->decode(Batch::prompt(std::span(ids).first(1), 11, 0)));
    text = trace.json();
    EXPECT_EQ(trace.json(), text);
  }
  // The prompt of 6 tokens is a micro-batch of 4 without logits and one of 2.
  EXPECT_EQ(phases_of(text), (std::vector<std::string>{"prefill 4", "prefill 2", "sample", "decode 1", "sample",
                                                       "decode 2", "prefill 3", "decode 1"}));
  ASSERT_OK(session->decode(Batch::prompt(std::span(ids).first(1), 12, 0)));  // nothing observes it
}

TEST(MeasureSteps, ReportsPrefillAndDecode) {
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(story_model()));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, {.n_ctx = 40, .n_ubatch = 32}));
  ASSERT_OK_AND_ASSIGN(const auto report, observe::measure_steps(*session, 9, nullptr));
  ASSERT_EQ(report.steps.size(), 2u);
  EXPECT_EQ(report.model, "story (story.gguf)");
  EXPECT_EQ(report.architecture, "llama");
  EXPECT_EQ(report.steps[0].title, "prefill");
  EXPECT_EQ(report.steps[0].n_tokens, 9);
  EXPECT_EQ(report.steps[1].title, "decode");
  EXPECT_EQ(report.steps[1].n_tokens, 1);
  ASSERT_OK_AND_ASSIGN(const auto usual, observe::measure_steps(*session, 0, nullptr));
  EXPECT_EQ(usual.steps[0].n_tokens, 32);
  EXPECT_ERROR(observe::measure_steps(*session, 33, nullptr),
               "a prefill step of 33 tokens, a micro-batch of 32 (option n_ubatch) in a context of 40 (option n_ctx)");
  CancelToken cancel;
  cancel.cancel();
  EXPECT_ERROR(observe::measure_steps(*session, 9, &cancel), "");
  ASSERT_OK_AND_ASSIGN(const auto small, Session::create(engine, {.n_ctx = 8, .n_ubatch = 32}));
  ASSERT_OK_AND_ASSIGN(const auto most, observe::measure_steps(*small, 0, nullptr));
  EXPECT_EQ(most.steps[0].n_tokens, 7);
}

TEST(MeasureSteps, ReportsOneStepOfDiffusion) {
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(arch_model("dream-dense")));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, {.n_ctx = 32, .n_ubatch = 40, .n_outputs = 8}));
  for (const auto& [n_tokens, n_outputs] : {std::pair(0, 8), {32, 8}, {5, 5}}) {
    ASSERT_OK_AND_ASSIGN(const auto report, observe::measure_steps(*session, n_tokens, nullptr));
    ASSERT_EQ(report.steps.size(), 1u);
    EXPECT_EQ(report.steps[0].title, "diffusion");
    EXPECT_EQ(report.steps[0].n_tokens, n_tokens == 0 ? 32 : n_tokens);
    EXPECT_EQ(report.steps[0].n_outputs, n_outputs);
  }
  EXPECT_ERROR(observe::measure_steps(*session, 33, nullptr), "a diffusion step of 33 tokens, a micro-batch of 32");
}

}  // namespace
}  // namespace tessera
