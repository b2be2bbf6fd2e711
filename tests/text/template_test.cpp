// The template language: snippets with the results of Jinja2 (scripts/generate_template_snippets.py), the rules where
// tessera is kinder or stricter, and places of errors.
#include <gtest/gtest.h>

#include "tests/text/template_snippets.h"

namespace tessera::text::jinja {
namespace {

using testing::render_source;

TEST(Template, SnippetsGiveWhatJinja2Gives) {
  const std::tm now = testing::clock_at(2027, 3, 4, 15, 6, 7);  // of scripts/generate_template_snippets.py
  EXPECT_GT(testing::expect_rows(testing::data_path("templates/snippets.jsonl"), now), 250u);
}

std::string render(const std::string& source) {
  Heap heap;
  const auto rendered = render_source(source, {}, heap);
  return rendered ? rendered->prompt.text : "error: " + rendered.error().text();
}

struct Case {
  std::string source;
  std::string wanted;
};

TEST(Template, IsKinderThanPythonWhereTemplatesNeedIt) {
  const Case cases[] = {
      {"{{ 'a' + none }}{{ none + 'b' }}{{ 'c' + x }}{{ x + 'd' }}", "abcd"},
      {"{% set l = [1] %}{% set _ = l.append(2) %}{% set _ = l.extend([3, 4]) %}{% set _ = l.insert(0, 0) %}{{ l }}",
       "[0, 1, 2, 3, 4]"},
      {"{% set l = [1, 2, 3] %}{{ l.pop() }}{{ l.pop(0) }}{{ l }}{% set _ = l.insert(-1, 9) %}{{ l }}{% set _ = "
       "l.insert(99, 8) %}{{ l }}",
       "31[2][9, 2][9, 2, 8]"},
      {"{% set l = [1, 2] %}{% set _ = l.insert(-1, 9) %}{% set _ = l.insert(-9, 8) %}{{ l }}", "[8, 1, 9, 2]"},
      {"{% set l = [1] %}{{ l.append(l) is none }}{{ l|length }}", "True2"},
      {"{{ x|tojson }} {{ [x]|tojson }} {{ {'a': x}|tojson }}", "null [null] {\"a\": null}"},
      {"{{ [1]|map('string')|tojson }} {{ range(2)|tojson }}", "[\"1\"] [0, 1]"},
      {"{{ '<'|safe + '>' }}{{ ('<'|e) + '<' }}", "<>&lt;<"},
      {"{{ ('{\"a\": [1, 2.5, null, true, \"x\"]}'|from_json).a }}", "[1, 2.5, None, True, 'x']"},
      {"{{ [{}]|map(attribute='a.b.c')|list }}", "[Undefined]"},
      {"{{ '9223372036854775807'|from_json }} {{ '9223372036854775808'|from_json }}",
       "9223372036854775807 9.223372036854776e+18"},
      {"{{ [1, 2]|select('odd') }}", "[1]"},
      {"{{ '12'|int(7, 40) }} {{ '12'|int(7, 1) }} {{ '11'|int(7, 2) }} {{ '0x1f'|int(7, 0) }}", "7 7 3 31"},
  };
  for (const Case& c : cases) EXPECT_EQ(render(c.source), c.wanted) << c.source;
}

TEST(Template, RefusesWithAPlaceAndWords) {
  const Case cases[] = {
      {"{{ 9223372036854775808 }}", "1:4: number out of range"},
      {"{{ 9223372036854775807 + 1 }}", "1:24: number out of range"},
      {"{{ -9223372036854775807 - 2 }}", "1:25: number out of range"},
      {"{{ 4611686018427387904 * 2 }}", "1:24: number out of range"},
      {"{{ 2 ** 63 }}", "1:6: number out of range"},
      {"{{ (-9223372036854775807 - 1) // -1 }}", "1:31: number out of range"},
      {"{{ -(-9223372036854775807 - 1) }}", "1:4: number out of range"},
      {"{{ '99999999999999999999'|int }}", "1:27: int: number out of range"},
      {"a\nbé{{ x.y }}", "2:8: 'x' is undefined"},
      {"{{ x() }}", "1:5: 'x' is undefined"},
      {"{{ {}.a.b }}", "1:9: 'a' is undefined"},
      {"{{ ''.__class__ }}", "1:7: member '__class__' is forbidden"},
      {"{{ ''|attr('__x') }}", "1:7: member '__x' is forbidden"},
      {"{{ [1].sort() }}", "1:8: method 'sort' of list is forbidden"},
      {"{{ 'a'.format_map({}) }}", "1:8: method 'format_map' of text is forbidden"},
      {"{{ '{0.x}'.format(1) }}", "1:18: member or index in field \"0.x\" is forbidden"},
      {"{{ 1 + 'a' }}", "1:6: cannot add integer and text"},
      {"{{ none < 1 }}", "1:9: cannot compare none and integer"},
      {"{% for x in 5 %}{% endfor %}", "1:4: integer has no elements to iterate over"},
      {"{{ 'a'|round }}", "1:8: round: text is not a number"},
      {"{{ [1]|join(1, 2, 3) }}", "1:8: join: takes 2 arguments, got 3"},
      {"{{ [1]|join(x=1) }}", "1:8: join: no parameter \"x\""},
      {"{{ [1]|join('-', d='+') }}", "1:8: join: second value for argument 'd'"},
      {"{{ [1]|map }}", "1:8: map: neither the name of a filter nor an attribute"},
      {"{{ [1]|map('nope') }}", "1:8: map: unknown filter 'nope'"},
      {"{{ [1]|select('nope') }}", "1:8: select: unknown test 'nope'"},
      {"{{ '\\u00", "1:5: escape '\\u' is not a character"},
      {"{{ '\\1", "1:4: string without closing quote"},
      {"{% include 'x' %}", "1:4: 'include' is not available to chat templates"},
      {"{% if x %}\n{% for %}", "2:8: unexpected '%}', want the name of a variable"},
      {"{{ strftime_now('%Q') }}", "1:16: unknown conversion \"%Q\" in a date format"},
      {"{{ strftime_now('a%') }}", "1:16: unknown conversion \"%\" in a date format"},
      {"{{ '{'|from_json }}", "1:8: from_json: not JSON: error at byte 1"},
      {"{% set x.y = 1 %}", "1:8: cannot set a member of undefined, want a namespace"},
      {"{{ loop(1) }}", "1:8: 'loop' is undefined"},
      {"{% for x in [1] %}{{ loop([]) }}{% endfor %}", "1:26: loop() in a loop that is not recursive"},
      {"{{ 1 is divisibleby('a') }}", "1:6: divisibleby: argument is text, want integer"},
      {"{% for x in [1] recursive %}{{ loop() }}{% endfor %}", "1:36: loop() takes 1 argument"},
      {"{% for x in [1] recursive %}{{ loop([], a=1) }}{% endfor %}", "1:36: loop() takes 1 argument"},
      {"{% if 1 %}{{ 'a'|nope }}{% endif %}", "1:18: unknown filter \"nope\""},
      {"{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "1:35: macro 'f' takes 1 arguments, got 2"},
      {"{{ [1][:x] }}", "1:7: 'x' is undefined"},
  };
  for (const Case& c : cases) EXPECT_EQ(render(c.source), "error: template: " + c.wanted) << c.source;
}

TEST(Template, RaisedMessagesStandAlone) {
  Heap heap;
  const auto rendered = render_source("\n {{ raise_exception('Roles must alternate') }}", {}, heap);
  ASSERT_FALSE(rendered.has_value());
  EXPECT_EQ(rendered.error().text(), "Roles must alternate");
  EXPECT_EQ(rendered.error().kind, TemplateErrorKind::raised);
  EXPECT_EQ(rendered.error().line, 2u);
  EXPECT_EQ(rendered.error().column, 20u);
}

TEST(Template, QuotesTheLineOfAnError) {
  const auto parsed = Template::parse("one\n  {{ é|nope }} rest\nthree");
  ASSERT_FALSE(parsed.has_value());
  EXPECT_EQ(quote_source("one\n  {{ é|nope }} rest\nthree", parsed.error()), "  {{ é|nope }} rest\n       ^\n");
  const std::string far = std::string(200, 'x') + "{{ a b }}" + std::string(200, 'y');
  const auto long_line = Template::parse(far);
  ASSERT_FALSE(long_line.has_value());
  EXPECT_EQ(quote_source(far, long_line.error()),
            std::string(55, 'x') + "{{ a b }}" + std::string(16, 'y') + "\n" + std::string(60, ' ') + "^\n");
}

TEST(Template, ReportsRangesOfGenerationBlocks) {
  Heap heap;
  const auto rendered = render_source(
      "ab{% generation %}cd{% endgeneration %}e{% generation %}{% endgeneration %}"
      "{% generation %}fg{% endgeneration %}{% set x %}{% generation %}no{% "
      "endgeneration %}{% endset %}",
      {}, heap);
  ASSERT_TRUE(rendered.has_value());
  EXPECT_EQ(rendered->prompt.text, "abcdefg");
  EXPECT_EQ(rendered->generated, (std::vector<ByteRange>{{2, 4}, {5, 7}}));
}

TEST(Template, NamesItsVariablesAndMembers) {
  const auto parsed = Template::parse("{{ tools }}{{ m.thinking }}{{ m['name'] }} functions");
  ASSERT_TRUE(parsed.has_value());
  EXPECT_TRUE(parsed->names_variable("tools"));
  EXPECT_FALSE(parsed->names_variable("functions"));
  EXPECT_TRUE(parsed->names_member("thinking"));
  EXPECT_TRUE(parsed->names_member("name"));
  EXPECT_FALSE(parsed->names_member("m"));
}

TEST(Template, RendersOfOneTemplateAreIndependent) {
  const auto parsed =
      Template::parse("{% set l = [] %}{% set _ = l.append(1) %}{% set ns = namespace(n=x) %}{{ l }}{{ ns.n }}");
  ASSERT_TRUE(parsed.has_value());
  for (int64_t i = 0; i < 3; ++i) {
    Heap heap;
    const Variable x{"x", Value::integer(i)};
    const auto rendered = parsed->render(heap, {&x, 1}, {});
    ASSERT_TRUE(rendered.has_value());
    EXPECT_EQ(rendered->prompt.text, "[1]" + std::to_string(i));
  }
}

}  // namespace
}  // namespace tessera::text::jinja
