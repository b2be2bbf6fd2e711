#include "tessera/text/chat/chat_check.h"

#include <vector>

#include "tessera/text/chat/value_tools.h"
#include "tessera/text/utf8.h"

namespace tessera::text {
namespace {

using jinja::Value;

/// Adds up the bytes of values, without recursion. The elements of a list count before they are visited, so a long list
/// costs nothing.
class ValueMeter {
 public:
  /// Errors: limit.
  Result<> add(const Value& value) {
    TESSERA_TRY(add_bytes(kValueBytes));
    open_.push_back({value, 1});
    while (!open_.empty()) {
      const Nested nested = open_.back();
      open_.pop_back();
      TESSERA_TRY(add_one(nested));
    }
    return {};
  }
  Result<> add_bytes(size_t n) {
    n_bytes_ += n;
    if (n_bytes_ > kMaxChatVariableBytes) return fail(ErrorCode::limit, "above {} bytes", kMaxChatVariableBytes);
    return {};
  }

 private:
  static constexpr size_t kValueBytes = 8;

  struct Nested {
    Value value;
    size_t depth;  // dicts and lists around it, with that of all variables
  };

  Result<> add_one(const Nested& nested) {
    const Value& value = nested.value;
    if (value.is_text()) return add_bytes(value.bytes().size());
    const bool is_dict = value.is(jinja::Kind::dict);
    if (!is_dict && !value.is_sequence()) return {};
    if (nested.depth == kMaxChatVariableDepth)
      return fail(ErrorCode::limit, "nested deeper than {}", kMaxChatVariableDepth);
    TESSERA_TRY(add_bytes(kValueBytes * (is_dict ? value.as_dict().entries.size() : value.as_list().items.size())));
    if (!is_dict) {
      for (const Value& element : value.as_list().items) open_.push_back({element, nested.depth + 1});
      return {};
    }
    for (const jinja::Dict::Entry& entry : value.as_dict().entries) {
      TESSERA_TRY(add_bytes(entry.key.bytes().size()));
      open_.push_back({entry.value, nested.depth + 1});
    }
    return {};
  }

  std::vector<Nested> open_;
  size_t n_bytes_ = 0;
};

Result<> check_messages(const Value& list) {
  if (!list.is_sequence()) return fail(ErrorCode::invalid_argument, "messages: missing, want a list");
  const auto& messages = list.as_list().items;
  for (size_t i = 0; i < messages.size(); ++i) {
    if (!messages[i].is(jinja::Kind::dict)) return fail(ErrorCode::invalid_argument, "messages[{}]: not an object", i);
    if (!member_of(messages[i], "role").is_text())
      return fail(ErrorCode::invalid_argument, "messages[{}].role: missing", i);
  }
  return {};
}

Result<> check_variables(const Value& variables, std::string_view field) {
  if (variables.is_missing()) return {};
  if (!variables.is(jinja::Kind::dict)) return fail(ErrorCode::invalid_argument, "{}: not an object", field);
  const auto& entries = variables.as_dict().entries;
  if (entries.size() > kMaxChatVariables)
    return fail(ErrorCode::limit, "{}: more than {} variables", field, kMaxChatVariables);
  ValueMeter meter;
  for (const jinja::Dict::Entry& entry : entries) {
    auto added = meter.add_bytes(entry.key.bytes().size());
    if (added) added = meter.add(entry.value);
    if (!added) return forward_error(added, fmt::format("{}.{}", field, quote_text(entry.key.bytes())));
  }
  return {};
}

}  // namespace

Result<> check_chat(const ChatRequest& request) {
  TESSERA_TRY(check_messages(request.messages));
  const bool has_tools = !request.tools.is_missing() && !request.tools.is_none();
  if (has_tools && !request.tools.is_sequence()) return fail(ErrorCode::invalid_argument, "tools: not a list");
  return check_variables(request.variables, request.variables_field);
}

}  // namespace tessera::text
