// The parts below the reply parser: JSON in pieces, views of JSON, marks, literals, nested tags, schemas of tools.
#include <gtest/gtest.h>

#include "tessera/text/chat/json_reader.h"
#include "tessera/text/chat/json_view.h"
#include "tessera/text/chat/literal_reader.h"
#include "tessera/text/chat/mark_set.h"
#include "tessera/text/chat/nested_tags.h"
#include "tessera/text/chat/tool_set.h"
#include "tests/support/testing.h"

namespace tessera::text {
namespace {

// Reads the text whole and byte by byte, and returns the bytes that are part of the value if both agree.
std::string json_read(std::string_view text) {
  JsonReader whole, bytes;
  const JsonProgress progress = whole.read(text);
  size_t n = 0;
  while (n < text.size() && bytes.read(text.substr(n, 1)).n_bytes == 1) ++n;
  EXPECT_EQ(n, progress.n_bytes) << text;
  EXPECT_EQ(whole.is_complete(), bytes.is_complete()) << text;
  return std::string(text.substr(0, n));
}

TEST(JsonReader, ReadsEveryKindOfValue) {
  for (const char* text : {"{}", "[]", "null", "true", "false", "0", "-1", "1.5", "1e9", "1E+9", "-0.25e-3", "\"\"",
                           "\"a\\n\\u00e9\\\"\"", " {\"a\": [1, {\"b\": null}], \"c\": \"d\"}", "[[], {}, [0]]"}) {
    EXPECT_EQ(json_read(text), text);
    EXPECT_TRUE(is_json(text)) << text;
  }
}

TEST(JsonReader, RefusesTheFirstByteThatCannotFollow) {
  EXPECT_EQ(json_read("{\"a\": Urk}"), "{\"a\": ");
  EXPECT_EQ(json_read("{\"a\" 1}"), "{\"a\" ");
  EXPECT_EQ(json_read("{\"a\": 1,}"), "{\"a\": 1,");
  EXPECT_EQ(json_read("{a: 1}"), "{");
  EXPECT_EQ(json_read("[1 2]"), "[1 ");
  EXPECT_EQ(json_read("[1,]"), "[1,");
  EXPECT_EQ(json_read("[1}"), "[1");
  EXPECT_EQ(json_read("{\"a\": 1]"), "{\"a\": 1");
  EXPECT_EQ(json_read("tru "), "tru");
  EXPECT_EQ(json_read("\"a\nb\""), "\"a");
  EXPECT_EQ(json_read("\"\\x\""), "\"\\");
  EXPECT_EQ(json_read("[-]"), "[-");
  EXPECT_EQ(json_read("[1.]"), "[1.");
  EXPECT_EQ(json_read("[01]"), "[0");
  EXPECT_EQ(json_read("[.5]"), "[");
  EXPECT_EQ(json_read("[1e]"), "[1e");
  EXPECT_EQ(json_read("[1e+]"), "[1e+");
  EXPECT_EQ(json_read("[1e5.5]"), "[1e5");
  EXPECT_EQ(json_read("[+1]"), "[");
  EXPECT_EQ(json_read("]"), "");
}

TEST(JsonReader, AValueEndsWithItsLastByte) {
  JsonReader reader;
  const JsonProgress progress = reader.read("{\"a\": \"}\"} x");
  EXPECT_EQ(progress.n_bytes, 10u);
  EXPECT_EQ(progress.state, JsonState::done);
}

TEST(JsonReader, ANumberIsCompleteWhereItMayEnd) {
  EXPECT_TRUE(is_json("12"));
  for (const char* text : {"-", "1.", "1e", "1e-", "", "nul", "\"a"}) EXPECT_FALSE(is_json(text)) << text;
}

TEST(JsonReader, SurrogatesMustBePairs) {
  EXPECT_EQ(json_string("\"\\ud83d\\uDE00\""), "\xF0\x9F\x98\x80");
  for (const char* text : {"\"\\ud83d\"", "\"\\ude00\"", "\"\\ud83dx\"", "\"\\ud83d\\n\"", "\"\\ud83d\\ud83d\"",
                           "\"\\u12g4\"", "\"\\ude001\""})
    EXPECT_FALSE(is_json(text)) << text;
}

TEST(JsonReader, DecodesCodePointsOfEachLength) {
  EXPECT_EQ(json_string("\"\\u0041\\u00e9\\u20ac\\ud834\\udd1e\\/\\b\\f\\r\\t\""),
            "A\xC3\xA9\xE2\x82\xAC\xF0\x9D\x84\x9E/\b\f\r\t");
}

TEST(JsonReader, DecodesTheFirstAndLastCodePointOfEachLength) {
  EXPECT_EQ(json_string("\"\\u007f\\u0080\\u07ff\\u0800\\ud7ff\\ue000\\uffff\\ud800\\udc00\\udbff\\udfff\""),
            "\x7F\xC2\x80\xDF\xBF\xE0\xA0\x80\xED\x9F\xBF\xEE\x80\x80\xEF\xBF\xBF\xF0\x90\x80\x80\xF4\x8F\xBF\xBF");
}

TEST(JsonReader, RefusesMoreThan64Levels) {
  EXPECT_TRUE(is_json(std::string(64, '[') + std::string(64, ']')));
  JsonReader reader;
  EXPECT_EQ(reader.read(std::string(65, '[')).n_bytes, 64u);
  EXPECT_TRUE(reader.is_too_deep());
}

TEST(JsonView, MembersAreViewsWithoutBlanks) {
  const auto members = json_members(" { \"a\" : [1, 2] , \"b\\n\":\"c,}\"} ");
  ASSERT_TRUE(members);
  ASSERT_EQ(members->size(), 2u);
  EXPECT_EQ((*members)[0].key, "a");
  EXPECT_EQ((*members)[0].value, "[1, 2]");
  EXPECT_EQ((*members)[1].key, "b\n");
  EXPECT_EQ((*members)[1].value, "\"c,}\"");
}

TEST(JsonView, ElementsAreInTheirOrder) {
  EXPECT_EQ(json_elements("[1, \"]\",{}]"), (std::vector<std::string_view>{"1", "\"]\"", "{}"}));
  EXPECT_EQ(json_elements("[ ]"), std::vector<std::string_view>());
}

TEST(JsonView, OtherKindsAreRefused) {
  EXPECT_FALSE(json_members("[]"));
  EXPECT_FALSE(json_members("{} x"));
  EXPECT_FALSE(json_elements("{}"));
  EXPECT_FALSE(json_elements("[1"));
  EXPECT_FALSE(json_string("1"));
  EXPECT_FALSE(json_string("\"a\" \"b\""));
  EXPECT_EQ(json_member("[]", "a"), "");
  EXPECT_EQ(json_member("{\"a\": 1}", "b"), "");
}

TEST(MarkSet, TheLongerMarkCounts) {
  MarkSet marks;
  marks.add("<a");
  const size_t longer = marks.add("<a>b");
  EXPECT_EQ(marks.look("<a>b", false).mark, longer);
  EXPECT_EQ(static_cast<int>(marks.look("<a>", false).kind), static_cast<int>(MarkSet::Kind::wait));
  EXPECT_EQ(marks.look("<a>", true).n_bytes, 2u);
  EXPECT_EQ(marks.look("<a>c", false).n_bytes, 2u);
}

TEST(MarkSet, TextGoesUpToThePossibleStartOfAMark) {
  MarkSet marks;
  marks.add("<a>");
  const MarkSet::Look look = marks.look("xy<", false);
  EXPECT_EQ(static_cast<int>(look.kind), static_cast<int>(MarkSet::Kind::text));
  EXPECT_EQ(look.n_bytes, 2u);
  EXPECT_EQ(marks.look("<b<a>", false).n_bytes, 2u);
  EXPECT_EQ(marks.look("<", true).n_bytes, 1u);
}

TEST(MarkSet, AnEmptyMarkMatchesNothing) {
  MarkSet marks;
  marks.add("");
  EXPECT_EQ(marks.look("abc", false).n_bytes, 3u);
}

// Reads a literal byte by byte, with a blank after it, and returns its JSON, or "bad".
std::string literal(LiteralSyntax syntax, std::string text) {
  text += ' ';
  LiteralReader reader(syntax);
  std::string out;
  for (size_t begin = 0, end = 1; begin < text.size();) {
    const auto progress = reader.read(std::string_view(text).substr(begin, end - begin), end == text.size(), out);
    begin += progress.n_bytes;
    if (progress.state == LiteralReader::State::bad) return "bad";
    if (progress.state == LiteralReader::State::done) return begin + 1 == text.size() ? out : out + " too early";
    if (progress.state == LiteralReader::State::wait || begin == end) ++end;
  }
  return "unfinished " + out;
}

std::string python(const std::string& text) { return literal(LiteralSyntax::python, text); }
std::string gemma(const std::string& text) { return literal(LiteralSyntax::gemma, text); }

TEST(Literals, ConstantsOfPythonAndJsonBecomeJson) {
  EXPECT_EQ(python("None"), "null");
  EXPECT_EQ(python("True"), "true");
  EXPECT_EQ(python("False"), "false");
  EXPECT_EQ(python("null"), "null");
  EXPECT_EQ(python("-1.5e3"), "-1.5e3");
  EXPECT_EQ(python("[1,  'a' , {'k':None}]"), "[1, \"a\", {\"k\": null}]");
  EXPECT_EQ(python("{}"), "{}");
  EXPECT_EQ(python("[]"), "[]");
}

TEST(Literals, EscapesOfPythonStringsAreDecoded) {
  EXPECT_EQ(python(R"('it\'s \x41\u00e9\U0001F600\n')"), "\"it's A\xC3\xA9\xF0\x9F\x98\x80\\n\"");
  EXPECT_EQ(python(R"("a\
b")"),
            "\"ab\"");
  EXPECT_EQ(python(R"("\d")"), R"("\\d")");
  EXPECT_EQ(python(R"("\ud800")"), "\"\xEF\xBF\xBD\"");
  EXPECT_EQ(python(R"("\0")"), R"("\u0000")");
  EXPECT_EQ(python("\"a\"b"), "\"a\" too early");
  EXPECT_EQ(python(R"("\xg1")"), "bad");
}

TEST(Literals, ExpressionsAreBad) {
  for (const char* text : {"1 + 2", "x", "f()", "**x", "01", "1.", "0x10", "[1 2]", "{1: 2}", "{'a' 1}", "[1}", "(1)"})
    EXPECT_TRUE(python(text) == "bad" || python(text).ends_with("too early")) << text << ": " << python(text);
}

TEST(Literals, GemmaHasItsOwnQuotesAndBareKeys) {
  EXPECT_EQ(gemma("<|\"|>a \"b\" <|<|\"|>"), R"("a \"b\" <|")");
  EXPECT_EQ(gemma("{a:1,b b:[<|\"|>x<|\"|>,true],<|\"|>c<|\"|>:null}"), R"({"a": 1, "b b": ["x", true], "c": null})");
  EXPECT_EQ(gemma("'a'"), "bad");
  EXPECT_EQ(gemma("{:1}"), "bad");
  EXPECT_EQ(gemma("{a}"), "bad");
}

TEST(Literals, LongNamesAndDeepListsAreBad) {
  EXPECT_EQ(python(std::string(401, '1')), "bad");
  EXPECT_EQ(python(std::string(400, '1')), std::string(400, '1'));
  EXPECT_EQ(python(std::string(65, '[')), "bad");
  EXPECT_EQ(gemma("{" + std::string(257, 'k') + ":1}"), "bad");
  EXPECT_EQ(gemma("{" + std::string(256, 'k') + ":1}"), "{\"" + std::string(256, 'k') + "\": 1}");
}

TEST(NestedTags, TagsBecomeObjectsAndLists) {
  EXPECT_EQ(nested_tags_to_json("M<a>1M</a>M<b>xM</b>", "M"), R"({"a": 1, "b": "x"})");
  EXPECT_EQ(nested_tags_to_json(" M<item>1M</item> M<item>M<k>trueM</k>M</item>", "M"), R"([1, {"k": true}])");
  EXPECT_EQ(nested_tags_to_json("M<a>M</a>", "M"), R"({"a": ""})");
}

TEST(NestedTags, OtherFormsAreRefused) {
  for (const char* text : {"", "x", "M<a>1", "M<a>1M</b>", "M</a>", "M<a", "Ma", "M<a>1M</a>M<item>1M</item>",
                           "M<a>1M<b>2M</b>M</a>", "M<>1M</>", "M<a>1M</a>x"})
    EXPECT_FALSE(nested_tags_to_json(text, "M")) << text;
  EXPECT_FALSE(nested_tags_to_json("<a>1</a>", ""));
}

TEST(NestedTags, DepthIsLimited) {
  const auto nested = [](size_t depth) {
    std::string text;
    for (size_t i = 0; i < depth; ++i) text += "M<a>";
    text += "1";
    for (size_t i = 0; i < depth; ++i) text += "M</a>";
    return nested_tags_to_json(text, "M").has_value();
  };
  EXPECT_TRUE(nested(63));
  EXPECT_FALSE(nested(64));
}

JsonTypes types_of(const std::string& schema, const std::string& extra = "") {
  const ReplyTool tool{"f", "{\"properties\": {\"a\": " + schema + "}" + extra + "}"};
  return ToolSet(std::span(&tool, 1)).types("f", "a");
}

// Types as letters: n b # i a o s.
std::string letters(JsonTypes types) {
  std::string out;
  for (size_t i = 0; i < 7; ++i)
    if (types.has(static_cast<JsonType>(i))) out += "nb#iaos"[i];
  return out;
}

TEST(ToolSet, TypesComeFromTypeEnumConstAndAlternatives) {
  EXPECT_EQ(letters(types_of(R"({"type": "string"})")), "s");
  EXPECT_EQ(letters(types_of(R"({"type": ["integer", "null"]})")), "ni");
  EXPECT_EQ(letters(types_of(R"({"enum": ["a", 1, 1.5, null, true, [], {}]})")), "nb#iaos");
  EXPECT_EQ(letters(types_of(R"({"const": 3})")), "i");
  EXPECT_EQ(
      letters(types_of(R"({"anyOf": [{"type": "array"}, {"oneOf": [{"type": "object"}, {"type": "boolean"}]}]})")),
      "bao");
  EXPECT_EQ(letters(types_of(R"({"$ref": "#/$defs/P"})", R"(, "$defs": {"P": {"type": "number"}})")), "#");
}

TEST(ToolSet, SchemasThatCannotBeReadAllowEverything) {
  for (const char* schema : {"true", "{}", "[]", "{\"type\": \"text\"}", "{\"type\": 1}", "{\"$ref\": \"#/nowhere\"}",
                             "{\"$ref\": \"other.json\"}", "{\"anyOf\": 1}"})
    EXPECT_TRUE(types_of(schema).is_unknown()) << schema;
  EXPECT_TRUE(types_of("{").is_unknown());
}

TEST(ToolSet, AReferenceToItselfEnds) {
  EXPECT_EQ(letters(types_of(R"({"$ref": "#/properties/a", "type": "null"})")), "n");
}

TEST(ToolSet, DefinitionsAreFunctionsOrHoldOne) {
  const auto tools = parse_reply_tools(R"([{"type": "function", "function": {"name": "a", "parameters": {"x": 1}}},
      {"name": "b", "strict": false}, {"function": {"name": "c", "strict": true}}, {"name": "d", "strict": null}])");
  ASSERT_TRUE(tools);
  const std::vector<ReplyTool> expected = {{"a", R"({"x": 1})"}, {"b", "", false}, {"c", ""}, {"d", ""}};
  EXPECT_EQ(*tools, expected);
  EXPECT_EQ(parse_reply_tools(R"([{"name": "a"}, {"function": {}}])").error().message(), "tools[1]: has no name");
  EXPECT_EQ(parse_reply_tools(R"({"name": "a"})").error().message(), "tools: not a JSON list");
}

TEST(ToolSet, KnowsItsToolsOnly) {
  const ReplyTool tool{"f", ""};
  const ToolSet tools(std::span(&tool, 1));
  EXPECT_TRUE(tools.knows("f"));
  EXPECT_FALSE(tools.knows("g"));
  EXPECT_TRUE(tools.types("g", "a").is_unknown());
  EXPECT_FALSE(tools.is_empty());
  EXPECT_TRUE(ToolSet({}).is_empty());
}

TypedArgument typed(std::string_view text, std::initializer_list<JsonType> list) {
  JsonTypes types;
  for (const JsonType type : list) types.add(type);
  return type_argument(text, types);
}

TEST(TypeArgument, UnknownTypesGiveJsonIfItParses) {
  EXPECT_EQ(typed("12", {}).json, "12");
  EXPECT_EQ(typed(" [1] ", {}).json, "[1]");
  EXPECT_EQ(typed("Urk", {}).json, "\"Urk\"");
  EXPECT_EQ(typed("\"a\"", {}).json, "\"a\"");
  EXPECT_EQ(typed("", {}).json, "\"\"");
  EXPECT_TRUE(typed("Urk", {}).fits);
}

TEST(TypeArgument, AStringStaysTextUnlessAnotherTypeFits) {
  EXPECT_EQ(typed("007", {JsonType::string}).json, "\"007\"");
  EXPECT_EQ(typed("7", {JsonType::string}).json, "\"7\"");
  EXPECT_EQ(typed("\"7\"", {JsonType::string, JsonType::null}).json, "\"\\\"7\\\"\"");
  EXPECT_EQ(typed("null", {JsonType::string, JsonType::null}).json, "null");
  EXPECT_EQ(typed("7", {JsonType::string, JsonType::integer}).json, "7");
  EXPECT_EQ(typed("7", {JsonType::string, JsonType::null}).json, "\"7\"");
}

TEST(TypeArgument, TextOfAnotherTypeIsAStringThatDoesNotFit) {
  EXPECT_EQ(typed("three", {JsonType::integer}).json, "\"three\"");
  EXPECT_FALSE(typed("three", {JsonType::integer}).fits);
  EXPECT_FALSE(typed("1.5", {JsonType::integer}).fits);
  EXPECT_FALSE(typed("\"3\"", {JsonType::integer}).fits);
  EXPECT_TRUE(typed("3", {JsonType::number}).fits);
  EXPECT_EQ(typed("3", {JsonType::number}).json, "3");
}

TEST(TypeArgument, BooleansOfPythonFitBooleans) {
  EXPECT_EQ(typed("True", {JsonType::boolean}).json, "true");
  EXPECT_EQ(typed("False", {JsonType::boolean}).json, "false");
  EXPECT_EQ(typed("True", {}).json, "\"True\"");
}

}  // namespace
}  // namespace tessera::text
