// tessera compare reports differences and only those; --log-sched.
#include <nlohmann/json.hpp>

#include "tests/cli/cli_support.h"
#include "tests/support/engine_support.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::expect_refusal;
using testing::ProgramOutput;
using testing::run_program;

json compare(const std::string& model, std::vector<std::string> flags) {
  std::vector<std::string> args = {"compare", "-m", model, "--json", "-q"};
  args.insert(args.end(), flags.begin(), flags.end());
  const ProgramOutput output = run_program(args);
  EXPECT_EQ(output.status, 0) << output.err;
  return json::parse(output.out);
}

TEST(Compare, ADeviceWithItselfIsTheSame) {
  const std::string model = testing::story_model();
  for (const bool each : {false, true}) {
    std::vector<std::string> flags = {"--with", "cpu", "--limit", "0"};
    if (each) flags.emplace_back("--each");
    const json result = compare(model, flags);
    // 91 and 89 nodes, minus 10 stores into caches in each.
    EXPECT_EQ(result["nodes"].size(), 81u + 79u);
    for (const json& node : result["nodes"]) EXPECT_EQ(node["nmse"], 0) << node;
  }
}

TEST(Compare, InstructionSetsDifferByRoundings) {
  const std::string model = testing::story_model();
  const json whole = compare(model, {"--with", "cpu:scalar", "-p", "Once upon a time there was a"});
  const json each = compare(model, {"--with", "cpu:scalar", "--each", "-p", "Once upon a time there was a"});
  ASSERT_EQ(whole["nodes"].size(), each["nodes"].size());
  for (const json* result : {&whole, &each}) {
    const json& nodes = (*result)["nodes"];
    EXPECT_TRUE(std::is_sorted(nodes.begin(), nodes.end(), [](const json& a, const json& b) {
      return a["nmse"].get<double>() > b["nmse"].get<double>();
    }));
    // One node: sums in another order, about 2^-24 relative, squared. Many nodes: 16-bit caches round differently.
    EXPECT_LT(nodes[0]["nmse"].get<double>(), result == &whole ? 1e-6 : 1e-11);
  }
}

TEST(Compare, EachNodeAloneDoesNotInheritErrors) {
  const std::string source = testing::story_model();
  ASSERT_OK_AND_ASSIGN(const std::string model, testing::requantize(source, DType::q8_0, "q8.gguf"));
  // Quantized activations change products. Without given operands, all nodes after the first product differ.
  const json whole = compare(model, {"--attention-scores", "f32", "--activations", "f32", "--with", "cpu:int8-32"});
  const json each =
      compare(model, {"--attention-scores", "f32", "--activations", "f32", "--with", "cpu:int8-32", "--each"});
  const auto off = [](const json& result, const std::string& op) {
    return std::ranges::count_if(result["nodes"],
                                 [&](const json& node) { return node["op"] == op && node["nmse"] > 0; });
  };
  EXPECT_GT(off(each, "mul_mat"), 50);
  EXPECT_GT(off(whole, "rms_norm"), 10);
  EXPECT_EQ(off(each, "rms_norm"), 0);
  EXPECT_EQ(off(each, "paged_attention"), 0);
}

// With layers on both devices, values and the cache's tables are copied between them.
TEST(Compare, ASideMayBeSeveralDevices) {
  TESSERA_SKIP_UNLESS_ALL_CASES();
  const std::string model = testing::story_model();
  if (run_program({"devices"}).out.find(" vulkan:0\n") == std::string::npos) GTEST_SKIP() << "no vulkan:0";
  for (const char* n_layers : {"1", "3"}) {
    const json whole = compare(model, {"--with", "vulkan:0", "-ngl", n_layers});
    const json each = compare(model, {"--with", "vulkan:0", "-ngl", n_layers, "--each"});
    EXPECT_EQ(whole["nodes"].size(), 81u + 79u);
    EXPECT_EQ(each["nodes"].size(), 81u + 79u);
    EXPECT_LT(whole["nodes"][0]["nmse"].get<double>(), 1e-4);  // 16-bit caches round differently
    EXPECT_LT(each["nodes"][0]["nmse"].get<double>(), 1e-11);
  }
}

TEST(Compare, BehindTheLimitTheStatusIsOne) {
  const std::string model = testing::story_model();
  const ProgramOutput output = run_program({"compare", "-m", model, "--with", "cpu:scalar", "--limit", "0", "-q"});
  EXPECT_EQ(output.status, 1);
  EXPECT_TRUE(output.err.starts_with("error: NMSE of ")) << output.err;
  EXPECT_NE(output.err.find("limit 0"), std::string::npos) << output.err;
  EXPECT_NE(output.out.find("nmse"), std::string::npos);  // the table is printed in any case
  EXPECT_NE(output.out.find("cpu with cpu:scalar: 160 nodes"), std::string::npos) << output.out;
}

TEST(Compare, UnknownSidesAreRefused) {
  const std::string model = testing::story_model();
  expect_refusal(run_program({"compare", "-m", model, "--with", "cpu:abacus", "-q"}), 1, "--with: ");
  expect_refusal(run_program({"compare", "-m", model, "--with", "abacus:0", "-q"}), 1, "abacus:0");
}

TEST(LogSched, TellsTheDeviceOfEveryNodeAndWhy) {
  const std::string model = testing::story_model();
  for (const std::vector<std::string>& args : {std::vector<std::string>{"run", "-p", "a", "-n", "1"},
                                               {"plan"},
                                               {"graph", "-p", "4"},
                                               {"bench", "-p", "4", "-n", "0", "-r", "1"}}) {
    std::vector<std::string> all = args;
    all.insert(all.end(), {"-m", model, "--log-sched", "-q"});
    const ProgramOutput output = run_program(all);
    EXPECT_EQ(output.status, 0) << output.err;
    EXPECT_NE(output.err.find("step of 1 tokens: 1 slices, 0 copies\n"), std::string::npos) << args[0] << output.err;
    EXPECT_NE(output.err.find("mul_mat blk.4.attn_q.weight"), std::string::npos) << args[0];
    EXPECT_NE(output.err.find(": cpu ("), std::string::npos) << args[0];
    EXPECT_EQ(output.out.find("slices"), std::string::npos) << args[0];
  }
}

}  // namespace
}  // namespace tessera
