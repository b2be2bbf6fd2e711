// Items of the Responses API as messages of the chat template.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <utility>

#include "tessera/server/api/responses.h"

namespace tessera::server {

namespace {

std::unexpected<FieldError> refuse_type(const FieldReader& object, std::string_view type) {
  const bool is_input = type.starts_with("input_");
  const std::string_view reason = is_input ? "image, audio and file input is not supported" : "not supported";
  return refuse_field(object.path_of("type"), fmt::format("'{}': {}", type.substr(0, 64), reason));
}

// A text, or parts of text.
FieldResult<std::string> text_of_parts(const Json& content, const std::string& path) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return wrong_value({.parent = path}, content, "a text, or a list of parts");
  std::string joined;
  for (size_t i = 0; i < content.size(); ++i) {
    auto part = FieldReader::create(content[i], fmt::format("{}[{}]", path, i));
    if (!part) return forward_error(part);
    const auto type = part->required_text("type");
    if (!type) return std::unexpected(type.error());
    const bool is_text = *type == "input_text" || *type == "output_text" || *type == "text" ||
                         *type == "reasoning_text" || *type == "summary_text";
    if (!is_text && *type != "refusal") return refuse_type(*part, *type);
    const auto text = part->required_text(is_text ? "text" : "refusal");
    if (!text) return std::unexpected(text.error());
    if (i > 0) joined += '\n';
    joined += *text;
  }
  return joined;
}

class ItemReader {
 public:
  explicit ItemReader(Json& messages) : messages_(messages) {
    for (const Json& message : messages)
      if (message.contains("tool_calls"))
        for (const Json& call : message["tool_calls"])
          names_[call["id"].get<std::string>()] = call["function"]["name"].get<std::string>();
  }

  FieldResult<> read(const Json& given, const std::string& path) {
    auto item = FieldReader::create(given, path);
    if (!item) return forward_error(item);
    const auto type = item->text("type");
    if (!type) return std::unexpected(type.error());
    const std::string_view kind = type->value_or("message");
    if (kind == "message") return read_message(*item);
    if (kind == "reasoning") return read_reasoning_item(*item);
    if (kind == "function_call") return read_call(*item);
    if (kind == "function_call_output") return read_output(*item);
    return refuse_type(*item, kind);
  }

 private:
  FieldResult<> read_message(const FieldReader& item) {
    constexpr std::string_view kItemRoles[] = {"user", "assistant", "system", "developer"};
    const auto role = item.choice("role", kItemRoles);
    if (!role) return std::unexpected(role.error());
    if (!*role) return refuse_field(item.path_of("role"), "absent, want a text");
    const Json* content = item.find("content");
    if (content == nullptr) return refuse_field(item.path_of("content"), "absent, want a text or a list of parts");
    auto text = text_of_parts(*content, item.path_of("content").text());
    if (!text) return forward_error(text);
    const std::string_view name = kItemRoles[**role];
    if (name == "assistant") {
      turn(has_answer(last()))["content"] = std::move(*text);
    } else {
      messages_.push_back({{"role", std::string(name)}, {"content", std::move(*text)}});
    }
    return {};
  }

  FieldResult<> read_reasoning_item(const FieldReader& item) {
    const Json* content = item.find("content");
    if (content == nullptr || content->empty()) content = item.find("summary");
    if (content == nullptr || content->empty()) return {};  // encrypted by another server
    auto text = text_of_parts(*content, item.path_of("content").text());
    if (!text) return forward_error(text);
    turn(true)["reasoning_content"] = std::move(*text);
    return {};
  }

  FieldResult<> read_call(const FieldReader& item) {
    const auto id = item.required_text("call_id"), name = item.required_text("name"),
               arguments = item.required_text("arguments");
    for (const auto* text : {&id, &name, &arguments})
      if (!*text) return std::unexpected(text->error());
    names_[std::string(*id)] = *name;
    turn(false)["tool_calls"].push_back(
        {{"id", std::string(*id)},
         {"type", "function"},
         {"function", {{"name", std::string(*name)}, {"arguments", std::string(*arguments)}}}});
    return {};
  }

  FieldResult<> read_output(const FieldReader& item) {
    const auto id = item.required_text("call_id");
    if (!id) return std::unexpected(id.error());
    const Json* output = item.find("output");
    if (output == nullptr) return refuse_field(item.path_of("output"), "absent, want a text or a list of parts");
    auto text = text_of_parts(*output, item.path_of("output").text());
    if (!text) return forward_error(text);
    Json message = {{"role", "tool"}, {"content", std::move(*text)}, {"tool_call_id", std::string(*id)}};
    if (const auto name = names_.find(std::string(*id)); name != names_.end()) message["name"] = name->second;
    messages_.push_back(std::move(message));
    return {};
  }

  const Json* last() const { return messages_.empty() ? nullptr : &messages_.back(); }
  static bool has_answer(const Json* message) {
    return message != nullptr && (!(*message)["content"].is_null() || message->contains("tool_calls"));
  }

  // The assistant's message that an item belongs to. Reasoning, text and calls that follow each other are one message.
  Json& turn(bool is_new) {
    if (is_new || messages_.empty() || messages_.back()["role"] != "assistant")
      messages_.push_back({{"role", "assistant"}, {"content", nullptr}});
    return messages_.back();
  }

  Json& messages_;
  std::unordered_map<std::string, std::string> names_;  // of functions, by the id of their call
};

}  // namespace

FieldResult<> read_response_input(const Json& input, Json& messages) {
  if (input.is_string()) {
    messages.push_back({{"role", "user"}, {"content", input}});
    return {};
  }
  if (!input.is_array()) return wrong_value({.name = "input"}, input, "a text, or a list of items");
  ItemReader reader(messages);
  for (size_t i = 0; i < input.size(); ++i) TESSERA_READ(reader.read(input[i], fmt::format("input[{}]", i)));
  return {};
}

}  // namespace tessera::server
