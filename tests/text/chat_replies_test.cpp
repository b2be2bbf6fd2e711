// The rules of reply parsing: reasoning, content, calls, ids, and the families.
#include "tests/text/reply_texts.h"

namespace tessera::text {
namespace {

using testing::calls_of;
using testing::formatted_case;
using testing::kPing;
using testing::parse_reply;
using testing::parse_whole;
using testing::ParsedReply;
using testing::reply_case;
using testing::reply_tools;
using testing::ReplyCase;
using testing::streamed_text;
using testing::warnings_of;

TEST(ReplyReasoning, WithoutToolsReasoningIsStillFound) {
  ReplyCase given = reply_case("qwen3");
  given.tools.clear();
  const Reply reply = parse_reply(given, "<think>a</think>" + std::string(kPing));
  EXPECT_EQ(reply.reasoning, "a");
  EXPECT_EQ(reply.content, kPing);
}

TEST(ReplyReasoning, OpensOnlyAtTheStart) {
  const Reply reply = parse_reply("qwen3", "Hi <think>a</think>");
  // The end mark has no start before it, so it closes a block that began with the reply.
  EXPECT_EQ(reply.reasoning, "Hi <think>a");
  EXPECT_EQ(parse_reply("qwen3", "<think>a</think>b <think>c</think>").content, "b <think>c</think>");
}

TEST(ReplyReasoning, ThePromptMayHaveOpenedOrClosedIt) {
  EXPECT_EQ(parse_reply(reply_case("qwen3", "x<think>\n"), "a</think>b").reasoning, "a");
  EXPECT_EQ(parse_reply(reply_case("qwen3", "<think>\n\n</think>\n\n"), "a</think>b").content, "a</think>b");
  EXPECT_EQ(parse_reply(reply_case("qwen3", "</think>"), "<think>a</think>b").content, "<think>a</think>b");
  EXPECT_EQ(parse_reply(reply_case("qwen3", "<think>a</think><think>"), "b</think>c").reasoning, "b");
}

TEST(ReplyReasoning, AnEndMarkAloneClosesABlockThatBeganWithTheReply) {
  const auto parsed = parse_whole(reply_case("qwen3"), " thought \n</think>\n\nanswer");
  EXPECT_EQ(parsed.reply.reasoning, "thought");
  EXPECT_EQ(parsed.reply.content, "answer");
  EXPECT_EQ(warnings_of(parsed.reply), "end of reasoning without a start");
  EXPECT_EQ(parsed.joined.content, " thoughtanswer");  // the stream had sent it as content
  EXPECT_EQ(warnings_of(parse_reply("qwen3", "\n</think>answer")), "");
}

TEST(ReplyReasoning, AnEndMarkAfterACallIsText) {
  const Reply reply = parse_reply("qwen3", std::string(kPing) + "a</think>b");
  EXPECT_EQ(reply.content, "a</think>b");
  EXPECT_EQ(reply.reasoning, "");
}

TEST(ReplyReasoning, AFamilyWithoutMarksHasNone) {
  const ReplyFamily family = reply_family_of_source("x <tool_call> y");
  EXPECT_EQ(family.name, "hermes");
  EXPECT_EQ(parse_reply({.family = family, .tools = reply_tools()}, "<think>a</think>b").content, "<think>a</think>b");
}

TEST(ReplyReasoning, TextIsStrippedAndBlocksJoinWithALineBreak) {
  const Reply reply = parse_reply("mistral-args", "[THINK] \n a \n b \n[/THINK]x[THINK]c[/THINK] y");
  EXPECT_EQ(reply.reasoning, "a \n b\nc");
  EXPECT_EQ(reply.content, "xy");
}

TEST(ReplyReasoning, WithoutItsEndAllOfItIsReasoning) {
  ReplyCase given = reply_case("qwen3");
  given.end = ReplyEnd::length;
  const Reply reply = parse_reply(given, "<think>a " + std::string(kPing) + " </thi");
  EXPECT_EQ(reply.reasoning, "a " + std::string(kPing) + " </thi");
  EXPECT_EQ(reply.content, "");
}

TEST(ReplyReasoning, FormatNoneLeavesMarksAndTextInTheContent) {
  const ReplyCase given = formatted_case("qwen3", ReasoningFormat::none);
  const Reply reply = parse_reply(given, "<think>\na " + std::string(kPing) + "\n</think>\n\nb");
  EXPECT_EQ(reply.content, "<think>\na " + std::string(kPing) + "\n</think>\n\nb");
  EXPECT_EQ(reply.reasoning, "");
  EXPECT_EQ(calls_of(reply), "");
  EXPECT_EQ(parse_reply(given, "a</think>b").content, "a</think>b");
}

TEST(ReplyReasoning, LegacyFormatHasItInBoth) {
  const ReplyCase given = formatted_case("qwen3", ReasoningFormat::deepseek_legacy);
  const Reply reply = parse_reply(given, "<think>\na\n</think>\n\nb");
  EXPECT_EQ(reply.content, "<think>\na\n</think>\n\nb");
  EXPECT_EQ(reply.reasoning, "a");
  const Reply open = parse_reply(given, "a</think>b");
  EXPECT_EQ(open.content, "a</think>b");
  EXPECT_EQ(open.reasoning, "a");
}

TEST(ReplyContent, IsUnchangedToTheLastBlank) {
  EXPECT_EQ(parse_reply("hermes", " \n a  b \t\n").content, " \n a  b \t\n");
  EXPECT_EQ(parse_reply("hermes", "  \n").content, "  \n");
}

TEST(ReplyContent, BlanksBesideReasoningAndBeforeCallsBelongToNeither) {
  const Reply reply = parse_reply("qwen3", " <think>a</think> \n b \n " + std::string(kPing));
  EXPECT_EQ(reply.content, "b");
  EXPECT_EQ(parse_reply("qwen3", "<think>a</think> \n").content, "");
}

TEST(ReplyContent, BlanksAfterACallCountOnlyBetweenTexts) {
  const std::string ping(kPing);
  EXPECT_EQ(parse_reply("hermes", ping + "\n" + ping + "\n").content, "");
  EXPECT_EQ(parse_reply("hermes", ping + "\nx").content, "x");
  EXPECT_EQ(parse_reply("hermes", "a " + ping + "\nx\n").content, "a\nx\n");
}

TEST(ReplyContent, MarksAroundItAreDropped) {
  EXPECT_EQ(parse_reply("command-r7b", "<|START_RESPONSE|>a<|END_RESPONSE|>\n").content, "a");
  EXPECT_EQ(parse_reply("granite-3.3", "<response>a <response> b</response>").content, "a <response> b");
  EXPECT_EQ(parse_reply("granite-3.3", "a </response> b").content, "a </response> b");
  EXPECT_EQ(parse_reply("apriel", "a[BEGIN FINAL RESPONSE]b[END FINAL RESPONSE]").content, "b");
}

TEST(ReplyContent, MarksThatOnlyContentHasAreReadInThePieceThatBeginsIt) {
  ReplyCase given{.family = text::find_reply_family("apriel").value()};
  for (const auto reasoning : {text::ReasoningFormat::none, text::ReasoningFormat::separate}) {
    given.options.reasoning = reasoning;
    for (const std::string_view raw : {"b [END FINAL RESPONSE]", "\xC3\xA9[END FINAL RESPONSE]x"}) {
      const ParsedReply whole = parse_whole(given, raw);
      EXPECT_EQ(whole.reply.content.find("[END"), std::string::npos) << whole.reply.content;
      EXPECT_EQ(parse_bytes(given, raw), whole) << raw;
    }
  }
}

TEST(ReplyContent, CitationMarksAreDropped) {
  EXPECT_EQ(parse_reply("command-r7b", "At <co>03:12</co: 0:[0],1:[2]>, <co>x</co: 1>.").content, "At 03:12, x.");
  const std::string open = "a</co:" + std::string(300, ' ') + "b";
  EXPECT_EQ(parse_reply("command-r7b", open).content, open);
  EXPECT_EQ(parse_reply("command-r7b", "a</co: 1").content, "a</co: 1");
}

TEST(ReplyContent, StrayMarksOfGemmaAreDroppedAtTheEnds) {
  EXPECT_EQ(parse_reply("gemma-4", "<channel|>Hi <turn|> there <turn|> \n<turn|>").content, "Hi <turn|> there ");
}

TEST(ReplyContent, BlanksAfterAStrayMarkAtTheStartDoNotChangeTheEnd) {
  EXPECT_EQ(parse_reply("gemma-4", "<turn|> a \n").content, "a \n");
}

TEST(ReplyContent, AnEndOfReasoningMayBeAStrayMark) {
  const Reply reply = parse_reply("gemma-4", "<|channel>thought\na<channel|>Hi<channel|>");
  EXPECT_EQ(reply.content, "Hi");
  EXPECT_EQ(reply.reasoning, "a");
}

TEST(ReplyContent, MarksAroundItMayFollowACall) {
  const Reply reply = parse_reply(
      "command-r7b", "<|START_ACTION|>[{\"tool_name\": \"ping\"}]<|END_ACTION|>\n<|START_RESPONSE|>a<|END_RESPONSE|>");
  EXPECT_EQ(calls_of(reply), "ping({})");
  EXPECT_EQ(reply.content, "a");
}

TEST(ReplyCalls, ArgumentsOfJsonShapesAreTheBytesOfTheModel) {
  const Reply reply =
      parse_reply("hermes", R"(<tool_call>{"name":"note" , "arguments": { "n" :1.50,"text":"\u00e9" } }</tool_call>)");
  EXPECT_EQ(calls_of(reply), R"(note({ "n" :1.50,"text":"\u00e9" }))");
}

TEST(ReplyCalls, MissingNullAndEmptyArgumentsAreAnEmptyObject) {
  for (const char* rest : {"", R"(, "arguments": null)", R"(, "arguments": "")", R"(, "arguments": " ")"})
    EXPECT_EQ(calls_of(parse_reply("hermes", R"(<tool_call>{"name": "ping")" + std::string(rest) + "}</tool_call>")),
              "ping({})");
}

TEST(ReplyCalls, ArgumentsInAStringAreParsedOnceMore) {
  const auto call = [](std::string_view arguments) {
    return parse_reply("hermes",
                       R"(<tool_call>{"name": "note", "arguments": )" + std::string(arguments) + "}</tool_call>");
  };
  EXPECT_EQ(calls_of(call(R"(" {\"text\": \"\\u00e9}\"} ")")), R"(note({"text": "\u00e9}"}))");
  for (const char* bad : {R"("x")", R"("{} x")", R"("{")", R"("[]")", "1", "[]", R"("{\"a\": Urk}")"})
    EXPECT_EQ(calls_of(call(bad)), "") << bad;
}

TEST(ReplyCalls, OfAMemberThatOccursTwiceTheFirstCounts) {
  const Reply reply =
      parse_reply("hermes", R"(<tool_call>{"name": "ping", "name": "x", "arguments": {}, "arguments": {"a": 1},
                                         "more": [{"name": 1}]}</tool_call>)");
  EXPECT_EQ(calls_of(reply), "ping({})");
}

TEST(ReplyCalls, ValuesOfTextShapesAreTypedBySchema) {
  const auto call = [](std::string_view name, std::string_view value) {
    return parse_reply("seed-oss", "<seed:tool_call><function=note><parameter=" + std::string(name) + ">" +
                                       std::string(value) + "</parameter></function></seed:tool_call>");
  };
  EXPECT_EQ(calls_of(call("text", "1")), R"(note({"text": "1"}))");
  EXPECT_EQ(calls_of(call("text", "a\"\n\x01")), R"(note({"text": "a\"\n\u0001"}))");
  EXPECT_EQ(calls_of(call("n", " 1 ")), R"(note({"n": 1}))");
  EXPECT_EQ(calls_of(call("any", "null")), R"(note({"any": null}))");
  EXPECT_EQ(calls_of(call("any", "1")), R"(note({"any": "1"}))");
  EXPECT_EQ(calls_of(call("unknown", "[1]")), R"(note({"unknown": [1]}))");
  EXPECT_EQ(calls_of(call("unknown", "[1")), R"(note({"unknown": "[1"}))");
  EXPECT_EQ(warnings_of(call("n", "x")), R"(argument does not fit its schema: "n" of "note")");
}

TEST(ReplyCalls, MarksOfDsmlDecideTheTypeOfAValue) {
  const auto call = [](std::string_view is_string, std::string_view value) {
    const std::string argument = "<｜DSML｜parameter name=\"x\"" + std::string(is_string) + ">" + std::string(value);
    return parse_reply("deepseek-dsml",
                       "<｜DSML｜invoke name=\"note\">" + argument + "</｜DSML｜parameter></｜DSML｜invoke>");
  };
  EXPECT_EQ(calls_of(call(" string=\"true\"", "1")), R"(note({"x": "1"}))");
  EXPECT_EQ(calls_of(call(" string=\"false\"", "1")), R"(note({"x": 1}))");
  EXPECT_EQ(calls_of(call("", "1")), R"(note({"x": 1}))");
  const Reply unfit = call(" string=\"false\"", "a");
  EXPECT_EQ(calls_of(unfit), R"(note({"x": "a"}))");
  EXPECT_EQ(warnings_of(unfit), R"(argument does not fit its schema: "x" of "note")");
  EXPECT_EQ(warnings_of(call("", "a")), "");
}

TEST(ReplyCalls, AValueHoldsWhatOnlyLooksLikeItsEnd) {
  const Reply reply = parse_reply(
      "qwen3-coder", "<function=note>\n<parameter=text>\n</param>\n</parameterx\n\n</parameter>\n</function>");
  EXPECT_EQ(calls_of(reply), R"(note({"text": "</param>\n</parameterx\n"}))");
}

TEST(ReplyCalls, ValuesOfMinimaxMayBeNestedTags) {
  const std::string m = "]<]minimax[>[";
  const auto call = [&](const std::string& value) {
    return calls_of(parse_reply("minimax-m3", m + "<tool_call>" + m + "<invoke name=\"note\">" + m + "<x>" + value + m +
                                                  "</x>" + m + "</invoke>" + m + "</tool_call>"));
  };
  EXPECT_EQ(call(m + "<x>1" + m + "</x>" + m + "<y>a" + m + "</y>"), R"(note({"x": {"x": 1, "y": "a"}}))");
  EXPECT_EQ(call(m + "<item>1" + m + "</item>" + m + "<item>b" + m + "</item>"), R"(note({"x": [1, "b"]}))");
  EXPECT_EQ(call("plain"), R"(note({"x": "plain"}))");
}

TEST(ReplyCalls, MinicpmValuesMayBeCdata) {
  const Reply reply =
      parse_reply("minicpm-5", "<function name=\"note\"><param name=\"text\"><![CDATA[a]]b]]></param></function>");
  EXPECT_EQ(calls_of(reply), R"(note({"text": "a]]b"}))");
}

TEST(ReplyCalls, TheSuffixOfHy3ComesFromItsTemplate) {
  const ReplyFamily family = reply_family_of_source("{% set HYTK = ':v9' %} <think{}> '<tool_calls{}>' <arg_key{}>");
  EXPECT_EQ(family.name, "hy3");
  const std::string raw =
      "<think:v9>a</think:v9><tool_calls:v9>\n<tool_call:v9>note<tool_sep:v9>\n<arg_key:v9>n</arg_key:v9>\n"
      "<arg_value:v9>3</arg_value:v9>\n</tool_call:v9>\n</tool_calls:v9>";
  const Reply reply = parse_reply({.family = family, .tools = reply_tools()}, raw);
  EXPECT_EQ(reply.reasoning, "a");
  EXPECT_EQ(calls_of(reply), R"(note({"n": 3}))");
}

TEST(ReplyCalls, SectionMarksMayBeMissing) {
  const std::string call = "<|tool_call_begin|>functions.ping:7<|tool_call_argument_begin|>{}<|tool_call_end|>";
  const Reply reply = parse_reply("kimi-k2", call + call);
  EXPECT_EQ(calls_of(reply), "ping({}) ping({})");
  EXPECT_EQ(reply.calls[0].id, "functions.ping:7");
  EXPECT_EQ(calls_of(parse_reply("kimi-k2", "<|tool_calls_section_begin|>" + call)), "ping({})");
}

TEST(ReplyCalls, NamesWithoutPrefixOrNumberAreNamesOfKimi) {
  const auto name_of = [](const std::string& id) {
    return parse_reply("kimi-k2", "<|tool_call_begin|>" + id + "<|tool_call_argument_begin|>{}<|tool_call_end|>")
        .calls.at(0)
        .name;
  };
  EXPECT_EQ(name_of("ping"), "ping");
  EXPECT_EQ(name_of("ping:2"), "ping");
  EXPECT_EQ(name_of("functions.a:b"), "a:b");
}

TEST(ReplyCalls, AnEmptySectionOrListIsNoCallAndNoText) {
  EXPECT_EQ(parse_reply("deepseek-v3.1", "<｜tool▁calls▁begin｜><｜tool▁calls▁end｜>"), Reply());
  EXPECT_EQ(parse_reply("mistral-array", "[TOOL_CALLS][]"), Reply());
  EXPECT_EQ(parse_reply("lfm2", "<|tool_call_start|>[]<|tool_call_end|>"), Reply());
}

TEST(ReplyCalls, UnknownToolsAreHandedOverWithAWarning) {
  const Reply reply = parse_reply("hermes", R"(<tool_call>{"name": "f\ng"}</tool_call>)");
  EXPECT_EQ(reply.calls.size(), 1u);
  EXPECT_EQ(warnings_of(reply), R"(unknown tool: "f\x0Ag")");
}

TEST(ReplyCalls, BareCallsNeedAKnownNameAndNoOtherMembers) {
  EXPECT_EQ(calls_of(parse_reply("llama-3", R"( {"function": "ping", "parameters": {}} {"name": "ping"})")),
            "ping({}) ping({})");
  for (const char* text : {R"({"name": "pong", "parameters": {}})", R"({"name": "ping", "arguments": {}})",
                           R"({"parameters": {}})", R"({"name": "ping", "parameters": {)", R"({"name": ["ping"]})"}) {
    EXPECT_EQ(parse_reply("llama-3", text).content, text);
    EXPECT_EQ(calls_of(parse_reply("llama-3", text)), "");
  }
  EXPECT_EQ(calls_of(parse_reply("gemma-3", "[ping(), pong()]")), "");
  EXPECT_EQ(parse_reply("gemma-3", "[ping(), pong()]").content, "[ping(), pong()]");
}

TEST(ReplyCalls, BareCallsAreAnnouncedOnceTheyAreKnownToBeCalls) {
  const ReplyCase given = reply_case("llama-3");
  EXPECT_EQ(streamed_text(given, R"({"name": "ping", "parameters": {})"), "");
  EXPECT_EQ(streamed_text(given, R"({"name": "ping", "parameters": {}})"), "call[ping]a[{}]");
  EXPECT_EQ(streamed_text(reply_case("generic"), R"({"tool_calls": [{"name": "ping"}, {"name": "ping"}])"), "");
}

TEST(ReplyCalls, ABareCallThatIsCutOffAfterItsNameIsAWarning) {
  EXPECT_EQ(warnings_of(parse_reply("llama-3", R"({"name": "ping", "parameters": {)")), "tool call cut short");
  EXPECT_EQ(warnings_of(parse_reply("llama-3", R"({"name": "pi)")), "");
}

TEST(ReplyCalls, TextAfterABareCallIsContent) {
  const Reply reply = parse_reply("llama-3", R"({"name": "ping"}; done)");
  EXPECT_EQ(calls_of(reply), "ping({})");
  EXPECT_EQ(reply.content, "; done");
}

TEST(ReplyCalls, ABareTextThatIsNoCallLeavesNoCallBehind) {
  const Reply reply = parse_reply("llama-3", R"({"name": "ping", "x": 1} <|python_tag|>{"name": "note"})");
  EXPECT_EQ(calls_of(reply), "note({})");
  EXPECT_EQ(reply.content, R"({"name": "ping", "x": 1})");
}

TEST(ReplyCalls, TheGenericObjectHoldsNothingElse) {
  for (const char* text :
       {R"({"calls": []})", R"([{"name": "ping"}])", R"({"tool_calls": {}})", R"({"tool_calls": [], "a": 1})",
        "```json\n{\"a\": 1}\n```", "```\nping\n```", R"({"tool_calls": [{"name": "pong"}]})"})
    EXPECT_EQ(parse_reply("generic", text).content, text);
}

TEST(ReplyCalls, IdsAreTheModelsOrNineRandomDigitsOfTheSeed) {
  ReplyCase given = reply_case("hermes");
  given.options.seed = 7;
  const Reply reply = parse_reply(given, std::string(kPing) + std::string(kPing));
  ASSERT_EQ(reply.calls.size(), 2u);
  EXPECT_EQ(reply.calls[0].id.size(), 9u);
  EXPECT_NE(reply.calls[0].id, reply.calls[1].id);
  for (const char c : reply.calls[0].id) EXPECT_TRUE(std::isalnum(static_cast<unsigned char>(c))) << c;
  EXPECT_EQ(parse_reply(given, kPing).calls[0].id, reply.calls[0].id);
  given.options.seed = 8;
  EXPECT_NE(parse_reply(given, kPing).calls[0].id, reply.calls[0].id);
  EXPECT_EQ(parse_reply("mistral-array", R"([TOOL_CALLS][{"id": 12, "name": "ping"}])").calls.at(0).id, "12");
}

TEST(ReplyCalls, AnIdBelongsToItsCallOnly) {
  const Reply reply = parse_reply("mistral-call-id", "[TOOL_CALLS]ping[CALL_ID]a1[ARGS]{}[TOOL_CALLS]ping[ARGS]{}");
  ASSERT_EQ(reply.calls.size(), 2u);
  EXPECT_EQ(reply.calls[0].id, "a1");
  EXPECT_EQ(reply.calls[1].id.size(), 9u);
}

TEST(ReplyCalls, WithoutParallelCallsOnlyTheFirstIsHandedOver) {
  ReplyCase given = reply_case("hermes");
  given.options.parallel_calls = false;
  const Reply reply =
      parse_reply(given, std::string(kPing) + R"(<tool_call>{"name": "note", "arguments": {"n": 1}}</tool_call>)");
  EXPECT_EQ(calls_of(reply), "ping({})");
  EXPECT_EQ(reply.content, "");
  EXPECT_EQ(warnings_of(reply), R"(more than one tool call: "note" is dropped)");
}

TEST(ReplyCalls, CodeGoesToTheCodeToolOfTheRequest) {
  ReplyCase given = reply_case("llama-3");
  EXPECT_EQ(calls_of(parse_reply(given, "<|python_tag|>print(\"a\")\n")), R"(python({"code": "print(\"a\")\n"}))");
  given.tools.push_back({"code_interpreter", ""});
  EXPECT_EQ(calls_of(parse_reply(given, "<|python_tag|>x = 1")), R"(code_interpreter({"code": "x = 1"}))");
  EXPECT_EQ(calls_of(parse_reply(given, "<|python_tag|>search.call")), R"(code_interpreter({"code": "search.call"}))");
  given.end = ReplyEnd::length;
  const Reply cut = parse_reply(given, "<|python_tag|>x = 1");
  EXPECT_EQ(cut.content, "<|python_tag|>x = 1");
  EXPECT_EQ(warnings_of(cut), "tool call cut short");
}

TEST(ReplyCalls, BuiltinCallsHaveNamedLiterals) {
  EXPECT_EQ(calls_of(parse_reply("llama-3", "<|python_tag|>search.call(query=\"a\", n=2)")),
            R"(search({"query": "a", "n": 2}))");
  EXPECT_EQ(parse_reply("llama-3", "<|python_tag|>search.call(1)").content, "<|python_tag|>search.call(1)");
}

TEST(ReplyCalls, UnknownEscapesOfPythonKeepTheirBackslash) {
  const Reply reply = parse_reply("lfm2", "<|tool_call_start|>[note(text=\"\\\u00e9\\d\")]<|tool_call_end|>");
  EXPECT_EQ(calls_of(reply), "note({\"text\": \"\\\\\u00e9\\\\d\"})");
}

TEST(ReplyCalls, RecipientsOfFunctionaryMustBeKnown) {
  const Reply reply = parse_reply(reply_case("functionary-3.2", ">>>"), "all\na >>>pong\n{}>>>ping\n{}");
  EXPECT_EQ(reply.content, "a >>>pong\n{}");
  EXPECT_EQ(calls_of(reply), "ping({})");
  EXPECT_EQ(parse_reply(reply_case("functionary-3.2"), "ping\n{}").content, "ping\n{}");
}

TEST(ReplyHarmony, MessagesForNobodyAreIgnored) {
  const Reply reply = parse_reply(
      "gpt-oss", "<|channel|>commentary to=assistant<|message|>x<|end|><|start|>assistant<|channel|>final<|message|>y");
  EXPECT_EQ(reply.content, "y");
  EXPECT_EQ(parse_reply("gpt-oss", "<|channel|>analysis to=assistant<|message|>x<|channel|>final<|message|>y").content,
            "y");
}

TEST(ReplyHarmony, ContentOfSeveralMessagesJoinsWithALineBreak) {
  const Reply reply = parse_reply(
      "gpt-oss", "<|channel|>commentary<|message|>a \n<|end|><|start|>assistant<|channel|>final<|message|>b ");
  EXPECT_EQ(reply.content, "a \n\nb ");
}

TEST(ReplyHarmony, TextWithoutAHeaderIsContent) {
  EXPECT_EQ(parse_reply("gpt-oss", "Hi <|channel|>").content, "Hi <|channel|>");
  EXPECT_EQ(parse_reply("gpt-oss", "to").content, "to");
  EXPECT_EQ(parse_reply("gpt-oss", "<|channel|>final<|end|>").content, "<|channel|>final");
  const std::string endless = "<|channel|>" + std::string(300, 'x');
  EXPECT_EQ(parse_reply("gpt-oss", endless).content, endless);
}

TEST(ReplyHarmony, ThePromptMayHaveBegunTheMessage) {
  EXPECT_EQ(
      parse_reply(reply_case("gpt-oss", "<|start|>assistant<|channel|>analysis<|message|>"), "a<|end|>").reasoning,
      "a");
  EXPECT_EQ(parse_reply(reply_case("gpt-oss", "<|start|>assistant<|channel|>final"), "<|message|>a").content, "a");
  EXPECT_EQ(parse_reply(reply_case("gpt-oss", "<|start|>assistant" + std::string(300, 'x')), "a").content.size(), 257u);
}

TEST(ReplyHarmony, WithoutToolsACallIsContent) {
  ReplyCase given = reply_case("gpt-oss");
  given.tools.clear();
  EXPECT_EQ(parse_reply(given, "<|channel|>commentary to=functions.ping<|message|>{}<|call|>").content, "{}");
}

TEST(ReplyFamilies, NamesAreUnique) {
  std::vector<std::string> names;
  for (const ReplyFamily& family : reply_families()) names.push_back(family.name);
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());
}

TEST(ReplyFamilies, AnUnknownNameIsAnError) { EXPECT_ERROR(find_reply_family("hermis"), "'hermis'"); }

TEST(ReplyFamilies, AnUnknownSourceIsGeneric) {
  EXPECT_EQ(reply_family_of_source("{{ messages }}").name, "generic");
  EXPECT_EQ(reply_family_of_source("{{ messages }}").reasoning_end, "");
  EXPECT_EQ(reply_family_of_source("<think></think>").reasoning_end, "</think>");
}

TEST(ReplyFamilies, ACallerCanMakeOne) {
  ReplyFamily family{.name = "mine", .shape = ReplyShape::tagged_json};
  family.call_begin = "@";
  family.name_end = ":";
  family.call_end = ".";
  EXPECT_EQ(calls_of(parse_reply({.family = family, .tools = reply_tools()}, "a @ping:{}. @note:{\"n\": 1}.")),
            "ping({}) note({\"n\": 1})");
}

// A reader that refuses the first byte must not see it again and again.
TEST(ReplyFamilies, MarksThatAreOneBracketEnd) {
  for (const ReplyShape shape : {ReplyShape::json, ReplyShape::key_json, ReplyShape::tagged_json,
                                 ReplyShape::tagged_args, ReplyShape::python, ReplyShape::gemma}) {
    for (const char* mark : {"[", "{"}) {
      const ReplyFamily family{.name = "mine", .shape = shape, .call_begin = mark};
      EXPECT_EQ(parse_reply({.family = family, .tools = reply_tools()}, "{{[[x").content, "{{[[x");
    }
  }
}

}  // namespace
}  // namespace tessera::text
