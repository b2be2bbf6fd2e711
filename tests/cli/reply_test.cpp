// tessera reply --batch: golden replies in pieces, options of a line, and lines that are not as they should be.
#include <sys/stat.h>
#include <unistd.h>

#include <sstream>

#include <nlohmann/json.hpp>

#include "tests/cli/cli_support.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::expect_refusal;
using testing::run_program;

std::vector<json> rows_of_lines(const std::string& text) {
  std::vector<json> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) rows.push_back(json::parse(line));
  return rows;
}

// The answer to one line.
json reply_to(const std::string& line) {
  const auto rows = rows_of_lines(run_program({"reply", "--batch"}, line + "\n").out);
  EXPECT_EQ(rows.size(), 1u) << line;
  return rows.empty() ? json() : rows.front();
}

TEST(Reply, GoldenRepliesAreParsedAlikeInPieces) {
  const std::string golden = testing::read_all(testing::data_path("replies.jsonl"));
  const std::string whole = run_program({"reply", "--batch"}, golden).out;
  const auto rows = rows_of_lines(golden), answers = rows_of_lines(whole);
  ASSERT_EQ(rows.size(), answers.size());
  EXPECT_EQ(answers[0]["tools"], 6);
  for (size_t i = 1; i < rows.size(); ++i) {
    EXPECT_EQ(answers[i]["content"], rows[i]["content"]) << rows[i]["id"];
    EXPECT_EQ(answers[i]["reasoning"], rows[i]["reasoning"]) << rows[i]["id"];
    ASSERT_EQ(answers[i]["tool_calls"].size(), rows[i]["tool_calls"].size()) << rows[i]["id"];
    for (size_t call = 0; call < rows[i]["tool_calls"].size(); ++call)
      EXPECT_EQ(answers[i]["tool_calls"][call]["name"], rows[i]["tool_calls"][call]["name"]) << rows[i]["id"];
    EXPECT_EQ(answers[i]["warnings"].empty(), !rows[i].contains("warning")) << rows[i]["id"];
  }
  for (const char* n : {"1", "7"}) EXPECT_EQ(run_program({"reply", "--batch", "--split", n}, golden).out, whole) << n;
}

TEST(Reply, APartialReplyHasTheArgumentsSoFar) {
  const json partial = reply_to(R"({"family": "mistral-args", "tools": [{"name": "f"}], "partial": true, )"
                                R"("raw": "[TOOL_CALLS]f[ARGS]{\"a\": \"b"})");
  EXPECT_EQ(partial["tool_calls"][0]["arguments"], "{\"a\": \"b");
}

TEST(Reply, TheFamilyMayComeFromATemplate) {
  const json row =
      reply_to(R"({"source": "... <tool_call> ...", "tools": [{"type": "function", "function": {"name": "f"}}], )"
               R"("raw": "<tool_call>{\"name\": \"f\"}</tool_call>"})");
  EXPECT_EQ(row["tool_calls"][0]["name"], "f");
  EXPECT_EQ(row["warnings"], json::array());
}

TEST(Reply, TheFamilyMayComeFromTheCallsThatATemplateWrites) {
  const std::string source =
      "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}<do>{{ c.function.name }}:{{ "
      "c.function.arguments|tojson }}</do>{% endfor %}{% endfor %}";
  const json caps = json::parse(run_program({"template", "--chat-template", source, "--caps"}).out);
  EXPECT_EQ(caps["reply_family"], "probed: tagged-json");
  const json line = {{"source", source}, {"tools", {{{"name", "f"}}}}, {"raw", "<do>f:{\"a\": 1}</do>"}};
  EXPECT_EQ(reply_to(line.dump())["tool_calls"][0]["arguments"], "{\"a\": 1}");
}

TEST(Reply, OptionsOfALineReachTheParser) {
  const std::string think = R"("family": "qwen3", "raw": "<think>a</think>b")";
  EXPECT_EQ(reply_to("{" + think + R"(, "reasoning_format": "none"})")["content"], "<think>a</think>b");
  EXPECT_EQ(reply_to("{" + think + R"(, "reasoning_format": "deepseek-legacy"})")["reasoning"], "a");
  EXPECT_EQ(reply_to("{" + think + R"(, "reasoning_format": "deepseek"})")["content"], "b");
  EXPECT_EQ(reply_to(R"({"family": "qwen3", "generation_prompt": "<think>", "raw": "a</think>b"})")["reasoning"], "a");
  const std::string two = R"("family": "mistral-args", "tools": [{"name": "f"}], )"
                          R"("raw": "[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]f[ARGS]{}")";
  EXPECT_EQ(reply_to("{" + two + R"(, "parallel_tool_calls": false})")["tool_calls"].size(), 1u);
  EXPECT_NE(reply_to("{" + two + R"(, "seed": 1})")["tool_calls"],
            reply_to("{" + two + R"(, "seed": 2})")["tool_calls"]);
  const std::string code = R"("family": "llama-3", "tools": [{"name": "f"}], "raw": "<|python_tag|>x")";
  EXPECT_EQ(reply_to("{" + code + R"(, "finish": "length"})")["tool_calls"].size(), 0u);
  EXPECT_EQ(reply_to("{" + code + R"(, "finish": "stop"})")["tool_calls"].size(), 1u);
}

TEST(Reply, ALineThatIsNotAsItShouldBeIsAnErrorOfThatLine) {
  const std::string input =
      "{\"family\": \"plain\", \"raw\": \"a\"}\nx\n\n{\"family\": \"nope\", \"raw\": \"\"}\n{\"family\": \"plain\", "
      "\"raw\": \"b\"}";
  const auto rows = rows_of_lines(run_program({"reply", "--batch"}, input).out);
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0]["content"], "a");
  EXPECT_EQ(rows[1]["error"], "line 2: want a JSON object of at most 64 levels");
  EXPECT_EQ(rows[2]["error"], "line 4: reply family 'nope': not known");
  EXPECT_EQ(rows[3]["content"], "b");
}

TEST(Reply, LinesMayComeFromAFile) {
  const std::string file = testing::write_temporary("lines.jsonl", "{\"family\": \"plain\", \"raw\": \"a\"}\r\n\n");
  EXPECT_EQ(run_program({"reply", "--batch", "-f", file}).out,
            "{\"content\":\"a\",\"reasoning\":\"\",\"tool_calls\":[],\"warnings\":[]}\n");
  expect_refusal(run_program({"reply", "--batch", "-f", "/nowhere"}), 1, "/nowhere: No such file");
  expect_refusal(run_program({"reply", "--batch", "-f", "/tmp"}), 1, "/tmp: Is a directory");
}

TEST(Reply, ALineIsAnsweredBeforeTheNextIsRead) {
  const std::string pipe = (testing::temporary_dir() / "lines.pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  testing::Child child({"reply", "--batch", "-f", pipe});
  const int fd = ::open(pipe.c_str(), O_WRONLY);
  const std::string line = "{\"family\": \"plain\", \"raw\": \"a\"}\n";
  EXPECT_EQ(::write(fd, line.data(), line.size()), static_cast<ssize_t>(line.size()));
  child.wait_for_output(1);
  ::close(fd);
  EXPECT_EQ(child.wait().status, 0);
}

TEST(Reply, MembersOfAnotherTypeAreErrors) {
  const auto error = [](const std::string& members) {
    return reply_to("{" + members + "}").value("error", "no error");
  };
  EXPECT_EQ(error(R"("raw": "a")"), "line 1: family and source: give one of them");
  EXPECT_EQ(error(R"("raw": "a", "family": "plain", "source": "")"), "line 1: family and source: give one of them");
  EXPECT_EQ(error(R"("family": "plain")"), "line 1: raw: is missing");
  EXPECT_EQ(error(R"("family": "plain", "raw": 1)"), "line 1: raw: want a string");
  EXPECT_EQ(error(R"("family": "plain", "raw": "", "partial": 1)"), "line 1: partial: want true or false");
  EXPECT_EQ(error(R"("family": "plain", "raw": "", "seed": -1)"), "line 1: seed: want a whole number");
  EXPECT_EQ(error(R"("family": "plain", "raw": "", "tools": 1)"), "line 1: tools: not a JSON list");
  EXPECT_EQ(error(R"("family": "plain", "raw": "", "tools": [{"name": "f"}, 1])"), "line 1: tools[1]: has no name");
  EXPECT_EQ(error(R"("family": "plain", "raw": "", "reasoning_format": "x")"),
            "line 1: reasoning_format: 'x' is not known");
}

TEST(Reply, HostileLinesAreErrors) {
  const std::string deep(100'000, '[');
  EXPECT_TRUE(reply_to("{\"raw\": " + deep + "}").contains("error"));
  EXPECT_TRUE(reply_to(deep).contains("error"));
  EXPECT_TRUE(reply_to("{\"raw\": \"\xFF\", \"family\": \"plain\"}").contains("error"));
  EXPECT_TRUE(reply_to("{\"raw\": \"\", \"family\": \"plain\", \"seed\": 1e999}").contains("error"));
}

TEST(Reply, WithoutBatchTheFlagIsNamed) { expect_refusal(run_program({"reply"}), 2, "give --batch"); }

TEST(Reply, ASplitOfNothingIsRefused) {
  expect_refusal(run_program({"reply", "--batch", "--split", "0"}), 2, "--split");
}

}  // namespace
}  // namespace tessera
