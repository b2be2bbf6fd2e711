// The terminal of a chat under a pseudo terminal: modes and their restoring, signals, keys that are typed during a
// reply.
#include "tessera/cli/terminal.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include "tessera/cli/line_editor.h"
#include "tests/cli/pty.h"
#include "tests/support/testing.h"

namespace tessera::cli {
namespace {

using testing::PtyChild;
using testing::Screen;

std::atomic<int> g_n_handled{0};

extern "C" void count_signal(int) { ++g_n_handled; }

// A reply that lasts until it is stopped.
void stream(Terminal& terminal) {
  EXPECT_OK(terminal.write("streaming\n"));
  while (!terminal.take_escape()) {
    if (terminal.take_size_change())
      EXPECT_OK(terminal.write("columns " + std::to_string(terminal.size().n_columns) + "\n"));
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_OK(terminal.write("stopped\n"));
}

// A small chat, which the tests below start as a program of its own. It does nothing among the tests.
TEST(TerminalProgram, Runs) {
  if (std::getenv("TESSERA_TEST_CHAT") == nullptr) return;
  std::signal(SIGUSR1, count_signal);
  if (std::getenv("TESSERA_TEST_HANDLES_INTERRUPTS") != nullptr) std::signal(SIGINT, count_signal);
  auto terminal = open_terminal();
  ASSERT_OK(terminal);
  Terminal& tty = **terminal;
  ASSERT_OK(tty.write(tty.is_dumb() ? "\n" : "\x1b[H\x1b[2J"));  // hides the lines of the test's main program
  LineHistory history;
  LineEditor editor(tty, history);
  while (true) {
    const auto line = editor.read(">>> ", "... ");
    ASSERT_OK(line);
    if (line->kind != LineKind::line) ::_exit((terminal->reset(), line->kind == LineKind::end ? 10 : 11));
    ASSERT_OK(history.add(line->text));
    if (line->text == "/stream") stream(tty);
    if (line->text == "/abort") std::abort();
    if (line->text == "/exit") std::exit(12);
    if (line->text == "/count") ASSERT_OK(tty.write(std::to_string(g_n_handled) + " handled\n"));
    ASSERT_OK(tty.write("got " + visible(line->text) + "\n"));
  }
}

std::vector<std::string> test_environment(std::vector<std::string> more) {
  for (const char* name : {"PATH", "HOME", "ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS", "TMPDIR"})
    if (const char* value = std::getenv(name)) more.push_back(std::string(name) + "=" + value);
  more.emplace_back("TERM=xterm");
  more.emplace_back("TESSERA_TEST_CHAT=1");
  return more;
}

// The program under a pseudo terminal, at its first prompt.
class Chat : public PtyChild {
 public:
  explicit Chat(std::vector<std::string> env = {}, int n_rows = 24, int n_columns = 80)
      : PtyChild({"/proc/self/exe", "--gtest_filter=TerminalProgram.Runs", "--gtest_color=no"},
                 test_environment(std::move(env)), n_rows, n_columns) {
    user().wait_for([](const Screen& now) { return now.row(now.cursor_row()) == ">>>" && now.cursor_column() == 4; });
  }
  void send(std::string_view line) {
    user().type(line);
    user().wait_for_text(">>> " + std::string(line));
    user().type("\r");
  }
  bool has_own_modes() const { return (modes().c_lflag & (ECHO | ICANON | ISIG)) == (ECHO | ICANON | ISIG); }
  /// The terminal is as it was before the program.
  void expect_restored() {
    EXPECT_TRUE(has_own_modes());
    EXPECT_NE(modes().c_iflag & ICRNL, 0u);
    EXPECT_FALSE(screen().pastes_are_bracketed());
    EXPECT_TRUE(screen().is_cursor_shown());
  }
};

TEST(Terminal, ReadsLinesAndRestoresItsModes) {
  Chat chat;
  EXPECT_EQ(chat.modes().c_lflag & (ECHO | ICANON | ISIG), 0u);
  EXPECT_TRUE(chat.screen().pastes_are_bracketed());
  chat.user().type("h\u00e9llo");
  chat.user().wait_for_screen(">>> h\u00e9llo");
  chat.user().type("\r");
  chat.user().wait_for_screen(">>> h\u00e9llo\ngot h\u00e9llo\n>>>");
  chat.user().type("\x04");
  EXPECT_EQ(chat.wait_for_exit(), 10);
  chat.expect_restored();
}

TEST(Terminal, IsRestoredWhenTheProcessEndsElsewhere) {
  for (const auto& [line, status] : {std::pair<const char*, int>{"/abort", 128 + SIGABRT}, {"/exit", 12}}) {
    Chat chat;
    chat.send(line);
    EXPECT_EQ(chat.wait_for_exit(), status);
    chat.expect_restored();
  }
}

TEST(Terminal, IsRestoredWhenASignalEndsTheProcess) {
  // A first SIGTERM or SIGHUP is the end of input, and the program ends by itself.
  for (const auto& [signal, status] : {std::pair{SIGTERM, 10}, {SIGHUP, 10}, {SIGQUIT, 128 + SIGQUIT}}) {
    Chat chat;
    chat.send_signal(signal);
    EXPECT_EQ(chat.wait_for_exit(), status) << signal;
    chat.expect_restored();
  }
}

TEST(Terminal, EndsTheInputAtAHangup) {
  Chat chat;
  chat.hang_up();
  EXPECT_EQ(chat.wait_for_exit(), 10);
}

TEST(Terminal, StopsAndGoesOn) {
  Chat chat;
  chat.user().type("abc\x1a");
  ASSERT_TRUE(chat.wait_for_stop());
  EXPECT_TRUE(chat.has_own_modes());
  chat.resume();
  chat.user().wait_for_screen(">>> abc\n>>> abc");
  EXPECT_EQ(chat.modes().c_lflag & (ECHO | ICANON | ISIG), 0u);
  EXPECT_TRUE(chat.screen().pastes_are_bracketed());
  chat.user().type("d\r");
  chat.user().wait_for_text("got abcd");
}

TEST(Terminal, StopsAndGoesOnDuringAReply) {
  Chat chat;
  chat.send("/stream");
  chat.user().wait_for_text("streaming");
  chat.user().type("\x1a");
  ASSERT_TRUE(chat.wait_for_stop());
  EXPECT_TRUE(chat.has_own_modes());
  chat.resume();
  chat.user().wait_for_text("columns 80");  // the size may have changed meanwhile
  EXPECT_EQ(chat.modes().c_lflag & (ECHO | ICANON), 0u);
  chat.user().type("\x1b");
  chat.user().wait_for_text("stopped");
}

TEST(Terminal, SetsItsModesAgainAfterAnyStop) {
  Chat chat;
  chat.user().type("abc");
  chat.user().wait_for_screen(">>> abc");
  chat.send_signal(SIGSTOP);
  ASSERT_TRUE(chat.wait_for_stop());
  termios modes = chat.modes();
  modes.c_lflag |= ECHO | ICANON | ISIG;  // as a shell sets them
  chat.set_modes(modes);
  chat.resume();
  chat.user().wait_for([&](const Screen&) { return (chat.modes().c_lflag & (ECHO | ICANON | ISIG)) == 0; });
  chat.user().type("d");
  chat.user().wait_for_screen(">>> abcd");
}

TEST(Terminal, FollowsItsSize) {
  Chat chat({}, 10, 20);
  chat.user().type("0123456789abcdefghij");
  chat.user().wait_for_screen(">>> 0123456789abcdef\nghij");
  chat.user().resize(10, 14);
  chat.user().wait_for_screen(">>> 0123456789\nabcdefghij");
  chat.user().resize(10, 40);
  chat.user().wait_for_screen(">>> 0123456789abcdefghij");
}

TEST(Terminal, KeepsKeysThatAreTypedDuringAReply) {
  Chat chat;
  chat.send("/stream");
  chat.user().wait_for_text("streaming");
  EXPECT_EQ(chat.modes().c_lflag & (ECHO | ICANON), 0u);
  EXPECT_NE(chat.modes().c_lflag & ISIG, 0u);
  chat.user().type("ne\x1b[200~x\rt\x1b[201~");
  chat.user().resize(24, 60);
  chat.user().wait_for_text("columns 60");
  chat.user().type("\x1b");
  chat.user().wait_for_screen(">>> /stream\nstreaming\ncolumns 60\nstopped\ngot /stream\n>>> ne[2 lines]");
}

TEST(Terminal, StopsAReplyWithCtrlC) {
  Chat chat;
  chat.send("/stream");
  chat.user().wait_for_text("streaming");
  chat.user().type("next\x03");
  chat.user().wait_for_text(">>> next");
  chat.user().type("\r");
  chat.user().wait_for_text("got next");
}

TEST(Terminal, PassesInterruptsOnDuringAReplyOnly) {
  Chat chat({"TESSERA_TEST_HANDLES_INTERRUPTS=1"});
  chat.send_signal(SIGINT);
  chat.user().wait_for_text("(Ctrl-C again or /bye to leave)");
  chat.send("/count");
  chat.user().wait_for_text("0 handled");
  chat.send("/stream");
  chat.user().wait_for_text("streaming");
  chat.user().type("\x03");
  chat.user().wait_for_text("stopped");
  chat.send("/count");
  chat.user().wait_for_text("1 handled");
}

TEST(Terminal, TakesALoneEscapeAsAKey) {
  Chat chat;
  chat.user().type("typed\x12");
  chat.user().wait_for_text("(history: )");
  chat.user().type("\x1b");
  chat.user().wait_for_screen(">>> typed");
}

TEST(Terminal, GivesAnEditorItsFirstModes) {
  const std::string modes = testing::temporary_path("editor_modes");
  Chat chat({"VISUAL=sh -c 'stty -a > " + modes + "; sed -i s/one/two/ \"$1\"' editor"});
  chat.user().type("one\x07");
  chat.user().wait_for_screen(">>> two");
  EXPECT_NE(testing::read_all(modes).find(" icanon"), std::string::npos) << testing::read_all(modes);
  EXPECT_NE(testing::read_all(modes).find(" echo "), std::string::npos);
  EXPECT_EQ(chat.modes().c_lflag & (ECHO | ICANON | ISIG), 0u);
}

TEST(Terminal, SendsNoControlSequencesToADumbTerminal) {
  for (const char* term : {"TERM=dumb", "TERM="}) {
    Chat chat({term});
    chat.user().type("one\\\ntwo\n");
    chat.user().wait_for_text("got one^Jtwo");
    chat.user().type("\x04");
    EXPECT_EQ(chat.wait_for_exit(), 10);
    EXPECT_EQ(chat.user().output().find('\x1b'), std::string::npos);
  }
}

TEST(Terminal, MustBeATerminal) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  EXPECT_ERROR(open_terminal(ends[0], ends[1]), "not a terminal");
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(Terminal, IsOpenedOnlyOnce) {
  testing::PtyPair pty;
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Terminal> first, open_terminal(pty.inner(), pty.inner()));
  EXPECT_ERROR(open_terminal(pty.inner(), pty.inner()), "open already");
  first.reset();
  EXPECT_OK(open_terminal(pty.inner(), pty.inner()));
}

TEST(Terminal, ForgetsInterruptsOfAReplyAtTheNextLine) {
  testing::PtyPair pty;
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Terminal> terminal, open_terminal(pty.inner(), pty.inner()));
  ASSERT_OK(terminal->set_mode(TerminalMode::watch));
  std::raise(SIGINT);
  std::raise(SIGCONT);
  ASSERT_OK(terminal->set_mode(TerminalMode::edit));
  EXPECT_EQ(terminal->wait(0)->kind, TerminalEventKind::timeout);
}

TEST(Terminal, GivesEventsInOrder) {
  testing::PtyPair pty(30, 100);
  ASSERT_OK_AND_ASSIGN(std::unique_ptr<Terminal> terminal, open_terminal(pty.inner(), pty.inner()));
  ASSERT_OK(terminal->set_mode(TerminalMode::edit));
  EXPECT_EQ(terminal->size(), (ScreenSize{30, 100}));
  EXPECT_EQ(terminal->wait(0)->kind, TerminalEventKind::timeout);
  ASSERT_EQ(::write(pty.outer(), "a\x1b[A\x1b", 5), 5);
  EXPECT_EQ(terminal->wait(-1)->key.text, "a");
  EXPECT_EQ(terminal->wait(-1)->key.code, KeyCode::up);
  EXPECT_EQ(terminal->wait(-1)->key.code, KeyCode::escape);
  EXPECT_EQ(terminal->wait(1)->kind, TerminalEventKind::timeout);
  std::raise(SIGWINCH);
  EXPECT_EQ(terminal->wait(-1)->kind, TerminalEventKind::resize);
  EXPECT_FALSE(terminal->take_size_change());
  std::raise(SIGINT);
  EXPECT_EQ(terminal->wait(-1)->kind, TerminalEventKind::interrupt);
  EXPECT_FALSE(terminal->take_escape());
  ASSERT_EQ(::write(pty.outer(),
                    "b\x03"
                    "c",
                    3),
            3);
  while (!terminal->take_escape()) continue;
  EXPECT_EQ(terminal->wait(-1)->key.text, "b");
  pty.close_outer();
  while (!terminal->take_escape()) continue;
  EXPECT_TRUE(terminal->take_escape());
  EXPECT_EQ(terminal->wait(-1)->key.text, "c");
  EXPECT_EQ(terminal->wait(-1)->kind, TerminalEventKind::end);
  EXPECT_EQ(terminal->wait(-1)->kind, TerminalEventKind::end);
}

}  // namespace
}  // namespace tessera::cli
