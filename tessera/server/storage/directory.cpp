#include "tessera/server/storage/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <system_error>

namespace tessera::server {

namespace {

constexpr size_t kMostNameBytes = 255;
constexpr mode_t kWritableByOthers = S_IWGRP | S_IWOTH;

std::unexpected<Error> directory_error(const std::string& path, std::string_view what) {
  const int error = errno;
  const ErrorCode code = error == ENOENT ? ErrorCode::not_found : ErrorCode::io;
  return fail(code, "{}: {}: {}", path, what, std::generic_category().message(error));
}

int open_directory(int at, const char* name, int flags = 0) {
  return ::openat(at, name, O_RDONLY | O_CLOEXEC | O_DIRECTORY | flags);
}

timespec timespec_of(FileTime time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  return {.tv_sec = seconds.time_since_epoch().count(), .tv_nsec = (time - seconds).count()};
}

FileTime time_of(const timespec& time) {
  return FileTime(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

// A name that no other process and thread uses.
std::string temporary_beside(const std::string& name) {
  uint64_t number = 0;
  static_cast<void>(::getrandom(&number, sizeof number, 0));  // a repeated number only makes the open fail
  const size_t slash = name.rfind('/');
  const std::string folder = slash == std::string::npos ? std::string() : name.substr(0, slash + 1);
  return fmt::format("{}{}{}-{:016x}", folder, Directory::kTemporaryPrefix, ::getpid(), number);
}

}  // namespace

bool is_file_name(std::string_view name) {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= kMostNameBytes && name.front() != '.' && std::ranges::all_of(name, is_allowed);
}

Result<Directory> Directory::open(const std::string& path) {
  const int fd = open_directory(AT_FDCWD, path.c_str());
  if (fd < 0) return directory_error(path, "cannot open the directory");
  return Directory(fd, path);
}

Result<Directory> Directory::open_private(const std::string& path) {
  if (::mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) return directory_error(path, "cannot make the directory");
  TESSERA_ASSIGN(Directory directory, open(path));
  struct stat status {};
  if (::fstat(directory.fd_, &status) != 0) return directory_error(path, "cannot stat");
  if (status.st_uid != ::geteuid())
    return fail(ErrorCode::invalid_argument, "{}: the directory belongs to another user", path);
  if ((status.st_mode & kWritableByOthers) != 0)
    return fail(ErrorCode::invalid_argument, "{}: mode {:04o}, but other users may not write in it (chmod go-w {})",
                path, status.st_mode & 07777, path);
  return directory;
}

Directory::~Directory() {
  if (fd_ >= 0) ::close(fd_);
}

// --- new files

NewFile::~NewFile() {
  if (fd_ >= 0) ::close(fd_);
  if (is_there_) ::unlinkat(directory_, temporary_.c_str(), 0);
}

Result<> NewFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return directory_error(shown_, "cannot write");
    bytes = bytes.subspan(static_cast<size_t>(n));
  }
  return {};
}

Result<> NewFile::set_modified(FileTime modified) {
  const timespec times[2] = {timespec_of(modified), timespec_of(modified)};
  if (::futimens(fd_, times) != 0) return directory_error(shown_, "cannot set the time");
  return {};
}

Result<> NewFile::commit() {
  const bool is_synced = ::fsync(fd_) == 0;
  if (!is_synced) return directory_error(shown_, "cannot write");
  if (::close(std::exchange(fd_, -1)) != 0) return directory_error(shown_, "cannot write");
  if (::renameat(directory_, temporary_.c_str(), directory_, name_.c_str()) != 0)
    return directory_error(shown_, "cannot rename into place");
  is_there_ = false;
  return {};
}

Result<std::unique_ptr<NewFile>> Directory::create_file(const std::string& name) const {
  std::unique_ptr<NewFile> file(new NewFile(fd_, name, temporary_beside(name), path_ + "/" + name));
  file->fd_ =
      ::openat(fd_, file->temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
  if (file->fd_ < 0) return directory_error(file->shown_, "cannot create");
  file->is_there_ = true;
  return file;
}

Result<> Directory::write_file(const std::string& name, std::span<const std::span<const std::byte>> parts,
                               std::optional<FileTime> modified) const {
  TESSERA_ASSIGN(const auto file, create_file(name));
  for (const std::span<const std::byte> part : parts) TESSERA_TRY(file->write(part));
  if (modified) TESSERA_TRY(file->set_modified(*modified));
  return file->commit();
}

void Directory::remove_stale_temporaries(const std::string& folder, std::chrono::minutes age) const {
  const auto names = names_in(folder);
  if (!names) return;
  for (const std::string& name : *names) {
    if (!name.starts_with(kTemporaryPrefix)) continue;
    const std::string path = folder.empty() ? name : fmt::format("{}/{}", folder, name);
    const auto found = info(path);
    if (found && found->is_file && std::chrono::system_clock::now() - found->modified > age)
      static_cast<void>(remove_file(path));
  }
}

Result<> Directory::make_directory(const std::string& name) const {
  if (::mkdirat(fd_, name.c_str(), S_IRWXU) == 0 || errno == EEXIST) return {};
  return directory_error(path_ + "/" + name, "cannot make the directory");
}

Result<> Directory::remove_file(const std::string& name) const {
  if (::unlinkat(fd_, name.c_str(), 0) == 0) return {};
  return directory_error(path_ + "/" + name, "cannot remove");
}

Result<> Directory::remove_directory(const std::string& name) const {
  if (::unlinkat(fd_, name.c_str(), AT_REMOVEDIR) == 0) return {};
  return directory_error(path_ + "/" + name, "cannot remove");
}

Result<Directory::FileInfo> Directory::info(const std::string& name) const {
  struct stat status {};
  if (::fstatat(fd_, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0)
    return directory_error(path_ + "/" + name, "cannot stat");
  return FileInfo{.n_bytes = static_cast<uint64_t>(status.st_size),
                  .modified = time_of(status.st_mtim),
                  .is_directory = S_ISDIR(status.st_mode),
                  .is_file = S_ISREG(status.st_mode)};
}

Result<> Directory::set_modified(const std::string& name, FileTime modified) const {
  const timespec times[2] = {timespec_of(modified), timespec_of(modified)};
  if (::utimensat(fd_, name.c_str(), times, AT_SYMLINK_NOFOLLOW) == 0) return {};
  return directory_error(path_ + "/" + name, "cannot set the time");
}

Result<std::vector<std::string>> Directory::names_in(const std::string& name) const {
  const std::string shown = name.empty() ? path_ : path_ + "/" + name;
  const int fd = open_directory(fd_, name.empty() ? "." : name.c_str(), O_NOFOLLOW);
  if (fd < 0) return directory_error(shown, "cannot open the directory");
  const std::unique_ptr<DIR, decltype([](DIR* stream) { ::closedir(stream); })> stream(::fdopendir(fd));
  if (!stream) {
    ::close(fd);
    return directory_error(shown, "cannot read the directory");
  }
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string_view one = static_cast<const char*>(entry->d_name);
    if (one != "." && one != "..") names.emplace_back(one);
  }
  return names;
}

}  // namespace tessera::server
