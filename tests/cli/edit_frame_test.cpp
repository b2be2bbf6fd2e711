// Layout of rows, and the bytes that change a screen from one frame to the next.
#include "tessera/cli/edit_frame.h"

#include <gtest/gtest.h>

#include "tessera/base/rng.h"
#include "tests/cli/screen.h"

namespace tessera::cli {
namespace {

using testing::Screen;

// A frame of text with "|" at the cursor.
EditFrame frame_of(std::string_view text, int n_columns) {
  FrameBuilder rows(n_columns);
  while (!text.empty()) {
    const size_t n = std::min(text.find_first_of("|\n"), text.size());
    rows.put(text.substr(0, n), FrameStyle::text);
    if (n < text.size()) text[n] == '|' ? rows.mark_cursor() : rows.break_row();
    text.remove_prefix(std::min(n + 1, text.size()));
  }
  return rows.take();
}

TEST(FrameBuilder, BreaksRowsBeforeWhatDoesNotFit) {
  Screen screen(5, 5);
  FrameWriter writer("");
  screen.feed(writer.draw(frame_of("abcd\u4e2d\u4e2d|e", 5)));
  EXPECT_EQ(screen.text(), "abcd\n\u4e2d\u4e2de");
  EXPECT_EQ(screen.cursor_row(), 1);
  EXPECT_EQ(screen.cursor_column(), 4);
}

TEST(FrameBuilder, PutsTheCursorBehindAFullRowInANewRow) {
  const EditFrame frame = frame_of("abcde|", 5);
  EXPECT_EQ(frame.rows.size(), 2u);
  EXPECT_EQ(frame.cursor_row, 1u);
  EXPECT_EQ(frame.cursor_column, 0);
  EXPECT_EQ(frame_of("abcde", 5).rows.size(), 1u);
}

TEST(FrameBuilder, ClipsToTheRow) {
  FrameBuilder rows(6);
  rows.put("abc", FrameStyle::text);
  rows.put_clipped("d\u4e2d\u4e2d", FrameStyle::dim);
  EXPECT_EQ(rows.take().rows.size(), 1u);
}

TEST(FrameWriter, WritesOnlyWhatChanged) {
  FrameWriter writer("");
  writer.draw(frame_of("one two\nthree|", 20));
  EXPECT_EQ(writer.draw(frame_of("one two\nthree|", 20)), "");
  EXPECT_EQ(writer.draw(frame_of("one two\nthree!|", 20)), "!\x1b[7G");
  EXPECT_EQ(writer.draw(frame_of("one two\nthree|", 20)), "\x1b[6G\x1b[K");
  EXPECT_EQ(writer.draw(frame_of("one two\n|three", 20)), "\r");
}

TEST(FrameWriter, UsesTheColourOfThePromptOnly) {
  Screen screen(3, 20);
  FrameWriter writer("1;34");
  FrameBuilder rows(20);
  rows.put("> ", FrameStyle::prompt);
  rows.put("text", FrameStyle::text);
  rows.put("hint", FrameStyle::dim);
  screen.feed(writer.draw(rows.take()));
  EXPECT_EQ(screen.style_of(">").colour, "34");
  EXPECT_TRUE(screen.style_of(">").bold);
  EXPECT_EQ(screen.style_of("text"), testing::ScreenStyle{});
  EXPECT_TRUE(screen.style_of("hint").dim);
  screen.feed("after");
  EXPECT_EQ(screen.style_of("after"), testing::ScreenStyle{});  // nothing is left switched on
}

TEST(FrameWriter, ScrollsTheScreenForNewRows) {
  Screen screen(3, 10);
  screen.feed("a\r\nb\r\n");
  FrameWriter writer("");
  screen.feed(writer.draw(frame_of("1|", 10)));
  screen.feed(writer.draw(frame_of("1\n2|", 10)));
  EXPECT_EQ(screen.text_with_history(), "a\nb\n1\n2");
  EXPECT_EQ(screen.text(), "b\n1\n2");
}

TEST(FrameWriter, NeverReliesOnTheWrapOfTheTerminal) {
  Screen screen(4, 4);
  FrameWriter writer("");
  screen.feed(writer.draw(frame_of("abcdefgh|", 4)));
  EXPECT_EQ(screen.text(), "abcd\nefgh");
  screen.feed(writer.draw(frame_of("abcdefg|", 4)));
  screen.feed(writer.draw(frame_of("abcdefgh|", 4)));
  screen.feed(writer.draw(frame_of("abcdxfgh|", 4)));
  EXPECT_EQ(screen.text(), "abcd\nxfgh");
  EXPECT_EQ(screen.cursor_row(), 2);
}

TEST(FrameWriter, ShowsTheSameAsAFreshScreenAfterAnyChange) {
  Rng rng(23);
  const std::string pieces[] = {"a", "bc", " ", "\n", "\u4e2d", "e\u0301", "\U0001F600", "word", "\u4e2d\u6587", "xyz"};
  for (int round = 0; round < 300; ++round) {
    const int n_columns = 2 + static_cast<int>(rng.next_u32() % 12), n_rows = 1 + static_cast<int>(rng.next_u32() % 8);
    Screen screen(n_rows, n_columns);
    FrameWriter writer("");
    size_t top = 0;
    for (int i = 0; i < 20; ++i) {
      std::string text;
      const uint32_t n = rng.next_u32() % 16, cursor = rng.next_u32() % (n + 1);
      for (uint32_t k = 0; k <= n; ++k) text += (k == cursor ? "|" : "") + pieces[rng.next_u32() % 10];
      EditFrame frame = frame_of(text, n_columns);
      clip_to_screen(frame, n_rows, top);
      screen.feed(writer.draw(frame));
      Screen fresh(n_rows, n_columns);
      fresh.feed(FrameWriter("").draw(frame));
      std::string want = fresh.text(), have = screen.text();
      ASSERT_TRUE(have == want || have.ends_with("\n" + want)) << text << "\nhave:\n" << have << "\nwant:\n" << want;
      ASSERT_EQ(screen.cursor_column(), fresh.cursor_column());
    }
  }
}

TEST(FrameWriter, FindsItsStartAfterAResize) {
  for (const int n_columns : {4, 5, 7, 9, 12, 30}) {
    for (const char* text : {">>> abc|defgh", ">>> abcdefgh|ijk", ">>> abcdefghijk|", "|>>> abcdefgh\n... xyz",
                             ">>> a\n... \u4e2d\u4e2d\u4e2d|\u4e2dz"}) {
      Screen screen(12, 11);
      screen.feed("before\r\n");
      FrameWriter writer("");
      screen.feed(writer.draw(frame_of(text, 11)));
      screen.resize(12, n_columns);
      screen.feed(writer.erase({12, n_columns}));
      screen.feed(writer.draw(frame_of(text, n_columns)));
      Screen fresh(12, 11);
      fresh.feed("before");
      fresh.resize(12, n_columns);
      fresh.feed("\r\n" + FrameWriter("").draw(frame_of(text, n_columns)));
      EXPECT_EQ(screen.text(), fresh.text()) << text << " at " << n_columns;
      EXPECT_EQ(screen.cursor_row(), fresh.cursor_row());
    }
  }
}

TEST(ClipToScreen, KeepsTheRowsAroundTheCursor) {
  const auto clipped = [](std::string_view text, size_t& top) {
    EditFrame frame = frame_of(text, 10);
    clip_to_screen(frame, 3, top);
    Screen screen(3, 10);
    screen.feed(FrameWriter("").draw(frame));
    return screen.text() + "@" + std::to_string(screen.cursor_row());
  };
  size_t top = 0;
  EXPECT_EQ(clipped("1\n2\n3\n4\n5|", top), "3\n4\n5@2");
  EXPECT_EQ(clipped("1\n2\n3\n4|\n5", top), "3\n4\n5@1");
  EXPECT_EQ(clipped("1\n2|\n3\n4\n5", top), "2\n3\n4@0");
  EXPECT_EQ(clipped("1\n2\n3\n4\n5|", top), "3\n4\n5@2");
  EXPECT_EQ(clipped("1\n2|", top), "1\n2@1");
}

}  // namespace
}  // namespace tessera::cli
