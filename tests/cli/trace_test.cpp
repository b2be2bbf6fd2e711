// tessera trace: valid files in Chrome's trace format (complete events, nested times) with every step and token.
#include <map>
#include <nlohmann/json.hpp>

#include "tests/cli/cli_support.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::expect_refusal;
using testing::ProgramOutput;
using testing::read_all;
using testing::run_program;

json trace_of(const std::string& model, std::vector<std::string> flags) {
  const std::string path = (testing::temporary_dir() / "trace.json").string();
  std::vector<std::string> args = {"trace", "-m", model, "-p", "Once upon a time", "--temp", "0", "-o", path, "-q"};
  args.insert(args.end(), flags.begin(), flags.end());
  const ProgramOutput output = run_program(args);
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_EQ(output.out, "");
  return json::parse(read_all(path));
}

int64_t nanoseconds(const json& us) { return std::llround(us.get<double>() * 1e3); }

TEST(Trace, TellsEveryStepAndToken) {
  const std::string model = testing::story_model();
  const json trace = trace_of(model, {"-n", "5", "-ub", "4"});
  std::map<std::string, int> phases, nodes;
  std::map<int, std::string> tracks;
  for (const json& event : trace["traceEvents"]) {
    ASSERT_TRUE(event["pid"].is_number() && event["tid"].is_number() && event["name"].is_string()) << event;
    if (event["ph"] == "M" && event["name"] == "thread_name") tracks[event["tid"]] = event["args"]["name"];
    if (event["ph"] == "M") continue;
    ASSERT_EQ(event["ph"], "X") << event;
    ASSERT_GE(event["ts"].get<double>(), 0) << event;
    ASSERT_GE(event["dur"].get<double>(), 0) << event;
    if (event["tid"] == 1) ++phases[event["name"]];
    if (event["cat"] == "node") ++nodes[event["name"]];
  }
  EXPECT_EQ(tracks, (std::map<int, std::string>{{1, "tokens"}, {3, "cpu"}}));
  // A prompt of 7 tokens, in micro-batches of 4; the last of the 5 tokens that follow is not decoded.
  const std::map<std::string, int> want = {{"load", 1},      {"tokenize", 1}, {"prefill 4", 1},
                                           {"prefill 3", 1}, {"decode 1", 1}, {"decode 2", 1},
                                           {"decode 3", 1},  {"decode 4", 1}, {"sample", 5}};
  EXPECT_EQ(phases, want);
  EXPECT_EQ(nodes["paged_attention"], 6 * 5);  // 6 steps of 5 layers
}

// On one track, an event lies within another one or begins after its end.
TEST(Trace, EventsOfATrackNest) {
  const std::string model = testing::story_model();
  const json trace = trace_of(model, {"-n", "8", "-t", "2"});
  std::map<int, std::vector<std::pair<int64_t, int64_t>>> tracks;  // (begin, -duration)
  for (const json& event : trace["traceEvents"])
    if (event["ph"] == "X") {
      const int64_t begin = nanoseconds(event["ts"]);
      tracks[event["tid"]].emplace_back(begin, -nanoseconds(event["dur"]));
    }
  EXPECT_GT(tracks[3].size(), 8 * 60u);
  for (auto& [track, events] : tracks) {
    std::ranges::sort(events);
    std::vector<int64_t> ends;
    for (const auto& [begin, negative] : events) {
      while (!ends.empty() && ends.back() <= begin) ends.pop_back();
      const int64_t end = begin - negative;
      EXPECT_LE(end, ends.empty() ? end : ends.back()) << "track " << track << " at " << begin << " ns";
      ends.push_back(begin - negative);
    }
  }
}

TEST(Trace, WantsAFile) {
  expect_refusal(run_program({"trace", "-m", "x", "-p", "y"}), 2, "no file for the trace");
  const std::string model = testing::story_model();
  expect_refusal(run_program({"trace", "-m", model, "-p", "y", "-q", "-o", "/nowhere/t.json"}), 1, "/nowhere");
}

}  // namespace
}  // namespace tessera
