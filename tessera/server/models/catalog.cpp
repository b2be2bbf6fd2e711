#include "tessera/server/models/catalog.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <optional>
#include <system_error>

#include "tessera/base/file.h"
#include "tessera/gguf/split.h"

namespace tessera::server {

namespace {

namespace fs = std::filesystem;

bool is_gguf(const fs::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return std::tolower(c); });
  return extension == ".gguf";
}

// The name of a file that is a model or the first part of one.
std::optional<std::string> model_name(const fs::path& path) {
  if (!is_gguf(path) || path.filename().string().starts_with("mmproj")) return std::nullopt;
  const auto part = parse_split_path(path.string());
  if (part && part->no != 0) return std::nullopt;
  return part ? fs::path(part->prefix).filename().string() : path.stem().string();
}

// The first model of a folder, by name.
std::optional<fs::path> model_in(const fs::path& folder) {
  std::optional<fs::path> first;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const bool is_model = it->is_regular_file(error) && model_name(it->path());
    if (is_model && (!first || it->path() < *first)) first = it->path();
    error.clear();
  }
  return first;
}

const PresetSetting* find_setting(const PresetSection& section, std::string_view key) {
  const auto found = std::ranges::find(section.settings, key, &PresetSetting::key);
  return found == section.settings.end() ? nullptr : &*found;
}

// Settings that are about the catalog and no flags of the model.
bool is_of_catalog(const PresetSetting& setting) {
  constexpr std::string_view kKeys[] = {"model", "load-on-startup", "stop-timeout", "alias", "tags"};
  return std::ranges::find(kKeys, setting.key) != std::end(kKeys);
}

// The words of a list with commas.
std::vector<std::string> list_of(const PresetSection& section, std::string_view key) {
  std::vector<std::string> words;
  const PresetSetting* setting = find_setting(section, key);
  std::string_view text = setting != nullptr ? std::string_view(setting->value) : std::string_view();
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view word = text.substr(0, comma);
    word.remove_prefix(std::min(word.find_first_not_of(' '), word.size()));
    word = word.substr(0, word.find_last_not_of(' ') + 1);
    if (!word.empty()) words.emplace_back(word);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return words;
}

Result<> apply_section(const PresetSection& section, const fs::path& folder, std::vector<CatalogEntry>& entries) {
  auto entry = std::ranges::find(entries, section.name, &CatalogEntry::name);
  const PresetSetting* model = find_setting(section, "model");
  if (model == nullptr && entry == entries.end())
    return fail(ErrorCode::not_found, "line {}: [{}] has no key model, and is not in the directory of models",
                section.line, section.name);
  if (entry == entries.end()) entry = entries.insert(entries.end(), {.name = section.name});
  if (model != nullptr) {
    entry->path = (folder / model->value).string();
    entry->origin = ModelOrigin::preset;
  }
  if (const PresetSetting* first = find_setting(section, "load-on-startup"); first != nullptr)
    entry->is_loaded_first = first->value == "1" || first->value == "true" || first->value == "on";
  entry->aliases = list_of(section, "alias");
  entry->tags = list_of(section, "tags");
  for (const PresetSetting& setting : section.settings)
    if (!is_of_catalog(setting)) entry->settings.push_back(setting);
  return {};
}

}  // namespace

Result<std::vector<CatalogEntry>> list_models(const std::string& directory) {
  std::vector<CatalogEntry> entries;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    std::optional<std::string> name;
    fs::path path = it->path();
    if (it->is_directory(ignored)) {
      name = path.filename().string();
      const auto inside = model_in(path);
      if (!inside) continue;
      path = *inside;
    } else {
      name = model_name(path);
    }
    if (!name) continue;
    if (entries.size() >= kMaxCatalogEntries)
      return fail(ErrorCode::limit, "{}: more than {} models", directory, kMaxCatalogEntries);
    entries.push_back({.name = std::move(*name), .path = path.string(), .origin = ModelOrigin::directory});
  }
  if (error) return fail(ErrorCode::io, "{}: {}", directory, error.message());
  std::ranges::sort(entries, {}, [](const CatalogEntry& entry) { return std::pair(entry.name, entry.path); });
  const auto [last, end] = std::ranges::unique(entries, {}, &CatalogEntry::name);
  entries.erase(last, end);
  return entries;
}

namespace {

// Adds the names that clients gave, and leaves out the own names of files that they deleted. A name without its file is
// left out.
Result<> add_named_models(const std::string& directory, std::vector<CatalogEntry>& entries) {
  TESSERA_ASSIGN(const NamedModels names, read_named_models(directory, kMaxCatalogEntries));
  for (const auto& [name, model] : names) {
    const std::string path = (fs::path(directory) / model.file).string();
    const auto own = std::ranges::find(entries, name, &CatalogEntry::name);
    if (model.is_hidden) {
      if (own != entries.end() && own->path == path) entries.erase(own);
      continue;
    }
    std::error_code error;
    if (own != entries.end() || !fs::is_regular_file(path, error)) continue;
    CatalogEntry entry{.name = name, .path = path, .named = model, .origin = ModelOrigin::directory};
    for (const std::string& adapter : model.adapters)
      entry.settings.push_back({.key = "lora", .value = (fs::path(directory) / adapter).string()});
    entries.push_back(std::move(entry));
  }
  return {};
}

}  // namespace

Result<std::vector<CatalogEntry>> read_catalog(const CatalogPaths& paths) {
  std::vector<CatalogEntry> entries;
  if (!paths.directory.empty()) {
    TESSERA_ASSIGN(entries, list_models(paths.directory));
    TESSERA_TRY(add_named_models(paths.directory, entries));
  }
  if (paths.presets.empty()) return entries;
  TESSERA_ASSIGN(const std::string text, read_file(paths.presets, kMaxPresetBytes));
  auto sections = parse_presets(text);
  if (!sections) return forward_error(sections, paths.presets);
  const fs::path folder = fs::path(paths.presets).parent_path();
  std::vector<PresetSetting> for_all;
  for (const PresetSection& section : *sections) {
    if (section.name == "*") {
      for_all = section.settings;
      continue;
    }
    auto applied = apply_section(section, folder, entries);
    if (!applied) return forward_error(applied, paths.presets);
  }
  for (CatalogEntry& entry : entries) entry.settings.insert(entry.settings.begin(), for_all.begin(), for_all.end());
  std::ranges::sort(entries, {}, &CatalogEntry::name);
  return entries;
}

std::string_view bare_model_name(std::string_view name) {
  for (const std::string_view ending : {":latest", ".gguf"})
    if (name.ends_with(ending)) name.remove_suffix(ending.size());
  return name;
}

bool is_name_of(const CatalogEntry& entry, std::string_view name) {
  const std::string_view wanted = bare_model_name(name);
  const auto is_wanted = [&](const std::string& own) { return bare_model_name(own) == wanted; };
  if (entry.named) return is_wanted(entry.name);
  return is_wanted(entry.name) || std::ranges::any_of(entry.aliases, is_wanted) ||
         is_wanted(fs::path(entry.path).filename().string());
}

}  // namespace tessera::server
