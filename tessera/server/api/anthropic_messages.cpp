// Blocks of the Anthropic API as messages of the chat template. The rules of the roles and blocks are the API's; the
// template sees the form of the OpenAI API.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <utility>

#include "tessera/server/api/anthropic.h"
#include "tessera/server/json/writer.h"

namespace tessera::server {

namespace {

void append_part(std::string& text, std::string_view part, bool& has_text) {
  if (has_text) text += '\n';
  text += part;
  has_text = true;
}

std::string template_id(std::string_view id) {
  if (id.starts_with(kToolUsePrefix)) id.remove_prefix(kToolUsePrefix.size());
  return std::string(id);
}

std::unexpected<FieldError> refuse_block(const FieldReader& block, std::string_view type) {
  const std::string_view reason =
      type == "image" ? "image and audio input is not supported" : "not a supported block here";
  return refuse_field(block.path_of("type"), fmt::format("'{}': {}", type.substr(0, 64), reason));
}

FieldResult<std::string_view> text_of_block(const Json& given, std::string path) {
  auto block = FieldReader::create(given, std::move(path));
  if (!block) return forward_error(block);
  const auto type = block->required_text("type");
  if (!type) return std::unexpected(type.error());
  if (*type != "text") return refuse_block(*block, *type);
  return block->required_text("text");
}

// A text, or blocks of text.
FieldResult<std::string> text_of_blocks(const Json& content, const std::string& path) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) return wrong_value({.parent = path}, content, "a text, or a list of blocks");
  std::string joined;
  bool has_text = false;
  for (size_t i = 0; i < content.size(); ++i) {
    const auto text = text_of_block(content[i], fmt::format("{}[{}]", path, i));
    if (!text) return std::unexpected(text.error());
    append_part(joined, *text, has_text);
  }
  return joined;
}

class MessageReader {
 public:
  FieldResult<> read_system(const Json& system) {
    if (system.is_string()) {
      add("system", settle_billing_header(system.get<std::string>()));
      return {};
    }
    if (!system.is_array()) return wrong_value({.name = "system"}, system, "a text, or a list of blocks");
    std::string joined;
    bool has_text = false;
    for (size_t i = 0; i < system.size(); ++i) {
      const auto text = text_of_block(system[i], fmt::format("system[{}]", i));
      if (!text) return std::unexpected(text.error());
      append_part(joined, settle_billing_header(std::string(*text)), has_text);
    }
    if (has_text) add("system", joined);
    return {};
  }

  FieldResult<> read_message(const Json& given, const std::string& path) {
    auto message = FieldReader::create(given, path);
    if (!message) return forward_error(message);
    constexpr std::string_view kRoles[] = {"user", "assistant", "system"};
    const auto role = message->choice("role", kRoles);
    if (!role) return std::unexpected(role.error());
    if (!*role) return refuse_field(message->path_of("role"), "absent, want a text");
    const Json* content = message->find("content");
    if (content == nullptr) return refuse_field(message->path_of("content"), "absent, want a text or a list of blocks");
    const std::string content_path = path + ".content";
    if (**role == 1) return read_assistant(*content, content_path);
    if (**role == 0 && content->is_array()) return read_user(*content, content_path);
    auto text = text_of_blocks(*content, content_path);
    if (!text) return forward_error(text);
    add(kRoles[**role], *text);
    return {};
  }

  Json take() { return std::move(messages_); }

 private:
  void add(std::string_view role, std::string_view text) { append_text(last_of(role)["content"], text); }

  static void append_text(Json& joined, std::string_view text) {
    if (!joined.is_string()) {
      joined = std::string(text);
      return;
    }
    joined.get_ref<std::string&>() += '\n';
    joined.get_ref<std::string&>() += text;
  }

  // The last message, if it is of this role, else a new one.
  Json& last_of(std::string_view role) {
    if (messages_.empty() || messages_.back()["role"] != role)
      messages_.push_back({{"role", std::string(role)}, {"content", nullptr}});
    return messages_.back();
  }

  FieldResult<> read_user(const Json& blocks, const std::string& path) {
    std::string joined;
    bool has_text = false, has_results = false;
    for (size_t i = 0; i < blocks.size(); ++i) {
      auto block = FieldReader::create(blocks[i], fmt::format("{}[{}]", path, i));
      if (!block) return forward_error(block);
      const auto type = block->required_text("type");
      if (!type) return std::unexpected(type.error());
      if (*type == "tool_result") {
        TESSERA_READ(read_result(*block));
        has_results = true;
        continue;
      }
      if (*type != "text") return refuse_block(*block, *type);
      const auto text = block->required_text("text");
      if (!text) return std::unexpected(text.error());
      append_part(joined, *text, has_text);
    }
    if (has_text || !has_results) add("user", joined);
    return {};
  }

  FieldResult<> read_result(const FieldReader& block) {
    const auto id = block.required_text("tool_use_id");
    if (!id) return std::unexpected(id.error());
    const auto failed = block.boolean("is_error");
    if (!failed) return std::unexpected(failed.error());
    std::string result;
    if (const Json* content = block.find("content"); content != nullptr) {
      auto text = text_of_blocks(*content, block.path_of("content").text());
      if (!text) return forward_error(text);
      result = std::move(*text);
    }
    Json message = {{"role", "tool"}, {"content", std::move(result)}, {"tool_call_id", template_id(*id)}};
    if (const auto name = tool_names_.find(std::string(*id)); name != tool_names_.end()) message["name"] = name->second;
    messages_.push_back(std::move(message));
    return {};
  }

  FieldResult<> read_assistant(const Json& content, const std::string& path) {
    if (content.is_string()) {
      add("assistant", content.get_ref<const std::string&>());
      return {};
    }
    if (!content.is_array()) return wrong_value({.parent = path}, content, "a text, or a list of blocks");
    last_of("assistant");
    for (size_t i = 0; i < content.size(); ++i) {
      auto block = FieldReader::create(content[i], fmt::format("{}[{}]", path, i));
      if (!block) return forward_error(block);
      TESSERA_READ(read_assistant_block(*block));
    }
    return {};
  }

  FieldResult<> read_assistant_block(const FieldReader& block) {
    const auto type = block.required_text("type");
    if (!type) return std::unexpected(type.error());
    if (*type == "redacted_thinking") return {};
    if (*type == "tool_use") return read_tool_use(block);
    if (*type != "text" && *type != "thinking") return refuse_block(block, *type);
    const auto text = block.required_text(*type);
    if (!text) return std::unexpected(text.error());
    if (*type == "text") {
      add("assistant", *text);
      return {};
    }
    append_text(messages_.back()["reasoning_content"], *text);
    return {};
  }

  FieldResult<> read_tool_use(const FieldReader& block) {
    const auto id = block.required_text("id"), name = block.required_text("name");
    if (!id) return std::unexpected(id.error());
    if (!name) return std::unexpected(name.error());
    if (const auto input = block.object("input"); !input) return std::unexpected(input.error());
    const Json* input = block.find("input");
    tool_names_[std::string(*id)] = *name;
    messages_.back()["tool_calls"].push_back(
        {{"id", template_id(*id)},
         {"type", "function"},
         {"function",
          {{"name", std::string(*name)}, {"arguments", input == nullptr ? std::string("{}") : json_text(*input)}}}});
    return {};
  }

  Json messages_ = Json::array();
  std::unordered_map<std::string, std::string> tool_names_;  // by the id of a call
};

}  // namespace

std::string settle_billing_header(std::string text) {
  constexpr std::string_view kHeader = "x-anthropic-billing-header:", kKey = "cch=", kSettled = "fffff";
  if (!text.starts_with(kHeader)) return text;
  const size_t at = text.find(kKey);
  if (at == std::string::npos) return text;
  const std::string_view digits = std::string_view(text).substr(at + kKey.size(), kSettled.size());
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); };
  if (digits.size() == kSettled.size() && std::ranges::all_of(digits, is_hex))
    text.replace(at + kKey.size(), kSettled.size(), kSettled);
  return text;
}

FieldResult<> read_anthropic_messages(const FieldReader& body, ChatCall& call) {
  const auto messages = body.required_list("messages");
  if (!messages) return std::unexpected(messages.error());
  if ((*messages)->empty()) return refuse_field(body.path_of("messages"), "empty, want one message or more");
  MessageReader reader;
  if (const Json* system = body.find("system"); system != nullptr) TESSERA_READ(reader.read_system(*system));
  for (size_t i = 0; i < (*messages)->size(); ++i)
    TESSERA_READ(reader.read_message((**messages)[i], fmt::format("messages[{}]", i)));
  const Json read = reader.take();
  call.messages = json_text(read);
  call.continues_last = read.back()["role"] == "assistant" && !read.back().contains("tool_calls");
  return {};
}

}  // namespace tessera::server
