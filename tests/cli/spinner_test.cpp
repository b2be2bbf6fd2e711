#include "tessera/cli/spinner.h"

#include <gtest/gtest.h>

#include "tests/cli/screen.h"

namespace tessera::cli {
namespace {

ViewOptions spinner_window(int64_t n_columns, bool has_colour = true) {
  return {.has_colour = has_colour, .n_columns = n_columns, .n_rows = 5};
}

TEST(Spinner, AppearsAfterThreeHundredMilliseconds) {
  Spinner spinner(spinner_window(80), 1000);
  EXPECT_EQ(spinner.next_frame_ms(), 1300);
  EXPECT_EQ(spinner.frame(1299, 0, 10), "");
  EXPECT_NE(spinner.frame(1300, 0, 10), "");
  EXPECT_EQ(spinner.next_frame_ms(), 1400);
  EXPECT_EQ(spinner.frame(1399, 0, 10), "");
  const std::string second = spinner.frame(1400, 0, 10), third = spinner.frame(1520, 0, 10);
  EXPECT_NE(second, third);
  EXPECT_EQ(spinner.next_frame_ms(), 1600);
}

TEST(Spinner, ShowsTheProgressOfThePrompt) {
  Spinner spinner(spinner_window(80), 0);
  testing::Screen screen(5, 80);
  screen.feed(spinner.frame(300, 1200, 4096));
  EXPECT_EQ(screen.row(0), "⣾ reading 1,200 of 4,096 tokens");
  EXPECT_TRUE(screen.style_of("reading").dim);
  screen.feed(spinner.frame(400, 4096, 4096));
  EXPECT_EQ(screen.row(0), "⣽");
}

TEST(Spinner, ErasesItself) {
  Spinner spinner(spinner_window(80), 0);
  EXPECT_EQ(spinner.erase(), "");
  testing::Screen screen(5, 80);
  screen.feed("before\r\n");
  screen.feed(spinner.frame(300, 1, 2));
  screen.feed(spinner.erase());
  EXPECT_EQ(screen.text(), "before");
  EXPECT_EQ(screen.cursor_row(), 1);
  EXPECT_EQ(screen.cursor_column(), 0);
  EXPECT_EQ(spinner.erase(), "");
}

TEST(Spinner, FitsAnyWindow) {
  for (int n_columns = 1; n_columns < 50; ++n_columns) {
    Spinner spinner(spinner_window(n_columns), 0);
    testing::Screen screen(5, n_columns);
    screen.feed(spinner.frame(300, 1234567, 12345678));
    EXPECT_EQ(screen.cursor_row(), 0) << n_columns;
    screen.feed(spinner.erase());
    EXPECT_EQ(screen.text(), "") << n_columns;
  }
}

TEST(Spinner, LeavesNoTraceAfterAResize) {
  for (const int n_columns : {10, 20, 33, 60}) {
    Spinner spinner(spinner_window(40), 0);
    testing::Screen screen(6, 40);
    screen.feed("before\r\n");
    screen.feed(spinner.frame(300, 1200, 4096));
    screen.resize(6, n_columns);
    screen.feed(spinner.resize(n_columns));
    EXPECT_EQ(screen.text(), "before") << n_columns;
    screen.feed(spinner.frame(400, 1300, 4096));
    EXPECT_EQ(screen.row(2), "") << n_columns;
  }
}

TEST(Spinner, IsPlainWithoutColourAndSilentInAPipe) {
  Spinner plain(spinner_window(80, false), 0);
  EXPECT_EQ(plain.frame(300, 1, 2), "\r⣾ reading 1 of 2 tokens\x1b[K");
  Spinner pipe({.markup = Markup::plain}, 0);
  EXPECT_EQ(pipe.frame(3000, 1, 2), "");
}

TEST(Spinner, DigitsAreGrouped) {
  EXPECT_EQ(grouped_digits(0), "0");
  EXPECT_EQ(grouped_digits(999), "999");
  EXPECT_EQ(grouped_digits(1000), "1,000");
  EXPECT_EQ(grouped_digits(1234567), "1,234,567");
  EXPECT_EQ(grouped_digits(-1234), "-1,234");
  EXPECT_EQ(grouped_digits(-123), "-123");
}

}  // namespace
}  // namespace tessera::cli
