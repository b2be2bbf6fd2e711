// Shared by the tests of replies: parsing with short calls, and replies as text that a test can state.
#pragma once

#include <gtest/gtest.h>

#include "tests/support/testing.h"
#include "tests/text/reply_support.h"

namespace tessera::testing {

inline const std::vector<text::ReplyTool>& reply_tools() {
  static const std::vector<text::ReplyTool> all = {
      {"ping", R"({"type": "object", "properties": {}})"},
      {"note", R"({"type": "object", "properties": {"text": {"type": "string"}, "n": {"type": "integer"},
                                                     "any": {"type": ["string", "null"]}, "list": {"type": "array"}}})"},
  };
  return all;
}

inline ReplyCase reply_case(std::string_view family, std::string_view prompt_tail = "") {
  const auto found = text::find_reply_family(family);
  EXPECT_OK(found);
  return {
      .family = found.value_or(text::ReplyFamily{}), .tools = reply_tools(), .prompt_tail = std::string(prompt_tail)};
}

inline ReplyCase formatted_case(std::string_view family, text::ReasoningFormat format) {
  ReplyCase given = reply_case(family);
  given.options.reasoning = format;
  return given;
}

/// Parses whole and byte by byte, which must agree.
inline text::Reply parse_reply(const ReplyCase& given, std::string_view raw) {
  const auto whole = parse_whole(given, raw);
  EXPECT_EQ(parse_bytes(given, raw), whole) << raw.substr(0, 200);
  return whole.reply;
}

inline text::Reply parse_reply(std::string_view family, std::string_view raw) {
  return parse_reply(reply_case(family), raw);
}

/// The calls as "name(arguments)".
inline std::string calls_of(const text::Reply& reply) {
  std::string text;
  for (const text::ToolCall& call : reply.calls)
    text += (text.empty() ? "" : " ") + call.name + "(" + call.arguments + ")";
  return text;
}

inline std::string warnings_of(const text::Reply& reply) {
  std::string text;
  for (const std::string& warning : reply.warnings) text += (text.empty() ? "" : "; ") + warning;
  return text;
}

/// The pieces that the parser has handed over after these bytes, as letters and texts: c[text] r[..] call[..] a[..]
/// w[..].
inline std::string streamed_text(const ReplyCase& given, std::string_view raw) {
  auto parser = text::ReplyParser::create(given.family, given.tools, given.prompt_tail, given.options);
  std::string text;
  for (const text::ReplyDelta& delta : parser.feed(raw)) {
    constexpr std::string_view kNames[] = {"c", "r", "call", "a", "w"};
    text += std::string(kNames[static_cast<size_t>(delta.kind)]) + "[" + delta.text + "]";
  }
  return text;
}

/// A call of the family hermes.
inline constexpr std::string_view kPing = R"(<tool_call>{"name": "ping", "arguments": {}}</tool_call>)";

}  // namespace tessera::testing
