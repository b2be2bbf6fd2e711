// Reading a text from the terminal: keys, history, search, completion, pasted blocks, drawing.
#include "tessera/cli/line_editor.h"

#include <gtest/gtest.h>

#include "tests/cli/fake_terminal.h"
#include "tests/support/testing.h"

namespace tessera::cli {
namespace {

using testing::FakeTerminal;
using testing::Screen;

constexpr std::string_view kUp = "\x1b[A", kDown = "\x1b[B", kLeft = "\x1b[D", kEnd = "\x1b[F", kAltEnter = "\x1b\r";
constexpr std::string_view kCtrlC = "\x03", kCtrlD = "\x04", kCtrlG = "\x07", kCtrlR = "\x12", kCtrlU = "\x15";

std::string pasted(std::string_view text) { return "\x1b[200~" + std::string(text) + "\x1b[201~"; }

LineResult read_line(FakeTerminal& terminal, LineEditorOptions options = {}, const LineHistory& history = {},
                     std::string_view initial = "") {
  LineEditor editor(terminal, history, std::move(options));
  const auto result = editor.read(">>> ", "... ", initial);
  EXPECT_OK(result);
  EXPECT_EQ(terminal.n_left(), 0u);
  EXPECT_EQ(terminal.mode, terminal.is_dumb_terminal ? TerminalMode::plain : TerminalMode::watch);
  return result.value_or(LineResult{LineKind::interrupt, "failed"});
}

std::string line_of(std::string_view keys) {
  FakeTerminal terminal;
  terminal.type(keys);
  const LineResult result = read_line(terminal);
  EXPECT_EQ(result.kind, LineKind::line);
  return result.text;
}

LineHistory history_of(std::initializer_list<std::string_view> entries) {
  LineHistory history;
  for (const std::string_view entry : entries) EXPECT_OK(history.add(entry));
  return history;
}

TEST(LineEditor, ReadsALine) {
  FakeTerminal terminal;
  terminal.type("hello").see(">>> hello").see_cursor(0, 9).type("\r");
  const LineResult result = read_line(terminal);
  EXPECT_EQ(result.kind, LineKind::line);
  EXPECT_EQ(result.text, "hello");
  EXPECT_EQ(terminal.screen.text(), ">>> hello");
  EXPECT_EQ(terminal.screen.cursor_row(), 1);
  EXPECT_EQ(terminal.screen.cursor_column(), 0);
}

TEST(LineEditor, EditsWithTheKeysOfTheTable) {
  EXPECT_EQ(line_of("hllo\x01\x06"
                    "e\r"),
            "hello");                                                 // Ctrl-A, Ctrl-F
  EXPECT_EQ(line_of("one two\x17three\r"), "one three");              // Ctrl-W
  EXPECT_EQ(line_of("one two\x01\x0b\x19\x19\r"), "one twoone two");  // Ctrl-A, Ctrl-K, Ctrl-Y twice
  EXPECT_EQ(line_of("ab\x14\r"), "ba");                               // Ctrl-T
  EXPECT_EQ(line_of("one two\x1f\x1f\r"), "one");                     // Ctrl-_
  EXPECT_EQ(line_of("one two\x1b[1;5D\x1b"
                    "dtwo!\r"),
            "one two!");                                      // Ctrl-Left, Alt-D
  EXPECT_EQ(line_of("one.two\x1b\x7f\x7f\r"), "one");         // Alt-Backspace, Backspace
  EXPECT_EQ(line_of("abc\x02\x04\r"), "ab");                  // Ctrl-B, Ctrl-D
  EXPECT_EQ(line_of("abc\x1b[H\x1b[3~\x1b[Fd\r"), "bcd");     // Home, Delete, End
  EXPECT_EQ(line_of("abc\x1b[1;5H-\x1b[1;5F+\x15x\r"), "x");  // Ctrl-Home, Ctrl-End, Ctrl-U
  EXPECT_EQ(line_of("a\x1b[99~b\x1bOP\r"), "ab");             // unknown keys
}

TEST(LineEditor, ReadsTextsOfSeveralLines) {
  EXPECT_EQ(line_of("a" + std::string(kAltEnter) + "b\nc\r"), "a\nb\nc");
  EXPECT_EQ(line_of("a\x1b[13;2ub\r"), "a\nb");  // Shift-Enter
  FakeTerminal terminal;
  terminal.type("one\\\rtwo").see(">>> one\n... two").type("\r");
  EXPECT_EQ(read_line(terminal).text, "one\ntwo");
  EXPECT_EQ(line_of("C:\\\\\r"), "C:\\\\");  // an even number of backslashes
  EXPECT_EQ(line_of("a\\\x01\r"), "a\\");    // the cursor is not at the end
}

TEST(LineEditor, ReadsTextsInTripleQuotes) {
  FakeTerminal terminal;
  terminal.type("\"\"\"one\r\rtwo\\\r").see(">>> \"\"\"one\n...\n... two\\\n...").type("three\"\"\"\r");
  EXPECT_EQ(read_line(terminal).text, "one\n\ntwo\\\nthree");
  EXPECT_EQ(line_of("\"\"\"\rone\r\"\"\" \r"), "one");
  EXPECT_EQ(line_of("\"\"\"one\"\"\"\r"), "one");
  EXPECT_EQ(line_of("\"\"\"\"\"\"\r"), "");
  EXPECT_EQ(line_of("\"\"\"\"\r\"\"\"\r"), "\"");
  EXPECT_EQ(line_of("say \"\"\"\r"), "say \"\"\"");
}

TEST(LineEditor, LeavesWithCtrlD) {
  FakeTerminal terminal;
  terminal.type(kCtrlD);
  EXPECT_EQ(read_line(terminal).kind, LineKind::end);
  EXPECT_EQ(terminal.screen.cursor_row(), 1);
  FakeTerminal closed;
  EXPECT_EQ(read_line(closed.type("half a line")).kind, LineKind::end);
}

TEST(LineEditor, DropsTheTextWithCtrlC) {
  FakeTerminal terminal;
  terminal.type("abc").type(kCtrlC).see(">>>").type("\x1f").see(">>> abc").type("d\r");
  EXPECT_EQ(read_line(terminal).text, "abcd");
}

TEST(LineEditor, LeavesWithTwoCtrlC) {
  FakeTerminal terminal;
  terminal.type(kCtrlC).see(">>>\n(Ctrl-C again or /bye to leave)").see_cursor(0, 4);
  terminal.type("a\x7f").see(">>>").type(kCtrlC).see(">>>\n(Ctrl-C again or /bye to leave)").type(kCtrlC);
  EXPECT_EQ(read_line(terminal).kind, LineKind::interrupt);
  EXPECT_EQ(terminal.screen.text(), ">>>");
  FakeTerminal signalled;
  signalled.happen(TerminalEventKind::interrupt).happen(TerminalEventKind::interrupt);
  EXPECT_EQ(read_line(signalled).kind, LineKind::interrupt);
  EXPECT_EQ(signalled.screen.text(), ">>>");
  EXPECT_EQ(signalled.screen.cursor_row(), 1);
}

TEST(LineEditor, StartsWithAnInitialText) {
  FakeTerminal terminal;
  terminal.see(">>> one\n... two").type("!\r");
  EXPECT_EQ(read_line(terminal, {}, {}, "one\ntwo").text, "one\ntwo!");
}

TEST(LineEditor, ShowsControlCharactersEscaped) {
  FakeTerminal terminal;
  terminal.type(pasted("a\x1b[31mb\u202e\tc")).see(">>> a^[[31mb<U+202E>    c").type("\r");
  EXPECT_EQ(read_line(terminal).text, "a\x1b[31mb\u202e\tc");
}

TEST(LineEditorPaste, ShowsSeveralLinesAsABlock) {
  FakeTerminal terminal;
  terminal.type("see " + pasted("1\r2\r3\r") + " ok").see(">>> see [3 lines] ok");
  terminal.look([](const Screen& screen) { EXPECT_TRUE(screen.style_of("[3 lines]").dim); }).type("\r");
  EXPECT_EQ(read_line(terminal).text, "see 1\n2\n3 ok");
  EXPECT_EQ(line_of(pasted("one line\r") + "!\r"), "one line!");
  EXPECT_EQ(line_of("a" + pasted("1\r2") + "\x7f\r"), "a");
  EXPECT_EQ(line_of(pasted("") + "x\r"), "x");
}

TEST(LineEditorPaste, ExpandsABlockForEditing) {
  FakeTerminal terminal;
  terminal.type(pasted("1\r2\r3"))
      .type(
          "\x1b"
          "e")
      .see(">>> 1\n... 2\n... 3")
      .type("\x7f!\r");
  EXPECT_EQ(read_line(terminal).text, "1\n2\n!");
}

TEST(LineEditorPaste, ShowsALongLineAsABlock) {
  FakeTerminal terminal;
  terminal.type(pasted(std::string(5000, 'x'))).see(">>> [5000 characters]").type("\r");
  EXPECT_EQ(read_line(terminal).text, std::string(5000, 'x'));
}

TEST(LineEditorPaste, TakesQuotesAndBackslashesOfABlockAsText) {
  EXPECT_EQ(line_of(pasted("\"\"\"\rdoc\r\"\"\"\rx = 1\\") + "\r"), "\"\"\"\ndoc\n\"\"\"\nx = 1\\");
}

TEST(LineEditorHistory, BrowsesAndComesBackToTheTypedText) {
  const LineHistory history = history_of({"one", "two", "three"});
  FakeTerminal terminal;
  terminal.type(kUp).see(">>> three").type(kUp).type(kUp).see(">>> one").type(kUp).see(">>> one");
  terminal.type(kDown).see(">>> two").type(kDown).type(kDown).see(">>>").type(kDown).see(">>>");
  terminal.type("t").type(kUp).see(">>> three").type(kUp).see(">>> two").type(kUp).see(">>> two");
  terminal.type(kDown).type(kDown).see(">>> t").type("x\r");
  EXPECT_EQ(read_line(terminal, {}, history).text, "tx");
}

TEST(LineEditorHistory, GoesOnFromAnEntryThatWasEdited) {
  const LineHistory history = history_of({"one", "two", "three"});
  FakeTerminal terminal;
  terminal.type(kUp).type("!").type(kLeft).type(kUp).see(">>> two").type(kDown).see(">>> three");
  terminal.type(kUp).type(kUp).type(kCtrlU).type(kUp).see(">>> three").type(kDown).see(">>>").type("\r");
  EXPECT_EQ(read_line(terminal, {}, history).text, "");
}

TEST(LineEditorHistory, KeepsBlocksOfTheTypedText) {
  const LineHistory history = history_of({"1\n2 old"});
  FakeTerminal terminal;
  terminal.type(pasted("1\r2")).type(kUp).see(">>> 1\n... 2 old").type(kDown).see(">>> [2 lines]").type("\r");
  EXPECT_EQ(read_line(terminal, {}, history).text, "1\n2");
}

TEST(LineEditorHistory, MovesInLinesFirst) {
  const LineHistory history = history_of({"old", "one\ntwo"});
  FakeTerminal terminal;
  terminal.type(kUp).see_cursor(1, 7).type(kUp).see_cursor(0, 7).type(kUp).see(">>> old");
  terminal.type(kDown).see(">>> one\n... two").type("\x1b[5~").see(">>> old").type("\x1b[6~").see(">>> one\n... two");
  terminal.type("\r");
  EXPECT_EQ(read_line(terminal, {}, history).text, "one\ntwo");
}

TEST(LineEditorSearch, FindsOlderMatches) {
  const LineHistory history = history_of({"make cake", "take tea", "bake bread"});
  FakeTerminal terminal;
  terminal.type("typed").type(kCtrlR).see("(history: )").type("ak").see("(history: ak) bake bread").see_cursor(0, 15);
  terminal.type(kCtrlR).see("(history: ak) take tea").type("e c").see("(history: ake c) make cake");
  terminal.type("\x7f\x7f").see("(history: ake) bake bread").type("x").see("(no match: akex) bake bread");
  terminal.type("\x7f").type(kCtrlR).type("\r").see(">>> take tea").type("!\r");
  EXPECT_EQ(read_line(terminal, {}, history).text, "take tea!");
}

TEST(LineEditorSearch, LeavesWithTheTypedText) {
  const LineHistory history = history_of({"one"});
  for (const std::string_view key : {std::string_view("\x1b"), kCtrlG, kCtrlC}) {
    FakeTerminal terminal;
    terminal.type("typed").type(kCtrlR).type("o").see("(history: o) one").type(key).see(">>> typed").type("\r");
    EXPECT_EQ(read_line(terminal, {}, history).text, "typed");
  }
}

TEST(LineEditorSearch, TakesTheMatchWithAKeyThatEdits) {
  const LineHistory history = history_of({"one two"});
  FakeTerminal terminal;
  terminal.type(kCtrlR).type("two").type("\x01").see_cursor(0, 4).type("X\r");
  EXPECT_EQ(read_line(terminal, {}, history).text, "Xone two");
}

LineEditorOptions with_commands() {
  LineEditorOptions options;
  options.complete = [](std::string_view text, size_t cursor) {
    Completion found;
    for (const std::string name : {"/save", "/schema", "/set", "/system"})
      if (name.starts_with(text.substr(0, cursor))) found.candidates.push_back(name);
    return found;
  };
  options.hint = [](std::string_view text) { return std::string(text == "/set" ? " [NAME]" : ""); };
  return options;
}

TEST(LineEditorCompletion, InsertsTheCommonPart) {
  FakeTerminal terminal;
  terminal.type("/sc\t").see(">>> /schema").type(kCtrlU).type("/x\t").see(">>> /x").type(kCtrlU);
  terminal.type("/\t").see(">>> /s\n/save    /schema  /set     /system").see_cursor(0, 6);
  terminal.type("y").see(">>> /sy").type("\t\r");
  EXPECT_EQ(read_line(terminal, with_commands()).text, "/system");
}

TEST(LineEditorCompletion, ListsAtMostAScreen) {
  LineEditorOptions options;
  options.complete = [](std::string_view, size_t) {
    Completion found;
    for (int i = 10; i < 40; ++i) found.candidates.push_back("name" + std::to_string(i));
    return found;
  };
  FakeTerminal terminal(5, 16);
  terminal.type("n\t").see(">>> name\nname10  name11\nname12  name13\nname14  name15\n... 24 more").type("\r");
  EXPECT_EQ(read_line(terminal, options).text, "name");
}

TEST(LineEditorHint, IsDimAndNeverSent) {
  FakeTerminal terminal;
  terminal.type("/set").see(">>> /set [NAME]").see_cursor(0, 8);
  terminal.look([](const Screen& screen) { EXPECT_TRUE(screen.style_of("[NAME]").dim); });
  terminal.type(kLeft).see(">>> /set").type(kEnd).see(">>> /set [NAME]").type("\r");
  EXPECT_EQ(read_line(terminal, with_commands()).text, "/set");
  EXPECT_EQ(terminal.screen.text(), ">>> /set");
}

TEST(LineEditorDrawing, WrapsAtTheEdge) {
  FakeTerminal terminal(6, 10);
  terminal.type("abcdef").see(">>> abcdef").see_cursor(1, 0).type("\u4e2d\u6587\u4e2d\u6587\u5b57\u4e2d");
  terminal.see(">>> abcdef\n\u4e2d\u6587\u4e2d\u6587\u5b57\n\u4e2d").see_cursor(2, 2).type("\x01").see_cursor(0, 4);
  terminal.type("x").see(">>> xabcde\nf\u4e2d\u6587\u4e2d\u6587\n\u5b57\u4e2d").type("\r");
  EXPECT_EQ(read_line(terminal).text, "xabcdef\u4e2d\u6587\u4e2d\u6587\u5b57\u4e2d");
  EXPECT_EQ(terminal.screen.cursor_row(), 3);
}

TEST(LineEditorDrawing, LeavesNoEmptyRowBehindAFullOne) {
  FakeTerminal terminal(6, 10);
  terminal.type("abcdef\r");
  read_line(terminal);
  EXPECT_EQ(terminal.screen.cursor_row(), 1);
  EXPECT_EQ(terminal.screen.cursor_column(), 0);
}

TEST(LineEditorDrawing, ScrollsWithinTextsTallerThanTheScreen) {
  FakeTerminal terminal(4, 20);
  terminal.type("1\n2\n3\n4\n5\n6")
      .see("... 3\n... 4\n... 5\n... 6")
      .type("\x1b[1;5H")
      .see(">>> 1\n... 2\n... 3\n... 4");
  terminal.type(kDown).type(kDown).type(kDown).type(kDown).see("... 2\n... 3\n... 4\n... 5").type("\r");
  EXPECT_EQ(read_line(terminal).text, "1\n2\n3\n4\n5\n6");
  EXPECT_EQ(terminal.screen.text(), "... 4\n... 5\n... 6");
}

TEST(LineEditorDrawing, FollowsTheSize) {
  FakeTerminal terminal(8, 20);
  terminal.screen.feed("before\r\n");
  terminal.type("0123456789abcdef \u4e2d\u6587\u5b57").see("before\n>>> 0123456789abcdef\n \u4e2d\u6587\u5b57");
  terminal.resize(8, 12).see("before\n>>> 01234567\n89abcdef \u4e2d\n\u6587\u5b57").see_cursor(3, 4);
  terminal.resize(8, 40).see("before\n>>> 0123456789abcdef \u4e2d\u6587\u5b57").type("!");
  terminal.resize(2, 12).see("89abcdef \u4e2d\n\u6587\u5b57!").type("\x01").resize(8, 40);
  terminal.look([](const Screen& screen) {
    EXPECT_TRUE(screen.text().ends_with(">>> 0123456789abcdef \u4e2d\u6587\u5b57!")) << screen.text();
  });
  terminal.type("\r");
  EXPECT_EQ(read_line(terminal).text, "0123456789abcdef \u4e2d\u6587\u5b57!");
}

TEST(LineEditorDrawing, ClearsTheScreen) {
  FakeTerminal terminal;
  terminal.screen.feed("before\r\n");
  terminal.type("abc\x0c").see(">>> abc").see_cursor(0, 7).type("\r");
  EXPECT_EQ(read_line(terminal).text, "abc");
}

TEST(LineEditorDrawing, BeginsAnewAfterAStop) {
  FakeTerminal terminal;
  terminal.type("abc").type(kLeft).type("\x1a").see(">>> abc\n[stopped]\n>>> abc").see_cursor(2, 6);
  terminal.look([&](const Screen&) { terminal.screen.feed("\r\nshell\r\n"); });
  terminal.happen(TerminalEventKind::resumed).see(">>> abc\n[stopped]\n>>> abc\nshell\n>>> abc").type("X\r");
  EXPECT_EQ(read_line(terminal).text, "abXc");
  EXPECT_EQ(terminal.n_suspends, 1);
}

TEST(LineEditor, ReadsPlainLinesOfADumbTerminal) {
  FakeTerminal terminal;
  terminal.is_dumb_terminal = true;
  terminal.lines("one\\\ntwo\n\"\"\"a\nb\\\n\"\"\"\nlast");
  EXPECT_EQ(read_line(terminal).text, "one\ntwo");
  EXPECT_EQ(read_line(terminal).text, "a\nb\\");
  EXPECT_EQ(read_line(terminal).text, "last");
  EXPECT_EQ(read_line(terminal).kind, LineKind::end);
  EXPECT_EQ(terminal.screen.text(), ">>> ... >>> ... ... >>> >>>");
}

}  // namespace
}  // namespace tessera::cli
