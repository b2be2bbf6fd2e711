#include "tessera/server/storage/disk_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "tessera/base/index.h"

namespace tessera::server {

namespace {

constexpr auto kScanInterval = std::chrono::seconds(30);
constexpr auto kStaleTemporary = std::chrono::minutes(10);  // of a process that was killed while it wrote
constexpr uint64_t kSpareShare = 16;  // when files are removed, 1/16 of the room becomes free, so that scans are rare
constexpr size_t kRootDigits = 16, kFolderDigits = 2;

std::optional<uint8_t> hex_digit(char c) {
  if (c >= '0' && c <= '9') return static_cast<uint8_t>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<uint8_t>(c - 'a' + 10);
  return std::nullopt;
}

bool is_hex(std::string_view text, size_t n) {
  return text.size() == n && std::ranges::all_of(text, [](char c) { return hex_digit(c).has_value(); });
}

Digest digest_of_name(std::string_view hex) {
  Digest digest{};
  for (size_t i = 0; i < digest.size(); ++i)
    digest[i] = static_cast<std::byte>(*hex_digit(hex[2 * i]) << 4 | *hex_digit(hex[2 * i + 1]));
  return digest;
}

FileTime file_now() { return std::chrono::time_point_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now()); }

}  // namespace

// A digest is as good as random.
size_t DiskStore::DigestHash::operator()(const Digest& digest) const {
  size_t hash;
  std::memcpy(&hash, digest.data(), sizeof hash);
  return hash;
}

Result<std::unique_ptr<DiskStore>> DiskStore::open(const std::string& path, uint64_t limit_bytes) {
  TESSERA_ASSIGN(Directory directory, Directory::open_private(path));
  std::unique_ptr<DiskStore> store(new DiskStore(std::move(directory), limit_bytes));
  store->set_files(store->find_files());
  return store;
}

// --- names

void DiskStore::scan_folder(const std::string& folder, std::vector<File>& files) const {
  directory_.remove_stale_temporaries(folder, kStaleTemporary);
  const auto names = directory_.names_in(folder);
  if (!names) return;
  for (const std::string& name : *names) {
    if (!is_hex(name, 2 * sizeof(Digest))) continue;
    const std::string path = fmt::format("{}/{}", folder, name);
    const auto info = directory_.info(path);
    if (!info || !info->is_file) continue;
    files.push_back({.path = path, .digest = digest_of_name(name), .n_bytes = info->n_bytes, .used = info->modified});
  }
}

std::vector<DiskStore::File> DiskStore::find_files() const {
  std::vector<File> files;
  const auto roots = directory_.names_in("");
  if (!roots) return files;
  for (const std::string& root : *roots) {
    if (!is_hex(root, kRootDigits)) continue;
    const auto folders = directory_.names_in(root);
    if (!folders) continue;
    for (const std::string& folder : *folders)
      if (is_hex(folder, kFolderDigits)) scan_folder(fmt::format("{}/{}", root, folder), files);
  }
  return files;
}

void DiskStore::set_files(const std::vector<File>& files) {
  std::unordered_set<Digest, DigestHash> known;
  uint64_t n_bytes = 0;
  for (const File& file : files) {
    known.insert(file.digest);
    n_bytes += file.n_bytes;
  }
  n_bytes_ = n_bytes;
  last_scan_ = std::chrono::steady_clock::now();
  const std::lock_guard lock(mutex_);
  known_ = std::move(known);
}

void DiskStore::refresh() {
  if (std::chrono::steady_clock::now() - last_scan_ > kScanInterval) set_files(find_files());
}

bool DiskStore::contains(const Digest& digest) const {
  const std::lock_guard lock(mutex_);
  return known_.contains(digest);
}

bool DiskStore::is_empty() const {
  const std::lock_guard lock(mutex_);
  return known_.empty();
}

void DiskStore::forget(const Digest& digest) {
  const std::lock_guard lock(mutex_);
  known_.erase(digest);
}

DiskCounters DiskStore::counters() const {
  return {.n_damaged_files = n_damaged_, .n_errors = n_errors_, .n_evicted_files = n_evicted_, .n_bytes = n_bytes_};
}

// --- files

Result<std::vector<std::byte>> DiskStore::read(const BlockKey& key, uint64_t n_payload_bytes) {
  const std::string path = key.path();
  const auto read_bytes = [&]() -> Result<std::vector<std::byte>> {
    TESSERA_ASSIGN(const tessera::File file, directory_.open_file(path));
    const uint64_t n_bytes = block_file_bytes(key, n_payload_bytes);
    if (file.size() != n_bytes) return fail(ErrorCode::format, "{}: {} bytes, want {}", path, file.size(), n_bytes);
    std::vector<std::byte> bytes(to_size(n_bytes));
    TESSERA_TRY(file.read_at(0, bytes));
    TESSERA_ASSIGN(const auto payload, block_payload(bytes, key, n_payload_bytes));
    const auto n_front = payload.data() - bytes.data();
    bytes.resize(to_size(n_front) + payload.size());
    bytes.erase(bytes.begin(), bytes.begin() + n_front);
    return bytes;
  };
  auto payload = read_bytes();
  if (payload) {
    mark_used(key, file_now());
    return payload;
  }
  forget(key.digest);
  if (payload.error().code() != ErrorCode::format) return payload;
  ++n_damaged_;
  const auto info = directory_.info(path);
  if (info) remove({.path = path, .digest = key.digest, .n_bytes = info->n_bytes});
  return payload;
}

Result<> DiskStore::write(const BlockKey& key, std::span<const std::byte> payload, FileTime used) {
  const uint64_t n_bytes = block_file_bytes(key, payload.size());
  if (n_bytes > limit_bytes_) return fail(ErrorCode::limit, "a block of {} bytes, limit {}", n_bytes, limit_bytes_);
  make_room(n_bytes);
  const std::string path = key.path();
  const std::vector<std::byte> front = block_file_front(key, payload.size());
  const uint64_t checksum = block_file_checksum(front, payload);
  const std::array<std::span<const std::byte>, 3> parts = {front, payload, std::as_bytes(std::span(&checksum, 1))};
  const auto write_parts = [&]() -> Result<> {
    for (size_t slash = path.find('/'); slash != std::string::npos; slash = path.find('/', slash + 1))
      TESSERA_TRY(directory_.make_directory(path.substr(0, slash)));
    return directory_.write_file(path, parts, used);
  };
  auto written = write_parts();
  if (!written) {
    ++n_errors_;
    return written;
  }
  n_bytes_ += n_bytes;
  const std::lock_guard lock(mutex_);
  known_.insert(key.digest);
  return {};
}

void DiskStore::mark_used(const BlockKey& key, FileTime used) {
  const auto marked = directory_.set_modified(key.path(), used);
  if (!marked && marked.error().code() == ErrorCode::not_found) forget(key.digest);
}

// The least recently used files go. Folders that become empty go with them.
void DiskStore::make_room(uint64_t n_bytes) {
  if (n_bytes_ + n_bytes <= limit_bytes_) return;
  std::vector<File> files = find_files();
  std::ranges::sort(files, {}, &File::used);
  set_files(files);
  const uint64_t n_most = limit_bytes_ - std::max(n_bytes, limit_bytes_ / kSpareShare);
  for (const File& file : files) {
    if (n_bytes_ <= n_most) return;
    remove(file);
    ++n_evicted_;
  }
}

void DiskStore::remove(const File& file) {
  forget(file.digest);
  const auto removed = directory_.remove_file(file.path);
  if (!removed && removed.error().code() != ErrorCode::not_found) return;
  n_bytes_ -= std::min<uint64_t>(n_bytes_, file.n_bytes);
  for (size_t slash = file.path.rfind('/'); slash != std::string::npos; slash = file.path.rfind('/', slash - 1))
    if (!directory_.remove_directory(file.path.substr(0, slash))) return;
}

uint64_t DiskStore::clear() {
  const std::vector<File> files = find_files();
  for (const File& file : files) remove(file);
  set_files(find_files());
  return files.size();
}

}  // namespace tessera::server
