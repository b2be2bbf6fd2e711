#include "tessera/convert/vocabulary/chat_templates.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tessera/convert/vocabulary/vocabulary_classes.h"
#include "tessera/text/chat/builtin_templates.h"
#include "tessera/text/template/template.h"
#include "tessera/text/utf8.h"

namespace tessera::convert {

namespace {

constexpr std::string_view kJinjaEnd = ".jinja";
constexpr std::string_view kMoreTemplates = "additional_chat_templates";
constexpr std::string_view kDefaultTemplate = "default";
constexpr size_t kMaxTemplates = 100;

// Keys of GGUF files have letters, digits and underscores.
std::string to_key_name(std::string_view name) {
  std::string out(name);
  std::ranges::replace_if(
      out, [](char c) { return !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')); }, '_');
  return out;
}

class TemplateCollector {
 public:
  TemplateCollector(const TokenizerFolder& folder, Vocabulary& vocabulary) : folder_(folder), vocabulary_(vocabulary) {}

  Result<> add(const std::string& file, std::string_view name, std::string source) {
    if (!text::is_valid_utf8(source)) return fail(ErrorCode::format, "{}: not UTF-8", folder_.path_of(file));
    if (const auto parsed = text::jinja::Template::parse(source); !parsed)
      folder_.warn(fmt::format("{}: chat {}", folder_.path_of(file), parsed.error().text()));
    if (name == kDefaultTemplate) {
      vocabulary_.chat_template = std::move(source);
      return {};
    }
    const std::string key = to_key_name(name);
    auto& named = vocabulary_.named_templates;
    if (std::ranges::find(named, key, &NamedTemplate::name) != named.end() || named.size() == kMaxTemplates)
      return fail(ErrorCode::format, "{}: chat template {}: the name is taken, or there are more than {}",
                  folder_.path_of(file), text::quote_text(name), kMaxTemplates);
    named.push_back({key, std::move(source)});
    return {};
  }

  /// A text, or a list of {name, template}.
  Result<> add_json(const std::string& file, const Json& json) {
    if (json.is_string()) return add(file, kDefaultTemplate, json.get<std::string>());
    if (!json.is_array()) return wrong(file);
    for (const Json& item : json) {
      if (!item.is_object()) return wrong(file);
      const auto name = item.find("name");
      const auto source = item.find("template");
      if (name == item.end() || source == item.end() || !name->is_string() || !source->is_string()) return wrong(file);
      TESSERA_TRY(add(file, name->get_ref<const std::string&>(), source->get<std::string>()));
    }
    return {};
  }

  Result<> add_jinja_files() {
    TESSERA_ASSIGN(std::string source, folder_.read_text("chat_template.jinja"));
    TESSERA_TRY(add("chat_template.jinja", kDefaultTemplate, std::move(source)));
    TESSERA_ASSIGN(const auto names, folder_.names_like(kMoreTemplates, "", kJinjaEnd));
    for (const std::string& name : names) {
      const std::string file = std::string(kMoreTemplates) + "/" + name;
      TESSERA_ASSIGN(std::string more, folder_.read_text(file));
      TESSERA_TRY(add(file, std::string_view(name).substr(0, name.size() - kJinjaEnd.size()), std::move(more)));
    }
    return {};
  }

 private:
  std::unexpected<Error> wrong(const std::string& file) const {
    return fail(ErrorCode::format, "{}: chat_template: want a text, or a list of names and templates",
                folder_.path_of(file));
  }

  const TokenizerFolder& folder_;
  Vocabulary& vocabulary_;
};

}  // namespace

Result<> add_chat_templates(const TokenizerFolder& folder, Vocabulary& vocabulary) {
  TemplateCollector collector(folder, vocabulary);
  const bool has_file = folder.first_of({"chat_template.jinja"}).has_value();
  if (has_file && is_laguna(folder.config().class_name())) return collector.add_jinja_files();
  if (const Json* json = folder.setting("chat_template")) return collector.add_json("tokenizer_config.json", *json);
  if (has_file) return collector.add_jinja_files();
  TESSERA_ASSIGN(const JsonTree file, folder.read_json_file("chat_template.json"));
  if (file) {
    const auto json = file->is_object() ? file->find("chat_template") : file->end();
    if (!file->is_object() || json == file->end())
      return fail(ErrorCode::format, "{}: no chat_template", folder.path_of("chat_template.json"));
    return collector.add_json("chat_template.json", *json);
  }
  if (vocabulary.model == "rwkv") vocabulary.chat_template = text::find_builtin_template("rwkv-world").value_or("");
  return {};
}

}  // namespace tessera::convert
