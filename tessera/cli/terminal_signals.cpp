#include "tessera/cli/terminal_signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "tessera/base/index.h"

namespace tessera::cli {

namespace {

constexpr std::string_view kPasteMarksOn = "\x1b[?2004h";
constexpr std::string_view kPasteMarksOff = "\x1b[?2004l\x1b[?25h";  // and the cursor is shown

constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGHUP};
constexpr int kCrashSignals[] = {SIGQUIT, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
constexpr int kOtherSignals[] = {SIGWINCH, SIGTSTP, SIGCONT};

// State of signal handlers, which have no other way to reach it. New modes are written beside the active ones, since a
// handler may run on another thread at that time.
struct SignalState {
  std::array<TerminalModes, 2> modes;
  std::atomic<size_t> active{0};
  std::array<struct sigaction, 65> previous{};
  std::array<bool, 65> is_installed{};
  int wake_in = -1, wake_out = -1;
};
SignalState g_terminal;
std::atomic<bool> g_is_open{false}, g_resized{false}, g_resumed{false}, g_interrupted{false}, g_ended{false};
std::atomic<int> g_n_stops{0};  // SIGINT, SIGTERM and SIGHUP that nobody has taken

const TerminalModes& active_modes() { return g_terminal.modes[g_terminal.active.load()]; }

void set_active_modes(const TerminalModes& modes) {
  const size_t other = 1 - g_terminal.active.load();
  g_terminal.modes[other] = modes;
  g_terminal.active.store(other);
}

void write_quietly(int fd, std::string_view bytes) {
  [[maybe_unused]] const ssize_t n = ::write(fd, bytes.data(), bytes.size());
}

void wake() { write_quietly(g_terminal.wake_in, "!"); }

// A background process that changes modes would be stopped by SIGTTOU.
bool is_in_foreground(int fd) {
  const pid_t group = ::tcgetpgrp(fd);
  return group < 0 || group == ::getpgrp();
}

void enter_current_modes() {
  const TerminalModes& modes = active_modes();
  if (!is_in_foreground(modes.input)) return;
  ::tcsetattr(modes.input, TCSANOW, &modes.current);
  if (modes.has_paste_marks) write_quietly(modes.output, kPasteMarksOn);
}

// Ends this handler's rule over the signal and sends it again.
void pass_on(int signal, const siginfo_t* info) {
  ::sigaction(signal, &g_terminal.previous[to_size(signal)], nullptr);
  const bool is_fault = info != nullptr && info->si_code > 0 && signal != SIGQUIT;
  if (!is_fault) ::raise(signal);  // a fault comes again by itself, with its address
}

void call_previous(int signal, siginfo_t* info, void* context) {
  const struct sigaction& previous = g_terminal.previous[to_size(signal)];
  if ((previous.sa_flags & SA_SIGINFO) != 0) return previous.sa_sigaction(signal, info, context);
  if (previous.sa_handler == SIG_IGN || previous.sa_handler == SIG_DFL) return;
  previous.sa_handler(signal);
}

extern "C" void on_crash_signal(int signal, siginfo_t* info, void*) {
  const int saved_errno = errno;
  restore_terminal_modes();
  pass_on(signal, info);
  errno = saved_errno;
}

// The first signal asks the loop to stop, and a second ends the process if nobody has taken the first.
extern "C" void on_stop_signal(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  (signal == SIGINT ? g_interrupted : g_ended).store(true);
  const bool is_first = g_n_stops.fetch_add(1) == 0;
  wake();
  const bool has_default = g_terminal.previous[to_size(signal)].sa_handler == SIG_DFL;
  if (!is_first && has_default) {
    restore_terminal_modes();
    pass_on(signal, nullptr);
  } else if (!is_first || !active_modes().is_edit) {
    restore_terminal_modes();  // the other handler may end the process
    call_previous(signal, info, context);
    enter_current_modes();
  }
  errno = saved_errno;
}

extern "C" void on_terminal_stop(int signal, siginfo_t*, void*) {
  const int saved_errno = errno;
  restore_terminal_modes();
  struct sigaction own {};
  ::sigaction(signal, &g_terminal.previous[to_size(signal)], &own);
  sigset_t only, old;
  ::sigemptyset(&only);
  ::sigaddset(&only, signal);
  ::raise(signal);
  ::pthread_sigmask(SIG_UNBLOCK, &only, &old);  // the process stops here
  ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
  ::sigaction(signal, &own, nullptr);
  enter_current_modes();  // SIGCONT does the same, but a process without a shell's job control does not stop
  g_resumed.store(true);
  wake();
  errno = saved_errno;
}

extern "C" void on_change_signal(int signal, siginfo_t* info, void* context) {
  const int saved_errno = errno;
  if (signal == SIGCONT) enter_current_modes();
  (signal == SIGCONT ? g_resumed : g_resized).store(true);
  wake();
  call_previous(signal, info, context);
  errno = saved_errno;
}

void install(int signal, void (*handler)(int, siginfo_t*, void*)) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | (signal == SIGWINCH || signal == SIGCONT || signal == SIGTSTP ? SA_RESTART : 0);
  ::sigemptyset(&action.sa_mask);
  struct sigaction& previous = g_terminal.previous[to_size(signal)];
  ::sigaction(signal, nullptr, &previous);
  const bool is_ignored = (previous.sa_flags & SA_SIGINFO) == 0 && previous.sa_handler == SIG_IGN;
  if (is_ignored && signal != SIGWINCH && signal != SIGCONT) return;  // nohup, or a parent that wants no stops
  ::sigaction(signal, &action, nullptr);
  g_terminal.is_installed[to_size(signal)] = true;
}

// Blocks all signals of this thread while the state of the handlers changes.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, &old_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &old_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t old_{};
};

void restore_at_exit() {
  if (g_is_open.load()) restore_terminal_modes();
}

}  // namespace

bool TerminalSignals::take_resize() { return g_resized.exchange(false); }
bool TerminalSignals::take_resumed() { return g_resumed.exchange(false); }
bool TerminalSignals::take_interrupt() {
  if (!g_interrupted.exchange(false)) return false;
  g_n_stops.store(g_ended.load() ? 1 : 0);
  return true;
}
bool TerminalSignals::has_ended() { return g_ended.load(); }
int TerminalSignals::wake_descriptor() { return g_terminal.wake_out; }
void TerminalSignals::drain() {
  std::array<char, 64> bytes;
  while (::read(g_terminal.wake_out, bytes.data(), bytes.size()) > 0) continue;
}

Result<> install_terminal_signals(const TerminalModes& modes) {
  if (g_is_open.exchange(true)) return fail(ErrorCode::invalid_argument, "a terminal is open already");
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
    g_is_open.store(false);
    return fail(ErrorCode::io, "cannot create a pipe: {}", std::strerror(errno));
  }
  static const bool registered = std::atexit(restore_at_exit) == 0;  // for code that ends the process elsewhere
  static_cast<void>(registered);
  const BlockedSignals blocked;
  set_active_modes(modes);
  g_terminal.wake_out = ends[0];
  g_terminal.wake_in = ends[1];
  g_terminal.is_installed.fill(false);
  for (std::atomic<bool>* flag : {&g_resized, &g_resumed, &g_interrupted, &g_ended}) flag->store(false);
  g_n_stops.store(0);
  for (const int signal : kStopSignals) install(signal, on_stop_signal);
  for (const int signal : kCrashSignals) install(signal, on_crash_signal);
  for (const int signal : kOtherSignals) install(signal, signal == SIGTSTP ? on_terminal_stop : on_change_signal);
  return {};
}

void remove_terminal_signals() {
  restore_terminal_modes();
  const BlockedSignals blocked;
  for (size_t signal = 1; signal < g_terminal.is_installed.size(); ++signal)
    if (g_terminal.is_installed[signal]) ::sigaction(static_cast<int>(signal), &g_terminal.previous[signal], nullptr);
  ::close(g_terminal.wake_in);
  ::close(g_terminal.wake_out);
  g_terminal.wake_in = g_terminal.wake_out = -1;
  g_is_open.store(false);
}

Result<> apply_terminal_modes(const TerminalModes& modes) {
  const bool had_paste_marks = active_modes().has_paste_marks;
  set_active_modes(modes);
  int status = 0;
  do status = ::tcsetattr(modes.input, TCSANOW, &modes.current);
  while (status != 0 && errno == EINTR);
  if (modes.has_paste_marks != had_paste_marks)
    write_quietly(modes.output, modes.has_paste_marks ? kPasteMarksOn : kPasteMarksOff);
  if (status == 0 || errno == EIO) return {};  // EIO: the terminal hung up, which the next read reports
  return fail(ErrorCode::io, "cannot set the modes of the terminal: {}", std::strerror(errno));
}

void restore_terminal_modes() {
  const TerminalModes& modes = active_modes();
  if (!is_in_foreground(modes.input)) return;
  ::tcsetattr(modes.input, TCSANOW, &modes.original);
  if (modes.has_paste_marks) write_quietly(modes.output, kPasteMarksOff);
}

}  // namespace tessera::cli
