// The trace of a request: its stages over HTTP, and those that only the scheduler sees.
#include <gtest/gtest.h>

#include <algorithm>

#include "tessera/server/run/sequence_trace.h"
#include "tests/server/api_support.h"
#include "tests/server/scheduler_support.h"

namespace tessera {
namespace {

using namespace testing;
using server::TraceEntry;
using server::TraceStage;

class TraceApi : public ApiTest {
 protected:
  /// The stages of a final object, after a check of the times.
  static std::string stages_of(const ordered_json& object) {
    if (!object.contains("trace")) return "none";
    std::string stages;
    double last = 0;
    for (const ordered_json& entry : object["trace"]) {
      EXPECT_GE(entry["ms"].get<double>(), last);
      last = entry["ms"];
      stages += entry["what"].get<std::string>() + " " + entry["n"].dump() + ", ";
    }
    return stages;
  }
};

TEST_F(TraceApi, AFinalObjectHasTheStagesOfItsRequest) {
  start();
  ordered_json request{{"prompt", "Once upon a time"}, {"n_predict", 5}, {"ignore_eos", true}};
  EXPECT_EQ(stages_of(post_json("/completion", request).json), "none");
  request["trace"] = true;
  request["cache_prompt"] = false;
  const ordered_json whole = post_json("/completion", request).json;
  const std::string n = whole["tokens_evaluated"].dump();
  const std::string expected =
      "received 0, parsed " + n + ", queued " + n + ", admitted 0, chunk " + n + ", first token 1, end 5, ";
  EXPECT_EQ(stages_of(whole), expected);
  const auto events = stream("/completion", request);
  EXPECT_EQ(stages_of(events.back()), expected);
  EXPECT_EQ(stages_of(events.front()), "none");

  request["max_tokens"] = 5;
  EXPECT_EQ(stages_of(post_json("/v1/completions", request).json), expected);
  EXPECT_EQ(stages_of(stream("/v1/completions", request).back()), expected);
}

TEST_F(TraceApi, ChatsHaveATraceBesideTheirTimings) {
  start();
  ordered_json request{
      {"messages", {{{"role", "user"}, {"content", "Hi"}}}}, {"max_tokens", 3}, {"ignore_eos", true}, {"trace", true}};
  EXPECT_TRUE(stages_of(post_json("/v1/chat/completions", request).json).ends_with("first token 1, end 3, "));
  EXPECT_TRUE(stages_of(stream("/v1/chat/completions", request).back()).ends_with("first token 1, end 3, "));
  request["stream_options"] = {{"include_usage", true}};
  const auto events = stream("/v1/chat/completions", request);
  EXPECT_TRUE(stages_of(events.back()).ends_with("first token 1, end 3, "));
  EXPECT_EQ(stages_of(events[events.size() - 2]), "none");
  request["trace"] = 5;
  expect_refused(post_json("/v1/chat/completions", request), 400, "trace");
}

class TraceOfScheduler : public SchedulerTest {
 protected:
  static std::string stages_of(const server::SequenceEnd& end) {
    std::string stages;
    for (const TraceEntry& entry : end.trace) {
      if (entry.stage == TraceStage::parsed || entry.stage == TraceStage::chunk) continue;
      if (!stages.empty()) stages += ", ";
      stages += server::trace_stage_name(entry.stage);
    }
    return stages;
  }
  server::SequenceSpec traced(int64_t n_predict) {
    server::SequenceSpec spec = sequence(10, n_predict);
    spec.is_traced = true;
    return spec;
  }
};

TEST_F(TraceOfScheduler, PausesAndPreemptionsAreStages) {
  open({.n_slots = 1, .n_ctx = 1 << 17, .options = {.stream_buffer = 1000}});
  const Running slow = submit(traced(-1));
  slow.collector->wait_for_tokens(1);
  slow.collector->n_unsent_set = 1000;
  EXPECT_EQ(submit(sequence(10, 20)).collector->wait()[0].tokens.size(), 20u);
  const size_t n_before = slow.collector->n_tokens();
  slow.collector->n_unsent_set = 0;
  slow.collector->wait_for_tokens(n_before + 3);
  scheduler_->cancel(slow.task);
  EXPECT_EQ(stages_of(*slow.collector->wait()[0].end),
            "queued, admitted, first token, paused, preempted, resumed, end");
}

TEST_F(TraceOfScheduler, ALongPromptHasItsChunks) {
  open({.n_slots = 1, .n_ctx = 512, .n_ubatch = 32});
  server::SequenceSpec spec = sequence(100, 1);
  spec.is_traced = true;
  const auto ended = submit(std::move(spec)).collector->wait();
  int64_t n_tokens = 0;
  for (const TraceEntry& entry : ended[0].end->trace)
    if (entry.stage == TraceStage::chunk) n_tokens += entry.n;
  EXPECT_EQ(n_tokens, 100);
  EXPECT_TRUE(submit(sequence(10, 1)).collector->wait()[0].end->trace.empty());
}

TEST(SequenceTrace, KeepsItsFirstStagesAndItsEnd) {
  server::SequenceTrace trace;
  for (int64_t i = 0; i < 5000; ++i) trace.add(TraceStage::chunk, i, {});
  trace.add(TraceStage::end, 7, {});
  const std::vector<TraceEntry> entries = trace.take();
  ASSERT_EQ(entries.size(), server::kMaxTraceEntries - 1);  // the request itself is the first one
  EXPECT_EQ(entries[entries.size() - 2].n, 1021);
  EXPECT_EQ(entries.back().stage, TraceStage::end);
}

}  // namespace
}  // namespace tessera
