// Reply families found from the calls of unknown templates: an invented template for each shape of calls.
#include <gtest/gtest.h>

#include "tessera/text/chat/chat_template.h"
#include "tessera/text/chat/sample_diff.h"
#include "tests/text/reply_texts.h"

namespace tessera::text {
namespace {

using testing::calls_of;
using testing::parse_reply;

// A template of the form <|role|>content, calls, <|fin|>. `call` is the text of a call, in which NAME, ARGS and ID are
// places; `before`, `between` and `after` stand around all calls.
struct CallTexts {
  std::string call;
  std::string before{};
  std::string between{};
  std::string after{};
};

std::string source_of(const CallTexts& texts) {
  std::string call = texts.call;
  const auto fill = [&](std::string_view place, std::string_view with) {
    for (size_t at = call.find(place); at != std::string::npos; at = call.find(place, at + with.size()))
      call.replace(at, place.size(), with);
  };
  fill("NAME", "{{ f.name }}");
  fill("ARGS", "{{ f.arguments|tojson }}");
  fill("ID", "{{ c.id }}");
  return "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% if m.tool_calls %}" + texts.before +
         "{% for c in m.tool_calls %}{% set f = c.function %}" + call + "{% if not loop.last %}" + texts.between +
         "{% endif %}{% endfor %}" + texts.after + "{% endif %}<|fin|>{% endfor %}";
}

ReplyFamily family_of(const std::string& source) {
  auto created = ChatTemplate::create(source, {.bos = "<s>", .eos = "</s>"});
  if (!created) ADD_FAILURE() << created.error().text();
  return created ? created->reply_family() : ReplyFamily{};
}

// The reply as "content|calls", parsed with the family of a template. A template that was not recognised gives its
// name.
std::string parsed(const std::string& source, std::string_view shape, std::string_view reply) {
  const ReplyFamily family = family_of(source);
  if (family.name != "probed: " + std::string(shape)) return family.name;
  const Reply result = parse_reply({.family = family, .tools = testing::reply_tools()}, reply);
  return result.content + "|" + calls_of(result) + (result.warnings.empty() ? "" : "|" + result.warnings.front());
}

TEST(FamilyProbe, ObjectsWithTheNameAreOfShapeJson) {
  const std::string own_keys = source_of({"\n<do>{\"fn\": \"NAME\", \"input\": ARGS}</do>"});
  EXPECT_EQ(
      parsed(own_keys, "json",
             "Sure.\n<do>{\"fn\": \"note\", \"input\": {\"n\": 3}}</do>\n<do>{\"fn\": \"ping\", \"input\": {}}</do>"),
      "Sure.|note({\"n\": 3}) ping({})");
  const std::string list = source_of({"{\"id\": \"ID\", \"tool\": \"NAME\", \"args\": ARGS}", "CALLS [", ", ", "]"});
  EXPECT_EQ(
      parsed(list, "json", "CALLS [{\"tool\": \"ping\", \"args\": {}}, {\"tool\": \"note\", \"args\": {\"n\": 3}}]"),
      "|ping({}) note({\"n\": 3})");
  EXPECT_EQ(family_of(list).id_key, "id");
  const std::string nested =
      source_of({"<c>{\"type\": \"function\", \"function\": {\"arguments\": ARGS, \"name\": \"NAME\"}}</c>"});
  EXPECT_EQ(parsed(nested, "json",
                   "<c>{\"type\": \"function\", \"function\": {\"arguments\": {\"n\": 3}, \"name\": \"note\"}}</c>"),
            "|note({\"n\": 3})");
}

TEST(FamilyProbe, ObjectsWithoutMarksMustNameAKnownTool) {
  const std::string bare = source_of({"{\"action\": \"NAME\", \"kind\": \"call\", \"input\": ARGS}"});
  EXPECT_EQ(parsed(bare, "json", R"({"action": "note", "kind": "call", "input": {"n": 3}})"), "|note({\"n\": 3})");
  EXPECT_EQ(parsed(bare, "json", R"({"action": "other", "kind": "call", "input": {}})"),
            R"({"action": "other", "kind": "call", "input": {}}|)");
  EXPECT_EQ(parsed(bare, "json", R"({"action": "note", "x": 1})"), R"({"action": "note", "x": 1}|)");
  const std::string bare_list = source_of({"{\"action\": \"NAME\", \"input\": ARGS}", "[", ", ", "]"});
  EXPECT_EQ(parsed(bare_list, "json", R"([{"action": "ping", "input": {}}, {"action": "note", "input": {}}])"),
            "|ping({}) note({})");
}

TEST(FamilyProbe, ObjectsWhoseKeyIsTheNameAreOfShapeKeyJson) {
  const std::string source = source_of({"{\"NAME\": ARGS}", "<use>[", ", ", "]</use>"});
  EXPECT_EQ(parsed(source, "key-json", "Now <use>[{\"note\": {\"n\": 3}}, {\"ping\": {}}]</use>"),
            "Now|note({\"n\": 3}) ping({})");
}

TEST(FamilyProbe, ObjectsBehindTheNameAreOfShapeTaggedJson) {
  const std::string marked = source_of({"<|call|>NAME<|with|>ARGS<|done|>", "<|calls|>", "\n", "<|all done|>"});
  EXPECT_EQ(parsed(marked, "tagged-json",
                   "So<|calls|><|call|>note<|with|>{\"n\": 3}<|done|>\n<|call|>ping<|with|>{}<|done|><|all done|>"),
            "So|note({\"n\": 3}) ping({})");
  const std::string fenced = source_of({"[RUN]NAME\n```json\nARGS\n```"});
  EXPECT_EQ(parsed(fenced, "tagged-json", "[RUN]note\n```json\n{\"n\": 3}\n```[RUN]ping\n```json\n{}\n```"),
            "|note({\"n\": 3}) ping({})");
  const std::string named = source_of({"<tool name=\"NAME\">ARGS</tool>"});
  EXPECT_EQ(parsed(named, "tagged-json", "<tool name=\"ping\">{}</tool>"), "|ping({})");
}

// The calls with their ids, as "name(arguments)id".
std::string parsed_with_id(const std::string& source, std::string_view reply) {
  const Reply result = parse_reply({.family = family_of(source), .tools = testing::reply_tools()}, reply);
  return calls_of(result) + (result.calls.empty() ? "" : result.calls.front().id);
}

TEST(FamilyProbe, IdsAreRead) {
  EXPECT_EQ(parsed_with_id(source_of({"<c id=\"ID\">NAME:ARGS</c>"}), "<c id=\"x7\">ping:{}</c>"), "ping({})x7");
  EXPECT_EQ(parsed_with_id(source_of({"[C]NAME[NR]ID[WITH]ARGS"}), "[C]ping[NR]x7[WITH]{}"), "ping({})x7");
  EXPECT_EQ(family_of(source_of({"[C]NAME[ID-IS]ID[WITH]ARGS"})).name, "generic")
      << "an id that stands twice is in a mark";
  // A template may count its calls.
  const std::string counting =
      source_of({"<c>{\"call_id\": \"{{ loop.index0 }}\", \"name\": \"NAME\", \"arguments\": ARGS}</c>"});
  EXPECT_EQ(parsed_with_id(counting, "<c>{\"call_id\": \"3\", \"name\": \"ping\", \"arguments\": {}}</c>"),
            "ping({})3");
}

// Marks that count the calls are those of the first call.
TEST(FamilyProbe, OneCallIsReadWhereTwoAreNot) {
  EXPECT_EQ(parsed(source_of({"[C]NAME:{{ loop.index0 }}[A]ARGS"}), "tagged-json", "[C]ping:0[A]{}"), "|ping({})");
}

TEST(FamilyProbe, ASectionMayEndOnlyBehindTwoCalls) {
  const std::string source = source_of({"<c>NAME:ARGS</c>", "<all>", "", "{{ '</all>' if m.tool_calls|length > 1 }}"});
  EXPECT_EQ(parsed(source, "tagged-json", "<all><c>ping:{}</c><c>ping:{}</c></all>"), "|ping({}) ping({})");
}

// A call with a text around each argument. KEY and VALUE are places, VALUE as text.
std::string with_arguments(const std::string& begin, std::string argument, const std::string& end) {
  argument.replace(argument.find("VALUE"), 5, "{{ v if v is string else v|tojson }}");
  for (size_t at = argument.find("KEY"); at != std::string::npos; at = argument.find("KEY"))
    argument.replace(at, 3, "{{ k }}");
  return source_of({begin + "{% for k, v in f.arguments.items() %}" + argument + "{% endfor %}" + end});
}

TEST(FamilyProbe, MarksAroundEachArgumentAreOfShapeTaggedArgs) {
  EXPECT_EQ(parsed(with_arguments("<act:NAME>", "<KEY>VALUE</KEY>", "</act>"), "tagged-args",
                   "Now.<act:note><text> a\n</text><n>3</n></act><act:ping></act>"),
            "Now.|note({\"text\": \" a\\n\", \"n\": 3}) ping({})");
  EXPECT_EQ(parsed(with_arguments("[DO NAME]\n", "[SET KEY]\nVALUE\n[/SET]\n", "[/DO]\n"), "tagged-args",
                   "[DO note]\n[SET text]\na\nb\n[/SET]\n[SET n]\n3\n[/SET]\n[/DO]\n[DO ping]\n[/DO]\n"),
            "|note({\"text\": \"a\\nb\", \"n\": 3}) ping({})");
  EXPECT_EQ(parsed(with_arguments("<act>NAME\n", "<k>KEY</k>\n<v>VALUE</v>\n", "</act>"), "tagged-args",
                   "<act>note\n<k>text</k>\n<v>a</v>\n</act>"),
            "|note({\"text\": \"a\"})");
}

TEST(FamilyProbe, MarksThatStateTheTypeOfAnArgumentAreRead) {
  const std::string typed =
      with_arguments("<act:NAME>", "<set KEY as {{ 'text' if v is string else 'json' }}>VALUE</set>", "</act>");
  EXPECT_EQ(parsed(typed, "tagged-args", "<act:note><set any as text>null</set><set n as json>3</set></act>"),
            "|note({\"any\": \"null\", \"n\": 3})");
  std::string quoted = with_arguments("<act:NAME>", "<KEY>VALUE</KEY>", "</act>");
  const std::string as_text = "v if v is string else v|tojson";
  quoted.replace(quoted.find(as_text), as_text.size(), "v|tojson");
  EXPECT_EQ(parsed(quoted, "tagged-args", "<act:note><any>\"a\"</any><n>3</n></act>"),
            "|note({\"any\": \"a\", \"n\": 3})");
}

TEST(FamilyProbe, CallsThatLookLikeFunctionsAreRead) {
  const std::string python = source_of(
      {"NAME({% for k, v in f.arguments.items() %}{{ k }}={{ \"'\" + v + \"'\" if v is string else v }}{{ ', ' if not "
       "loop.last }}{% endfor %})",
       "@@[", ", ", "]@@"});
  EXPECT_EQ(parsed(python, "python", "@@[note(text='a', n=3), ping()]@@"),
            "|note({\"text\": \"a\", \"n\": 3}) ping({})");
  const std::string gemma = source_of(
      {"<f>NAME{{ '{' }}{% for k, v in f.arguments.items() %}{{ k }}:{{ '<|\"|>' + v + '<|\"|>' if v is string else v "
       "}}{{ ',' if not loop.last }}{% endfor %}}</f>"});
  EXPECT_EQ(parsed(gemma, "gemma", "<f>note{text:<|\"|>a<|\"|>,n:3}</f>"), "|note({\"text\": \"a\", \"n\": 3})");
}

TEST(FamilyProbe, TheSourceDecidesTheMarksOfReasoning) {
  const ReplyFamily family =
      family_of("{# [THINK] [/THINK] #}" + source_of({"<do>{\"name\": \"NAME\", \"arguments\": ARGS}</do>"}));
  EXPECT_EQ(family.name, "probed: json");
  const Reply reply = parse_reply({.family = family, .tools = testing::reply_tools()},
                                  "[THINK]Hm.[/THINK]<do>{\"name\": \"ping\"}</do>");
  EXPECT_EQ(reply.reasoning, "Hm.");
  EXPECT_EQ(calls_of(reply), "ping({})");
}

// Empty reasoning before a call, and another end of the turn behind it, are no marks of the call.
TEST(FamilyProbe, TheTurnAroundACallIsNoMark) {
  std::string source = source_of({"<do>{\"name\": \"NAME\", \"arguments\": ARGS}</do>"});
  source.replace(source.find("{{ m.content }}"), 15, "{% if m.tool_calls %}<think></think>{% endif %}{{ m.content }}");
  source.replace(source.find("<|fin|>"), 7, "{{ '<|fin-call|>' if m.tool_calls else '<|fin|>' }}{{ eos_token }}");
  const ReplyFamily family = family_of(source);
  EXPECT_EQ(family.call_begin, "<do>");
  EXPECT_EQ(family.call_end, "</do>");
  EXPECT_EQ(family.stray_marks, Marks{"<|fin-call|>"});
}

TEST(FamilyProbe, AHeaderOfAnswersWithCallsIsNoMark) {
  std::string source = source_of({"<do>{\"name\": \"NAME\", \"arguments\": ARGS}</do>"});
  source.replace(source.find("{{ m.content }}"), 15, "{{ '<|with calls|>' if m.tool_calls }}{{ m.content }}");
  EXPECT_EQ(family_of(source).call_begin, "<do>");
  std::string thinking = source_of({"<do>{\"name\": \"NAME\", \"arguments\": ARGS}</do>"});
  thinking.replace(thinking.find("{{ m.content }}"), 15, "{{ '<think></think>' if m.tool_calls else m.content }}");
  EXPECT_EQ(family_of(thinking).call_begin, "<do>");
}

TEST(FamilyProbe, KnownFamiliesAreNotProbed) {
  EXPECT_EQ(family_of("{# <tool_call> #}" + source_of({"<do>{\"name\": \"NAME\", \"arguments\": ARGS}</do>"})).name,
            "hermes");
}

TEST(FamilyProbe, CallsThatNoParserReadsAreGeneric) {
  EXPECT_EQ(
      family_of(source_of({"I call NAME with {% for k, v in f.arguments.items() %}{{ k }} of {{ v }} {% endfor %}"}))
          .name,
      "generic");
  EXPECT_EQ(family_of(source_of({"NAME ARGS"})).name, "generic");
  EXPECT_EQ(family_of(source_of({"<c>{\"name\": \"NAME\", \"arguments\": {\"of\": ARGS}}</c>"})).name, "generic");
  const std::string long_mark = "<" + std::string(300, 'x') + ">";
  EXPECT_EQ(family_of(source_of({long_mark + "{\"name\": \"NAME\", \"arguments\": ARGS}"})).name, "generic");
  EXPECT_EQ(family_of("{{ 'x ' * 40000 }}" + source_of({"<do>{\"name\": \"NAME\", \"arguments\": ARGS}</do>"})).name,
            "generic");
  EXPECT_EQ(family_of(with_arguments("<act:NAME>", "<KEY>VALUE</KEY>", "")).name, "generic") << "a call without an end";
  const std::string uneven = with_arguments("<act:NAME>", ";KEY{{ '\n' if v is string }}VALUE\n", "</act>");
  EXPECT_EQ(family_of(uneven).name, "generic") << "names and numbers without a mark between them";
  EXPECT_EQ(family_of("{% for m in messages %}{{ m.content }}{% endfor %}").name, "generic");
}

TEST(SampleDiff, CommonTextsEndAtWordsAndMarks) {
  EXPECT_EQ(common_front("ab cd", "ab ce"), 3u);
  EXPECT_EQ(common_front("x<|a|>", "x<|b|>"), 1u);
  EXPECT_EQ(common_front("x[A B]", "x[A C]"), 1u);
  EXPECT_EQ(common_front("<a>b", "<a>c"), 3u);
  EXPECT_EQ(common_front("same", "same"), 4u);
  EXPECT_EQ(common_front("", "a"), 0u);
  EXPECT_EQ(common_front("é1", "é2"), 0u);
  EXPECT_EQ(common_back("<a></b>", "<c></b>"), 4u);
  EXPECT_EQ(common_back("1</a>", "2<a>"), 0u);
  EXPECT_EQ(common_back("x end", "y bend"), 0u);
  EXPECT_EQ(common_back("x end", "y end"), 4u);
  EXPECT_EQ(common_back("end", "x end"), 3u);
  EXPECT_EQ(common_front("a < b c", "a < b d"), 6u) << "a bracket that does not close is no mark";
  EXPECT_EQ(common_front("a <b c <d>", "a <b e <d>"), 5u);
}

}  // namespace
}  // namespace tessera::text
