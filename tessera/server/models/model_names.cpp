#include "tessera/server/models/model_names.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "tessera/base/file.h"
#include "tessera/server/json/field_reader.h"
#include "tessera/server/json/writer.h"
#include "tessera/server/storage/directory.h"

namespace tessera::server {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMostPartBytes = 100;
constexpr std::string_view kEnding = ".json";

bool is_part(std::string_view part) { return part.size() <= kMostPartBytes && is_file_name(part); }

// A path that stays in the directory.
bool is_inside(const fs::path& path) {
  return !path.empty() && path.is_relative() &&
         std::ranges::none_of(path, [](const fs::path& part) { return part == ".." || part == "."; });
}

Error not_of_this_kind(std::string_view reason) {
  return {ErrorCode::format, "not a name of a model: " + std::string(reason)};
}

Result<std::vector<std::string>> read_adapters(const FieldReader& reader) {
  auto adapters = reader.texts("adapters", kMostNamedAdapters, kMaxNamedModelBytes);
  if (!adapters) return std::unexpected(not_of_this_kind(adapters.error().message));
  std::vector<std::string> files = adapters->value_or(std::vector<std::string>());
  if (!std::ranges::all_of(files, [](const std::string& file) { return is_inside(file); }))
    return std::unexpected(not_of_this_kind("a file outside of the directory"));
  return files;
}

}  // namespace

bool is_model_name(std::string_view name) {
  const size_t colon = name.find(':');
  if (colon == std::string_view::npos) return is_part(name);
  return is_part(name.substr(0, colon)) && is_part(name.substr(colon + 1));
}

Result<NamedModel> parse_named_model(std::string_view text) {
  const auto reader = FieldReader::parse(text);
  if (!reader) return std::unexpected(not_of_this_kind(reader.error().message));
  const auto version = reader->integer("tessera_name", 1, 1);
  const auto file = reader->required_text("file");
  const auto own_system = reader->text("system");
  const auto messages = reader->list("messages");
  const auto options = reader->object("options");
  const auto is_hidden = reader->boolean("hidden");
  if (!version || !*version || !file || !own_system || !messages || !options || !is_hidden)
    return std::unexpected(not_of_this_kind("a field is missing or wrong"));
  if (!is_inside(fs::path(*file))) return std::unexpected(not_of_this_kind("a file outside of the directory"));
  NamedModel model{.file = std::string(*file),
                   .system = std::string(own_system->value_or("")),
                   .is_hidden = is_hidden->value_or(false)};
  if (*messages != nullptr) model.messages = json_text(**messages);
  if (*options) model.options = json_text(*reader->find("options"));
  TESSERA_ASSIGN(model.adapters, read_adapters(*reader));
  return model;
}

std::string named_model_text(const NamedModel& model) {
  std::string text;
  JsonWriter writer(text);
  writer.begin_object().member("tessera_name", 1).member("file", model.file);
  if (!model.system.empty()) writer.member("system", model.system);
  if (!model.messages.empty()) writer.key("messages").raw(model.messages);
  if (!model.options.empty()) writer.key("options").raw(model.options);
  if (!model.adapters.empty()) {
    writer.key("adapters").begin_array();
    for (const std::string& adapter : model.adapters) writer.value(adapter);
    writer.end_array();
  }
  if (model.is_hidden) writer.member("hidden", true);
  writer.end_object();
  return text + "\n";
}

Result<NamedModels> read_named_models(const std::string& directory, size_t n_most) {
  NamedModels models;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (!name.ends_with(kEnding)) continue;
    name.resize(name.size() - kEnding.size());
    std::error_code ignored;
    if (!is_model_name(name) || !fs::is_regular_file(it->symlink_status(ignored))) continue;
    const auto text = read_file(it->path().string(), kMaxNamedModelBytes);
    if (!text) continue;
    auto model = parse_named_model(*text);
    if (!model) continue;
    if (models.size() >= n_most) return fail(ErrorCode::limit, "{}: more than {} names", directory, n_most);
    models.emplace_back(std::move(name), std::move(*model));
  }
  if (error) return fail(ErrorCode::io, "{}: {}", directory, error.message());
  std::ranges::sort(models, {}, [](const auto& one) { return one.first; });
  return models;
}

}  // namespace tessera::server
