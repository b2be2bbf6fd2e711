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

constexpr std::string_view kPersonSchema =
    R"({"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"enum": ["red", "green"]}, "minItems": 2, "maxItems": 3}},
        "required": ["name", "age", "tags"], "additionalProperties": false})";

/// Generates hot texts with a grammar, so that the model would write nothing of the kind by itself.
ProgramOutput run_constrained(std::vector<std::string> flags, const std::string& seed) {
  flags.insert(flags.begin(), {"run", "-m", testing::story_model(), "-p", "Once", "--temp", "2", "-n", "400", "-c",
                               "512", "-q", "-s", seed});
  return run_program(flags);
}

TEST(RunGrammar, TheTextIsAValueOfTheSchema) {
  for (const char* seed : {"1", "2", "3", "4", "5"}) {
    const ProgramOutput output = run_constrained({"-j", std::string(kPersonSchema)}, seed);
    EXPECT_EQ(output.status, 0) << output.err;
    const auto value = nlohmann::json::parse(output.out, nullptr, false);
    ASSERT_TRUE(value.is_object()) << output.out;
    EXPECT_EQ(value.size(), 3u);
    EXPECT_TRUE(value["name"].is_string() && value["age"].is_number_integer()) << output.out;
    EXPECT_TRUE(value["tags"].size() == 2 || value["tags"].size() == 3) << output.out;
    for (const auto& tag : value["tags"]) EXPECT_TRUE(tag == "red" || tag == "green") << output.out;
  }
}

TEST(RunGrammar, GrammarsComeFromFlagsAndFiles) {
  EXPECT_EQ(run_constrained({"--grammar", "root ::= \"a\"{3} \"!\""}, "1").out, "aaa!\n");
  const std::string gbnf = testing::write_temporary("run.gbnf", "root ::= \"b\"{3}");
  EXPECT_EQ(run_constrained({"--grammar-file", gbnf}, "1").out, "bbb\n");
  EXPECT_EQ(run_constrained({"--regex", "c{3}"}, "1").out, "ccc\n");
  const std::string schema = testing::write_temporary("run.json", R"({"const": [1, true]})");
  EXPECT_EQ(run_constrained({"-jf", schema, "--json-output", "space=one"}, "1").out, "[1, true]\n");
  EXPECT_EQ(run_constrained({"-j", R"({"const": [1, true]})", "--json-output", "space=none"}, "1").out, "[1,true]\n");
  EXPECT_EQ(run_constrained({"-j", R"({"const": "x"})", "--no-forced-text"}, "1").out, "\"x\"\n");
}

TEST(RunGrammar, BadGrammarsAreErrors) {
  expect_refusal(run_constrained({"--grammar", "root ::= ["}, "1"), 1, "grammar: 1:11: unexpected end");
  expect_refusal(run_constrained({"-j", R"({"minimum": "x"})"}, "1"), 1, "json_schema#/minimum");
  const std::string bad = testing::write_temporary("bad_run.gbnf", "root ::= x");
  expect_refusal(run_constrained({"--grammar-file", bad}, "1"), 1, bad + ": grammar: 1:10: undefined rule \"x\"");
  expect_refusal(run_constrained({"--regex", "a", "-j", "{}"}, "1"), 2, "give one of --grammar");
  expect_refusal(run_constrained({"-j", "{}", "--json-output", "order"}, "1"), 2, "order=: want one of schema, any");
}

}  // namespace
}  // namespace tessera
