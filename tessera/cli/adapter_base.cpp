#include "tessera/cli/adapter_base.h"

#include <filesystem>
#include <optional>

#include "tessera/convert/adapter/lora_settings.h"
#include "tessera/convert/source/checkpoint.h"
#include "tessera/hub/cache.h"
#include "tessera/hub/model_name.h"
#include "tessera/hub/settings.h"
#include "tessera/text/utf8.h"

namespace tessera::cli {

namespace {

bool has_config(const std::string& folder) {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::path(folder) / "config.json", error);
}

// The snapshot of a model in the cache: that of its revision, else any.
Result<std::optional<std::string>> find_snapshot(const std::string& name) {
  const auto parsed = hub::parse_model_name(name);
  if (!parsed) return std::nullopt;
  TESSERA_ASSIGN(const hub::Settings settings, hub::settings_from_environment());
  const hub::RepositoryCache cache(settings.cache_dir, parsed->repository);
  const std::string revision = hub::revision_or_main(*parsed);
  const std::string commit = hub::is_commit(revision) ? revision : cache.read_ref(revision);
  if (!commit.empty() && has_config(cache.snapshot(commit))) return cache.snapshot(commit);
  for (const std::string& other : cache.commits())
    if (has_config(cache.snapshot(other))) return cache.snapshot(other);
  return std::nullopt;
}

}  // namespace

Result<std::string> find_adapter_base(const std::string& adapter, const std::string& base) {
  std::string name = base;
  if (name.empty()) {
    const std::filesystem::path file = convert::find_adapter(adapter).value_or(adapter);
    const std::string settings_file = (file.parent_path() / convert::kAdapterConfigFile).string();
    TESSERA_ASSIGN(const convert::LoraSettings settings, convert::read_lora_settings(settings_file));
    name = settings.base;
    if (name.empty())
      return fail(ErrorCode::not_found, "{}: names no base model: give the folder of its config.json with --base",
                  settings_file);
  }
  if (has_config(name)) return name;
  TESSERA_ASSIGN(const std::optional<std::string> snapshot, find_snapshot(name));
  if (snapshot) return *snapshot;
  return fail(
      ErrorCode::not_found,
      "{}: the base model {} is neither a folder with config.json nor in the cache: give its folder with --base",
      adapter, text::quote_text(name));
}

}  // namespace tessera::cli
