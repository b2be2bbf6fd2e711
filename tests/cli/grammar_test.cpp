// tessera grammar: one grammar, and a batch of grammars with texts.
#include <sstream>

#include <nlohmann/json.hpp>

#include "tests/cli/cli_support.h"

namespace tessera {
namespace {

using nlohmann::json;
using testing::expect_refusal;
using testing::ProgramOutput;
using testing::run_program;

json grammar_answer(const std::string& line) {
  const ProgramOutput output = run_program({"grammar", "--batch"}, line + "\n");
  EXPECT_EQ(output.status, 0) << output.err;
  return json::parse(output.out, nullptr, false);
}

TEST(Grammar, ABatchTestsTexts) {
  const json answer = grammar_answer(R"({"gbnf": "root ::= \"a\"+ \"b\"?", "texts": ["aa", "ab", "aba", ""]})");
  EXPECT_EQ(answer["accepted"], json({true, true, false, false}));
  EXPECT_EQ(answer["prefix"], json({2, 2, 2, 0}));
  const json regex = grammar_answer(R"({"regex": "\\d{3}", "texts": ["123", "12a"]})");
  EXPECT_EQ(regex["accepted"], json({true, false}));
}

TEST(Grammar, ABatchReadsSchemasWithSettings) {
  const std::string schema = R"("schema": {"type": "array", "items": {"type": "string", "format": "date"}})";
  const std::string texts = R"("texts": ["[\"2024-02-29\"]", "[ \"2024-02-29\" ]", "[\"x\"]"])";
  EXPECT_EQ(grammar_answer("{" + schema + ", " + texts + "}")["accepted"], json({true, true, false}));
  EXPECT_EQ(grammar_answer("{" + schema + R"(, "space": "none", "format": false, )" + texts + "}")["accepted"],
            json({true, false, true}));
  EXPECT_EQ(
      grammar_answer(R"({"schema": {"items": {"pattern": "(?<=a)b"}}})"),
      (json{{"error", "at 1: lookbehind is not supported"}, {"pointer", "/items/pattern"}, {"keyword", "pattern"}}));
  EXPECT_EQ(grammar_answer(R"({"schema": {}, "space": "wide"})")["error"],
            "line 1: space=wide: want one of none, one, model, any");
}

TEST(Grammar, ErrorsOfABatchKeepTheOtherLines) {
  const std::string lines =
      "{\"gbnf\": \"root ::= x\"}\n\n{\"regex\": \"a\", \"texts\": [\"a\"]}\nnot JSON\n{\"texts\": []}\n"
      "{\"regex\": \"a\", \"texts\": [1]}\n";
  const ProgramOutput output = run_program({"grammar", "--batch"}, lines);
  EXPECT_EQ(output.status, 0);
  std::istringstream rows(output.out);
  std::vector<json> answers;
  for (std::string line; std::getline(rows, line);) answers.push_back(json::parse(line));
  ASSERT_EQ(answers.size(), 5u);
  EXPECT_EQ(answers[0], (json{{"error", "undefined rule \"x\""}, {"line", 1}, {"col", 10}}));
  EXPECT_EQ(answers[1]["accepted"], json({true}));
  EXPECT_EQ(answers[2]["error"], "line 4: want a JSON object of at most 64 levels");
  EXPECT_EQ(answers[3]["error"], "line 5: gbnf, schema and regex: give one of them");
  EXPECT_EQ(answers[4]["error"], "line 6: texts: want a list of strings");
}

TEST(Grammar, OneGrammarPrintsItsSizeOrItsError) {
  const std::string good = testing::write_temporary("good.gbnf", "root ::= \"(\" root \")\" | \"x\"\n");
  const ProgramOutput output = run_program({"grammar", "--gbnf", good});
  EXPECT_EQ(output.status, 0) << output.err;
  EXPECT_TRUE(output.out.starts_with("1 rule, ")) << output.out;
  const std::string bad = testing::write_temporary("bad.gbnf", "root ::= \"a\"\nb ::= (\n");
  expect_refusal(run_program({"grammar", "--gbnf", bad}), 1, "grammar: 3:1: want )");
  expect_refusal(run_program({"grammar", "--regex", "a{2,1}"}), 1, "grammar: 1:2: bounds out of order");
  const std::string schema = testing::write_temporary("bad.json", R"({"type": 5})");
  expect_refusal(run_program({"grammar", "--schema", schema}), 1, "json_schema#/type");
  expect_refusal(run_program({"grammar", "--gbnf", "/nowhere"}), 1, "/nowhere");
  expect_refusal(run_program({"grammar"}), 2, "give one of --gbnf, --schema, --regex and --batch");
}

}  // namespace
}  // namespace tessera
