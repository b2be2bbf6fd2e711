#include "tessera/cli/line_history.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/cli/state_file.h"
#include "tessera/text/utf8.h"

namespace tessera::cli {

namespace {

std::unexpected<Error> history_error(const std::string& path, std::string_view doing) {
  return fail(ErrorCode::io, "history {}: cannot {}: {}", path, doing, std::strerror(errno));
}

class HistoryFile {
 public:
  explicit HistoryFile(int fd) : fd_(fd) {}
  ~HistoryFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  HistoryFile(const HistoryFile&) = delete;
  HistoryFile& operator=(const HistoryFile&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// A line of the file: line breaks and backslashes of the entry are escaped.
std::string to_history_line(std::string_view entry) {
  std::string line;
  for (const char c : entry) {
    if (c == '\\') line += "\\\\";
    if (c == '\n') line += "\\n";
    if (c != '\\' && c != '\n') line += c;
  }
  return line + '\n';
}

std::string from_history_line(std::string_view line) {
  std::string entry;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool is_escape = line[i] == '\\' && i + 1 < line.size();
    if (is_escape) ++i;
    entry += is_escape && line[i] == 'n' ? '\n' : line[i];
  }
  return text::to_valid_utf8(entry);
}

void keep_newest(std::vector<std::string>& entries) {
  size_t n_bytes = 0, n = 0;
  while (n < std::min(entries.size(), kMaxHistoryEntries)) {
    n_bytes += to_history_line(entries[entries.size() - 1 - n]).size();
    if (n_bytes > kMaxHistoryBytes) break;
    ++n;
  }
  entries.erase(entries.begin(), entries.end() - static_cast<std::ptrdiff_t>(n));
}

std::vector<std::string> split_history(std::string_view bytes) {
  std::vector<std::string> entries;
  while (!bytes.empty()) {
    const size_t end = std::min(bytes.find('\n'), bytes.size());
    if (end > 0) entries.push_back(from_history_line(bytes.substr(0, end)));
    bytes.remove_prefix(std::min(end + 1, bytes.size()));
  }
  keep_newest(entries);
  return entries;
}

// Reads the end of the file. A file that does not exist has no entries.
Result<std::vector<std::string>> read_history(const std::string& path) {
  const HistoryFile file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0 && errno == ENOENT) return std::vector<std::string>();
  if (file.get() < 0) return history_error(path, "open");
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) return history_error(path, "read");
  if (!S_ISREG(info.st_mode)) return fail(ErrorCode::io, "history {}: not a regular file", path);
  const auto size = static_cast<size_t>(std::max<off_t>(info.st_size, 0));
  const size_t skipped = size > kMaxHistoryBytes ? size - kMaxHistoryBytes : 0;
  std::string bytes(size - skipped, '\0');
  size_t n_read = 0;
  while (n_read < bytes.size()) {
    const auto offset = static_cast<off_t>(skipped + n_read);
    const ssize_t n = ::pread(file.get(), bytes.data() + n_read, bytes.size() - n_read, offset);
    if (n < 0 && errno != EINTR) return history_error(path, "read");
    if (n == 0) break;
    if (n > 0) n_read += to_size(n);
  }
  bytes.resize(n_read);
  std::string_view whole = bytes;
  if (skipped > 0) whole.remove_prefix(std::min(whole.find('\n') + 1, whole.size()));  // a line that was cut
  return split_history(whole);
}

// Creates the folder of the file, and those above it.
Result<> make_history_folder(const std::string& path) {
  for (size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1)) {
    const std::string folder = path.substr(0, slash);
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return history_error(path, "create its folder");
  }
  return {};
}

// Opens the folder of the file and locks it. The lock is advisory, and ends when the descriptor is closed.
Result<int> lock_history(const std::string& path) {
  HistoryFile folder(::open(path.substr(0, path.rfind('/') + 1).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() < 0) return history_error(path, "open its folder");
  constexpr int kMaxTries = 200;
  for (int i = 0; i < kMaxTries; ++i) {
    if (::flock(folder.get(), LOCK_EX | LOCK_NB) == 0) return folder.release();
    if (errno != EWOULDBLOCK && errno != EINTR) return history_error(path, "lock its folder");
    ::usleep(10'000);
  }
  return fail(ErrorCode::io, "history {}: another program has locked its folder for 2 s", path);
}

Result<> write_history(const std::string& path, const std::vector<std::string>& entries) {
  std::string temporary = path + ".XXXXXX";
  HistoryFile file(::mkostemp(temporary.data(), O_CLOEXEC));  // only the owner may read it
  if (file.get() < 0) return history_error(path, "create a file beside it");
  std::string bytes;
  for (const std::string& entry : entries) bytes += to_history_line(entry);
  size_t n_written = 0;
  ssize_t n = 0;
  while (n_written < bytes.size()) {
    n = ::write(file.get(), bytes.data() + n_written, bytes.size() - n_written);
    if (n < 0 && errno != EINTR) break;
    if (n > 0) n_written += to_size(n);
  }
  bool is_good = n_written == bytes.size();
  is_good = ::close(file.release()) == 0 && is_good;
  if (is_good && ::rename(temporary.c_str(), path.c_str()) == 0) return {};
  const auto error = history_error(path, "write");
  ::unlink(temporary.c_str());
  return error;
}

}  // namespace

std::string LineHistory::default_path() { return state_file_path("history"); }

Result<LineHistory> LineHistory::open(std::string path) {
  LineHistory history;
  if (path.empty()) return history;
  if (path.find('/') == std::string::npos) path = "./" + path;
  // A link stays one: its target is replaced.
  char* target = ::realpath(path.c_str(), nullptr);
  if (target != nullptr) path = target;
  std::free(target);
  history.path_ = std::move(path);
  TESSERA_ASSIGN(history.entries_, read_history(history.path_));
  return history;
}

Result<> LineHistory::add(std::string_view text) {
  const bool is_kept = !text.empty() && text[0] != ' ' && text[0] != '\t';
  if (!is_kept || (!entries_.empty() && entries_.back() == text)) return {};
  entries_.emplace_back(text);
  if (entries_.size() > kMaxHistoryEntries) entries_.erase(entries_.begin());
  if (path_.empty() || text.size() > kMaxHistoryEntryBytes) return {};
  TESSERA_TRY(make_history_folder(path_));
  TESSERA_ASSIGN(const int locked, lock_history(path_));
  const HistoryFile lock(locked);
  TESSERA_ASSIGN(std::vector<std::string> all, read_history(path_));
  if (!all.empty() && all.back() == text) return {};
  all.emplace_back(text);
  keep_newest(all);
  return write_history(path_, all);
}

std::optional<size_t> LineHistory::find_prefix_before(size_t index, std::string_view prefix) const {
  while (index-- > 0)
    if (entries_[index].starts_with(prefix)) return index;
  return std::nullopt;
}

std::optional<size_t> LineHistory::find_part_before(size_t index, std::string_view part) const {
  while (index-- > 0)
    if (entries_[index].find(part) != std::string::npos) return index;
  return std::nullopt;
}

std::optional<size_t> LineHistory::find_prefix_after(size_t index, std::string_view prefix) const {
  while (++index < entries_.size())
    if (entries_[index].starts_with(prefix)) return index;
  return std::nullopt;
}

}  // namespace tessera::cli
