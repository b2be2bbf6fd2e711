// tessera run: generated text, prompts and their sources, interruption, output that cannot be written.
#include <csignal>
#include <cstdlib>
#include <fstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "tests/cli/cli_support.h"
#include "tests/support/tiny_t5.h"

namespace tessera {
namespace {

using testing::Child;
using testing::expect_refusal;
using testing::ProgramOutput;
using testing::run_program;

TEST(Run, GreedyContinuationsAreTheGoldenOnes) {
  const auto golden = nlohmann::json::parse(testing::read_all(testing::data_path("greedy.json")));
  TESSERA_SHARED_OR_SKIP(model, golden["model"].get<std::string>());
  const auto& runs = golden["runs"];
  ASSERT_EQ(runs.size(), 5u);
  for (const auto& run : runs) {
    const auto ids = run["result"]["ids"].get<std::vector<int>>();
    const ProgramOutput output = run_program(
        {"run", "-m", model, "-p", run["prompt"], "--temp", "0", "-n", std::to_string(ids.size()), "--ids", "-q"});
    EXPECT_EQ(output.status, 0) << output.err;
    EXPECT_EQ(output.out, fmt::format("{}\n", fmt::join(ids, ",")));
    EXPECT_EQ(output.err, "");
  }
}

TEST(Run, SeedDecidesTheText) {
  const std::string model = testing::story_model();
  const auto text = [&](const std::string& seed) {
    return run_program({"run", "-m", model, "-p", "Once", "-n", "40", "-s", seed, "-q"}).out;
  };
  const std::string seven = text("7");
  EXPECT_EQ(text("7"), seven);
  EXPECT_NE(text("8"), seven);
}

TEST(Run, PromptComesFromFlagFileOrStdin) {
  const std::string model = testing::story_model();
  const std::vector<std::string> common = {"run", "-m", model, "-n", "20", "--temp", "0", "-q"};
  const auto with = [&](std::vector<std::string> more, const std::string& input) {
    more.insert(more.begin(), common.begin(), common.end());
    return run_program(more, input).out;
  };
  const std::string text = with({"-p", "The little dog"}, "");
  EXPECT_GT(text.size(), 20u);
  EXPECT_EQ(with({}, "The little dog"), text);
  EXPECT_EQ(with({"-f", testing::write_temporary("prompt", "The little dog")}, "ignored"), text);
  EXPECT_EQ(with({"-p", "The little dog", "--echo"}, ""), "The little dog" + text);
}

TEST(Run, EmptyPromptStartsAText) {
  const std::string model = testing::story_model();
  const ProgramOutput output = run_program({"run", "-m", model, "-p", "", "-n", "10", "--temp", "0", "-q"});
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_GT(output.out.size(), 1u);
}

TEST(Run, PromptLongerThanTheContextNamesBothNumbers) {
  const std::string model = testing::story_model();
  const ProgramOutput output = run_program({"run", "-m", model, "-p", "Once upon a time", "-c", "4"});
  expect_refusal(output, 1, "the prompt has 7 tokens, the context holds 4");
}

TEST(Run, UnreadablePromptFileIsNamed) {
  const std::string model = testing::story_model();
  expect_refusal(run_program({"run", "-m", model, "-f", "/no/such/prompt"}), 1, "/no/such/prompt: cannot open");
  expect_refusal(run_program({"run", "-m", model, "-f", "/dev/zero"}), 1, "/dev/zero: longer than 67108864 bytes");
  expect_refusal(run_program({"run", "-m", model, "-f", "/tmp"}), 1, "/tmp: cannot read: Is a directory");
}

TEST(Run, AnyBytesAreAPromptAndTheOutputIsUtf8) {
  const std::string model = testing::story_model();
  const std::string bytes("\xff\xfe\0\x80 <s> \xc3", 11);
  const ProgramOutput output = run_program({"run", "-m", model, "-n", "60", "-q", "-s", "1", "--temp", "5"}, bytes);
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_NO_THROW(nlohmann::json(output.out).dump());  // dump() throws on invalid UTF-8
}

TEST(Run, FullContextEndsTheTextAndSaysSo) {
  const std::string model = testing::story_model();
  const ProgramOutput output =
      run_program({"run", "-m", model, "-p", "Once", "-c", "16", "--ignore-eos", "--temp", "0"});
  EXPECT_EQ(output.status, 0);
  EXPECT_NE(output.err.find("the context is full"), std::string::npos) << output.err;
}

TEST(Run, InterruptionLeavesTheTextSoFarAndStatus130) {
  const std::string model = testing::story_model();
  Child child({"run", "-m", model, "-p", "Once", "-n", "2000000000", "--ignore-eos", "-c", "1000000"});
  child.wait_for_output(200);
  child.send(SIGINT);
  const ProgramOutput output = child.wait();
  EXPECT_EQ(output.status, 130) << output.err;
  EXPECT_GE(output.out.size(), 200u);
  EXPECT_TRUE(output.out.ends_with("\n"));
  EXPECT_EQ(output.err.find("error"), std::string::npos) << output.err;
}

TEST(Run, AnEncoderReadsThePromptAndADecoderAnswers) {
  testing::TinyT5 tiny("t5");
  const std::string model = tiny.write("t5.gguf");
  const auto encoded = tiny.encode(testing::TinyT5::letters("abc"));
  std::vector<int32_t> tokens{testing::TinyT5::kStart};
  for (int i = 0; i < 8; ++i) {
    const testing::Vec logits = tiny.decode(encoded, tokens).back();
    tokens.push_back(static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin()));
  }
  tokens.erase(tokens.begin());
  const std::vector<std::string> common = {"run", "-m", model, "-p", "abc", "--temp", "0", "-q", "--ignore-eos"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), common.begin(), common.end());
    return run_program(more);
  };
  const ProgramOutput output = with({"--ids", "-n", "8", "-ctk", "f32", "-ctv", "f32"});
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_EQ(output.out, fmt::format("{}\n", fmt::join(tokens, ",")));
  // The answer fills the context and is shifted. The prompt stays.
  EXPECT_EQ(with({"-c", "16", "-n", "40", "--context-shift"}).status, 0);
  expect_refusal(with({"-ub", "2"}), 1, "a prompt of 5 tokens, micro-batch of 2 (-ub)");
  expect_refusal(with({"-c", "4"}), 1, "the prompt has 5 tokens, the context holds 4");
}

TEST(Run, FullDiskIsAnError) {
  const std::string model = testing::story_model();
  const ProgramOutput output = Child({"run", "-m", model, "-p", "Once", "-n", "20", "-q"}, "/dev/full").wait();
  expect_refusal(output, 1, "cannot write to stdout: No space left on device");
}

TEST(Run, ModelThatIsTruncatedWhileMappedIsNamed) {
  const std::string model = testing::story_model();
  const std::string copy = testing::write_temporary("shrinks.gguf", testing::read_all(model));
  Child child({"run", "-m", copy, "-p", "Once", "-n", "2000000000", "--ignore-eos", "--context-shift", "-c", "512",
               "--no-repack"});
  child.wait_for_output(100);
  std::filesystem::resize_file(copy, 4096);
  const ProgramOutput output = child.wait();
  EXPECT_EQ(output.status, 1);
  EXPECT_EQ(output.err, "error: " + copy + ": the file changed while it was mapped\n");
}

}  // namespace
}  // namespace tessera
