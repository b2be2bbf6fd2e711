#include "tessera/cli/cached_models.h"

#include <fmt/format.h>

#include <vector>

#include "tessera/cli/console.h"
#include "tessera/gguf/printable.h"
#include "tessera/hub/hub.h"
#include "tessera/text/json_quoted.h"

namespace tessera::cli {

namespace {

constexpr size_t kShownCommit = 8;
constexpr size_t kMaxShownPath = 4096;

std::string_view kind_text(hub::CachedKind kind) {
  switch (kind) {
    case hub::CachedKind::gguf:
      return "gguf";
    case hub::CachedKind::files:
      return "files";
    case hub::CachedKind::converted:
      return "converted";
    case hub::CachedKind::part:
      return "part";
  }
  return "";
}

std::string json_of_model(const hub::CachedModel& model) {
  return fmt::format(
      "{{\"name\": {}, \"kind\": \"{}\", \"file\": {}, \"files\": {}, \"size\": {}, \"commit\": {}, \"path\": {}}}\n",
      text::json_quoted(hub::name_of(model)), kind_text(model.kind), text::json_quoted(model.file), model.n_files,
      model.size, text::json_quoted(model.commit), text::json_quoted(model.path));
}

std::vector<std::string> row_of_model(const hub::CachedModel& model) {
  std::string name = printable(hub::name_of(model));
  if (model.kind == hub::CachedKind::converted) name += " (converted)";
  if (model.kind == hub::CachedKind::part) name += " (unfinished)";
  if (model.n_files > 1) name += fmt::format(" ({} files)", model.n_files);
  return {std::move(name), human_bytes(static_cast<double>(model.size)), model.commit.substr(0, kShownCommit),
          printable(model.path, kMaxShownPath)};
}

Result<hub::ModelName> name_or_url(const std::string& text) {
  if (!text.contains("://")) return hub::parse_model_name(text);
  TESSERA_ASSIGN(const hub::Url url, hub::parse_url(text));
  hub::ModelName name;
  TESSERA_ASSIGN(name.repository, hub::repository_of_url(url));
  return name;
}

}  // namespace

Result<> print_cached_models(const std::string& cache_dir, const std::string& only, bool as_json) {
  TESSERA_ASSIGN(const auto models, hub::list_models(cache_dir));
  std::string lines;
  std::vector<std::vector<std::string>> rows;
  for (const hub::CachedModel& model : models) {
    if (!only.empty() && model.repository != only) continue;
    if (as_json)
      lines += json_of_model(model);
    else
      rows.push_back(row_of_model(model));
  }
  return print(as_json ? lines : format_table(rows, "lrll"));
}

Result<> remove_cached_model(const std::string& cache_dir, const std::string& name, bool as_json) {
  TESSERA_ASSIGN(const hub::ModelName parsed, name_or_url(name));
  TESSERA_ASSIGN(const hub::Removed removed, hub::remove_model(cache_dir, parsed));
  if (as_json)
    return print(fmt::format("{{\"removed\": {}, \"files\": {}, \"bytes\": {}}}\n", text::json_quoted(name),
                             removed.n_files, removed.n_bytes));
  return print(fmt::format("removed {}: {} files, {}\n", name, removed.n_files,
                           human_bytes(static_cast<double>(removed.n_bytes))));
}

}  // namespace tessera::cli
