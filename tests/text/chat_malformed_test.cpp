// Replies that are malformed, cut off, hostile, or still arriving.
#include "tests/text/reply_texts.h"

namespace tessera::text {
namespace {

using testing::calls_of;
using testing::kPing;
using testing::parse_reply;
using testing::parse_whole;
using testing::reply_case;
using testing::streamed_text;
using testing::warnings_of;

TEST(ReplyMalformed, TheTextGoesBackWithItsMarksAndLaterCallsCount) {
  const std::string bad = "<tool_call>{\"name\": \"ping\", \"arguments\": {]}</tool_call>";
  const Reply reply = parse_reply("hermes", "a \n" + bad + "\n" + std::string(kPing));
  EXPECT_EQ(reply.content, "a \n" + bad);
  EXPECT_EQ(calls_of(reply), "ping({})");
  EXPECT_EQ(warnings_of(reply), "tool call is not JSON");
}

TEST(ReplyMalformed, OfAListTheCompleteCallsCount) {
  const Reply reply = parse_reply("mistral-array", R"([TOOL_CALLS][{"name": "ping"}, {"nam": 1}, {"name": "ping"}])");
  EXPECT_EQ(calls_of(reply), "ping({})");
  EXPECT_EQ(reply.content, R"({"nam": 1}, {"name": "ping"}])");
  EXPECT_EQ(warnings_of(reply), "tool call has no name");
}

TEST(ReplyMalformed, TheStreamKeepsWhatItAnnounced) {
  const std::string bad = R"(<tool_call>{"name": "note", "arguments": {"n": x}}</tool_call>)";
  const auto parsed = parse_whole(reply_case("hermes"), "a " + bad);
  EXPECT_EQ(parsed.reply.content, "a " + bad);
  EXPECT_EQ(calls_of(parsed.reply), "");
  EXPECT_EQ(calls_of(parsed.joined), R"(note({"n": ))");
  EXPECT_EQ(parsed.joined.content, R"(ax}}</tool_call>)");
  EXPECT_EQ(parsed.joined.warnings, parsed.reply.warnings);
}

TEST(ReplyMalformed, LaterCallsOfTheStreamHaveTheNextIndex) {
  const std::string bad = R"(<tool_call>{"name": "note", "arguments": {"n": x}}</tool_call>)";
  const auto parsed = parse_whole(reply_case("hermes"), bad + std::string(kPing));
  EXPECT_EQ(calls_of(parsed.reply), "ping({})");
  EXPECT_EQ(calls_of(parsed.joined), R"(note({"n": ) ping({}))");
}

TEST(ReplyMalformed, ACallThatIsCutOffGoesBack) {
  for (const char* text : {"<tool_call>", "<tool_call>\n{\"na", "<tool_call>{\"name\": \"ping\", \"arguments\": {}"}) {
    const Reply reply = parse_reply("hermes", text);
    EXPECT_EQ(reply.content, text);
    EXPECT_EQ(warnings_of(reply), "tool call cut short");
  }
  EXPECT_EQ(parse_reply("qwen3-coder", "<function=note><parameter=n>1</par").content,
            "<function=note><parameter=n>1</par");
  EXPECT_EQ(parse_reply("lfm2", "<|tool_call_start|>[ping(), note(n=1").content, "note(n=1");
}

TEST(ReplyMalformed, ACompleteCallNeedsNoEndMark) {
  EXPECT_EQ(calls_of(parse_reply("hermes", R"(<tool_call>{"name": "ping"})")), "ping({})");
  const Reply reply = parse_reply("hermes", R"(<tool_call>{"name": "ping"} </tool)");
  EXPECT_EQ(calls_of(reply), "ping({})");
  EXPECT_EQ(reply.content, "</tool");
}

TEST(ReplyMalformed, ACommaAfterTheLastCallIsForgiven) {
  EXPECT_EQ(calls_of(parse_reply("mistral-array", R"([TOOL_CALLS][{"name": "ping"}, ])")), "ping({})");
  EXPECT_EQ(parse_reply("mistral-array", R"([TOOL_CALLS][{"name": "ping"}, ])").content, "");
  EXPECT_EQ(calls_of(parse_reply("lfm2", "<|tool_call_start|>[ping(), ]<|tool_call_end|>")), "ping({})");
}

TEST(ReplyMalformed, ExpressionsAreNoCalls) {
  for (const char* text : {"ping(**x)", "note(n=1+1)", "note(1)", "note(n=f())", "ping()x", "ping", "(n=1)"}) {
    const std::string raw = "<|tool_call_start|>[" + std::string(text) + "]<|tool_call_end|>";
    EXPECT_FALSE(parse_reply("lfm2", raw).warnings.empty()) << text;
  }
}

TEST(ReplyMalformed, TextBetweenMarksThatIsNoCallGoesBack) {
  for (const auto& [family, text] : std::vector<std::pair<std::string, std::string>>{
           {"hermes", "<tool_call>ping</tool_call>"},
           {"hermes", "<tool_call>{\"name\": 1}</tool_call>"},
           {"hermes", "<tool_call>{\"name\" \"ping\"}</tool_call>"},
           {"qwen3-coder", "<tool_call>ping</tool_call>"},
           {"qwen3-coder", "<function=>x</function>"},
           {"qwen3-coder", "<function=note>x</function>"},
           {"glm-4", "<tool_call>note<arg_key>n</arg_key>x<arg_value>1</arg_value></tool_call>"},
           {"kimi-k2", "<|tool_calls_section_begin|>x<|tool_calls_section_end|>"},
           {"mistral-args", "[TOOL_CALLS]ping[ARGS]1"},
           {"mistral-args", "[TOOL_CALLS] [ARGS]{}"},
           {"mistral-args", "[TOOL_CALLS]" + std::string(257, 'f') + "[ARGS]{}"},
           {"apertus", "<|tools_prefix|>[{\"\": {}}]<|tools_suffix|>"},
           {"apertus", "<|tools_prefix|>[{\"ping\": 1}]<|tools_suffix|>"},
           {"gemma-4", "<|tool_call>call:note{n:x}<tool_call|>"}}) {
    const Reply reply = parse_reply(family, text);
    EXPECT_EQ(reply.content, text) << family;
    EXPECT_EQ(calls_of(reply), "") << family;
    EXPECT_FALSE(reply.warnings.empty()) << text;
  }
}

TEST(ReplyMalformed, WarningsAreLimited) {
  std::string raw;
  for (int i = 0; i < 20; ++i) raw += R"(<tool_call>{"name": "x"}</tool_call>)";
  const Reply reply = parse_reply("hermes", raw);
  EXPECT_EQ(reply.calls.size(), 20u);
  EXPECT_EQ(reply.warnings.size(), kMaxReplyWarnings);
}

TEST(ReplyStream, ContentIsHandedOverAsSoonAsItIsCertain) {
  EXPECT_EQ(streamed_text(reply_case("hermes"), "Hello"), "c[Hello]");
  EXPECT_EQ(streamed_text(reply_case("hermes"), "Hello \n<tool_"), "c[Hello]");
  EXPECT_EQ(streamed_text(reply_case("hermes"), "Hello <toolx"), "c[Hello <toolx]");
  EXPECT_EQ(streamed_text(reply_case("hermes"), "a\xE2\x82"), "c[a]");
  EXPECT_EQ(streamed_text(reply_case("qwen3"), "<think>a b \n"), "r[a b]");
}

TEST(ReplyStream, ACallIsAnnouncedWhenItsNameIsComplete) {
  EXPECT_EQ(streamed_text(reply_case("hermes"), R"(<tool_call>{"name": "pin)"), "");
  EXPECT_EQ(streamed_text(reply_case("hermes"), R"(<tool_call>{"name": "ping")"), "call[ping]");
  EXPECT_EQ(streamed_text(reply_case("mistral-args"), "[TOOL_CALLS]ping[ARGS]{\"a"), "call[ping]a[{\"a]");
  EXPECT_EQ(streamed_text(reply_case("qwen3-coder"), "<function=note>\n<parameter=text>\na\"b\n"),
            "call[note]a[{\"text\": \"a\\\"b]");
  EXPECT_EQ(streamed_text(reply_case("qwen3-coder"), "<function=note>\n<parameter=n>\n12"), "call[note]a[{\"n\": ]");
}

TEST(ReplyStream, ACallWhoseIdFollowsIsAnnouncedWithItsId) {
  EXPECT_EQ(streamed_text(reply_case("mistral-array"), R"([TOOL_CALLS][{"name": "ping", "arguments": {})"), "");
  EXPECT_EQ(streamed_text(reply_case("mistral-array"), R"([TOOL_CALLS][{"name": "ping", "arguments": {}, "id": "x")"),
            "call[ping]a[{}]");
}

TEST(ReplyHostile, BytesThatAreNotUtf8BecomeReplacementCharacters) {
  EXPECT_EQ(parse_reply("hermes", "a\xFFz\xE2\x82").content, "a\xEF\xBF\xBDz\xEF\xBF\xBD");
  EXPECT_EQ(calls_of(parse_reply("mistral-args", "[TOOL_CALLS]note[ARGS]{\"text\": \"\xC3\"}")),
            "note({\"text\": \"\xEF\xBF\xBD\"})");
}

TEST(ReplyHostile, NulIsText) {
  const std::string_view raw("a\0<think>\0", 10);
  EXPECT_EQ(parse_reply("qwen3", raw).content, raw);
}

TEST(ReplyHostile, AHundredThousandBracketsAreContent) {
  const std::string brackets(100'000, '[');
  for (const auto& [family, mark] : std::vector<std::pair<std::string, std::string>>{
           {"hermes", "<tool_call>{\"name\": \"note\", \"arguments\": {\"a\": "},
           {"mistral-array", "[TOOL_CALLS]"},
           {"mistral-args", "[TOOL_CALLS]note[ARGS]{\"a\":"},
           {"lfm2", "<|tool_call_start|>[note(a="},
           {"gemma-4", "<|tool_call>call:note{a:"},
           {"gemma-3", ""}}) {
    const auto parsed = parse_whole(reply_case(family), mark + brackets);
    EXPECT_EQ(parsed.reply.content, mark + brackets) << family;
    EXPECT_TRUE(parsed.reply.calls.empty());
  }
}

TEST(ReplyHostile, DeepArgumentsSayWhy) {
  const std::string deep = "{\"a\": " + std::string(64, '[');
  EXPECT_EQ(warnings_of(parse_reply("mistral-args", "[TOOL_CALLS]note[ARGS]" + deep)),
            "tool call has over 64 levels of JSON");
  EXPECT_EQ(warnings_of(parse_reply("hermes", R"(<tool_call>{"name": "note", "arguments": )" + deep)),
            "tool call has over 64 levels of JSON");
  EXPECT_EQ(warnings_of(parse_reply("hermes", R"(<tool_call>{"name": "note", "x": )" + std::string(65, '['))),
            "tool call has over 64 levels of JSON");
}

TEST(ReplyHostile, TextAfterEightMebibytesIsContent) {
  const std::string filler(kMaxParsedReplyBytes - 20, 'x');
  const std::string raw = filler + "<tool_call>{\"name\": \"ping\"}</tool_call>" + std::string(1 << 20, 'y');
  const auto parsed = parse_whole(reply_case("hermes"), raw);
  EXPECT_EQ(parsed.reply.content, raw);
  EXPECT_EQ(warnings_of(parsed.reply), "reply is over 8 MiB: the rest is not parsed");
  const auto halves = testing::parse_pieces(reply_case("hermes"), {std::string_view(raw).substr(0, filler.size() + 25),
                                                                   std::string_view(raw).substr(filler.size() + 25)});
  EXPECT_EQ(halves, parsed);
}

TEST(ReplyHostile, CodeOfOverEightMebibytesIsContent) {
  const std::string raw = "<|python_tag|>" + std::string(kMaxParsedReplyBytes, 'x');
  const auto parsed = parse_whole(reply_case("llama-3"), raw);
  EXPECT_EQ(parsed.reply.content, raw);
  EXPECT_TRUE(parsed.reply.calls.empty());
}

TEST(ReplyHostile, TheLimitCutsNoCodePoint) {
  const std::string raw = "<think>" + std::string(kMaxParsedReplyBytes - 8, 'x') + "\xE2\x82\xAC</think>";
  const auto parsed = parse_whole(reply_case("qwen3"), raw);
  EXPECT_EQ(parsed.reply.content, "\xE2\x82\xAC</think>");
  EXPECT_TRUE(parsed.has_whole_code_points);
}

TEST(ReplyHostile, TheLimitOfNamesCutsNoCodePoint) {
  std::string name(255, 'f');
  for (const auto& [family, text] : std::vector<std::pair<std::string, std::string>>{
           {"mistral-args", "[TOOL_CALLS]" + name + "\u20acx[ARGS]{}"},
           {"qwen3-coder", "<function=note><parameter=" + name + "\u20acx>\n1\n</parameter></function>"},
           {"lfm2", "<|tool_call_start|>[note(n=1, " + name + "\u20acx=1)]<|tool_call_end|>"},
           {"gemma-4", "<|tool_call>call:note{n:1," + name + "\u20acx:1}<tool_call|>"},
           {"gemma-4", "<|tool_call>call:note{n:{" + name + "\u20acx:1}}<tool_call|>"}}) {
    const auto parsed = parse_whole(reply_case(family), text);
    EXPECT_EQ(parsed.reply.content, text) << family;
    EXPECT_TRUE(parsed.has_whole_code_points) << family;
  }
}

TEST(ReplyHostile, LongBlanksTakeLinearTime) {
  const std::string raw = "a" + std::string(testing::all_or_few<size_t>(2'000'000, 200'000), ' ') + "<tool_call>";
  const auto parsed = parse_bytes(reply_case("hermes"), raw);  // quadratic time would be hours
  EXPECT_EQ(parsed.reply.content, raw);
}

}  // namespace
}  // namespace tessera::text
