#include "tessera/cli/chat_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tessera/base/file.h"
#include "tessera/cli/model_facts.h"
#include "tessera/cli/tool_call_json.h"
#include "tessera/text/chat/json_view.h"

namespace tessera::cli {
namespace {

using ChatJson = nlohmann::ordered_json;

constexpr uint64_t kMaxFileBytes = uint64_t{64} << 20;
constexpr int kVersion = 1;

std::string fingerprint_text(const Engine& engine) { return fmt::format("{:016x}", engine.fingerprint()); }

ChatJson to_json(const text::ChatMessage& message) {
  ChatJson json = {{"role", message.role}, {"content", message.content}};
  if (!message.reasoning.empty()) json["reasoning_content"] = message.reasoning;
  if (!message.calls.empty()) json["tool_calls"] = tool_calls_json(message.calls);
  if (!message.call_id.empty()) json["tool_call_id"] = message.call_id;
  if (message.is_cut) json["cut"] = true;
  return json;
}

// Reads members of an object. An absent member is empty; one of another type is an error, which ok() reports.
class Members {
 public:
  Members(const ChatJson& object, std::string place) : object_(object), place_(std::move(place)) {
    if (!object.is_object()) refuse("", "an object");
  }

  std::string text(const char* key) {
    const ChatJson* value = find(key);
    if (value == nullptr) return {};
    if (!value->is_string()) return refuse(key, "a text"), std::string();
    return value->get<std::string>();
  }
  bool boolean(const char* key) {
    const ChatJson* value = find(key);
    if (value != nullptr && !value->is_boolean()) refuse(key, "true or false");
    return value != nullptr && value->is_boolean() && value->get<bool>();
  }
  /// The elements of a list.
  const ChatJson& list(const char* key) {
    static const ChatJson kNone = ChatJson::array();
    const ChatJson* value = find(key);
    if (value == nullptr) return kNone;
    if (!value->is_array()) return refuse(key, "a list"), kNone;
    return *value;
  }
  const ChatJson* find(const char* key) const {
    const auto found = object_.is_object() ? object_.find(key) : object_.end();
    return found == object_.end() ? nullptr : &*found;
  }
  std::string place(const char* key) const { return place_.empty() ? key : fmt::format("{}.{}", place_, key); }
  Result<> ok() const { return error_.empty() ? Result<>() : fail(ErrorCode::format, "{}", error_); }

 private:
  void refuse(const char* key, std::string_view want) {
    if (error_.empty()) error_ = fmt::format("{}: want {}", *key == 0 ? place_ : place(key), want);
  }

  const ChatJson& object_;
  std::string place_;
  std::string error_;
};

Result<text::ToolCall> read_call(const ChatJson& json, std::string place) {
  static const ChatJson kNone = ChatJson::object();
  Members call(json, place);
  const ChatJson* function_json = call.find("function");
  Members function(function_json == nullptr ? kNone : *function_json, place + ".function");
  text::ToolCall read = {.name = function.text("name"), .arguments = function.text("arguments"), .id = call.text("id")};
  TESSERA_TRY(call.ok());
  TESSERA_TRY(function.ok());
  if (!text::json_members(read.arguments))
    return fail(ErrorCode::format, "{}.function.arguments: want the JSON text of an object", place);
  return read;
}

Result<text::ChatMessage> read_message(const ChatJson& json, size_t i) {
  Members members(json, fmt::format("messages[{}]", i));
  text::ChatMessage message = {.role = members.text("role"),
                               .content = members.text("content"),
                               .reasoning = members.text("reasoning_content"),
                               .call_id = members.text("tool_call_id"),
                               .is_cut = members.boolean("cut")};
  const ChatJson& calls = members.list("tool_calls");
  TESSERA_TRY(members.ok());
  if (message.role != "user" && message.role != "assistant" && message.role != "tool")
    return fail(ErrorCode::format, "messages[{}].role: want user, assistant or tool", i);
  for (const ChatJson& call : calls) {
    TESSERA_ASSIGN(auto read, read_call(call, fmt::format("messages[{}].tool_calls[{}]", i, message.calls.size())));
    message.calls.push_back(std::move(read));
  }
  return message;
}

Result<ChatSettings> read_settings(const Members& members) {
  ChatSettings settings;
  const ChatJson* json = members.find("settings");
  if (json == nullptr) return settings;
  if (!json->is_object()) return fail(ErrorCode::format, "settings: want an object");
  for (const auto& [name, value] : json->items()) {
    if (!value.is_string()) return fail(ErrorCode::format, "settings.{}: want a text", name);
    auto set = settings.set(name, value.get<std::string>());
    if (!set) return forward_error(set, "settings");
  }
  return settings;
}

std::string model_warning(Members& model, const Engine& engine) {
  const std::string hash = model.text("fingerprint");
  if (hash.empty() || hash == fingerprint_text(engine)) return {};
  return fmt::format("the chat was held with another model ({})", model.text("name"));
}

}  // namespace

Result<> save_chat(const Chat& chat, const std::string& path) {
  const Engine& engine = *chat.model().engine;
  ChatJson json = {{"version", kVersion},
                   {"model", {{"name", model_name(engine)}, {"fingerprint", fingerprint_text(engine)}}},
                   {"system", chat.conversation.system},
                   {"settings", ChatJson::object()},
                   {"messages", ChatJson::array()}};
  for (const ShownSetting& setting : chat.settings.changed()) json["settings"][setting.name] = setting.value;
  if (!chat.tools().empty()) json["tools"] = chat.tools();
  for (const text::ChatMessage& message : chat.conversation.messages) json["messages"].push_back(to_json(message));
  const std::string text = json.dump(2, ' ', false, ChatJson::error_handler_t::replace) + "\n";
  TESSERA_ASSIGN(AtomicFile file, AtomicFile::create(path));
  TESSERA_TRY(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

Result<std::string> load_chat(Chat& chat, const std::string& path) {
  TESSERA_ASSIGN(const std::string text, read_file(path, kMaxFileBytes));
  const auto read = [&]() -> Result<std::string> {
    const ChatJson json = ChatJson::parse(text, nullptr, false);
    if (json.is_discarded()) return fail(ErrorCode::format, "not JSON");
    static const ChatJson kNone = ChatJson::object();
    Members members(json, "");
    Conversation conversation = {.system = members.text("system")};
    const std::string tools = members.text("tools");
    const ChatJson& messages = members.list("messages");
    const ChatJson* model_json = members.find("model");
    Members model(model_json == nullptr ? kNone : *model_json, "model");
    std::string warning = model_warning(model, *chat.model().engine);
    TESSERA_TRY(members.ok());
    TESSERA_TRY(model.ok());
    for (const ChatJson& message : messages) {
      TESSERA_ASSIGN(auto one, read_message(message, conversation.messages.size()));
      conversation.messages.push_back(std::move(one));
    }
    TESSERA_ASSIGN(ChatSettings settings, read_settings(members));
    TESSERA_TRY(chat.set_tools(tools));
    chat.conversation = std::move(conversation);
    chat.settings = std::move(settings);
    return warning;
  };
  auto warning = read();
  if (!warning) return forward_error(warning, path);
  return warning;
}

}  // namespace tessera::cli
