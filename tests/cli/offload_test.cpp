// Flags of the device map: refusals before anything is loaded, and the plans of valid flags.
#include <nlohmann/json.hpp>

#include "tests/cli/cli_support.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::expect_refusal;
using testing::ProgramOutput;
using testing::run_program;

TEST(OffloadFlags, ThatCannotBeReadAreRefusedBeforeLoading) {
  const std::pair<const char*, const char*> cases[] = {
      {"-ngl", "abc"},  {"-ngl", "-2"},     {"-sm", "rows"}, {"-sm", ""},     {"-ts", "1,,2"},  {"-ts", "-1"},
      {"-ts", "x"},     {"-ot", "ffn"},     {"-ot", "=cpu"}, {"-ot", "ffn="}, {"-ot", "(=cpu"}, {"-ot", "a=cpu,b"},
      {"-ncmoe", "-1"}, {"--fit", "maybe"}, {"-fitt", "-1"}, {"-fitc", "0"},  {"-mg", "-1"},    {"-dev", "a,,b"},
  };
  for (const auto& [flag, value] : cases)
    expect_refusal(run_program({"run", "-m", "x", flag, value}), 2, std::string(flag) + ": ");
}

TEST(OffloadFlags, NamesThatDoNotExistAreErrorsThatListThoseThatDo) {
  const std::string model = testing::story_model();
  expect_refusal(run_program({"plan", "-m", model, "-dev", "gpu7"}), 1, "no device named gpu7 (there are: ");
  expect_refusal(run_program({"plan", "-m", model, "-ot", "ffn=gpu7"}), 1,
                 "no device or memory named gpu7 (there are: cpu, cpu-packed");
}

TEST(OffloadFlags, OfDevicesThatAreNotThereChangeNothing) {
  const std::string model = testing::story_model();
  const std::string plain = run_program({"plan", "-m", model, "--json"}).out;
  for (const std::vector<std::string>& flags : {std::vector<std::string>{"-dev", "none"},
                                                {"-ngl", "5"},
                                                {"-ngl", "all"},
                                                {"-cmoe"},
                                                {"-nkvo"},
                                                {"-ts", "1,2"},
                                                {"-sm", "none"},
                                                {"-sm", "row"},
                                                {"--fit", "off"},
                                                {"-fitt", "100"}}) {
    std::vector<std::string> args = {"plan", "-m", model, "--json"};
    args.insert(args.end(), flags.begin(), flags.end());
    const ProgramOutput output = run_program(args);
    EXPECT_EQ(output.out, plain) << flags.front();
    EXPECT_EQ(output.err, "") << flags.front();
  }
}

TEST(OffloadFlags, WeightsMayLieInOtherMemory) {
  const std::string model = testing::story_model();
  const ProgramOutput output = run_program({"plan", "-m", model, "-ot", "ffn_(up|down)=cpu-numa,attn_q=CPU-NUMA"});
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_NE(output.out.find("cpu-numa"), std::string::npos) << output.out;
  const std::vector<std::string> run = {"run", "-m", model, "-p", "Once", "-n", "8", "--temp", "0"};
  std::vector<std::string> elsewhere = run;
  elsewhere.insert(elsewhere.end(), {"-ot", "ffn=cpu-numa"});
  EXPECT_EQ(run_program(elsewhere).out, run_program(run).out);
}

bool has_no_vulkan(const ProgramOutput& output) {
  return output.status != 0 && output.err.find("no device named vulkan:0") != std::string::npos;
}

uint64_t weights_on(const std::string& device, const ProgramOutput& plan) {
  uint64_t bytes = 0;
  const json report = json::parse(plan.out);
  for (const json& part : report["buffers"])
    if (part["device"] == device && part["what"] == "weights") bytes += part["bytes"].get<uint64_t>();
  return bytes;
}

// Runs on any Vulkan device, also on one in software.
TEST(OffloadFlags, SplitAModelOverADevice) {
  const std::string model = testing::story_model();
  const auto plan = [&](const std::string& layers) {
    return run_program({"plan", "-m", model, "--json", "-dev", "vulkan:0", "-ngl", layers});
  };
  const ProgramOutput all = plan("all");
  if (has_no_vulkan(all)) GTEST_SKIP() << "no Vulkan device";
  ASSERT_EQ(all.status, 0) << all.err;
  const auto weights_there = [](const ProgramOutput& output) { return weights_on("vulkan:0", output); };
  EXPECT_EQ(json::parse(all.out)["n_gpu_layers"], 6);
  EXPECT_EQ(weights_there(plan("0")), 0u);
  EXPECT_GT(weights_there(plan("2")), 0u);
  EXPECT_GT(weights_there(plan("4")), weights_there(plan("2")));
  EXPECT_GT(weights_there(all), weights_there(plan("4")));
  const std::vector<std::string> run = {"run", "-m", model, "-p", "Once", "-n", "8", "--temp", "0"};
  std::vector<std::string> split = run;
  split.insert(split.end(), {"-dev", "vulkan:0", "-ngl", "3"});
  EXPECT_EQ(run_program(split).out, run_program(run).out);
}

TEST(OffloadFlags, SplitRowsOverTwoDevices) {
  TESSERA_SKIP_UNLESS_ALL_CASES();
  const std::string model = testing::story_model();
  const std::vector<std::string> env = {"TESSERA_BACKENDS=" + testing::example_plugins_dir()};
  const auto run = [&](const std::string& command, const std::vector<std::string>& flags) {
    std::vector<std::string> args = {command, "-m", model};
    args.insert(args.end(), flags.begin(), flags.end());
    return run_program(args, "", env);
  };
  const std::vector<std::string> rows = {"-dev", "vulkan:0,example:0", "-sm", "row", "-ts", "3,1"};
  const auto with_rows = [&](std::vector<std::string> flags) {
    flags.insert(flags.end(), rows.begin(), rows.end());
    return flags;
  };
  const ProgramOutput plan = run("plan", with_rows({"--json"}));
  if (has_no_vulkan(plan)) GTEST_SKIP() << "no Vulkan device";
  ASSERT_EQ(plan.status, 0) << plan.err;
  EXPECT_GT(weights_on("vulkan:0", plan), weights_on("example:0", plan));
  EXPECT_GT(weights_on("example:0", plan), 100'000u);
  const std::vector<std::string> text = {"-p", "Once", "-n", "8", "--temp", "0"};
  EXPECT_EQ(run("run", with_rows(text)).out, run("run", text).out);
  // The main device must keep the KV cache, but this one cannot.
  expect_refusal(run("plan", with_rows({"-mg", "1"})), 1, "example:0 cannot keep K");
}

// BLAS runs only large products. With a short prompt, the CPU runs them.
TEST(OffloadFlags, BlasRunsPromptsOfAnyLength) {
  const std::string model = testing::story_model();
  std::string text;
  for (const int n_words : {1, 3, 20, 100}) {
    while (std::ranges::count(text, ' ') < n_words) text += "Once upon a time there was a cat ";
    const ProgramOutput output =
        run_program({"run", "-m", model, "-p", text, "-n", "4", "--temp", "0", "-dev", "blas", "-q"});
    if (output.err.find("no library of matrix products") != std::string::npos) GTEST_SKIP() << output.err;
    EXPECT_EQ(output.status, 0) << output.err;
    EXPECT_FALSE(output.out.empty());
  }
}

// Measuring the device's peaks allocates 64 MiB before anything else.
TEST(OffloadFlags, BenchFitsToo) {
  TESSERA_SKIP_UNLESS_ALL_CASES();
  const std::string model = testing::story_model();
  const ProgramOutput output =
      run_program({"bench", "-m", model, "-p", "16", "-n", "2", "-r", "1", "-dev", "vulkan:0", "-fitt", "68"}, "",
                  {"TESSERA_VULKAN_MEMORY=72000000"});
  if (has_no_vulkan(output)) GTEST_SKIP() << "no Vulkan device";
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_NE(output.err.find("fit: -ngl "), std::string::npos) << output.err;
}

}  // namespace
}  // namespace tessera
