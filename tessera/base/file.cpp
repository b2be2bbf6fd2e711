#include "tessera/base/file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

#include "tessera/base/index.h"

namespace tessera {

namespace {

std::string errno_text(int error) { return std::generic_category().message(error); }

std::unexpected<Error> io_error(const std::string& path, std::string_view what) {
  const int error = errno;
  const ErrorCode code = error == ENOENT ? ErrorCode::not_found : ErrorCode::io;
  return fail(code, "{}: {}: {}", path, what, errno_text(error));
}

Result<> write_all(int fd, const std::string& path, uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error(path, "cannot write");
    offset += static_cast<uint64_t>(n);
    bytes = bytes.subspan(to_size(n));
  }
  return {};
}

// The live maps, readable from a signal handler. The address in a slot is published last and withdrawn first.
struct MapSlot {
  std::atomic<const std::byte*> begin{nullptr};
  std::atomic<size_t> size{0};
  std::atomic<bool> is_lost{false};
  std::array<char, 512> path{};
};
constexpr size_t kMaxTrackedMaps = 256;
std::array<MapSlot, kMaxTrackedMaps> g_maps;  // an exception to "no globals": a signal handler has no context
std::atomic_flag g_maps_lock = ATOMIC_FLAG_INIT;

void track_map(const std::byte* data, size_t size, const std::string& path) {
  while (g_maps_lock.test_and_set(std::memory_order_acquire)) {
  }
  for (MapSlot& slot : g_maps) {
    if (slot.begin.load(std::memory_order_relaxed) != nullptr) continue;
    const size_t n = std::min(path.size(), slot.path.size() - 1);
    std::memcpy(slot.path.data(), path.data(), n);
    slot.path[n] = '\0';
    slot.size.store(size, std::memory_order_relaxed);
    slot.is_lost.store(false, std::memory_order_relaxed);
    slot.begin.store(data, std::memory_order_release);
    break;
  }
  g_maps_lock.clear(std::memory_order_release);
}

void untrack_map(const std::byte* data) {
  for (MapSlot& slot : g_maps) {
    const std::byte* expected = data;
    if (slot.begin.compare_exchange_strong(expected, nullptr)) return;
  }
}

// The slot of the map that contains an address, or nullptr. Async-signal-safe.
MapSlot* find_slot(const void* address) {
  const auto* byte = static_cast<const std::byte*>(address);
  for (MapSlot& slot : g_maps) {
    const std::byte* begin = slot.begin.load(std::memory_order_acquire);
    if (begin == nullptr || byte < begin) continue;
    if (to_size(byte - begin) < slot.size.load(std::memory_order_relaxed)) return &slot;
  }
  return nullptr;
}

Result<> read_all_at(int fd, const std::string& path, uint64_t offset, std::span<std::byte> into) {
  while (!into.empty()) {
    const ssize_t n = ::pread(fd, into.data(), into.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return io_error(path, "cannot read");
    if (n == 0) return fail(ErrorCode::io, "{}: ends at byte {}: the file changed while it was read", path, offset);
    offset += static_cast<uint64_t>(n);
    into = into.subspan(to_size(n));
  }
  return {};
}

// An output replaces regular files only.
Result<> require_replaceable(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return fail(ErrorCode::io, "{}: exists and is not a regular file", path);
  return {};
}

// Lets the disk write while more is copied, so that close() waits for less. Only a hint: an error does not matter.
void start_writing(int fd, uint64_t offset, uint64_t n) {
  ::sync_file_range(fd, static_cast<off_t>(offset), static_cast<off_t>(n), SYNC_FILE_RANGE_WRITE);
}

size_t page_size() { return to_size(::sysconf(_SC_PAGESIZE)); }

}  // namespace

Result<File> File::open(const std::string& path) {
  // O_NONBLOCK: opening a FIFO must not wait for a writer.
  return of_descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK), path);
}

Result<File> File::open_in(int directory, const std::string& name, const std::string& directory_path) {
  const std::string path = directory_path + "/" + name;
  const int fd = ::openat(directory, name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
  if (fd < 0 && errno == ELOOP) return fail(ErrorCode::invalid_argument, "{}: is a symbolic link", path);
  return of_descriptor(fd, path);
}

Result<File> File::of_descriptor(int fd, const std::string& path) {
  if (fd < 0) return io_error(path, "cannot open");
  File file(fd, 0, {});  // closes the descriptor after errors
  struct stat info {};
  if (::fstat(fd, &info) != 0) return io_error(path, "cannot stat");
  if (!S_ISREG(info.st_mode))
    return fail(ErrorCode::io, "{}: is {}, want a regular file", path,
                S_ISDIR(info.st_mode) ? "a directory" : "a pipe or device");
  file.size_ = static_cast<uint64_t>(info.st_size);
  file.path_ = path;
  return file;
}

File::File(File&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), size_(other.size_), path_(std::move(other.path_)) {}

File& File::operator=(File&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  std::swap(path_, other.path_);
  return *this;
}

File::~File() {
  if (fd_ >= 0) ::close(fd_);
}

Result<> File::read_at(uint64_t offset, std::span<std::byte> into) const {
  return read_all_at(fd_, path_, offset, into);
}

MappedFile::MappedFile(const std::byte* data, size_t size, std::string path)
    : data_(data), size_(size), path_(std::move(path)) {
  if (size_ != 0) track_map(data_, size_, path_);
}

Result<std::unique_ptr<MappedFile>> MappedFile::map(const File& file) {
  const auto size = to_size(file.size());
  void* data = nullptr;
  if (size != 0) {
    data = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.descriptor(), 0);
    if (data == MAP_FAILED) return io_error(file.path(), "cannot map");
  }
  try {
    return std::unique_ptr<MappedFile>(new MappedFile(static_cast<const std::byte*>(data), size, file.path()));
  } catch (...) {
    if (size != 0) ::munmap(data, size);
    throw;
  }
}

MappedFile::~MappedFile() {
  if (size_ == 0) return;
  untrack_map(data_);
  ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::discard(uint64_t offset, uint64_t n) const {
  const size_t page = page_size();
  const size_t begin = (to_size(offset) + page - 1) / page * page;
  const size_t end = to_size(offset + n) / page * page;
  if (begin < end) ::madvise(const_cast<std::byte*>(data_) + begin, end - begin, MADV_DONTNEED);
}

bool MappedFile::is_lost() const {
  const MapSlot* slot = find_slot(data_);
  return slot != nullptr && slot->is_lost.load(std::memory_order_acquire);
}

const char* find_mapped_path(const void* address) {
  const MapSlot* slot = find_slot(address);
  return slot != nullptr ? slot->path.data() : nullptr;
}

// The flag is set first, so that a reader of zeros can see it. Several threads may replace the same map.
bool replace_lost_map(const void* address) {
  MapSlot* slot = find_slot(address);
  if (slot == nullptr) return false;
  slot->is_lost.store(true, std::memory_order_release);
  auto* begin = const_cast<std::byte*>(slot->begin.load(std::memory_order_acquire));
  const size_t size = slot->size.load(std::memory_order_relaxed);
  return begin != nullptr &&
         ::mmap(begin, size, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED;
}

Result<std::string> read_file(const std::string& path, uint64_t max_bytes, const CancelToken* cancel) {
  const auto is_cancelled = [&] { return cancel != nullptr && cancel->cancelled(); };
  int fd = -1;
  do fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);  // waits for a pipe's writer
  while (fd < 0 && errno == EINTR && !is_cancelled());
  if (fd < 0 && errno == EINTR) return fail(ErrorCode::cancelled, "{}: interrupted", path);
  if (fd < 0) return io_error(path, "cannot open");
  std::string text;
  std::array<char, 1 << 16> chunk;
  Result<> outcome;
  while (true) {
    const ssize_t n = ::read(fd, chunk.data(), chunk.size());
    if (n < 0 && errno == EINTR) {
      if (!is_cancelled()) continue;
      outcome = fail(ErrorCode::cancelled, "{}: interrupted", path);
    } else if (n < 0) {
      outcome = io_error(path, "cannot read");
    }
    if (n <= 0) break;
    if (text.size() + to_size(n) > max_bytes) {
      outcome = fail(ErrorCode::limit, "{}: longer than {} bytes", path, max_bytes);
      break;
    }
    text.append(chunk.data(), to_size(n));
  }
  ::close(fd);
  if (!outcome) return forward_error(outcome);
  return text;
}

AtomicFile::AtomicFile(int fd, std::string path, std::string temporary)
    : fd_(fd), path_(std::move(path)), temporary_(std::move(temporary)) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      path_(std::move(other.path_)),
      temporary_(std::exchange(other.temporary_, {})),
      keeps_(other.keeps_) {}

// Another process may have renamed the file between open() and flock().
Result<AtomicFile> AtomicFile::resume(const std::string& path, const std::string& temporary, bool keeps) {
  TESSERA_TRY(require_replaceable(path));
  constexpr mode_t kAllMayReadAndWrite = 0666;  // less the mask of the process
  AtomicFile file(-1, path, temporary);         // takes its memory before there is a file to remove
  file.keeps_ = true;
  const int fd = ::open(temporary.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, kAllMayReadAndWrite);
  if (fd < 0) return io_error(temporary, "cannot create");
  file.fd_ = fd;
  struct stat opened {
  }, named{};
  if (::fstat(fd, &opened) != 0) return io_error(temporary, "cannot stat");
  if (!S_ISREG(opened.st_mode)) return fail(ErrorCode::io, "{}: exists and is not a regular file", temporary);
  const bool is_ours = ::flock(fd, LOCK_EX | LOCK_NB) == 0 && ::stat(temporary.c_str(), &named) == 0 &&
                       named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
  if (!is_ours) return fail(ErrorCode::io, "{}: another process writes it", temporary);
  file.size_ = static_cast<uint64_t>(opened.st_size);
  file.keeps_ = keeps;
  return file;
}

Result<AtomicFile> AtomicFile::create(const std::string& path) {
  TESSERA_TRY(require_replaceable(path));
  AtomicFile file(-1, path, path + ".XXXXXX");  // takes its memory before there is a file to remove
  file.fd_ = ::mkostemp(file.temporary_.data(), O_CLOEXEC);
  if (file.fd_ < 0) {
    file.temporary_.clear();
    return io_error(path, "cannot create");
  }
  const mode_t mask = ::umask(0);
  ::umask(mask);
  ::fchmod(file.fd_, 0666 & ~mask);  // mkostemp gives 0600, but users expect the mode of their umask
  return file;
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty() && !keeps_) ::unlink(temporary_.c_str());
}

Result<> AtomicFile::write(std::span<const std::byte> bytes) { return write_at(size_, bytes); }

// Some file systems and kernels refuse to copy between files. The rest is then read and written.
Result<> AtomicFile::write_from(const File& file, uint64_t offset, uint64_t n) {
  while (n > 0) {
    auto from = static_cast<off_t>(offset), to = static_cast<off_t>(size_);
    const ssize_t n_copied = ::copy_file_range(file.descriptor(), &from, fd_, &to, n, 0);
    if (n_copied < 0 && errno == EINTR) continue;
    if (n_copied <= 0) break;
    start_writing(fd_, size_, to_size(n_copied));
    offset += to_size(n_copied);
    size_ += to_size(n_copied);
    n -= to_size(n_copied);
  }
  constexpr uint64_t kPieceBytes = 1 << 20;
  std::vector<std::byte> piece;
  while (n > 0) {
    piece.resize(std::min(n, kPieceBytes));
    TESSERA_TRY(file.read_at(offset, piece));
    TESSERA_TRY(write(piece));
    offset += piece.size();
    n -= piece.size();
  }
  return {};
}

Result<> AtomicFile::write_at(uint64_t offset, std::span<const std::byte> bytes) {
  TESSERA_TRY(write_all(fd_, path_, offset, bytes));
  size_ = std::max(size_, offset + bytes.size());
  return {};
}

Result<> AtomicFile::read_at(uint64_t offset, std::span<std::byte> into) const {
  return read_all_at(fd_, temporary_, offset, into);
}

Result<> AtomicFile::truncate(uint64_t n) {
  if (::ftruncate(fd_, static_cast<off_t>(n)) != 0) return io_error(path_, "cannot truncate");
  size_ = n;
  return {};
}

Result<> AtomicFile::close() {
  const int fd = std::exchange(fd_, -1);
  if (fd < 0) return {};
  const bool synced = ::fsync(fd) == 0;
  auto outcome = synced ? Result<>{} : Result<>(io_error(path_, "cannot write"));
  // On some file systems close() is the first call to report a full disk.
  if (::close(fd) != 0 && outcome) outcome = io_error(path_, "cannot write");
  return outcome;
}

Result<> AtomicFile::commit() {
  TESSERA_TRY(close());
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) return io_error(path_, "cannot rename into place");
  temporary_.clear();
  return {};
}

}  // namespace tessera
