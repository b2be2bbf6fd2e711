// Signals of the process while a terminal is open: they restore its modes, and wake the loop that waits for keys. Only
// terminal.cpp calls these functions.
#pragma once

#include <termios.h>

#include "tessera/base/result.h"

namespace tessera::cli {

/// Modes of a terminal, as signal handlers set and restore them.
struct TerminalModes {
  int input = -1;
  int output = -1;
  termios original{};
  termios current{};
  bool is_edit = false;          // signals that ask to stop reach no other handler at first
  bool has_paste_marks = false;  // bracketed paste is on
};

/// Flags that handlers set. take_..() functions return and clear them.
struct TerminalSignals {
  static bool take_resize();
  static bool take_resumed();
  static bool take_interrupt();
  static bool has_ended();
  /// The descriptor that becomes readable when a flag is set.
  static int wake_descriptor();
  /// Reads the descriptor empty.
  static void drain();
};

/// Installs the handlers. Errors: io; invalid_argument (they are installed).
Result<> install_terminal_signals(const TerminalModes& modes);
/// Restores the terminal and the handlers that were there before.
void remove_terminal_signals();
/// Changes the modes of the terminal. Errors: io.
Result<> apply_terminal_modes(const TerminalModes& modes);
/// The original modes and no marks of pastes. Async-signal-safe.
void restore_terminal_modes();

}  // namespace tessera::cli
