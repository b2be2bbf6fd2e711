// Durations, names and the ends of answers of the Ollama API.
#include "tessera/server/api/ollama_format.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tessera::server {
namespace {

using std::chrono::milliseconds;

milliseconds duration_of(const Json& value) {
  const auto duration = read_ollama_duration(value, {.name = "keep_alive"});
  EXPECT_TRUE(duration) << value;
  return duration.value_or(milliseconds(-77));
}

TEST(OllamaDuration, NumbersCountSeconds) {
  EXPECT_EQ(duration_of(0), milliseconds(0));
  EXPECT_EQ(duration_of(1), milliseconds(1000));
  EXPECT_EQ(duration_of(2.5), milliseconds(2500));
  EXPECT_EQ(duration_of("7"), milliseconds(7000));
  EXPECT_EQ(duration_of("0"), milliseconds(0));
  EXPECT_EQ(duration_of("+7"), milliseconds(7000));
}

TEST(OllamaDuration, UnitsAddUp) {
  EXPECT_EQ(duration_of("3s"), milliseconds(3000));
  EXPECT_EQ(duration_of("2m"), milliseconds(120'000));
  EXPECT_EQ(duration_of("3h"), milliseconds(10'800'000));
  EXPECT_EQ(duration_of("40ms"), milliseconds(40));
  EXPECT_EQ(duration_of("5000us"), milliseconds(5));
  EXPECT_EQ(duration_of("5000\u00b5s"), milliseconds(5));
  EXPECT_EQ(duration_of("5000\u03bcs"), milliseconds(5));
  EXPECT_EQ(duration_of("6000000ns"), milliseconds(6));
  EXPECT_EQ(duration_of("1h30m5.5s10ms"), milliseconds(5'405'510));
  EXPECT_EQ(duration_of("0s"), milliseconds(0));
}

TEST(OllamaDuration, NegativeAndVeryLongOnesHaveNoEnd) {
  for (const Json& endless : {Json(-1), Json(-0.5), Json("-1m"), Json("-7")})
    EXPECT_EQ(duration_of(endless), milliseconds(-1)) << endless;
  constexpr int64_t kCenturyHours = 100 * 365 * 24;
  EXPECT_EQ(duration_of(std::to_string(kCenturyHours) + "h"), milliseconds(kCenturyHours * 3'600'000));
  EXPECT_EQ(duration_of(std::to_string(kCenturyHours) + "h1ms"), milliseconds(-1));
  EXPECT_EQ(duration_of(1e300), milliseconds(-1));
}

TEST(OllamaDuration, OtherTextsAreRefused) {
  for (const Json& bad :
       {Json(""), Json("-"), Json("+"), Json("h"), Json("5x"), Json("5m3"), Json("1e3s"), Json("5 m"), Json("--5"),
        Json("5m-3s"), Json("inf"), Json("infs"), Json("nans"), Json(true), Json(Json::array()), Json(nullptr)}) {
    const auto duration = read_ollama_duration(bad, {.name = "keep_alive"});
    ASSERT_FALSE(duration) << bad;
    EXPECT_NE(duration.error().message.find("keep_alive"), std::string::npos);
  }
}

TEST(TimeText, IsThatOfRfc3339) {
  const std::chrono::system_clock::time_point epoch;
  EXPECT_EQ(rfc3339(epoch), "1970-01-01T00:00:00.000000000Z");
  EXPECT_EQ(rfc3339(epoch + std::chrono::seconds(1'234'567'890) + std::chrono::nanoseconds(7)),
            "2009-02-13T23:31:30.000000007Z");
}

TEST(OllamaName, HasATag) {
  EXPECT_EQ(ollama_name("a"), "a:latest");
  EXPECT_EQ(ollama_name("a.gguf"), "a:latest");
  EXPECT_EQ(ollama_name("a:latest"), "a:latest");
  EXPECT_EQ(ollama_name("a:7b"), "a:7b");
}

TEST(OllamaHead, TheEndHasTimesAndCounts) {
  const auto end_of = [](const SequenceEnd& end, std::optional<std::span<const int32_t>> context = {}) {
    std::string text;
    JsonWriter writer(text);
    writer.begin_object();
    OllamaHead{.model = "a", .received = Clock::now() - std::chrono::seconds(2)}.write_end(writer, end, context);
    writer.end_object();
    return nlohmann::ordered_json::parse(text, nullptr, false);
  };
  SequenceEnd end;
  end.n_prompt = 7;
  end.n_generated = 3;
  end.queue_ms = 1.5;
  end.prompt_ms = 20;
  end.generation_ms = 0.25;
  const auto whole = end_of(end);
  EXPECT_EQ(whole["done"], true);
  EXPECT_EQ(whole["done_reason"], "stop");
  EXPECT_FALSE(whole.contains("context"));
  EXPECT_EQ(whole["load_duration"], 1'500'000);
  EXPECT_EQ(whole["prompt_eval_duration"], 20'000'000);
  EXPECT_EQ(whole["eval_duration"], 250'000);
  EXPECT_EQ(whole["prompt_eval_count"], 7);
  EXPECT_EQ(whole["eval_count"], 3);
  EXPECT_GE(whole["total_duration"], 2'000'000'000);
  EXPECT_LT(whole["total_duration"], 2'000'000'000'000);
  end.queue_ms = 0;  // clients take 0 for an absent time
  end.reason = EndReason::stop_word;
  EXPECT_EQ(end_of(end)["load_duration"], 1);
  EXPECT_EQ(end_of(end)["done_reason"], "stop");
  end.reason = EndReason::length;
  const std::vector<int32_t> context = {4, 5};
  EXPECT_EQ(end_of(end, context)["done_reason"], "length");
  EXPECT_EQ(end_of(end, context)["context"], (nlohmann::ordered_json{4, 5}));
}

}  // namespace
}  // namespace tessera::server
