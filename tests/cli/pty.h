// A program under a pseudo terminal, for tests: the test types bytes, and waits for what the screen should show.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tests/cli/screen.h"

namespace tessera::testing {

/// Both ends of a pseudo terminal. The program's end has the file descriptor `inner`.
class PtyPair {
 public:
  explicit PtyPair(int n_rows = 24, int n_columns = 80) : outer_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)) {
    EXPECT_GE(outer_, 0);
    EXPECT_EQ(::grantpt(outer_), 0);
    EXPECT_EQ(::unlockpt(outer_), 0);
    std::array<char, 128> name{};
    EXPECT_EQ(::ptsname_r(outer_, name.data(), name.size()), 0);
    name_ = name.data();
    inner_ = ::open(name_.c_str(), O_RDWR | O_NOCTTY | O_CLOEXEC);
    EXPECT_GE(inner_, 0);
    set_size(n_rows, n_columns);
  }
  ~PtyPair() { close_inner(), close_outer(); }
  PtyPair(const PtyPair&) = delete;
  PtyPair& operator=(const PtyPair&) = delete;

  int outer() const { return outer_; }
  int inner() const { return inner_; }
  const std::string& name() const { return name_; }
  void close_inner() { close_once(inner_); }
  void close_outer() { close_once(outer_); }  // the program sees a hangup

  void set_size(int n_rows, int n_columns) const {
    winsize size{};
    size.ws_row = static_cast<unsigned short>(n_rows);
    size.ws_col = static_cast<unsigned short>(n_columns);
    ::ioctl(outer_, TIOCSWINSZ, &size);
  }
  termios modes() const {
    termios modes{};
    ::tcgetattr(outer_, &modes);
    return modes;
  }
  void set_modes(const termios& modes) const { ::tcsetattr(outer_, TCSANOW, &modes); }

 private:
  static void close_once(int& fd) {
    if (fd >= 0) ::close(std::exchange(fd, -1));
  }
  int outer_ = -1, inner_ = -1;
  std::string name_;
};

/// The test's side of a pseudo terminal: types, and keeps the screen.
class PtyUser {
 public:
  PtyUser(PtyPair& pty, int n_rows, int n_columns) : pty_(pty), screen_(n_rows, n_columns) {}

  const Screen& screen() const { return screen_; }
  /// All bytes that the program wrote.
  const std::string& output() const { return output_; }

  void type(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::write(pty_.outer(), bytes.data(), std::min<size_t>(bytes.size(), 512));
      if (n < 0 && errno != EINTR && errno != EAGAIN) return;
      if (n > 0) bytes.remove_prefix(to_size(n));
      read_for(0);  // a program that waits for its output to be read reads no input
    }
  }

  void resize(int n_rows, int n_columns, bool reflows = true) {
    screen_.resize(n_rows, n_columns, reflows);
    pty_.set_size(n_rows, n_columns);
  }

  /// Reads output until the condition holds. Returns false, and the test fails, if that takes 60 s or the program ends.
  bool wait_for(const std::function<bool(const Screen&)>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition(screen_)) {
      const bool is_late = std::chrono::steady_clock::now() > end;
      if (!is_late && (read_for(20) || !is_closed_)) continue;
      ADD_FAILURE() << (is_late ? "not seen in 60 s" : "the program ended") << "; the screen:\n" << screen_.text();
      return false;
    }
    return true;
  }
  bool wait_for_text(std::string_view part) {
    return wait_for([&](const Screen& screen) { return screen.text().find(part) != std::string::npos; });
  }
  bool wait_for_screen(std::string_view text) {
    const bool was_seen = wait_for([&](const Screen& screen) { return screen.text() == text; });
    if (!was_seen) ADD_FAILURE() << "wanted:\n" << text;
    return was_seen;
  }
  /// Reads output until the program's end of the terminal is closed.
  void read_to_end() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!is_closed_ && std::chrono::steady_clock::now() < end) read_for(20);
  }

 private:
  bool read_for(int timeout_ms) {
    pollfd wanted{pty_.outer(), POLLIN, 0};
    if (::poll(&wanted, 1, timeout_ms) <= 0) return false;
    std::array<char, 4096> bytes;
    const ssize_t n = ::read(pty_.outer(), bytes.data(), bytes.size());
    if (n <= 0) {
      is_closed_ = n == 0 || (errno != EINTR && errno != EAGAIN);
      return false;
    }
    output_.append(bytes.data(), to_size(n));
    screen_.feed({bytes.data(), to_size(n)});
    return true;
  }

  PtyPair& pty_;
  Screen screen_;
  std::string output_;
  bool is_closed_ = false;
};

/// A program whose controlling terminal is a pseudo terminal. A process between the test and the program leads the
/// session as a shell does, so that Ctrl-Z stops the program.
class PtyChild {
 public:
  /// args[0] is the path of the program. `env` is its whole environment ("NAME=value").
  PtyChild(std::vector<std::string> args, std::vector<std::string> env, int n_rows = 24, int n_columns = 80)
      : pty_(n_rows, n_columns), user_(pty_, n_rows, n_columns) {
    std::vector<char*> argv, envp;
    for (std::string& word : args) argv.push_back(word.data());
    for (std::string& entry : env) envp.push_back(entry.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    leader_ = ::fork();
    if (leader_ == 0) lead(argv.data(), envp.data());
    EXPECT_GT(leader_, 0);
    pty_.close_inner();
  }
  ~PtyChild() {
    if (leader_ <= 0) return;
    if (pty_.outer() >= 0 && foreground() > 0) ::kill(-foreground(), SIGKILL);
    ::kill(leader_, SIGKILL);
    ::waitpid(leader_, nullptr, 0);
  }
  PtyChild(const PtyChild&) = delete;
  PtyChild& operator=(const PtyChild&) = delete;

  PtyUser& user() { return user_; }
  const Screen& screen() const { return user_.screen(); }
  termios modes() const { return pty_.modes(); }
  void set_modes(const termios& modes) const { pty_.set_modes(modes); }
  void hang_up() { pty_.close_outer(); }
  /// Sends a signal to the program. Call it after the program has written something.
  void send_signal(int signal) const { ::kill(foreground(), signal); }

  /// Waits until the program is stopped (Ctrl-Z).
  bool wait_for_stop() const { return WIFSTOPPED(wait_for_status()); }
  /// Goes on with a stopped program, as "fg" does.
  void resume() const { ::kill(leader_, SIGCONT); }
  /// Reads all output and returns the exit status, or 128 + signal.
  int wait_for_exit() {
    if (pty_.outer() >= 0) user_.read_to_end();
    const int status = wait_for_status();
    if (!WIFEXITED(status)) return -1;
    leader_ = -1;
    return WEXITSTATUS(status);
  }

 private:
  // The status of the leader when it stops or ends; within 60 s.
  int wait_for_status() const {
    int status = 0;
    for (int i = 0; i < 12000; ++i) {
      if (::waitpid(leader_, &status, WUNTRACED | WNOHANG) != 0) return status;
      ::usleep(5000);
    }
    ADD_FAILURE() << "the program neither stops nor ends";
    return -1;
  }

  pid_t foreground() const {
    pid_t group = -1;
    ::ioctl(pty_.outer(), TIOCGPGRP, &group);
    return group;
  }

  // These run in children, and call functions only that are safe between fork and exec.
  [[noreturn]] void lead(char** argv, char** envp) const {
    const pid_t own = ::setsid();
    ::ioctl(pty_.inner(), TIOCSCTTY, 0);
    for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTTOU}) ::signal(signal, SIG_IGN);
    const pid_t program = ::fork();
    if (program == 0) run(argv, envp);
    for (const int fd : {0, 1, 2, pty_.outer()}) ::close(fd);
    while (true) {
      int status = 0;
      ::waitpid(program, &status, WUNTRACED);
      if (WIFEXITED(status)) ::_exit(WEXITSTATUS(status));
      if (WIFSIGNALED(status)) ::_exit(128 + WTERMSIG(status));
      ::ioctl(pty_.inner(), TIOCSPGRP, &own);
      ::raise(SIGSTOP);
      ::ioctl(pty_.inner(), TIOCSPGRP, &program);
      ::kill(-program, SIGCONT);
    }
  }
  [[noreturn]] void run(char** argv, char** envp) const {
    ::setpgid(0, 0);
    const pid_t own = ::getpid();
    ::ioctl(pty_.inner(), TIOCSPGRP, &own);
    for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTTOU}) ::signal(signal, SIG_DFL);
    for (int fd = 0; fd < 3; ++fd) ::dup2(pty_.inner(), fd);
    ::execve(argv[0], argv, envp);
    ::_exit(127);
  }

  PtyPair pty_;
  PtyUser user_;
  pid_t leader_ = -1;
};

}  // namespace tessera::testing
