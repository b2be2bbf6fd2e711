// The terminal of a chat: modes, keys, size, and output. The line editor and the chat use the interface; tests give it
// other ends.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string_view>

#include "tessera/base/function_ref.h"
#include "tessera/base/result.h"
#include "tessera/cli/key_decoder.h"

namespace tessera::cli {

struct ScreenSize {
  int n_rows = 24;
  int n_columns = 80;
  bool operator==(const ScreenSize&) const = default;
};

enum class TerminalMode : uint8_t {
  plain,  // as the terminal was: echo, whole lines, Ctrl-C is a signal
  watch,  // during a reply: no echo, single keys, Ctrl-C and Ctrl-Z are signals
  edit,   // single keys, also Ctrl-C and Ctrl-Z
};

enum class TerminalEventKind : uint8_t {
  key,
  resize,     // the size changed
  resumed,    // the process went on after a stop; the screen is unknown
  interrupt,  // SIGINT came from outside
  end,        // end of input: hangup, SIGTERM, SIGHUP
  timeout,
};

struct TerminalEvent {
  TerminalEventKind kind = TerminalEventKind::timeout;
  Key key = {};  // of kind key
};

/// A terminal with keys and a screen. The destructor restores its modes.
class Terminal {
 public:
  virtual ~Terminal() = default;

  virtual Result<> set_mode(TerminalMode mode) = 0;
  virtual ScreenSize size() const = 0;

  /// Writes all bytes. Errors: io.
  virtual Result<> write(std::string_view bytes) = 0;

  /// Waits for an event; timeout_ms -1: without limit. An ESC that stands alone for 50 ms is a key. Errors: io.
  virtual Result<TerminalEvent> wait(int timeout_ms) = 0;

  /// For a loop that writes a reply; never waits. True once after Esc or Ctrl-C, and from the end of input on. Other
  /// keys are kept for wait().
  virtual bool take_escape() = 0;
  /// True once after the size changed, or after the process was stopped and went on.
  virtual bool take_size_change() = 0;

  /// Stops the process as Ctrl-Z does. Returns when it goes on, in the same mode.
  virtual Result<> suspend() = 0;

  /// Does work, such as running an editor, with the modes that the terminal had at first.
  virtual Result<> run_outside(FunctionRef<Result<>()> work) = 0;

  /// True if the terminal knows no control sequences (TERM is "dumb" or empty): whole lines are read, nothing is drawn.
  virtual bool is_dumb() const = 0;
  /// For a dumb terminal: reads at most a line, with its line break; empty: the end. Errors: io; cancelled (a signal).
  virtual Result<std::string> read_plain_line() = 0;

  /// The descriptors, which an external editor gets as stdin and stdout.
  virtual int input_descriptor() const = 0;
  virtual int output_descriptor() const = 0;
};

/// Opens the terminal of the process, or that of other descriptors. Descriptors must be terminals and stay open. While
/// the result lives, it handles SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP, SIGCONT and the signals of crashes: modes
/// are restored before the handlers that were there run. A first SIGINT or SIGTERM reaches those handlers only in watch
/// mode. Only one terminal may be open at a time. Errors: unsupported, io.
Result<std::unique_ptr<Terminal>> open_terminal(int input = 0, int output = 1);

}  // namespace tessera::cli
