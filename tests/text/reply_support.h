// Shared by the tests of replies and by their fuzzer: parsing in pieces, and the properties that hold for any bytes.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/rng.h"
#include "tessera/text/chat/json_view.h"
#include "tessera/text/chat/reply_parser.h"
#include "tessera/text/utf8.h"

namespace tessera::testing {

/// All that a parser needs besides the text of the reply.
struct ReplyCase {
  text::ReplyFamily family;
  std::vector<text::ReplyTool> tools{};
  std::string prompt_tail{};
  text::ReplyOptions options{};
  text::ReplyEnd end = text::ReplyEnd::stop;
};

struct ParsedReply {
  text::Reply reply;
  text::Reply joined;  // all pieces, joined
  bool has_whole_code_points = true;

  bool operator==(const ParsedReply&) const = default;
};

inline ParsedReply parse_pieces(const ReplyCase& given, const std::vector<std::string_view>& pieces) {
  ParsedReply parsed;
  auto parser = text::ReplyParser::create(given.family, given.tools, given.prompt_tail, given.options);
  const auto add = [&](std::span<const text::ReplyDelta> deltas) {
    join(parsed.joined, deltas);
    for (const text::ReplyDelta& delta : deltas) parsed.has_whole_code_points &= text::is_valid_utf8(delta.text);
  };
  for (const std::string_view piece : pieces) add(parser.feed(piece));
  parsed.reply = parser.finish(given.end);
  add(parser.deltas());
  return parsed;
}

inline ParsedReply parse_whole(const ReplyCase& given, std::string_view raw) { return parse_pieces(given, {raw}); }

inline ParsedReply parse_bytes(const ReplyCase& given, std::string_view raw) {
  std::vector<std::string_view> pieces;
  for (size_t i = 0; i < raw.size(); ++i) pieces.push_back(raw.substr(i, 1));
  return parse_pieces(given, pieces);
}

/// Parses the text in pieces of random lengths of up to 12 bytes.
inline ParsedReply parse_randomly(const ReplyCase& given, std::string_view raw, uint64_t seed) {
  Rng rng(seed);
  std::vector<std::string_view> pieces;
  while (!raw.empty()) {
    pieces.push_back(raw.substr(0, rng.next_u32() % 13));
    raw.remove_prefix(pieces.back().size());
  }
  return parse_pieces(given, pieces);
}

/// Whether the pieces may differ from the reply: a call or content was taken back after it was handed over.
inline bool may_take_back(const text::Reply& reply) {
  if (reply.warnings.size() == text::kMaxReplyWarnings) return true;
  return std::ranges::any_of(reply.warnings, [](std::string_view warning) {
    return warning.starts_with("tool call ") || warning.starts_with("end of reasoning") ||
           warning.starts_with("reply is over");
  });
}

/// Returns the property of replies that a parse violates, or "". The properties hold for all bytes.
inline std::string violated_property(const ReplyCase& given, std::string_view raw, uint64_t seed) {
  const ParsedReply whole = parse_whole(given, raw);
  if (parse_randomly(given, raw, seed) != whole) return "the split changes the reply";
  if (!whole.has_whole_code_points) return "a piece is not UTF-8";
  if (!may_take_back(whole.reply) && whole.reply != whole.joined) return "the pieces differ from the reply";
  if (whole.reply.warnings.size() > text::kMaxReplyWarnings) return "too many warnings";
  for (const text::ToolCall& call : whole.reply.calls) {
    if (!text::json_members(call.arguments)) return "arguments are not a JSON object: " + call.arguments;
    if (call.name.empty() || call.id.empty()) return "a call has no name or no id";
  }
  return "";
}

}  // namespace tessera::testing
