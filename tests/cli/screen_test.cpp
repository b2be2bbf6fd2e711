// The emulated terminal of the tests.
#include "tests/cli/screen.h"

#include <gtest/gtest.h>

namespace tessera::testing {
namespace {

TEST(Screen, WrapsLateAtTheRightEdge) {
  Screen screen(3, 4);
  screen.feed("abcd");
  EXPECT_EQ(screen.cursor_row(), 0);
  EXPECT_EQ(screen.cursor_column(), 3);
  screen.feed("e");
  EXPECT_EQ(screen.text(), "abcd\ne");
  screen.feed("\r\nxxxx\r\ny");
  EXPECT_EQ(screen.text(), "e\nxxxx\ny");
  EXPECT_EQ(screen.text_with_history(), "abcd\ne\nxxxx\ny");
}

TEST(Screen, HoldsWideCharactersAndMarks) {
  Screen screen(3, 5);
  screen.feed("ab\u4e2d\u4e2d");
  EXPECT_EQ(screen.text(), "ab\u4e2d\n\u4e2d");
  screen.feed("\x1b[1;4Hx");  // the right half of the first
  EXPECT_EQ(screen.row(0), "ab x");
  screen.feed("\x1b[3;1He");
  screen.feed("\u0301\u2764");
  screen.feed("\ufe0f.");
  EXPECT_EQ(screen.row(2), "e\u0301\u2764\ufe0f.");
  EXPECT_EQ(screen.cursor_column(), 4);
}

TEST(Screen, ErasesAndMoves) {
  Screen screen(3, 10);
  screen.feed("one\r\ntwo\r\nthree\x1b[A\x1b[2G\x1b[K");
  EXPECT_EQ(screen.text(), "one\nt\nthree");
  screen.feed("\x1b[J");
  EXPECT_EQ(screen.text(), "one\nt");
  screen.feed("\x1b[H\x1b[2J");
  EXPECT_EQ(screen.text(), "");
  EXPECT_TRUE(screen.unknown().empty());
  screen.feed("\x1b[5x\x1bZ\x9b");
  EXPECT_EQ(screen.unknown().size(), 3u);
}

TEST(Screen, KnowsStylesAndModes) {
  Screen screen(2, 20);
  screen.feed("\x1b[1;31ma\x1b[0mb\x1b[2mc\x1b[22md\x1b[38;5;4me\x1b[m\x1b[?2004h\x1b[?25l");
  EXPECT_EQ(screen.style_of("a"), (ScreenStyle{.bold = true, .colour = "31"}));
  EXPECT_EQ(screen.style_of("b"), ScreenStyle{});
  EXPECT_TRUE(screen.style_of("c").dim);
  EXPECT_FALSE(screen.style_of("d").dim);
  EXPECT_EQ(screen.style_of("e").colour, "38;5;4");
  EXPECT_TRUE(screen.pastes_are_bracketed());
  EXPECT_FALSE(screen.is_cursor_shown());
}

TEST(Screen, ReflowsLinesThatTheEdgeBroke) {
  Screen screen(4, 4);
  screen.feed("abcdefgh\r\nij");
  screen.resize(4, 8);
  EXPECT_EQ(screen.text(), "abcdefgh\nij");
  EXPECT_EQ(screen.cursor_row(), 1);
  EXPECT_EQ(screen.cursor_column(), 2);
  screen.resize(4, 3);
  EXPECT_EQ(screen.text(), "abc\ndef\ngh\nij");
  screen.resize(2, 3);
  EXPECT_EQ(screen.text(), "gh\nij");
  EXPECT_EQ(screen.cursor_row(), 1);
  screen.resize(2, 2, false);
  EXPECT_EQ(screen.text(), "gh\nij");
}

}  // namespace
}  // namespace tessera::testing
