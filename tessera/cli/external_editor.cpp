#include "tessera/cli/external_editor.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "tessera/base/file.h"
#include "tessera/base/index.h"
#include "tessera/text/utf8.h"

extern char** environ;

namespace tessera::cli {

namespace {

constexpr uint64_t kMaxEditedBytes = uint64_t{8} << 20;

std::unexpected<Error> editor_error(std::string_view doing) {
  return fail(ErrorCode::io, "editor: cannot {}: {}", doing, std::strerror(errno));
}

// A folder that only the user can enter, with one file. The destructor removes it.
class PrivateFile {
 public:
  PrivateFile() = default;
  ~PrivateFile() {
    std::error_code ignored;  // editors leave files beside it, such as message.md~
    if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  }
  PrivateFile(const PrivateFile&) = delete;
  PrivateFile& operator=(const PrivateFile&) = delete;

  Result<> create(std::string_view text) {
    const char* temporary = std::getenv("TMPDIR");
    std::string folder = std::string(temporary != nullptr && *temporary != '\0' ? temporary : "/tmp") + "/tessera.XXXXXX";
    if (::mkdtemp(folder.data()) == nullptr) return editor_error("create a folder for the text");
    folder_ = std::move(folder);
    path_ = folder_ + "/message.md";
    const int fd = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) return editor_error("create a file for the text");
    bool is_good = true;
    while (!text.empty() && is_good) {
      const ssize_t n = ::write(fd, text.data(), text.size());
      is_good = n >= 0 || errno == EINTR;
      if (n > 0) text.remove_prefix(to_size(n));
    }
    is_good = ::close(fd) == 0 && is_good;
    return is_good ? Result<>{} : Result<>(editor_error("write the text"));
  }
  const std::string& path() const { return path_; }

 private:
  std::string folder_, path_;
};

bool is_in_path(std::string_view program) {
  const char* path = std::getenv("PATH");
  std::string_view folders = path != nullptr ? path : "/usr/bin:/bin";
  while (!folders.empty()) {
    const size_t end = std::min(folders.find(':'), folders.size());
    const std::string candidate = std::string(folders.substr(0, end)) + "/" + std::string(program);
    if (end > 0 && ::access(candidate.c_str(), X_OK) == 0) return true;
    folders.remove_prefix(std::min(end + 1, folders.size()));
  }
  return false;
}

// Ctrl-C in the editor reaches this process too, which ignores it meanwhile.
class IgnoredInterrupts {
 public:
  IgnoredInterrupts() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGINT, &ignore, &old_[0]);
    ::sigaction(SIGQUIT, &ignore, &old_[1]);
  }
  ~IgnoredInterrupts() {
    ::sigaction(SIGINT, &old_[0], nullptr);
    ::sigaction(SIGQUIT, &old_[1], nullptr);
  }
  IgnoredInterrupts(const IgnoredInterrupts&) = delete;
  IgnoredInterrupts& operator=(const IgnoredInterrupts&) = delete;

 private:
  std::array<struct sigaction, 2> old_{};
};

Result<pid_t> start_editor(Terminal& terminal, const std::string& command, const std::string& path) {
  std::string shell = "sh", flag = "-c", script = command + " \"$1\"", name = "sh", file = path;
  std::array<char*, 6> argv = {shell.data(), flag.data(), script.data(), name.data(), file.data(), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, terminal.input_descriptor(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, terminal.output_descriptor(), STDOUT_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none, defaults;
  ::sigemptyset(&none);
  ::sigfillset(&defaults);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &defaults);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  pid_t pid = -1;
  const int status = ::posix_spawn(&pid, "/bin/sh", &actions, &attributes, argv.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (status != 0) return fail(ErrorCode::io, "editor: cannot run /bin/sh: {}", std::strerror(status));
  return pid;
}

Result<> run_editor(Terminal& terminal, const std::string& command, const std::string& path) {
  const IgnoredInterrupts ignored;
  TESSERA_ASSIGN(const pid_t pid, start_editor(terminal, command, path));
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0)
    if (errno != EINTR) return editor_error("wait for its end");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  if (WIFEXITED(status)) return fail(ErrorCode::format, "editor {} ended with status {}", command, WEXITSTATUS(status));
  return fail(ErrorCode::format, "editor {} ended by signal {}", command, WTERMSIG(status));
}

}  // namespace

std::string external_editor_command() {
  for (const char* name : {"VISUAL", "EDITOR"}) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  for (const char* program : {"vi", "nano"})
    if (is_in_path(program)) return program;
  return "";
}

Result<std::string> edit_externally(Terminal& terminal, std::string_view text) {
  const std::string command = external_editor_command();
  if (command.empty()) return fail(ErrorCode::not_found, "no editor: set VISUAL or EDITOR");
  PrivateFile file;
  TESSERA_TRY(file.create(text));
  TESSERA_TRY(terminal.run_outside([&] { return run_editor(terminal, command, file.path()); }));
  TESSERA_ASSIGN(std::string edited, read_file(file.path(), kMaxEditedBytes));
  if (edited.ends_with('\n')) edited.pop_back();
  return text::to_valid_utf8(edited);
}

}  // namespace tessera::cli
