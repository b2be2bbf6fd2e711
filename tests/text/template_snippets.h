// Rows of snippets of the template language with their results: tests/data/templates and the golden data.
#pragma once

#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include "tessera/base/index.h"
#include "tessera/text/chat/value_tools.h"
#include "tessera/text/template/json_reader.h"
#include "tessera/text/template/template.h"
#include "tests/support/testing.h"

namespace tessera::testing {

inline std::vector<std::string> lines_of(const std::string& path) {
  std::vector<std::string> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

/// A time for templates: month and day from 1.
inline std::tm clock_at(int year, int month, int day, int hour, int minute, int second) {
  std::tm time{};
  time.tm_year = year - 1900;
  time.tm_mon = month - 1;
  time.tm_mday = day;
  time.tm_hour = hour;
  time.tm_min = minute;
  time.tm_sec = second;
  ::timegm(&time);  // fills in the day of the week and of the year
  return time;
}

/// Parses JSON that a test knows to be valid.
inline text::jinja::Value json_value(text::jinja::Heap& heap, std::string_view json) {
  auto parsed =
      text::jinja::parse_json(heap, json, text::Origin::given, {.max_depth = 128, .max_values = size_t{1} << 22});
  EXPECT_TRUE(parsed.has_value()) << (parsed ? "" : parsed.error().message());
  return parsed ? parsed->value : text::jinja::Value::none();
}

/// Variables named by the keys of a dict.
inline std::vector<text::jinja::Variable> variables_of(const text::jinja::Value& dict) {
  std::vector<text::jinja::Variable> variables;
  for (const auto& entry : dict.as_dict().entries) variables.push_back({entry.key.bytes(), entry.value});
  return variables;
}

using RenderResult = std::expected<text::jinja::Rendered, text::jinja::TemplateError>;

inline RenderResult render_source(const std::string& source, std::span<const text::jinja::Variable> variables,
                                  text::jinja::Heap& heap, const std::tm& now = {}) {
  const auto parsed = text::jinja::Template::parse(source);
  if (!parsed) return std::unexpected(parsed.error());
  return parsed->render(heap, variables, now);
}

/// Expects the result or the error of a row. An error of Python's runtime may be one of values here.
inline void expect_row(const text::jinja::Value& row, const RenderResult& rendered) {
  using text::text_member;
  const std::string source(text_member(row, "template"));
  const std::string_view error = text_member(row, "error");
  if (error.empty()) {
    EXPECT_TRUE(rendered.has_value()) << source << "\n" << (rendered ? "" : rendered.error().text());
    EXPECT_EQ(rendered ? rendered->prompt.text : "", text_member(row, "result")) << source;
    return;
  }
  EXPECT_FALSE(rendered.has_value()) << source << "\n" << (rendered ? rendered->prompt.text : "");
  if (rendered) return;
  const std::string_view kind = to_string(rendered.error().kind);
  const bool may_be_value = error == "runtime" || error == "forbidden";
  EXPECT_TRUE(kind == error || (may_be_value && kind == "value"))
      << source << "\nwant " << error << ", got " << kind << ": " << rendered.error().text();
  if (error == "raised") {
    EXPECT_EQ(rendered.error().message, text_member(row, "message"));
  }
  const text::jinja::Value line = text::member_of(row, "line");
  EXPECT_TRUE(line.is_missing() || rendered.error().line == to_size(line.as_integer())) << source;
}

/// Checks a file whose first line has the variables and whose other lines are rows. Returns the number of rows.
inline size_t expect_rows(const std::string& path, const std::tm& now) {
  const std::vector<std::string> lines = lines_of(path);
  for (size_t i = 1; i < lines.size(); ++i) {
    text::jinja::Heap heap;
    const text::jinja::Value row = json_value(heap, lines[i]);
    const text::jinja::Value variables = text::member_of(json_value(heap, lines[0]), "variables");
    expect_row(row, render_source(std::string(text::text_member(row, "template")), variables_of(variables), heap, now));
  }
  return lines.size() - 1;
}

}  // namespace tessera::testing
