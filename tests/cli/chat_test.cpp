// tessera chat through a pipe, as a program uses it.
#include <gtest/gtest.h>

#include <filesystem>

#include <nlohmann/json.hpp>

#include "tests/cli/cli_support.h"
#include "tests/support/scripted_model.h"

namespace tessera {
namespace {

using namespace testing;
using ChatJson = nlohmann::json;

const std::vector<std::string> kShort = {"--seed", "5", "-n", "12", "--ignore-eos", "-q"};

ProgramOutput chat(std::vector<std::string> args, const std::string& input) {
  args.insert(args.begin(), "chat");
  args.insert(args.end(), kShort.begin(), kShort.end());
  return run_program(args, input);
}

std::vector<ChatJson> json_lines(const std::string& text) {
  std::vector<ChatJson> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    lines.push_back(ChatJson::parse(text.substr(begin, end - begin), nullptr, false));
    EXPECT_FALSE(lines.back().is_discarded()) << text;
    begin = end == text.npos ? text.size() : end + 1;
  }
  return lines;
}

TEST(ChatPipe, AnswersEachLineAndRemembersTheOnesBefore) {
  const ProgramOutput output = chat({"--json"}, "Tell me about a fox.\n\n  \nGo on.\n");
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_EQ(output.err, "");
  const auto lines = json_lines(output.out);
  ASSERT_EQ(lines.size(), 2u) << output.out;
  EXPECT_EQ(lines[0]["usage"]["cached_tokens"], 0);
  EXPECT_EQ(lines[0]["usage"]["completion_tokens"], 12);
  EXPECT_EQ(lines[0]["finish_reason"], "length");
  EXPECT_EQ(lines[0]["tool_calls"], ChatJson::array());
  EXPECT_GT(lines[1]["usage"]["cached_tokens"], 0);
  EXPECT_GT(lines[1]["usage"]["prompt_tokens"], lines[0]["usage"]["prompt_tokens"]);
}

TEST(ChatPipe, PlainTextIsTheContentOfTheSameReplies) {
  const std::string input = "Tell me about a fox.\nGo on.";
  std::string expected;
  for (const ChatJson& line : json_lines(chat({"--json"}, input).out)) {
    expected += line["content"].get<std::string>();
    if (!expected.ends_with('\n')) expected += '\n';
  }
  EXPECT_EQ(chat({}, input).out, expected);
  EXPECT_NE(expected, "");
}

TEST(ChatPipe, RepliesDoNotDependOnThreadsBatchesOrSavedState) {
  const std::string input = "Tell me about a fox.\nGo on.\n";
  const std::string expected = chat({}, input).out;
  EXPECT_EQ(chat({"-t", "2", "-b", "3", "-ub", "2"}, input).out, expected);
  const std::string file = (temporary_dir() / "pipe_session.json").string();
  std::filesystem::remove(file);
  const std::string first = chat({"--session", file}, "Tell me about a fox.\n").out;
  const std::string second = chat({"--session", file}, "Go on.\n").out;
  EXPECT_EQ(first + second, expected);
  EXPECT_EQ(ChatJson::parse(read_all(file))["messages"].size(), 4u);
}

TEST(ChatPipe, AMessageThatFailsIsLeftOut) {
  const std::string input = "Tell me about a fox.\n" + std::string(5000, 'x') + "\nGo on.\n";
  const ProgramOutput output = chat({"-c", "128", "--json"}, input);
  EXPECT_EQ(output.status, 1);
  EXPECT_EQ(output.err, "error: 1 message got no reply\n");
  const auto lines = json_lines(output.out);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_NE(lines[1]["error"].get<std::string>().find("the context holds 128 (-c sets it)"), std::string::npos);
  EXPECT_TRUE(lines[2].contains("content"));
  const ProgramOutput plain = chat({"-c", "128"}, input);
  EXPECT_EQ(plain.status, 1);
  EXPECT_NE(plain.err.find("error: the conversation has"), std::string::npos) << plain.err;
}

TEST(ChatPipe, CallsAreShownAndTheNextLineIsTheResult) {
  const std::string model = scripted_model(
      {{{"I look.", "<tool_call>\n{\"name\": \"rain\", \"arguments\": {\"day\": 1}}\n</tool_call>"}}, {{"Dry."}}},
      "pipe_calls.gguf");
  const std::string tools =
      write_temporary("pipe_tools.json", R"([{"type": "function", "function": {"name": "rain", "parameters": {}}}])");
  const std::vector<std::string> args = {"chat", "-q", "-m", model, "-c", "4096", "--temp", "0", "--tools", tools};
  EXPECT_EQ(run_program(args, "Rain?\nno rain\n").out, "I look.\nrain(day=1)\nDry.\n");
  std::vector<std::string> json_args = args;
  json_args.push_back("--json");
  const auto lines = json_lines(run_program(json_args, "Rain?\nno rain\n").out);
  ASSERT_EQ(lines.size(), 2u);
  ASSERT_EQ(lines[0]["tool_calls"].size(), 1u) << lines[0];
  EXPECT_EQ(lines[0]["tool_calls"][0]["function"]["name"], "rain");
  EXPECT_EQ(lines[0]["tool_calls"][0]["function"]["arguments"], "{\"day\": 1}");
  EXPECT_EQ(lines[0]["finish_reason"], "tool_calls");
  EXPECT_EQ(lines[1]["content"], "Dry.");
  EXPECT_EQ(lines[1]["finish_reason"], "stop");
}

TEST(ChatPipe, CallsFollowTheSchemasOfTheTools) {
  // The model would call a tool that is not there, with an argument that does not fit.
  const std::string model = scripted_model(
      {{{"<tool_call>\n{\"name\": \"", "snow", "\", \"arguments\": {\"day\": ", "\"x\"", "}}\n</tool_call>"}}},
      "pipe_schema.gguf");
  const std::string tools = write_temporary("pipe_strict_tools.json", R"([{"name": "rain", "parameters": {"properties":
      {"day": {"type": "integer"}}, "required": ["day"], "additionalProperties": false}}])");
  std::vector<std::string> args = {"chat", "-q", "-m", model, "-c", "4096", "--json", "--temp", "0", "--tools", tools};
  const ChatJson call = json_lines(run_program(args, "Rain?\n").out).at(0)["tool_calls"][0]["function"];
  EXPECT_EQ(call["name"], "rain");
  EXPECT_TRUE(ChatJson::parse(call["arguments"].get<std::string>())["day"].is_number_integer()) << call;
  args.push_back("--free-calls");
  const ChatJson free = json_lines(run_program(args, "Rain?\n").out).at(0)["tool_calls"][0]["function"];
  EXPECT_EQ(free["name"], "snow");
  EXPECT_EQ(free["arguments"], "{\"day\": \"x\"}");
}

TEST(ChatPipe, ToolsThatCannotBeEnforcedAreErrors) {
  const std::string tools = write_temporary(
      "pipe_bad_schema.json", R"([{"name": "rain", "parameters": {"properties": {"a": {"pattern": "(?<=a)b"}}}}])");
  expect_refusal(chat({"--tools", tools}, ""), 1,
                 "pipe_bad_schema.json: tool \"rain\": json_schema#/properties/a/pattern: at 1: lookbehind");
}

TEST(ChatPipe, ReasoningIsNoPartOfThePlainText) {
  const std::string model = scripted_model({{{"<think>", "Hm.", "</think>", "Four."}}}, "pipe_reasoning.gguf");
  const std::vector<std::string> args = {"chat", "-q", "-m", model, "-c", "4096", "--temp", "0"};
  EXPECT_EQ(run_program(args, "2 + 2?\n").out, "Four.\n");
  std::vector<std::string> json_args = args;
  json_args.push_back("--json");
  EXPECT_EQ(json_lines(run_program(json_args, "2 + 2?\n").out)[0]["reasoning"], "Hm.");
}

TEST(ChatPipe, VerboseCountsGoToStderr) {
  const ProgramOutput output = run_program({"chat", "--seed", "5", "-n", "4", "--ignore-eos", "-v"}, "Hello\n");
  EXPECT_NE(output.err.find(" cached), first token after "), std::string::npos) << output.err;
  EXPECT_NE(output.err.find("4 new tokens"), std::string::npos);
  EXPECT_EQ(output.out.find("tokens/s"), std::string::npos);
}

TEST(ChatPipe, RefusesWrongFlagsAndFiles) {
  expect_refusal(chat({"--system", "a", "--system-file", "b"}, ""), 2, "--system and --system-file");
  expect_refusal(chat({"--chat-template-kwargs", "[1]"}, ""), 2, "--chat-template-kwargs: not a JSON object");
  expect_refusal(chat({"--think", "hard"}, ""), 2, "auto, on, off, hide");
  expect_refusal(chat({"--chat-template", "lama3"}, ""), 2, "did you mean llama3?");
  expect_refusal(chat({"--tools", "/nowhere/tools.json"}, ""), 1, "/nowhere/tools.json");
  expect_refusal(chat({"--tools", write_temporary("bad_tools.json", "{}")}, ""), 1,
                 "bad_tools.json: tools: not a JSON list");
  expect_refusal(chat({"--system-file", "/nowhere/system.txt"}, ""), 1, "/nowhere/system.txt");
  expect_refusal(chat({"--session", write_temporary("bad_chat.json", "{")}, ""), 1, "bad_chat.json: not JSON");
  expect_refusal(chat({"--chat-template", "{{ x"}, ""), 1, "template: 1:");
  EXPECT_EQ(chat({}, "").out, "");
}

TEST(ChatPipe, AnInterruptEndsTheReplyWithItsText) {
  // stdin of a Child is empty, so the message comes from a file.
  const std::string input = write_temporary("long_chat.txt", "Tell me a long story.\n");
  const std::string command =
      fmt::format("exec {} chat -q -c 200000 --seed 1 --ignore-eos < {}", program_path(), input);
  Child child({}, (temporary_dir() / "interrupted_chat.out").string(), {"/bin/sh", "-c", command});
  child.wait_for_output(200);
  child.send(SIGINT);
  const ProgramOutput output = child.wait();
  EXPECT_EQ(output.status, 130);
  EXPECT_TRUE(output.out.ends_with('\n'));
  EXPECT_EQ(output.err, "");
}

TEST(ChatPipe, AFullDiskIsAnError) {
  const std::string command = program_path() + " chat -q -n 20 --ignore-eos > /dev/full";
  Child child({}, (temporary_dir() / "full_chat.out").string(), {"/bin/sh", "-c", "echo Hello | " + command});
  const ProgramOutput output = child.wait();
  EXPECT_EQ(output.status, 1);
  EXPECT_NE(output.err.find("error: "), std::string::npos);
}

TEST(ChatPipe, AnAnswerFollowsItsGrammar) {
  const auto lines = json_lines(chat({"--json", "-n", "60", "--regex", "(yes|no), [a-z]{3}!"}, "Is it?\nWhy?\n").out);
  ASSERT_EQ(lines.size(), 2u);
  for (const ChatJson& line : lines) {
    const std::string content = line["content"];
    EXPECT_TRUE(content.starts_with("yes, ") || content.starts_with("no, ")) << content;
    EXPECT_TRUE(content.ends_with("!") && content.size() < 10) << content;
    EXPECT_EQ(line["finish_reason"], "stop");
  }
}

// The model would end its reasoning with a mark and then say something else.
TEST(ChatPipe, TheGrammarBeginsAfterTheReasoning) {
  const std::string model =
      scripted_model({{{"<think>", "Hm {.", "</think>", "Four."}}}, "pipe_reasoning_grammar.gguf");
  const auto reply = [&](std::vector<std::string> flags) {
    flags.insert(flags.begin(), {"chat", "-m", model, "--temp", "0", "--json", "-q", "-j", R"({"const": [4]})",
                                 "--json-output", "space=none"});
    const auto lines = json_lines(run_program(flags, "2 + 2?\n").out);
    return lines.empty() ? ChatJson() : lines[0];
  };
  const ChatJson with = reply({});
  EXPECT_EQ(with["reasoning"], "Hm {.");
  EXPECT_EQ(ChatJson::parse(with["content"].get<std::string>(), nullptr, false), ChatJson({4})) << with;
  const ChatJson without = reply({"--think", "off"});
  EXPECT_EQ(without["reasoning"], "");
  EXPECT_EQ(ChatJson::parse(without["content"].get<std::string>(), nullptr, false), ChatJson({4})) << without;
}

}  // namespace
}  // namespace tessera
