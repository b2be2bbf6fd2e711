#include "tessera/hub/inventory.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>

#include "tessera/hub/ascii.h"
#include "tessera/hub/cache.h"
#include "tessera/hub/file_lock.h"
#include "tessera/hub/part_file.h"
#include "tessera/hub/part_name.h"

namespace tessera::hub {

namespace {

namespace fs = std::filesystem;

uint64_t size_on_disk(const std::string& path) {
  std::error_code absent;
  const uint64_t size = fs::file_size(path, absent);
  return absent ? 0 : size;
}

// Repositories of a cache, as "user/repo".
Result<std::vector<std::string>> repositories(const std::string& cache_dir) {
  std::vector<std::string> names;
  std::error_code error;
  if (!fs::exists(cache_dir, error)) return names;
  for (auto it = fs::directory_iterator(cache_dir, error); !error && it != fs::directory_iterator();
       it.increment(error))
    if (std::string name = repository_of_folder(it->path().filename()); !name.empty()) names.push_back(std::move(name));
  if (error) return fail(ErrorCode::io, "{}: cannot list: {}", cache_dir, error.message());
  std::ranges::sort(names);
  return names;
}

void add_snapshot(const RepositoryCache& cache, const std::string& repository, const std::string& commit,
                  std::vector<CachedModel>& models) {
  const std::string folder = cache.snapshot(commit);
  CachedModel others{
      .kind = CachedKind::files, .repository = repository, .commit = commit, .file = {}, .n_files = 0, .path = folder};
  for (const RepositoryFile& file : cache.files_of_snapshot(commit)) {
    if (!file.path.ends_with(".gguf")) {
      others.size += file.size;
      ++others.n_files;
      continue;
    }
    const auto part = parse_part_name(file.path);
    CachedModel model{.repository = repository,
                      .commit = commit,
                      .file = file.path,
                      .size = file.size,
                      .path = folder + "/" + file.path};
    // Parts follow the first one in the order of paths.
    const auto before =
        !part || part->number == 1 || models.empty() ? std::nullopt : parse_part_name(models.back().file);
    if (before && before->prefix == part->prefix && models.back().commit == commit) {
      models.back().size += file.size;
      ++models.back().n_files;
    } else {
      models.push_back(std::move(model));
    }
  }
  if (others.n_files > 0) models.push_back(std::move(others));
}

// TYPE.gguf, or TYPE.gguf.FINGERPRINT.part while it is unfinished.
std::string type_of_converted(const std::string& name) {
  constexpr std::string_view kEnd = ".gguf";
  const size_t at = name.find(kEnd);
  if (at == std::string::npos || at == 0) return "";
  const std::string_view rest = std::string_view(name).substr(at + kEnd.size());
  return rest.empty() || (rest.starts_with('.') && rest.ends_with(".part")) ? name.substr(0, at) : "";
}

void add_converted(const RepositoryCache& cache, const std::string& repository, const std::string& commit,
                   std::vector<CachedModel>& models) {
  for (const std::string& name : cache.converted_names(commit)) {
    if (type_of_converted(name).empty()) continue;
    const std::string path = cache.converted(commit) + "/" + name;
    models.push_back({.kind = name.ends_with(".part") ? CachedKind::part : CachedKind::converted,
                      .repository = repository,
                      .commit = commit,
                      .file = name,
                      .size = size_on_disk(path),
                      .path = path});
  }
}

void add_parts(const RepositoryCache& cache, const std::string& repository, std::vector<CachedModel>& models) {
  for (const std::string& name : cache.blob_names()) {
    if (blob_of_part(name).empty() || name.ends_with(".begin")) continue;
    models.push_back({.kind = CachedKind::part,
                      .repository = repository,
                      .commit = {},
                      .file = {},
                      .size = size_on_disk(cache.blob(name)),
                      .path = cache.blob(name)});
  }
}

// Locks all blobs and conversions of a repository that a process may be writing.
Result<std::vector<FileLock>> lock_parts(const RepositoryCache& cache, const std::string& repository) {
  std::vector<FileLock> locks;
  std::set<std::string> blobs;
  for (const std::string& name : cache.blob_names())
    if (const std::string blob = blob_of_part(name); !blob.empty()) blobs.insert(blob);
  for (const std::string& blob : blobs) {
    TESSERA_ASSIGN(auto lock, FileLock::try_acquire(cache.lock(blob)));
    if (!lock) return fail(ErrorCode::invalid_argument, "{} is being downloaded by another process", repository);
    locks.push_back(*std::move(lock));
  }
  for (const std::string& commit : cache.commits()) {
    if (cache.converted_names(commit).empty()) continue;
    TESSERA_ASSIGN(auto lock, FileLock::try_acquire(cache.converted_lock(commit)));
    if (!lock) return fail(ErrorCode::invalid_argument, "{} is being converted by another process", repository);
    locks.push_back(*std::move(lock));
  }
  return locks;
}

// A file that cannot be removed is not counted.
void remove_file(const std::string& path, Removed& removed) {
  const uint64_t size = size_on_disk(path);
  std::error_code error;
  if (fs::remove(path, error) && !error) removed += {1, size};
}

// Removes the converted files of a commit, or those of one type.
Removed remove_converted(const RepositoryCache& cache, const std::string& commit, const std::string& type) {
  Removed removed;
  for (const std::string& name : cache.converted_names(commit)) {
    if (!type.empty() && lower_case(type_of_converted(name)) != lower_case(type)) continue;
    remove_file(cache.converted(commit) + "/" + name, removed);
  }
  std::error_code not_empty;
  fs::remove(cache.converted(commit), not_empty);
  return removed;
}

// Removes blobs that no snapshot names, and parts.
Removed remove_unnamed_blobs(const RepositoryCache& cache) {
  std::set<std::string> named;
  for (const std::string& commit : cache.commits())
    for (const RepositoryFile& file : cache.files_of_snapshot(commit)) named.insert(file.oid);
  Removed removed;
  for (const std::string& name : cache.blob_names()) {
    if (!named.contains(name)) remove_file(cache.blob(name), removed);
  }
  return removed;
}

Result<Removed> remove_repository(const RepositoryCache& cache) {
  Removed removed;
  for (const std::string& commit : cache.commits()) {
    for (const RepositoryFile& file : cache.files_of_snapshot(commit))
      if (file.oid.empty()) removed += {1, file.size};  // a file without a blob
    removed += remove_converted(cache, commit, "");
  }
  for (const std::string& name : cache.blob_names()) removed += {1, size_on_disk(cache.blob(name))};
  TESSERA_TRY(cache.remove_all());
  return removed;
}

}  // namespace

std::string name_of(const CachedModel& model) {
  const bool is_converted = !model.file.empty() && model.kind != CachedKind::gguf;
  if (model.kind != CachedKind::gguf && !is_converted) return model.repository;
  const std::string tag = is_converted ? type_of_converted(model.file) : quantization_of(model.file);
  return tag.empty() ? model.repository : model.repository + ":" + tag;
}

Result<std::vector<CachedModel>> list_models(const std::string& cache_dir) {
  TESSERA_ASSIGN(const auto names, repositories(cache_dir));
  std::vector<CachedModel> models;
  for (const std::string& repository : names) {
    const RepositoryCache cache(cache_dir, repository);
    for (const std::string& commit : cache.commits()) {
      add_snapshot(cache, repository, commit, models);
      add_converted(cache, repository, commit, models);
    }
    add_parts(cache, repository, models);
  }
  return models;
}

Result<Removed> remove_model(const std::string& cache_dir, const ModelName& name) {
  const RepositoryCache cache(cache_dir, name.repository);
  std::error_code absent;
  if (!fs::is_directory(cache.folder(), absent))
    return fail(ErrorCode::not_found, "{} is not in the cache {}", name.repository, cache_dir);
  TESSERA_ASSIGN(const auto locks, lock_parts(cache, name.repository));
  if (name.tag.empty() && name.revision.empty()) return remove_repository(cache);
  std::vector<std::string> commits = cache.commits();
  if (!name.revision.empty()) {
    const std::string commit = is_commit(name.revision) ? name.revision : cache.read_ref(name.revision);
    std::erase_if(commits, [&](const std::string& other) { return other != commit; });
  }
  size_t n_found = 0;
  uint64_t n_bytes = 0;  // of converted files, and of files without a blob
  for (const std::string& commit : commits) {
    const Removed converted = remove_converted(cache, commit, name.tag);
    n_found += converted.n_files;
    n_bytes += converted.n_bytes;
    const Listing listing{.commit = commit, .files = cache.files_of_snapshot(commit)};
    std::vector<RepositoryFile> files = listing.files;
    if (!name.tag.empty()) {
      const auto selection = select_files(listing, {.tag = name.tag, .path = {}});
      if (!selection || selection->kind != SelectionKind::gguf) continue;
      files = selection->files;
    }
    for (const RepositoryFile& file : files) {
      ++n_found;
      if (file.oid.empty()) n_bytes += file.size;
      cache.unlink(commit, file.path);
    }
    if (cache.files_of_snapshot(commit).empty()) cache.remove_traces(commit);
  }
  if (n_found == 0) return fail(ErrorCode::not_found, "{} is not in the cache {}", to_string(name), cache_dir);
  Removed removed = remove_unnamed_blobs(cache);
  removed.n_bytes += n_bytes;
  removed.n_files = std::max(removed.n_files, n_found);
  if (cache.commits().empty()) TESSERA_TRY(cache.remove_all());
  return removed;
}

}  // namespace tessera::hub
