// Hostile templates: each ends within the limits, with an error that names the limit.
#include <gtest/gtest.h>

#include "tests/text/template_snippets.h"

namespace tessera::text::jinja {
namespace {

std::string repeated(size_t n, std::string_view part) {
  std::string text;
  for (size_t i = 0; i < n; ++i) text += part;
  return text;
}

void expect_limit(const std::string& source, const std::string& message) {
  Heap heap;
  const auto rendered = testing::render_source(source, {}, heap);
  ASSERT_FALSE(rendered.has_value()) << source.substr(0, 80) << " gave " << rendered->prompt.text.size() << " bytes";
  EXPECT_EQ(rendered.error().kind, TemplateErrorKind::limit) << source.substr(0, 80) << rendered.error().message;
  EXPECT_EQ(rendered.error().message, message) << source.substr(0, 80);
}

TEST(TemplateLimits, SizeOfTheSource) {
  EXPECT_TRUE(Template::parse(std::string(size_t{1} << 20, 'x')).has_value());
  expect_limit(std::string((size_t{1} << 20) + 1, 'x'), "source of 1048577 bytes, limit 1048576");
}

TEST(TemplateLimits, DepthOfBracketsAndStatements) {
  Heap heap;
  const auto deep = testing::render_source("{{ " + repeated(64, "(") + "1" + repeated(64, ")") + " }}", {}, heap);
  EXPECT_EQ(deep ? deep->prompt.text : deep.error().text(), "1");
  expect_limit("{{ " + repeated(65, "(") + "1" + repeated(65, ")") + " }}", "nested deeper than 64");
  expect_limit("{{ " + repeated(100000, "[") + " }}", "nested deeper than 64");
  EXPECT_TRUE(
      testing::render_source(repeated(64, "{% if 1 %}") + "x" + repeated(64, "{% endif %}"), {}, heap).has_value());
  expect_limit(repeated(65, "{% if 1 %}") + "x" + repeated(65, "{% endif %}"), "nested deeper than 64");
}

TEST(TemplateLimits, LongChainsOfOperatorsAreNoDepth) {
  for (const auto& [source, wanted] :
       std::vector<std::pair<std::string, std::string>>{{"{{ " + repeated(20000, "not ") + "1 }}", "True"},
                                                        {"{{ " + repeated(20000, "-") + "1 }}", "1"},
                                                        {"{{ 1" + repeated(20000, " + 1") + " }}", "20001"},
                                                        {"{{ 2" + repeated(20000, " and 2") + " }}", "2"},
                                                        {"{{ " + repeated(20000, "1 if 0 else ") + "2 }}", "2"},
                                                        {"{{ 1" + repeated(20000, " < 2 == 2") + " }}", "False"},
                                                        {"{{ 'a'" + repeated(20000, "|string") + " }}", "a"},
                                                        {"{{ x" + repeated(2000, " ~ x") + " }}", ""}}) {
    Heap heap;
    const auto rendered = testing::render_source(source, {}, heap);
    EXPECT_EQ(rendered ? rendered->prompt.text : rendered.error().text(), wanted) << source.substr(0, 40);
  }
}

TEST(TemplateLimits, Steps) {
  const std::string message = "more than 1000000 steps";
  expect_limit("{% for i in range(1000) %}{% for j in range(1000) %}{% endfor %}{% endfor %}", message);
  expect_limit("{% set t = 'x' * 8000000 %}{% for i in range(1000) %}{{ t == t ~ '' }}{% endfor %}", message);
  expect_limit("{% set t = 'x' * 8000000 %}{% for i in range(100000) %}{{ 'y' in t }}{% endfor %}", message);
  expect_limit("{% set t = 'x' * 4000000 %}{% for i in range(100000) %}{% set y = t.upper() %}{% endfor %}", message);
  expect_limit("{% set l = [1] * 500000 %}{% set m = l + [2] %}{{ l == m }}{{ 3 in l }}{{ 3 in m }}", message);
  expect_limit("{% set ns = namespace(l=[]) %}{% for i in range(400000) %}{% set ns.l = [ns.l] %}{% endfor %}",
               message);
  expect_limit("{% set l = [1] %}{% set _ = l.append(l) %}{{ l == l.copy() }}", message);
}

TEST(TemplateLimits, BytesOfText) {
  const std::string message = "text above 8 MiB";
  expect_limit("{{ 'x' * 8388609 }}", message);
  expect_limit("{{ 'x' * 9223372036854775807 }}", message);
  expect_limit("{% set ns = namespace(t='xxxxxxxx') %}{% for i in range(99) %}{% set ns.t = ns.t + ns.t %}{% endfor %}",
               message);
  expect_limit("{% set t = 'x' * 1000000 %}{% for i in range(99) %}{{ t }}{% endfor %}", message);
  expect_limit("{% set t = 'x' * 1000000 %}{% set y %}{% for i in range(99) %}{{ t }}{% endfor %}{% endset %}",
               message);
  expect_limit("{{ 'x'|center(9000000000) }}", message);
  expect_limit("{{ 'x'.ljust(9000000000) }}", message);
  expect_limit("{{ 'x'.zfill(9000000000) }}", message);
  expect_limit("{{ 'x\ny'|indent(9000000000) }}", message);
  expect_limit("{{ '%9000000000d' % 1 }}", message);
  expect_limit("{{ '{:9000000000}'.format(1) }}", message);
  expect_limit("{{ [1, 2]|tojson(indent=9000000000) }}", message);
  expect_limit("{{ ('x' * 4000000)|replace('x', 'yyy') }}", "more than 1000000 steps");
  expect_limit("{{ ('x' * 4000)|replace('x', 'y' * 4000) }}", message);
  expect_limit("{{ ['x' * 4000] * 4000 }}", message);
  expect_limit("{{ (['x' * 4000] * 4000)|join }}", message);
  expect_limit("{% set l = ['x' * 4000] %}{% set _ = l.append(l) %}{{ l }}", message);
}

TEST(TemplateLimits, NumberOfValues) {
  const std::string message = "more than 1048576 values";
  expect_limit("{{ range(10000000000) }}", message);
  expect_limit("{{ [0] * 9223372036854775807 }}", message);
  expect_limit("{{ [1, 2] * 4611686018427387905 }}", message);
  expect_limit("{{ 'x'|batch(9000000000, 'y') }}", message);
  expect_limit("{{ 'x'|slice(9000000000) }}", message);
  Heap heap;
  EXPECT_EQ(
      testing::render_source("{{ [] * 9223372036854775807 }}{{ range(0, -10000000000)|list }}", {}, heap)->prompt.text,
      "[][]");
}

TEST(TemplateLimits, DepthOfCalls) {
  const std::string message = "calls nested deeper than 64";
  expect_limit("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", message);
  expect_limit("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", message);
  expect_limit("{{ 'a'|map(" + repeated(100, "'map', ") + "'list') }}", message);
  Heap heap;
  const std::string count = "{% macro f(n) %}{% if n > 1 %}{{ f(n - 1) }}{% endif %}.{% endmacro %}{{ f(64) }}";
  EXPECT_EQ(testing::render_source(count, {}, heap)->prompt.text, std::string(64, '.'));
}

TEST(TemplateLimits, ManyVariablesInOneScopeAreSteps) {
  std::string source = "{% for i in range(1000) %}";
  for (int i = 0; i < 20000; ++i) source += "{% set v" + std::to_string(i) + "=1 %}";
  expect_limit(source + "{% endfor %}", "more than 1000000 steps");
}

TEST(TemplateLimits, TextsThatAreSlowForNaiveSearchAreFast) {
  Heap heap;
  const std::string source =
      "{% set t = 'a' * 4000000 %}{% set p = 'a' * 2000000 ~ 'b' %}{{ p in t }}{{ t.find(p) }}{{ t.rfind('b' ~ p) }}"
      "{{ t.split(p)|length }}{{ t.count(p) }}{{ t.rsplit(p)|length }}{{ t.partition(p)|length }}";
  const auto rendered = testing::render_source(source, {}, heap);
  EXPECT_EQ(rendered ? rendered->prompt.text : rendered.error().text(), "False-1-11013");
}

TEST(TemplateLimits, SourcesThatAreNoTextAreRefused) {
  const auto parsed = Template::parse("a\xff");
  ASSERT_FALSE(parsed.has_value());
  EXPECT_EQ(parsed.error().message, "source is not valid UTF-8");
}

}  // namespace
}  // namespace tessera::text::jinja
