#include "tessera/hub/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace tessera::hub {

namespace {

constexpr std::chrono::milliseconds kLockPoll(100);

// A holder may remove the file, and a lock on a removed file locks nobody out.
bool is_still_there(int fd, const std::string& path) {
  struct stat ours {
  }, now{};
  return ::fstat(fd, &ours) == 0 && ::stat(path.c_str(), &now) == 0 && ours.st_ino == now.st_ino &&
         ours.st_dev == now.st_dev;
}

}  // namespace

FileLock::FileLock(FileLock&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}

FileLock::~FileLock() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::optional<FileLock>> FileLock::try_acquire(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (error) return fail(ErrorCode::io, "{}: cannot create its folder: {}", path, error.message());
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (fd < 0) return fail(ErrorCode::io, "{}: cannot open: {}", path, std::strerror(errno));
  FileLock lock(fd);
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0)
    return is_still_there(fd, path) ? std::optional(std::move(lock)) : std::nullopt;
  if (errno == EWOULDBLOCK || errno == EINTR) return std::nullopt;
  return fail(ErrorCode::io, "{}: cannot lock: {}", path, std::strerror(errno));
}

Result<FileLock> FileLock::acquire(const std::string& path, Clock& clock, const CancelToken& cancel,
                                   const std::function<void()>& on_wait) {
  bool has_waited = false;
  while (true) {
    TESSERA_ASSIGN(auto lock, try_acquire(path));
    if (lock) return *std::move(lock);
    if (!std::exchange(has_waited, true)) on_wait();
    if (cancel.cancelled()) return fail(ErrorCode::cancelled, "cancelled");
    clock.sleep_until(clock.now() + kLockPoll, cancel);
  }
}

}  // namespace tessera::hub
