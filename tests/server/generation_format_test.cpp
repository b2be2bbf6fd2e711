// Parts of answers that all dialects share: times, and lines of the access log.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tessera/server/access_log.h"
#include "tessera/server/api/generation.h"

namespace tessera::server {
namespace {

using nlohmann::ordered_json;

ordered_json timings_as_json(const Timings& timings) {
  std::string text;
  JsonWriter writer(text);
  write_timings(writer, timings);
  return ordered_json::parse(text, nullptr, false);
}

TEST(Timings, RatesAreOfTokensAndSteps) {
  const ordered_json json = timings_as_json({.n_cached = 3,
                                             .n_prompt = 10,
                                             .n_generated = 5,
                                             .prompt_ms = 20,
                                             .generation_ms = 8,
                                             .queue_ms = 0,
                                             .first_token_ms = 0});
  EXPECT_EQ(json, ordered_json::parse(R"({"cache_n":3,"prompt_n":10,"prompt_ms":20.0,"prompt_per_token_ms":2.0,
      "prompt_per_second":500.0,"predicted_n":5,"predicted_ms":8.0,"predicted_per_token_ms":2.0,
      "predicted_per_second":500.0,"queue_ms":0.0,"ttft_ms":0.0})"));
}

TEST(Timings, WhatIsNotKnownIsAbsent) {
  const ordered_json json = timings_as_json({});
  for (const char* name : {"queue_ms", "ttft_ms", "timeout", "exact"}) EXPECT_FALSE(json.contains(name)) << name;
  for (const char* name :
       {"prompt_per_token_ms", "prompt_per_second", "predicted_per_token_ms", "predicted_per_second"})
    EXPECT_EQ(json[name], 0) << name;
  const ordered_json other = timings_as_json({.is_timed_out = true, .is_exact = false});
  EXPECT_EQ(other["timeout"], true);
  EXPECT_EQ(other["exact"], false);
}

TEST(Timings, OneTokenTakesNoStep) {
  const ordered_json json = timings_as_json({.n_generated = 1, .generation_ms = 8});
  EXPECT_EQ(json["predicted_per_token_ms"], 0);
  EXPECT_EQ(json["predicted_per_second"], 0);
}

TEST(Timings, AreThoseOfTheEnd) {
  SequenceEnd end;
  end.n_prompt = 10;
  end.n_cached = 4;
  end.n_generated = 2;
  Timings timings = timings_of(end);
  EXPECT_EQ(timings.n_prompt, 6);
  EXPECT_EQ(timings.n_cached, 4);
  EXPECT_FALSE(timings.is_timed_out);
  EXPECT_TRUE(timings.is_exact);
  end.reason = EndReason::time;
  end.is_exact = false;
  timings = timings_of(end);
  EXPECT_TRUE(timings.is_timed_out);
  EXPECT_FALSE(timings.is_exact);
}

TEST(AccessLogLine, HasTimesInThousandths) {
  HttpRequest request;
  request.received = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  request.note = {.model = "m",
                  .n_prompt = 7,
                  .n_cached = 2,
                  .n_generated = 3,
                  .queue_ms = 0,
                  .first_token_ms = 1.23456,
                  .gap_p99_ms = -1,
                  .reason = "length"};
  const std::string line = access_log_line(request, 200, std::chrono::system_clock::now());
  EXPECT_TRUE(line.ends_with("}\n"));
  const ordered_json json = ordered_json::parse(line, nullptr, false);
  EXPECT_EQ(json["queue_ms"], 0);
  EXPECT_EQ(json["ttft_ms"].dump(), "1.235");
  EXPECT_TRUE(json["itl_p99_ms"].is_null());
  EXPECT_EQ(json["prompt_n"], 7);
  EXPECT_EQ(json["cache_n"], 2);
  EXPECT_EQ(json["predicted_n"], 3);
  EXPECT_GE(json["total_ms"], 1000);
  EXPECT_LT(json["total_ms"], 100'000);
}

TEST(AccessLogLine, OfARequestWithoutTextsIsShort) {
  const ordered_json json = ordered_json::parse(access_log_line({}, 404, std::chrono::system_clock::now()));
  EXPECT_FALSE(json.contains("model"));
  EXPECT_FALSE(json.contains("queue_ms"));
  EXPECT_EQ(json["status"], 404);
}

}  // namespace
}  // namespace tessera::server
