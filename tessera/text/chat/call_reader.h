// Readers of tool calls, one per shape. ReplyParser creates a reader when a mark that begins calls was read, and gives
// it the bytes that follow. The reader reports the calls to a CallSink. A reader looks at each byte once, except for
// bytes that may begin a mark.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>

#include "tessera/text/chat/json_reader.h"
#include "tessera/text/chat/reply.h"
#include "tessera/text/chat/reply_family.h"
#include "tessera/text/chat/tool_set.h"

namespace tessera::text {

/// Receives calls: begin_call, add_arguments any number of times, end_call.
class CallSink {
 public:
  virtual ~CallSink() = default;
  enum class Tool : uint8_t {
    given,    // a tool of the request
    builtin,  // a tool that the model knows by itself
  };

  /// Returns false if the text is not a call after all, because it lacks marks and the tool is unknown. An empty id
  /// means that the model gave none.
  virtual bool begin_call(std::string_view name, std::string_view id, Tool tool = Tool::given) = 0;
  virtual void add_arguments(std::string_view json) = 0;
  virtual void end_call() = 0;
  virtual void warn(std::string message) = 0;
  /// Keeps calls back until ReplyParser reports that they are settled, since text without marks may turn out to be no
  /// call.
  virtual void hold_calls() = 0;
};

struct CallStep {
  enum class Kind {
    wait,     // the bytes may begin a mark, more are needed
    more,     // n_bytes were read
    settled,  // n_bytes were read, and all bytes so far belong to complete calls
    closed,   // n_bytes were read; no call follows, and the next bytes are content
    failed,   // n_bytes were read; the bytes since the last complete call are not a call
  };
  Kind kind;
  size_t n_bytes = 0;
  std::string_view reason = {};  // for failed; static text
};

class CallReader {
 public:
  virtual ~CallReader() = default;
  /// Reads from the front of text, which is not empty. is_last: nothing follows this text. Returns `wait` only if the
  /// text is shorter than a mark and is_last is false.
  virtual CallStep read(std::string_view text, bool is_last) = 0;
  /// Ends the reply. Returns whether the open call, if any, is complete.
  virtual bool end(ReplyEnd) { return false; }
};

/// The place in a call where a reader begins.
struct CallStart {
  enum class At : uint8_t {
    section,    // after a mark of section_begin
    call,       // after call_begin
    arguments,  // after a name
    bare,       // after a mark of bare_begin
    code,       // after code_begin
  };
  At at;
  std::string name = {};  // for arguments
};

/// References that a reader keeps. They must outlive it.
struct CallContext {
  const ReplyFamily& family;
  const ToolSet& tools;
  CallSink& sink;
};

std::unique_ptr<CallReader> create_call_reader(const CallContext& context, const CallStart& start);

// Creates a reader of one shape or of a few. create_call_reader() chooses the function.
std::unique_ptr<CallReader> create_json_reader(const CallContext& context, const CallStart& start);
std::unique_ptr<CallReader> create_tagged_json_reader(const CallContext& context, const CallStart& start);
std::unique_ptr<CallReader> create_tagged_args_reader(const CallContext& context, const CallStart& start);
std::unique_ptr<CallReader> create_function_reader(const CallContext& context, const CallStart& start);
std::unique_ptr<CallReader> create_code_reader(const CallContext& context);

/// Length limit of the names of tools and arguments, and of ids, that end at a mark.
inline constexpr size_t kMaxCallNameBytes = 256;

/// Around the text of a value.
inline constexpr std::string_view kCdataBegin = "<![CDATA[";
inline constexpr std::string_view kCdataEnd = "]]>";

/// After the name of a built-in tool.
inline constexpr std::string_view kBuiltinCall = ".call(";
/// Tools whose calls are code.
inline constexpr std::string_view kCodeTools[] = {"python", "code_interpreter"};

/// Returns how many bytes at the front of text are blanks.
inline size_t count_blanks(std::string_view text) {
  const size_t n = text.find_first_not_of(kJsonBlanks);
  return n == text.npos ? text.size() : n;
}

/// Returns the length of the longest front of text that has at most n_most bytes and ends between code points.
inline size_t fitting_bytes(std::string_view text, size_t n_most) {
  size_t n = std::min(n_most, text.size());
  while (n > 0 && n < text.size() && (static_cast<unsigned char>(text[n]) & 0xC0) == 0x80) --n;
  return n;
}

inline constexpr std::string_view kNotJson = "tool call is not JSON";
inline constexpr std::string_view kNoName = "tool call has no name";
inline constexpr std::string_view kBadForm = "tool call is not of the model's format";
inline constexpr std::string_view kTooDeep = "tool call has over 64 levels of JSON";
inline constexpr std::string_view kCutShort = "tool call cut short";

}  // namespace tessera::text
