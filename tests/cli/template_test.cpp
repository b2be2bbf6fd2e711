// tessera template: prompts, capabilities, batches of lines, and refusals.
#include <nlohmann/json.hpp>

#include "tests/cli/cli_support.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::expect_refusal;
using testing::run_program;

constexpr const char* kMessages =
    R"([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi <|im_end|>"}])";
constexpr const char* kPrompt =
    "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi <|im_end|><|im_end|>\n<|im_start|>assistant\n";

TEST(TemplateCommand, PrintsThePromptOfMessages) {
  EXPECT_EQ(run_program({"template", "--chat-template", "chatml"}, kMessages).out, kPrompt);
  const std::string file = testing::write_temporary("messages.json", kMessages);
  EXPECT_EQ(run_program({"template", "--chat-template", "chatml", "--messages", file}).out, kPrompt);
  const std::string source =
      testing::write_temporary("source.jinja", "{% for m in messages %}{{ m.content }};{% endfor %}\n");
  EXPECT_EQ(run_program({"template", "--chat-template-file", source}, kMessages).out, "Be brief.;Hi <|im_end|>;");
  EXPECT_EQ(run_program({"template", "--chat-template", "{{ messages|length }}"}, kMessages).out, "1");
}

TEST(TemplateCommand, FallsBackToChatmlWithAWarning) {
  for (const std::vector<std::string>& model : {std::vector<std::string>{}, {"-m", testing::story_model()}}) {
    std::vector<std::string> args = {"template"};
    args.insert(args.end(), model.begin(), model.end());
    const auto output = run_program(args, kMessages);
    EXPECT_EQ(output.out, kPrompt);
    EXPECT_EQ(output.err, "warning: the model has no chat template, using chatml\n");
    args.push_back("-q");
    EXPECT_EQ(run_program(args, kMessages).err, "");
  }
}

TEST(TemplateCommand, JsonHasTheBytesThatTheMessagesGave) {
  const auto output = run_program({"template", "--chat-template", "chatml", "--json"}, kMessages);
  const json result = json::parse(output.out);
  EXPECT_EQ(result["prompt"], kPrompt);
  EXPECT_EQ(result["given"], json::parse("[[19, 28], [56, 69]]"));
  EXPECT_EQ(result["generation_prompt"], "<|im_start|>assistant\n");
}

TEST(TemplateCommand, ShowsTheSourceAndWhatItCanDo) {
  EXPECT_EQ(run_program({"template", "--chat-template", "{{ messages }}", "--source"}).out, "{{ messages }}\n");
  const json caps = json::parse(run_program({"template", "--chat-template", "gemma", "--caps"}).out);
  EXPECT_EQ(caps["string_content"], true);
  EXPECT_EQ(caps["system"], false);
  EXPECT_EQ(caps["arguments"], "none");
  EXPECT_EQ(caps["call_content"], "empty");
  EXPECT_EQ(caps["generation_prompt"], "<start_of_turn>model\n");
  EXPECT_EQ(caps["reply_family"], "generic");
}

TEST(TemplateCommand, TheClockIsAFlag) {
  const auto output =
      run_program({"template", "--chat-template", "{{ strftime_now('%A %d %b %Y %H:%M:%S %j') }} {{ date_string }}",
                   "--now", "2026-02-28T09:05:07"},
                  kMessages);
  EXPECT_EQ(output.out, "Saturday 28 Feb 2026 09:05:07 059 28 Feb 2026");
  for (const char* time : {"now", "2026-02-30", "2026-13-01T00:00:00", "2026-02-28T24:00:00", "2026-02-28 09:05:07",
                           "2026-02-28T09:05:07Z"})
    expect_refusal(run_program({"template", "--now", time}, kMessages), 2,
                   "--now: not a time like 2026-02-28T09:05:07");
}

TEST(TemplateCommand, BatchAnswersEachLine) {
  const std::string input =
      R"({"source": "{{ a + b }}", "variables": {"a": 1, "b": 2}})"
      "\n"
      R"({"source": "x\n{{ a|nope }}", "variables": {}})"
      "\r\n"
      R"({"source": "{{ raise_exception('no') }}", "variables": {}})"
      "\n"
      R"({"source": "{{ bos_token }}{{ messages[0].content }}{{ add_generation_prompt }}{{ x }}", "vars": {"x": "y"},)"
      R"( "messages": [{"role": "user", "content": "hi"}]})"
      "\n"
      R"({"source": "<{{ messages[0].content }}>", "messages": [{"role": "user", "content": "hi"}], "continue_final_message": true})"
      "\n"
      R"({"source": "{{ messages[0].role }}{{ date_string }}", "messages": [{"role": "developer", "content": ""}], "adapt": false})"
      "\n\n[]\n{}\n"
      R"({"source": "x", "variables": 1})"
      "\n"
      R"({"source": "x", "messages": 1})"
      "\n"
      R"({"source": "x", "messages": [], "vars": []})"
      "\n"
      R"({"source": "x", "messages": [], "adapt": 1})"
      "\nlast";
  const auto output = run_program({"template", "--batch"}, input);
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_EQ(output.out,
            "{\"prompt\": \"3\"}\n"
            "{\"error\": \"syntax\", \"message\": \"unknown filter \\\"nope\\\"\", \"line\": 2, \"col\": 6}\n"
            "{\"error\": \"raised\", \"message\": \"no\", \"line\": 1, \"col\": 19}\n"
            "{\"prompt\": \"<s>hiTruey\"}\n"
            "{\"prompt\": \"<hi\"}\n"
            "{\"prompt\": \"developer\"}\n"
            "{\"error\": \"request\", \"message\": \"not JSON: error at byte 0\"}\n"
            "{\"error\": \"request\", \"message\": \"source: missing, want a text\"}\n"
            "{\"error\": \"request\", \"message\": \"source: missing, want a text\"}\n"
            "{\"error\": \"request\", \"message\": \"variables: not an object\"}\n"
            "{\"error\": \"request\", \"message\": \"messages: missing, want a list\"}\n"
            "{\"error\": \"request\", \"message\": \"vars: not an object\"}\n"
            "{\"error\": \"request\", \"message\": \"adapt: not a boolean\"}\n"
            "{\"error\": \"request\", \"message\": \"not JSON: error at byte 0\"}\n");
}

TEST(TemplateCommand, RefusesWithOneLine) {
  expect_refusal(run_program({"template", "--chat-template", "gema"}), 2,
                 "--chat-template: unknown name \"gema\", did you mean gemma?");
  expect_refusal(run_program({"template", "--chat-template", "zzzzzzzzzzzz"}), 2, "known: chatml, llama2,");
  expect_refusal(run_program({"template", "--chat-template", "chatml", "--chat-template-file", "x"}), 2,
                 "give one of them");
  expect_refusal(run_program({"template", "--batch", "-m", "x"}), 2, "--batch: each line names its own template");
  expect_refusal(run_program({"template", "--chat-template", "{% if %}"}, kMessages), 1,
                 "template: 1:7: unexpected '%}', want an expression");
  expect_refusal(run_program({"template", "--chat-template", "{{ x.y }}"}, kMessages), 1,
                 "template: 1:6: 'x' is undefined");
  expect_refusal(run_program({"template", "--chat-template", "{{ raise_exception('Only users') }}"}, kMessages), 1,
                 "error: Only users");
  expect_refusal(run_program({"template", "--chat-template", "chatml"}, "[1]"), 1, "messages[0]: not an object");
  expect_refusal(run_program({"template", "--chat-template", "chatml"}, "{"), 1, "stdin: not JSON: error at byte 1");
  expect_refusal(run_program({"template", "--chat-template", "chatml", "--messages", "/nowhere"}), 1, "/nowhere");
  expect_refusal(run_program({"template", "--chat-template-file", "/nowhere"}, kMessages), 1, "/nowhere");
  expect_refusal(run_program({"template", "-m", "/nowhere"}, kMessages), 1, "/nowhere");
  const std::string big = testing::write_temporary("big.jinja", std::string((size_t{1} << 20) + 1, 'x'));
  expect_refusal(run_program({"template", "--chat-template-file", big}, kMessages), 1, "longer than 1048576 bytes");
}

}  // namespace
}  // namespace tessera
