// The part of Hub that brings one file into the cache.
#include <fmt/format.h>
#include <sys/statvfs.h>

#include "tessera/base/checked.h"
#include "tessera/hub/file_lock.h"
#include "tessera/hub/hub.h"

namespace tessera::hub {

namespace {

// "1.2 GB" in decimal units, as disks and hubs count.
std::string decimal_bytes(uint64_t bytes) {
  constexpr const char* kUnits[] = {"bytes", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(kUnits); ++unit) value /= 1000;
  return unit == 0 ? fmt::format("{} bytes", bytes) : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

}  // namespace

Result<> Hub::check_space(const Found& found, const RepositoryCache& cache) const {
  uint64_t wanted = 0;
  for (const RepositoryFile& file : found.selection.files) {
    if (cache.has_file(found.commit, file) || cache.has_blob(file)) continue;
    wanted +=
        file.size - PartFile::bytes_on_disk(cache.blob(file.oid), file.size);  // fits: fetch() has added the sizes
  }
  if (wanted == 0 || settings_.is_offline) return {};
  TESSERA_TRY(cache.create_folders());
  struct statvfs disk {};
  if (::statvfs(cache.blobs().c_str(), &disk) != 0) return {};
  const auto free = checked_mul<uint64_t>(disk.f_bavail, disk.f_frsize);
  if (!free || *free >= wanted) return {};
  return fail(ErrorCode::io, "{}: needs {}, {} are free in {}", found.repository, decimal_bytes(wanted),
              decimal_bytes(*free), settings_.cache_dir);
}

Result<> Hub::fetch_file(const Found& found, size_t i, const RepositoryCache& cache, DownloadProgress& progress) {
  const RepositoryFile& file = found.selection.files[i];
  const uint64_t n_before = progress.n_all_bytes;
  progress.name = file.path;
  progress.number = i + 1;
  progress.size = file.size;
  progress.n_bytes = 0;
  if (!cache.has_file(found.commit, file)) {
    if (settings_.is_offline && !cache.has_blob(file))
      return fail(ErrorCode::not_found, "{} of {} is not in the cache {}, and downloads are off", file.path,
                  found.repository, settings_.cache_dir);
    TESSERA_TRY(cache.create_folders());
    TESSERA_ASSIGN(const FileLock lock, FileLock::acquire(cache.lock(file.oid), clock_, cancel_, [&] {
                     note(fmt::format("{}: another process downloads it; waiting", file.path));
                   }));
    if (!cache.has_file(found.commit, file)) {
      if (!cache.has_blob(file)) {
        auto downloaded = download(remote_file(found, i), cache.blob(file.oid), progress);
        if (!downloaded) return forward_error(downloaded, file.path);
      }
      TESSERA_TRY(cache.link(found.commit, file));
    }
  }
  progress.n_bytes = file.size;
  progress.n_all_bytes = n_before + file.size;
  if (events_.on_progress) events_.on_progress(progress);
  return {};
}

Result<> Hub::download(const RemoteFile& remote, const std::string& blob, DownloadProgress& progress) {
  TESSERA_ASSIGN(TransferContext transfers, context());
  if (remote.hash.empty() && remote.etag.empty()) remove_parts(blob);  // nothing shows that they are of this version
  TESSERA_ASSIGN(PartFile part, PartFile::open(blob, remote.size, hash_kind(remote.hash)));
  const uint64_t n_before = progress.n_all_bytes;
  const uint64_t n_received_before = progress.n_received;
  const auto report = [&](uint64_t n_bytes, bool is_checking) {
    progress.n_bytes = n_bytes;
    progress.n_all_bytes = n_before + n_bytes;
    progress.is_checking = is_checking;
    if (events_.on_progress) events_.on_progress(progress);
  };
  TESSERA_TRY(part.hash_to(part.n_found(), [&] {
    report(part.n_hashed(), true);
    return !cancel_.cancelled();
  }));
  TESSERA_TRY(download_ranges(transfers, remote, part, [&](uint64_t n_bytes) {
    progress.n_received = n_received_before + n_bytes - part.n_found();
    report(n_bytes, false);
  }));
  const std::string hash = part.hash();
  if (!remote.hash.empty() && hash != remote.hash) {
    part.discard();
    return fail(ErrorCode::mismatch, "its hash is {}, wanted is {}; the file was removed", hash, remote.hash);
  }
  return part.commit();
}

}  // namespace tessera::hub
