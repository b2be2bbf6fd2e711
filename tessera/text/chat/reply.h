// The parts of a model's reply, and the pieces in which a reply is handed over while it arrives. ReplyParser makes
// both. The joined pieces equal the reply, unless a call was announced and then turned out to be malformed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tessera::text {

/// A call of a tool. `arguments` is JSON text of an object.
struct ToolCall {
  std::string name;
  std::string arguments;
  std::string id;

  bool operator==(const ToolCall&) const = default;
};

struct Reply {
  std::string content;
  std::string reasoning;
  std::vector<ToolCall> calls;
  std::vector<std::string> warnings;  // at most kMaxReplyWarnings

  bool operator==(const Reply&) const = default;
};

inline constexpr size_t kMaxReplyWarnings = 16;

/// The reason why a reply ended.
enum class ReplyEnd : uint8_t {
  stop,    // an end token or a stop string
  length,  // the limit of tokens
};

/// The place of reasoning in the reply.
enum class ReasoningFormat : uint8_t {
  separate,         // in Reply::reasoning
  none,             // in the content, with its marks
  deepseek_legacy,  // in both
};

struct ReplyOptions {
  ReasoningFormat reasoning = ReasoningFormat::separate;
  bool parallel_calls = true;  // false: only the first call counts
  uint64_t seed = 0;           // of the ids of calls
};

/// A piece of a reply. Each piece holds whole UTF-8 code points.
struct ReplyDelta {
  enum class Kind : uint8_t {
    content,
    reasoning,
    call,       // a call begins: its index, its id, and its name as the text
    arguments,  // more of the arguments of the call with this index
    warning,    // one line
  };
  Kind kind = Kind::content;
  size_t call = 0;  // index of the call, for call and arguments
  std::string text{};
  std::string id{};  // for call

  bool operator==(const ReplyDelta&) const = default;
};

/// Appends pieces to a reply. Pieces must come in the order in which the parser returned them.
void join(Reply& reply, std::span<const ReplyDelta> deltas);

}  // namespace tessera::text
