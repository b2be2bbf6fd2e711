// Experts that stay in the file, as a user asks for them: the same text, what the plan says, what run and bench report,
// and refusals.
#include <nlohmann/json.hpp>

#include "tests/cli/cli_support.h"
#include "tests/support/expert_model.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::expect_refusal;
using testing::ProgramOutput;
using testing::run_program;

class ExpertCacheFlags : public ::testing::Test {
 protected:
  ProgramOutput run(std::vector<std::string> args) const {
    args.insert(args.begin() + 1, {"-m", model_});
    return run_program(args);
  }
  json plan(std::vector<std::string> flags) const {
    flags.insert(flags.begin(), {"plan", "--json", "-c", "256", "-ub", "32"});
    const ProgramOutput output = run(flags);
    EXPECT_EQ(output.status, 0) << output.err;
    return json::parse(output.out);
  }
  static uint64_t cache_bytes(const json& plan) {
    for (const json& buffer : plan["buffers"])
      if (buffer["buffer"] == "cpu-experts") return buffer["bytes"];
    return 0;
  }

  std::string model_ = testing::many_experts_model("experts.gguf");
};

TEST_F(ExpertCacheFlags, ChangeNoText) {
  const std::vector<std::string> plain = {"run", "-p", "Once upon a time", "-n", "12", "--temp", "0.8", "-s", "7"};
  const ProgramOutput want = run(plain);
  ASSERT_EQ(want.status, 0) << want.err;
  EXPECT_EQ(want.err.find("experts"), std::string::npos) << want.err;
  for (const std::vector<std::string>& flags : {std::vector<std::string>{"--expert-cache", "4M"},
                                                {"--expert-cache", "1"},
                                                {"--expert-cache", "100G"},
                                                {"--expert-cache", "4M", "--expert-reads", "cached"},
                                                {"--expert-cache", "4M", "--expert-reads", "direct", "--no-mmap"},
                                                {"--memory", "10M", "-c", "256"}}) {
    std::vector<std::string> args = plain;
    args.insert(args.end(), flags.begin(), flags.end());
    const ProgramOutput got = run(args);
    EXPECT_EQ(got.status, 0) << got.err;
    EXPECT_EQ(got.out, want.out) << flags.front() << " " << flags[1];
    EXPECT_NE(got.err.find("; experts: "), std::string::npos) << got.err;
    EXPECT_NE(got.err.find(" % found in memory, "), std::string::npos) << got.err;
  }
}

TEST_F(ExpertCacheFlags, ArePartOfThePlan) {
  const json whole = plan({}), cached = plan({"--expert-cache", "4M"});
  EXPECT_EQ(cache_bytes(whole), 0);
  EXPECT_TRUE(whole["expert_cache"].is_null());
  EXPECT_EQ(cached["expert_cache"], 4 << 20);
  EXPECT_LE(cache_bytes(cached), 4 << 20);
  EXPECT_GT(cache_bytes(cached), 3 << 20);
  EXPECT_EQ(cached["kv_bytes"], whole["kv_bytes"]);
  EXPECT_NE(run({"plan", "--expert-cache", "4M"}).out.find(" --expert-cache 4194304\n"), std::string::npos);
}

TEST_F(ExpertCacheFlags, AreFoundForABoundOnAllMemory) {
  const uint64_t whole = plan({})["total_bytes"];
  EXPECT_EQ(cache_bytes(plan({"--memory", std::to_string(whole)})), 0);
  const json bounded = plan({"--memory", "10M"});
  EXPECT_LE(bounded["total_bytes"], 10 << 20);
  EXPECT_GT(bounded["total_bytes"], 9 << 20);
  EXPECT_GT(cache_bytes(bounded), 0);
  // The flags that plan prints give this plan again.
  EXPECT_EQ(plan({"--expert-cache", std::to_string(bounded["expert_cache"].get<uint64_t>())})["buffers"],
            bounded["buffers"]);
  const ProgramOutput text = run({"plan", "--memory", "10M", "-c", "256", "-ub", "32"});
  EXPECT_NE(text.out.find("fits in 10485760 bytes with -c 256"), std::string::npos) << text.out;
  EXPECT_NE(text.err.find("fit: experts stay in the file, --expert-cache "), std::string::npos) << text.err;
  expect_refusal(run({"run", "-p", "x", "--memory", "1M", "-c", "256"}), 1, "nothing fits in 1048576 bytes");
}

TEST_F(ExpertCacheFlags, AServerTakesThemWithinItsMemory) {
  const std::vector<std::string> flags = {"--memory", "14M", "-np", "2", "--cache-ram", "1"};
  std::vector<std::string> planned = flags;
  planned.emplace_back("--serve");
  const json bounded = plan(planned);
  EXPECT_GT(cache_bytes(bounded), 0);
  EXPECT_LE(bounded["total_bytes"], 14 << 20);
  std::vector<std::string> args = {"serve", "-m", model_, "--port", "0", "-c", "256", "-ub", "32", "-t", "1"};
  args.insert(args.end(), flags.begin(), flags.end());
  testing::Child server(args);
  EXPECT_TRUE(server.wait_for_line("listening on ").starts_with("http://"));
  server.send(SIGTERM);
  const ProgramOutput output = server.wait();
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_NE(output.err.find("experts stay in the file, with a cache of "), std::string::npos) << output.err;
}

TEST_F(ExpertCacheFlags, BenchReportsWhatWasFound) {
  const ProgramOutput whole = run({"bench", "-p", "8", "-n", "4", "-r", "1", "-o", "json"});
  for (const json& row : json::parse(whole.out)) {
    EXPECT_TRUE(row["expert_hit_share"].is_null());
    EXPECT_TRUE(row["expert_read_bytes"].is_null());
  }
  const ProgramOutput cached =
      run({"bench", "-p", "8", "-n", "4", "-r", "2", "--no-warmup", "-o", "json", "--expert-cache", "4M"});
  for (const json& row : json::parse(cached.out)) {
    EXPECT_GE(row["expert_hit_share"], 0.0);
    EXPECT_LT(row["expert_hit_share"], 1.0);
    EXPECT_GT(row["expert_read_bytes"], 0);
    EXPECT_EQ(row["expert_forecast_share"].is_number(), row["n_gen"] > 0);  // 8 tokens are too many for a forecast
  }
  const ProgramOutput table = run({"bench", "-p", "8", "-n", "0", "-r", "1", "--expert-cache", "4M"});
  EXPECT_NE(table.err.find("pp8; experts: "), std::string::npos) << table.err;
}

TEST_F(ExpertCacheFlags, AreRefusedIfTheyCannotBeRead) {
  for (const auto& [flag, value] : {std::pair{"--expert-cache", "x"},
                                    {"--expert-cache", "-1"},
                                    {"--memory", "12X"},
                                    {"--expert-reads", "fast"},
                                    {"--expert-cache", ""}})
    expect_refusal(run_program({"run", "-m", "x", flag, value}), 2, std::string(flag) + ": ");
}

}  // namespace
}  // namespace tessera
