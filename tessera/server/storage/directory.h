// An open directory of the server's own files: slots that clients save, and the disk tier of the prefix cache. Files
// are opened under the directory's descriptor and never through symbolic links. A written file appears under its name
// only when it is complete and on the disk.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/file.h"

namespace tessera::server {

/// Whether a client may give a file this name: 1 to 255 letters, digits, dots, underscores and hyphens, the first no
/// dot.
bool is_file_name(std::string_view name);

using FileTime = std::chrono::sys_time<std::chrono::nanoseconds>;

/// A file that is being written, under another name until commit(). Without commit() nothing is left of it.
class NewFile {
 public:
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  /// Errors of all: io.
  Result<> write(std::span<const std::byte> bytes);
  Result<> set_modified(FileTime modified);
  /// Writes all to the disk and gives the file its name. Nothing may be called after it.
  Result<> commit();

 private:
  friend class Directory;
  NewFile(int directory, std::string name, std::string temporary, std::string shown)
      : directory_(directory), name_(std::move(name)), temporary_(std::move(temporary)), shown_(std::move(shown)) {}

  const int directory_;
  const std::string name_, temporary_, shown_;
  int fd_ = -1;
  bool is_there_ = false;
};

class Directory {
 public:
  struct FileInfo {
    uint64_t n_bytes = 0;
    FileTime modified{};
    bool is_directory = false;
    bool is_file = false;  // a regular one
  };

  /// Opens an existing directory. Errors: not_found, io.
  static Result<Directory> open(const std::string& path);
  /// Opens a directory for this user only, and makes it with mode 0700 if it is missing (its parent must exist).
  /// Errors: io; invalid_argument (others may write in it, or it is another user's).
  static Result<Directory> open_private(const std::string& path);
  Directory(Directory&& other) noexcept : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)) {}
  Directory& operator=(Directory&& other) noexcept {
    std::swap(fd_, other.fd_);
    std::swap(path_, other.path_);
    return *this;
  }
  ~Directory();

  const std::string& path() const { return path_; }

  // Names below are relative to the directory, and may name a file of a directory in it: "a/b".

  /// Errors: not_found; invalid_argument (a symbolic link); io (not a regular file, or the system refuses it).
  Result<File> open_file(const std::string& name) const { return File::open_in(fd_, name, path_); }
  /// Writes parts one after another. modified: the time of the file; nothing: now. Errors: io. After an error there is
  /// no file, or the old one.
  Result<> write_file(const std::string& name, std::span<const std::span<const std::byte>> parts,
                      std::optional<FileTime> modified = {}) const;
  /// Creates a file for writing. The directory must outlive it. Errors: io.
  Result<std::unique_ptr<NewFile>> create_file(const std::string& name) const;
  /// Removes files of `folder` ("": this one) that a process began to write and left behind before so many minutes.
  void remove_stale_temporaries(const std::string& folder, std::chrono::minutes age) const;
  /// Makes a directory with mode 0700, unless it exists. Errors: io.
  Result<> make_directory(const std::string& name) const;
  /// Errors: not_found, io. remove_directory() also fails if the directory is not empty.
  Result<> remove_file(const std::string& name) const;
  Result<> remove_directory(const std::string& name) const;
  Result<FileInfo> info(const std::string& name) const;
  Result<> set_modified(const std::string& name, FileTime modified) const;
  /// The names in a directory, without "." and ".."; "": in this one. Errors: not_found, io.
  Result<std::vector<std::string>> names_in(const std::string& name) const;

  /// The beginning of the names under which files are written. A process that is killed may leave such a file.
  static constexpr std::string_view kTemporaryPrefix = ".tessera-";

 private:
  Directory(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  int fd_ = -1;
  std::string path_;
};

}  // namespace tessera::server
