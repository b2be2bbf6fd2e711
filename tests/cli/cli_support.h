// Shared by the tests of the program: a child process that receives signals, and the check of a refusal.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/support/testing.h"

namespace tessera::testing {

/// A running `tessera` that writes its outputs to files.
class Child {
 public:
  /// `program`: the first words of the command.
  explicit Child(const std::vector<std::string>& args, std::string out_path = (temporary_dir() / "child.out").string(),
                 std::vector<std::string> program = {program_path()})
      : out_path_(std::move(out_path)), err_path_(out_path_ + ".err") {
    std::vector<std::string> words = std::move(program), environment = program_environment({});
    words.insert(words.end(), args.begin(), args.end());
    std::vector<char*> argv, envp;
    for (std::string& word : words) argv.push_back(word.data());
    for (std::string& entry : environment) envp.push_back(entry.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&actions, 1, out_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    ::posix_spawn_file_actions_addopen(&actions, 2, err_path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
    EXPECT_EQ(::posix_spawn(&pid_, argv[0], &actions, nullptr, argv.data(), envp.data()), 0);
    ::posix_spawn_file_actions_destroy(&actions);
  }
  // A test that has failed may have left a server without a signal.
  ~Child() {
    if (pid_ <= 0) return;
    if (std::uncaught_exceptions() > 0 || ::testing::Test::HasFailure()) send(SIGKILL);
    wait();
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Waits until the output has at least n bytes.
  void wait_for_output(size_t n) const {
    std::error_code none_yet;
    for (int i = 0; i < 12000; ++i) {
      const uintmax_t size = std::filesystem::file_size(out_path_, none_yet);
      if (!none_yet && size >= n) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    ADD_FAILURE() << "no output in 120 s";
  }

  /// Waits until a whole line of its standard error begins with `begin`, and returns the rest of the line. Empty: it
  /// has ended before that, or 120 s are over.
  std::string wait_for_line(std::string_view begin) const {
    const std::string wanted = "\n" + std::string(begin);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    bool is_last = false;
    while (!is_last) {
      is_last = !is_running() || std::chrono::steady_clock::now() > deadline;
      const std::string log = "\n" + err_so_far();
      const size_t line = log.find(wanted);
      const size_t end = line == std::string::npos ? line : log.find('\n', line + 1);
      if (end != std::string::npos) return log.substr(line + wanted.size(), end - line - wanted.size());
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return "";
  }
  /// The port of a server on the loopback device that has just been started, or 0.
  uint16_t wait_for_port() const {
    return static_cast<uint16_t>(std::atoi(wait_for_line("listening on http://127.0.0.1:").c_str()));
  }

  pid_t pid() const { return pid_; }

  /// All that it has written to its standard error.
  std::string err_so_far() const { return read_all(err_path_); }

  /// Whether it has not ended yet.
  bool is_running() const {
    siginfo_t ended{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid == 0;
  }

  void send(int signal) const { ::kill(pid_, signal); }

  ProgramOutput wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    ProgramOutput output;
    output.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (std::filesystem::is_regular_file(out_path_)) output.out = read_all(out_path_);
    output.err = read_all(err_path_);
    return output;
  }

 private:
  std::string out_path_, err_path_;
  pid_t pid_ = -1;
};

/// Expects a refusal: this status, nothing on stdout, and one line on stderr that begins with "error: " and contains
/// `part`.
inline void expect_refusal(const ProgramOutput& output, int status, const std::string& part) {
  EXPECT_EQ(output.status, status) << output.err;
  EXPECT_EQ(output.out, "");
  EXPECT_TRUE(output.err.starts_with("error: ")) << output.err;
  EXPECT_EQ(std::ranges::count(output.err, '\n'), 1) << output.err;
  EXPECT_TRUE(std::ranges::none_of(output.err, [](char c) { return (c >= 0 && c < 0x20 && c != '\n') || c == 0x7f; }));
  EXPECT_NE(output.err.find(part), std::string::npos) << "want '" << part << "', got " << output.err;
}

}  // namespace tessera::testing
