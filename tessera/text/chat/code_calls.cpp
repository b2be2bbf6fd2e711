// Text after the mark of built-in tools (<|python_tag|>): a bare JSON call, a call such as
// brave_search.call(query="x"), or code up to the end of the reply.
#include <algorithm>

#include "tessera/text/chat/call_reader.h"
#include "tessera/text/chat/json_reader.h"

namespace tessera::text {
namespace {

bool is_identifier_byte(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

class CodeReader final : public CallReader {
 public:
  explicit CodeReader(const CallContext& context) : context_(context) {}

  CallStep read(std::string_view text, bool is_last) override {
    if (inner_) return inner_->read(text, is_last);
    if (in_code_) {
      context_.sink.add_arguments(json_escaped(text));
      return {CallStep::Kind::more, text.size()};
    }
    if (text.front() == '{' && context_.family.shape == ReplyShape::json) {
      inner_ = create_json_reader(context_, {CallStart::At::bare});
      return {CallStep::Kind::more};
    }
    return begin_code(text, is_last);
  }

  bool end(ReplyEnd end) override {
    if (!in_code_ || end == ReplyEnd::length) return false;
    context_.sink.add_arguments("\"}");
    context_.sink.end_call();
    return true;
  }

 private:
  // Distinguishes a call of a built-in tool from code.
  CallStep begin_code(std::string_view text, bool is_last) {
    const size_t n_most = std::min(text.size(), kMaxCallNameBytes);
    const auto name_end =
        std::find_if_not(text.begin(), text.begin() + static_cast<ptrdiff_t>(n_most), is_identifier_byte);
    const auto n_name = static_cast<size_t>(name_end - text.begin());
    const std::string_view after = text.substr(n_name, kBuiltinCall.size());
    if (n_name > 0 && after == kBuiltinCall) {
      inner_ = create_function_reader(context_, {CallStart::At::arguments, std::string(text.substr(0, n_name))});
      return {CallStep::Kind::more, n_name + kBuiltinCall.size()};
    }
    const bool may_be_call = n_name < kMaxCallNameBytes && kBuiltinCall.starts_with(after);
    if (may_be_call && !is_last && after.size() < kBuiltinCall.size()) return {CallStep::Kind::wait};
    in_code_ = true;
    context_.sink.begin_call(code_tool(), "", CallSink::Tool::builtin);
    context_.sink.add_arguments("{\"code\": \"");
    return {CallStep::Kind::more};
  }

  std::string_view code_tool() const {
    const auto given =
        std::ranges::find_if(kCodeTools, [&](std::string_view name) { return context_.tools.knows(name); });
    return given == std::end(kCodeTools) ? kCodeTools[0] : *given;
  }

  const CallContext context_;
  std::unique_ptr<CallReader> inner_;
  bool in_code_ = false;
};

}  // namespace

std::unique_ptr<CallReader> create_code_reader(const CallContext& context) {
  return std::make_unique<CodeReader>(context);
}

std::unique_ptr<CallReader> create_call_reader(const CallContext& context, const CallStart& start) {
  if (start.at == CallStart::At::code) return create_code_reader(context);
  switch (context.family.shape) {
    case ReplyShape::tagged_json:
    case ReplyShape::harmony:
      return create_tagged_json_reader(context, start);
    case ReplyShape::tagged_args:
      return create_tagged_args_reader(context, start);
    case ReplyShape::python:
    case ReplyShape::gemma:
      return create_function_reader(context, start);
    default:
      return create_json_reader(context, start);
  }
}

}  // namespace tessera::text
