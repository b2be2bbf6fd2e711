#include "tessera/hub/cache.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "tessera/base/file.h"
#include "tessera/hub/model_name.h"

namespace tessera::hub {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "models--";
constexpr uint64_t kMaxRefBytes = 4096;
constexpr uint64_t kMaxListingBytes = uint64_t{256} << 20;
constexpr size_t kMaxSnapshotFiles = 100'000;

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

bool has_size(const std::string& path, uint64_t size) {
  std::error_code absent;
  return fs::is_regular_file(path, absent) && fs::file_size(path, absent) == size;
}

Result<> write_text(const std::string& path, std::string_view text) {
  TESSERA_TRY(create_folder(fs::path(path).parent_path()));
  TESSERA_ASSIGN(AtomicFile file, AtomicFile::create(path));
  TESSERA_TRY(file.write(std::as_bytes(std::span(text))));
  return file.commit();
}

}  // namespace

std::string cache_folder_name(const std::string& repository) {
  return std::string(kPrefix) + replaced(repository, "/", "--");
}

std::string repository_of_folder(const std::string& folder_name) {
  if (!folder_name.starts_with(kPrefix)) return "";
  return replaced(folder_name.substr(kPrefix.size()), "--", "/");
}

Result<> create_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return fail(ErrorCode::io, "{}: cannot create the folder: {}", path, error.message());
  return {};
}

RepositoryCache::RepositoryCache(const std::string& cache_dir, const std::string& repository)
    : folder_(cache_dir + "/" + cache_folder_name(repository)),
      locks_(cache_dir + "/.locks/" + cache_folder_name(repository)) {}

Result<> RepositoryCache::create_folders() const { return create_folder(blobs()); }

std::string RepositoryCache::read_ref(const std::string& revision) const {
  auto text = read_file(folder_ + "/refs/" + revision, kMaxRefBytes);
  if (!text) return "";
  text->erase(std::min(text->find_first_of(" \r\n"), text->size()));
  return is_commit(*text) ? *text : "";
}

Result<> RepositoryCache::write_ref(const std::string& revision, const std::string& commit) const {
  if (read_ref(revision) == commit) return {};
  return write_text(folder_ + "/refs/" + revision, commit);
}

bool RepositoryCache::has_listing(const std::string& commit) const {
  std::error_code absent;
  return fs::is_regular_file(listing_path(commit), absent);
}

std::optional<Listing> RepositoryCache::read_listing(const std::string& commit) const {
  Listing listing{.commit = commit, .files = {}};
  const auto text = read_file(listing_path(commit), kMaxListingBytes);
  if (!text || !add_tree(*text, listing.files) || !sort_files(listing.files)) listing.files = files_of_snapshot(commit);
  return listing.files.empty() ? std::nullopt : std::optional(std::move(listing));
}

// The files that a snapshot has. A link's target ends with the hash.
std::vector<RepositoryFile> RepositoryCache::files_of_snapshot(const std::string& commit) const {
  std::vector<RepositoryFile> files;
  const fs::path root = snapshot(commit);
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator(root, error); !error && it != fs::recursive_directory_iterator();
       it.increment(error)) {
    std::error_code unusable;
    if (files.size() == kMaxSnapshotFiles || !it->is_regular_file(unusable)) continue;
    RepositoryFile file{.path = it->path().lexically_relative(root), .size = it->file_size(unusable), .oid = {}};
    if (unusable || !check_repository_path(file.path)) continue;
    if (it->is_symlink(unusable)) file.oid = fs::read_symlink(it->path(), unusable).filename();
    files.push_back(std::move(file));
  }
  std::ranges::sort(files, {}, &RepositoryFile::path);
  return files;
}

Result<> RepositoryCache::write_listing(const Listing& listing) const {
  return write_text(listing_path(listing.commit), to_tree_json(listing.files));
}

bool RepositoryCache::has_file(const std::string& commit, const RepositoryFile& file) const {
  return has_size(snapshot(commit) + "/" + file.path, file.size);
}

bool RepositoryCache::has_blob(const RepositoryFile& file) const { return has_size(blob(file.oid), file.size); }

Result<> RepositoryCache::link(const std::string& commit, const RepositoryFile& file) const {
  const std::string path = snapshot(commit) + "/" + file.path;
  TESSERA_TRY(create_folder(fs::path(path).parent_path()));
  std::string target = "../../blobs/" + file.oid;
  for (const char c : file.path)
    if (c == '/') target.insert(0, "../");
  const std::string temporary = path + ".link" + std::to_string(::getpid());
  ::unlink(temporary.c_str());
  if (::symlink(target.c_str(), temporary.c_str()) == 0) {
    if (std::rename(temporary.c_str(), path.c_str()) == 0) return {};
    const int error = errno;
    ::unlink(temporary.c_str());
    return fail(ErrorCode::io, "{}: cannot link: {}", path, std::strerror(error));
  }
  if (std::rename(blob(file.oid).c_str(), path.c_str()) == 0) return {};
  return fail(ErrorCode::io, "{}: cannot move the file here: {}", path, std::strerror(errno));
}

namespace {

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto it = fs::directory_iterator(folder, error); !error && it != fs::directory_iterator(); it.increment(error))
    names.push_back(it->path().filename());
  std::ranges::sort(names);
  return names;
}

}  // namespace

std::vector<std::string> RepositoryCache::commits() const {
  std::vector<std::string> commits = names_in(folder_ + "/snapshots");
  std::erase_if(commits, [](const std::string& name) { return !is_commit(name); });
  return commits;
}

std::vector<std::string> RepositoryCache::blob_names() const { return names_in(blobs()); }

std::vector<std::string> RepositoryCache::converted_names(const std::string& commit) const {
  return names_in(converted(commit));
}

void RepositoryCache::unlink(const std::string& commit, const std::string& path) const {
  const fs::path root = snapshot(commit);
  fs::path file = root / path;
  std::error_code ignored;
  fs::remove(file, ignored);
  while (file != root) {
    file = file.parent_path();
    if (!fs::is_empty(file, ignored) || ignored) return;
    fs::remove(file, ignored);
  }
}

void RepositoryCache::remove_traces(const std::string& commit) const {
  std::error_code error;
  fs::remove(listing_path(commit), error);
  fs::remove_all(converted(commit), error);
  std::vector<fs::path> refs;
  const fs::path root = folder_ + "/refs";
  for (auto it = fs::recursive_directory_iterator(root, error); !error && it != fs::recursive_directory_iterator();
       it.increment(error))
    if (read_ref(it->path().lexically_relative(root)) == commit) refs.push_back(it->path());
  for (const fs::path& ref : refs) fs::remove(ref, error);
}

Result<> RepositoryCache::remove_all() const {
  std::error_code error;
  fs::remove_all(folder_, error);
  if (error) return fail(ErrorCode::io, "{}: cannot remove: {}", folder_, error.message());
  fs::remove_all(locks_, error);
  return {};
}

}  // namespace tessera::hub
