#include "tessera/convert/vocabulary/tokenizer_folder.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "tessera/base/file.h"
#include "tessera/base/folder.h"
#include "tessera/json/reader.h"

namespace tessera::convert {

namespace {

constexpr size_t kMaxTokenizerFiles = 100'000;  // entries of a folder
constexpr std::string_view kSettings = "tokenizer_config.json";

// A vocabulary of 262,144 tokens with all merges as pairs has about 2 million values.
constexpr JsonLimits kTokenizerLimits{.max_depth = 64,
                                      .max_values = size_t{1} << 22,
                                      .max_key_bytes = size_t{64} << 10,
                                      .tree_bytes = size_t{64} << 20,
                                      .tree_bytes_per_byte = 8};

/// A string, or the content of an object.
std::optional<std::string> text_of_token(const Json& json) {
  const Json* text = &json;
  if (json.is_object()) {
    const auto content = json.find("content");
    if (content == json.end()) return std::nullopt;
    text = &*content;
  }
  if (!text->is_string()) return std::nullopt;
  return text->get<std::string>();
}

}  // namespace

Result<TokenizerFolder> TokenizerFolder::open(std::string path, const HubConfig& config, VocabularyOptions options,
                                              std::vector<std::string>& warnings) {
  TokenizerFolder folder(std::move(path), config, std::move(options), warnings);
  TESSERA_ASSIGN(JsonTree settings, folder.read_json_file(kSettings));
  if (settings && !settings->is_object()) return fail(ErrorCode::format, "{}: no object", folder.path_of(kSettings));
  if (!settings) settings.reset(new Json(Json::object()));
  folder.settings_ = std::move(settings);
  return folder;
}

const Json* TokenizerFolder::setting(std::string_view name) const {
  const auto found = settings_->find(name);
  return found == settings_->end() || found->is_null() ? nullptr : &*found;
}

std::optional<bool> TokenizerFolder::flag_setting(std::string_view name) const {
  const Json* value = setting(name);
  if (value == nullptr || !value->is_boolean()) return std::nullopt;
  return value->get<bool>();
}

std::optional<std::string> TokenizerFolder::token_setting(std::string_view name) const {
  const Json* value = setting(name);
  return value == nullptr ? std::nullopt : text_of_token(*value);
}

std::vector<std::string> TokenizerFolder::named_tokens() const {
  std::vector<std::string> texts;
  const auto add = [&](const Json& json) {
    if (auto text = text_of_token(json)) texts.push_back(std::move(*text));
  };
  for (const auto& [name, value] : settings_->items()) {
    if (name.ends_with("_token")) add(value);
    if (name != "additional_special_tokens" && name != "extra_special_tokens") continue;
    for (const Json& item : value) add(item);
  }
  std::ranges::sort(texts);
  return texts;
}

std::optional<std::string> TokenizerFolder::first_of(std::initializer_list<std::string_view> names) const {
  for (const std::string_view name : names)
    if (std::error_code error; std::filesystem::exists(path_of(name), error)) return std::string(name);
  return std::nullopt;
}

Result<std::vector<std::string>> TokenizerFolder::names_like(std::string_view subfolder, std::string_view begin,
                                                             std::string_view end) const {
  const std::string folder = subfolder.empty() ? path_ : path_of(subfolder);
  auto names = names_in_folder(folder, kMaxTokenizerFiles);
  if (!names && names.error().code() != ErrorCode::limit) return std::vector<std::string>();
  if (!names) return names;
  std::erase_if(*names, [&](const std::string& name) {
    return name.size() < begin.size() + end.size() || !name.starts_with(begin) || !name.ends_with(end);
  });
  std::ranges::sort(*names);
  return names;
}

Result<std::string> TokenizerFolder::read_text(std::string_view name) const {
  return read_file(path_of(name), kMaxTokenizerBytes);
}

Result<JsonTree> TokenizerFolder::read_json_file(std::string_view name) const {
  if (!first_of({name})) return nullptr;
  TESSERA_ASSIGN(const std::string text, read_text(name));
  auto json = read_json_tree(text, kTokenizerLimits);
  if (!json) return forward_error(json, path_of(name));
  return json;
}

}  // namespace tessera::convert
