#include "tessera/hub/part_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "tessera/base/file.h"
#include "tessera/base/index.h"

namespace tessera::hub {

namespace {

constexpr const char* kIncomplete = ".incomplete";
constexpr const char* kPeerPart = ".downloadInProgress";  // of llama.cpp
constexpr const char* kRanges = ".ranges";
constexpr const char* kRangesBegin = ".ranges.begin";
constexpr size_t kPieceBytes = size_t{4} << 20;

std::unexpected<Error> file_error(const std::string& path, const char* action) {
  return fail(ErrorCode::io, "{}: cannot {}: {}", path, action, std::strerror(errno));
}

uint64_t size_of(const std::string& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode) ? static_cast<uint64_t>(status.st_size) : 0;
}

// Bytes before the first hole of NAME.ranges.
uint64_t ranges_begin(const std::string& blob_path) {
  const auto text = read_file(blob_path + kRangesBegin, 64);
  uint64_t begin = 0;
  if (!text) return 0;
  std::from_chars(text->data(), text->data() + text->size(), begin);
  return std::min(begin, size_of(blob_path + kRanges));
}

struct FoundPart {
  std::string path;
  uint64_t n_bytes = 0;
};

// The longest part; a part that is longer than the file is of another file.
FoundPart find_part(const std::string& blob_path, uint64_t size) {
  FoundPart best;
  const FoundPart parts[] = {{blob_path + kIncomplete, size_of(blob_path + kIncomplete)},
                             {blob_path + kPeerPart, size_of(blob_path + kPeerPart)},
                             {blob_path + kRanges, ranges_begin(blob_path)}};
  for (const FoundPart& part : parts)
    if (part.n_bytes > best.n_bytes && part.n_bytes <= size) best = part;
  return best;
}

Result<> write_all(int fd, uint64_t offset, std::span<const std::byte> bytes, const std::string& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return file_error(path, "write");
    bytes = bytes.subspan(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return {};
}

}  // namespace

PartFile::PartFile(int fd, std::string blob_path, uint64_t n_found, ContentHash hash)
    : fd_(fd), blob_path_(std::move(blob_path)), n_found_(n_found), hash_(std::move(hash)) {}

PartFile::PartFile(PartFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      blob_path_(std::move(other.blob_path_)),
      has_ranges_(other.has_ranges_),
      begin_fd_(std::exchange(other.begin_fd_, -1)),
      n_found_(other.n_found_),
      n_hashed_(other.n_hashed_),
      hash_(std::move(other.hash_)) {}

PartFile::~PartFile() {
  if (fd_ >= 0) keep();
}

uint64_t PartFile::bytes_on_disk(const std::string& blob_path, uint64_t size) {
  return find_part(blob_path, size).n_bytes;
}

Result<PartFile> PartFile::open(const std::string& blob_path, uint64_t size, HashKind kind) {
  TESSERA_ASSIGN(ContentHash hash, ContentHash::create(kind, size));
  const FoundPart found = find_part(blob_path, size);
  const std::string path = blob_path + kIncomplete;
  if (found.n_bytes > 0 && found.path != path && std::rename(found.path.c_str(), path.c_str()) != 0)
    return file_error(found.path, "rename");
  for (const char* other : {kPeerPart, kRanges, kRangesBegin}) ::unlink((blob_path + other).c_str());
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (fd < 0) return file_error(path, "open");
  PartFile part(fd, blob_path, found.n_bytes, std::move(hash));
  if (::ftruncate(fd, static_cast<off_t>(found.n_bytes)) != 0) {
    part.discard();
    return file_error(path, "truncate");
  }
  return part;
}

Result<> PartFile::write(uint64_t offset, std::span<const std::byte> bytes) {
  TESSERA_TRY(write_all(fd_, offset, bytes, blob_path_ + (has_ranges_ ? kRanges : kIncomplete)));
  if (offset != n_hashed_) return {};
  hash_.add(bytes);
  n_hashed_ += bytes.size();
  return {};
}

Result<> PartFile::hash_to(uint64_t end, const std::function<bool()>& proceed) {
  if (n_hashed_ >= end) return {};
  std::vector<std::byte> piece(to_size(std::min<uint64_t>(end - n_hashed_, kPieceBytes)));
  while (n_hashed_ < end) {
    if (!proceed()) return fail(ErrorCode::cancelled, "cancelled");
    const size_t wanted = to_size(std::min<uint64_t>(end - n_hashed_, piece.size()));
    const ssize_t n = ::pread(fd_, piece.data(), wanted, static_cast<off_t>(n_hashed_));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return file_error(blob_path_, "read");
    if (n == 0) return fail(ErrorCode::io, "{}: the part became shorter while it was read", blob_path_);
    hash_.add(std::span(piece).first(static_cast<size_t>(n)));
    n_hashed_ += static_cast<uint64_t>(n);
  }
  return {};
}

Result<> PartFile::begin_ranges() {
  if (has_ranges_) return {};
  const std::string begin_path = blob_path_ + kRangesBegin;
  begin_fd_ = ::open(begin_path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (begin_fd_ < 0) return file_error(begin_path, "open");
  has_ranges_ = true;
  TESSERA_TRY(note_hashed());
  if (std::rename((blob_path_ + kIncomplete).c_str(), (blob_path_ + kRanges).c_str()) != 0)
    return file_error(blob_path_ + kIncomplete, "rename");
  return {};
}

Result<> PartFile::note_hashed() {
  if (!has_ranges_) return {};
  const std::string text = fmt::format("{:020}", n_hashed_);
  return write_all(begin_fd_, 0, std::as_bytes(std::span(text)), blob_path_ + kRangesBegin);
}

Result<> PartFile::commit() {
  const std::string path = blob_path_ + (has_ranges_ ? kRanges : kIncomplete);
  if (::fsync(fd_) != 0) return file_error(path, "write");
  if (std::rename(path.c_str(), blob_path_.c_str()) != 0) return file_error(path, "rename");
  ::close(std::exchange(fd_, -1));
  if (begin_fd_ >= 0) ::close(std::exchange(begin_fd_, -1));
  ::unlink((blob_path_ + kRangesBegin).c_str());
  return {};
}

void PartFile::discard() {
  remove_parts(blob_path_);
  ::close(std::exchange(fd_, -1));
  if (begin_fd_ >= 0) ::close(std::exchange(begin_fd_, -1));
}

// A part that has been checked no further than it was found keeps all that was found. If the part cannot be cut at its
// first hole, its other name stays, and the next run reads NAME.ranges.begin.
void PartFile::keep() {
  const uint64_t n_kept = std::max(n_hashed_, n_found_);
  if (n_kept == 0) return discard();
  const bool is_cut = ::ftruncate(fd_, static_cast<off_t>(n_kept)) == 0;
  ::close(std::exchange(fd_, -1));
  if (begin_fd_ >= 0) ::close(std::exchange(begin_fd_, -1));
  if (!has_ranges_ || !is_cut) return;
  if (std::rename((blob_path_ + kRanges).c_str(), (blob_path_ + kIncomplete).c_str()) == 0)
    ::unlink((blob_path_ + kRangesBegin).c_str());
}

void remove_parts(const std::string& blob_path) {
  for (const char* end : {kIncomplete, kPeerPart, kRanges, kRangesBegin}) ::unlink((blob_path + end).c_str());
}

std::string blob_of_part(const std::string& file_name) {
  for (const std::string_view end : {kIncomplete, kPeerPart, kRangesBegin, kRanges})
    if (file_name.ends_with(end)) return file_name.substr(0, file_name.size() - end.size());
  return "";
}

}  // namespace tessera::hub
