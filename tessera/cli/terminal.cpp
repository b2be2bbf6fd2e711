#include "tessera/cli/terminal.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "tessera/base/index.h"
#include "tessera/cli/terminal_signals.h"

namespace tessera::cli {

namespace {

using TerminalClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kEscapeWait{50};
constexpr size_t kMaxKeptBytes = size_t{16} << 20;  // of keys that are typed during a reply
constexpr size_t kMaxPlainLineBytes = size_t{8} << 20;

std::unexpected<Error> terminal_error(std::string_view doing) {
  return fail(ErrorCode::io, "terminal: cannot {}: {}", doing, std::strerror(errno));
}

termios modes_for(TerminalMode mode, const termios& original) {
  termios modes = original;
  if (mode == TerminalMode::plain) return modes;
  modes.c_iflag &= ~static_cast<tcflag_t>(ICRNL | INLCR | IGNCR | ISTRIP);
  modes.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON | IEXTEN);
  modes.c_lflag |= NOFLSH;  // Ctrl-C keeps the keys that were typed ahead
  modes.c_cc[VMIN] = 1;
  modes.c_cc[VTIME] = 0;
  if (mode == TerminalMode::watch) return modes;
  modes.c_lflag &= ~static_cast<tcflag_t>(ISIG);
  modes.c_iflag &= ~static_cast<tcflag_t>(IXON);
  return modes;
}

bool is_escape_key(const Key& key) {
  if (key.code == KeyCode::escape) return !key.has_alt && !key.has_ctrl;
  return key.code == KeyCode::character && key.has_ctrl && !key.has_alt && key.text == "c";
}

class TtyTerminal final : public Terminal {
 public:
  TtyTerminal(int input, int output, const termios& original) {
    modes_.input = input;
    modes_.output = output;
    modes_.original = modes_.current = original;
    const char* term = std::getenv("TERM");
    is_dumb_ = term == nullptr || *term == '\0' || std::string_view(term) == "dumb";
  }
  ~TtyTerminal() override {
    if (is_installed_) remove_terminal_signals();
  }
  TtyTerminal(const TtyTerminal&) = delete;
  TtyTerminal& operator=(const TtyTerminal&) = delete;

  Result<> install() {
    TESSERA_TRY(install_terminal_signals(modes_));
    is_installed_ = true;
    return {};
  }

  Result<> set_mode(TerminalMode mode) override {
    if (is_dumb_) mode = TerminalMode::plain;
    if (mode == mode_) return {};
    mode_ = mode;
    modes_.current = modes_for(mode, modes_.original);
    modes_.is_edit = mode == TerminalMode::edit;
    modes_.has_paste_marks = mode != TerminalMode::plain;
    if (mode == TerminalMode::edit) {  // what came during a reply does not concern the next line
      TerminalSignals::take_resumed();
      TerminalSignals::take_interrupt();
    }
    return apply_terminal_modes(modes_);
  }

  ScreenSize size() const override {
    winsize size{};
    const bool is_known = ::ioctl(modes_.output, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0;
    if (!is_known) return {};
    return {std::max<int>(size.ws_row, 1), std::max<int>(size.ws_col, 2)};
  }

  Result<> write(std::string_view bytes) override {
    while (!bytes.empty()) {
      const ssize_t n = ::write(modes_.output, bytes.data(), bytes.size());
      if (n >= 0) {
        bytes.remove_prefix(to_size(n));
      } else if (errno == EAGAIN) {
        pollfd wanted{modes_.output, POLLOUT, 0};
        ::poll(&wanted, 1, -1);
      } else if (errno != EINTR) {
        return terminal_error("write");
      }
    }
    return {};
  }

  Result<TerminalEvent> wait(int timeout_ms) override {
    const auto deadline = TerminalClock::now() + std::chrono::milliseconds(timeout_ms);
    while (true) {
      if (auto event = next_event()) return std::move(*event);
      const auto now = TerminalClock::now();
      if (timeout_ms >= 0 && now >= deadline) return TerminalEvent{};
      auto until = timeout_ms >= 0 ? deadline : now + std::chrono::hours(1);
      if (decoder_.pending()) until = std::min(until, last_byte_ + kEscapeWait);
      const auto left_ms = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
      TESSERA_TRY(read_for(static_cast<int>(std::max<int64_t>(left_ms, 0))));
    }
  }

  bool take_escape() override {
    const bool was_interrupted = TerminalSignals::take_interrupt();
    bool is_escape = was_interrupted || TerminalSignals::has_ended();
    if (is_dumb_) return is_escape || has_ended_;  // lines typed meanwhile are for read_plain_line()
    if (!read_for(0)) has_ended_ = true;
    while (auto key = decoder_.next()) {
      const size_t n_bytes = key->text.size() + sizeof(Key);
      if (is_escape_key(*key)) {
        is_escape = true;
      } else if (kept_bytes_ + n_bytes <= kMaxKeptBytes) {
        kept_bytes_ += n_bytes;
        kept_.push_back(std::move(*key));
      }
    }
    return is_escape || has_ended_;
  }

  bool take_size_change() override {
    const bool was_resumed = TerminalSignals::take_resumed();
    return TerminalSignals::take_resize() || was_resumed;
  }

  Result<> suspend() override {
    if (::kill(0, SIGTSTP) != 0) return terminal_error("stop the process");
    TerminalSignals::take_resumed();
    return {};
  }

  Result<> run_outside(FunctionRef<Result<>()> work) override {
    const TerminalMode mode = mode_;
    TESSERA_TRY(set_mode(TerminalMode::plain));
    Result<> done = work();
    TESSERA_TRY(set_mode(mode));
    TerminalSignals::take_resumed();
    return done;
  }

  bool is_dumb() const override { return is_dumb_; }

  Result<std::string> read_plain_line() override {
    while (true) {
      const size_t end = plain_.find('\n');
      if (end != std::string::npos || plain_.size() > kMaxPlainLineBytes || has_ended_) {
        std::string line = plain_.substr(0, end == std::string::npos ? end : end + 1);
        plain_.erase(0, line.size());
        return line;
      }
      if (TerminalSignals::has_ended()) return std::string();
      if (TerminalSignals::take_interrupt()) return fail(ErrorCode::cancelled, "interrupted");
      TESSERA_TRY(poll_for(-1));
      TESSERA_TRY(read_bytes([&](std::string_view bytes) { plain_ += bytes; }));
    }
  }

  int input_descriptor() const override { return modes_.input; }
  int output_descriptor() const override { return modes_.output; }

 private:
  std::optional<TerminalEvent> next_event() {
    using Kind = TerminalEventKind;
    if (TerminalSignals::has_ended()) return TerminalEvent{Kind::end};
    if (TerminalSignals::take_interrupt()) return TerminalEvent{Kind::interrupt};
    if (TerminalSignals::take_resumed()) return TerminalEvent{Kind::resumed};
    if (TerminalSignals::take_resize()) return TerminalEvent{Kind::resize};
    if (!kept_.empty()) {
      TerminalEvent event{Kind::key, std::move(kept_.front())};
      kept_.pop_front();
      if (kept_.empty()) kept_bytes_ = 0;
      return event;
    }
    if (auto key = decoder_.next()) return TerminalEvent{Kind::key, std::move(*key)};
    if (has_ended_) return TerminalEvent{Kind::end};
    return std::nullopt;
  }

  // Sets can_read_ if input waits.
  Result<> poll_for(int timeout_ms) {
    pollfd wanted[] = {{modes_.input, POLLIN, 0}, {TerminalSignals::wake_descriptor(), POLLIN, 0}};
    const int n = ::poll(wanted, 2, timeout_ms);
    if (n < 0 && errno != EINTR) return terminal_error("wait for keys");
    can_read_ = n > 0 && wanted[0].revents != 0;
    if (n > 0 && wanted[1].revents != 0) TerminalSignals::drain();
    return {};
  }

  Result<> read_bytes(FunctionRef<void(std::string_view)> take) {
    if (!std::exchange(can_read_, false)) return {};
    std::array<char, 1 << 16> bytes;
    const ssize_t n = ::read(modes_.input, bytes.data(), bytes.size());
    if (n > 0) {
      take({bytes.data(), to_size(n)});
    } else if (n == 0 || errno == EIO) {
      has_ended_ = true;  // a hangup, or Ctrl-D in plain mode
    } else if (errno != EINTR && errno != EAGAIN) {
      return terminal_error("read");
    }
    return {};
  }

  Result<> read_for(int timeout_ms) {
    TESSERA_TRY(poll_for(timeout_ms));
    TESSERA_TRY(read_bytes([&](std::string_view bytes) {
      decoder_.feed(bytes);
      last_byte_ = TerminalClock::now();
    }));
    if (decoder_.pending() && TerminalClock::now() - last_byte_ >= kEscapeWait) decoder_.flush();
    return {};
  }

  TerminalModes modes_;
  TerminalMode mode_ = TerminalMode::plain;
  KeyDecoder decoder_;
  TerminalClock::time_point last_byte_;
  std::deque<Key> kept_;
  size_t kept_bytes_ = 0;
  std::string plain_;
  bool can_read_ = false, has_ended_ = false, is_dumb_ = false, is_installed_ = false;
};

}  // namespace

Result<std::unique_ptr<Terminal>> open_terminal(int input, int output) {
  termios original{};
  if (::isatty(input) == 0 || ::isatty(output) == 0) return fail(ErrorCode::unsupported, "terminal: not a terminal");
  if (::tcgetattr(input, &original) != 0) return terminal_error("read the modes");
  auto terminal = std::make_unique<TtyTerminal>(input, output, original);
  TESSERA_TRY(terminal->install());
  return std::unique_ptr<Terminal>(std::move(terminal));
}

}  // namespace tessera::cli
