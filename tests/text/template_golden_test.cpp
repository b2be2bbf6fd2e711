// The template language against what Hugging Face transformers renders: snippets of the language, and real templates
// with conversations. The golden files are other people's work and are not part of this repository.
#include <gtest/gtest.h>

#include <fstream>

#include "tessera/base/index.h"
#include "tessera/text/template/json_reader.h"
#include "tessera/text/template/template.h"
#include "tests/support/testing.h"

namespace tessera::text::jinja {
namespace {

// 2026-02-28 09:05:07, the clock of the golden data.
std::tm golden_clock() {
  std::tm now{};
  now.tm_year = 126;
  now.tm_mon = 1;
  now.tm_mday = 28;
  now.tm_hour = 9;
  now.tm_min = 5;
  now.tm_sec = 7;
  now.tm_wday = 6;
  now.tm_yday = 58;
  return now;
}

std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

Value parse(Heap& heap, std::string_view json) {
  auto parsed = parse_json(heap, json, Origin::given);
  EXPECT_TRUE(parsed.has_value()) << (parsed ? "" : parsed.error().message());
  return parsed ? parsed->value : Value::none();
}

std::string_view field(const Value& row, std::string_view name) {
  const Value* value = row.as_dict().find(name);
  return value == nullptr ? std::string_view() : value->bytes();
}

std::expected<Rendered, TemplateError> render(const std::string& source, std::span<const Variable> variables,
                                              Heap& heap) {
  const auto parsed = Template::parse(source);
  if (!parsed) return std::unexpected(parsed.error());
  return parsed->render(heap, variables, golden_clock());
}

// Variables are named by the keys of a dict.
std::vector<Variable> variables_of(const Value& dict) {
  std::vector<Variable> variables;
  for (const Dict::Entry& entry : dict.as_dict().entries) variables.push_back({entry.key.bytes(), entry.value});
  return variables;
}

bool is_expected_error(std::string_view wanted, TemplateErrorKind kind) {
  if (wanted == "failed") return kind != TemplateErrorKind::raised;
  const bool may_be_value = wanted == "runtime" || wanted == "forbidden";
  return to_string(kind) == wanted || (may_be_value && kind == TemplateErrorKind::value);
}

// Only the words of raise_exception are the same in both programs.
void expect_same_message(const Value& row, const TemplateError& error) {
  if (error.kind != TemplateErrorKind::raised) return;
  EXPECT_EQ(error.message, field(row, "message"));
}

TEST(TemplateGolden, SnippetsOfTheLanguage) {
  TESSERA_SHARED_OR_SKIP(path, "golden/templates/expressions.jsonl");
  const std::vector<std::string> lines = lines_of(path);
  ASSERT_EQ(lines.size(), 173u);
  for (size_t i = 1; i < lines.size(); ++i) {
    Heap heap;
    const Value variables = *parse(heap, lines[0]).as_dict().find("variables");
    const Value row = parse(heap, lines[i]);
    const std::string source(field(row, "template"));
    const auto rendered = render(source, variables_of(variables), heap);
    if (row.as_dict().find("result") != nullptr) {
      EXPECT_TRUE(rendered.has_value()) << source << "\n" << (rendered ? "" : rendered.error().text());
      EXPECT_EQ(rendered ? rendered->prompt.text : "", field(row, "result")) << source;
      continue;
    }
    EXPECT_FALSE(rendered.has_value()) << source;
    if (rendered) continue;
    EXPECT_TRUE(is_expected_error(field(row, "error"), rendered.error().kind))
        << source << "\nwant " << field(row, "error") << ", got " << to_string(rendered.error().kind) << ": "
        << rendered.error().text();
    expect_same_message(row, rendered.error());
    const Value* line = row.as_dict().find("line");
    EXPECT_TRUE(line == nullptr || rendered.error().line == to_size(line->as_integer())) << source;
  }
}

TEST(TemplateGolden, RealTemplatesWithConversations) {
  TESSERA_SHARED_OR_SKIP(path, "golden/templates/renders.jsonl");
  TESSERA_SHARED_OR_SKIP(conversations_path, "golden/templates/conversations.json");
  const std::string conversations_json = testing::read_all(conversations_path);
  size_t n_compared = 0;
  for (const std::string& line : lines_of(path)) {
    Heap heap;
    const Value row = parse(heap, line);
    if (row.as_dict().find("adapted") != nullptr) continue;
    const std::string name = std::string(field(row, "template")) + " " + std::string(field(row, "conversation"));
    const std::string source =
        testing::read_all(std::string(path.substr(0, path.rfind('/') + 1)) + std::string(field(row, "template")) + ".jinja");
    const Value conversations = parse(heap, conversations_json);
    const Value* conversation = conversations.as_dict().find(field(row, "conversation"));
    ASSERT_NE(conversation, nullptr) << name;
    std::vector<Variable> variables = variables_of(*conversation);
    if (const Value* others = conversation->as_dict().find("vars")) {
      const std::vector<Variable> more = variables_of(*others);
      variables.insert(variables.end(), more.begin(), more.end());
    }
    variables.push_back({"bos_token", heap.text("<s>")});
    variables.push_back({"eos_token", heap.text("</s>")});
    const auto rendered = render(source, variables, heap);
    ++n_compared;
    if (row.as_dict().find("prompt") != nullptr) {
      EXPECT_TRUE(rendered.has_value()) << name << "\n" << (rendered ? "" : rendered.error().text());
      EXPECT_EQ(rendered ? rendered->prompt.text : "", field(row, "prompt")) << name;
      continue;
    }
    EXPECT_FALSE(rendered.has_value()) << name;
    if (rendered) continue;
    EXPECT_TRUE(is_expected_error(field(row, "error"), rendered.error().kind)) << name << rendered.error().text();
    expect_same_message(row, rendered.error());
  }
  EXPECT_GT(n_compared, 900u);
}

}  // namespace
}  // namespace tessera::text::jinja
