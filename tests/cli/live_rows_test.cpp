#include "tessera/cli/live_rows.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/cli/screen.h"

namespace tessera::cli {
namespace {

ScreenRow live_row(std::string_view text, const TextStyle& style = {}) {
  ScreenRow row;
  row.append_visible(text, style);
  return row;
}

std::vector<ScreenRow> live_rows(std::initializer_list<std::string_view> texts) {
  std::vector<ScreenRow> rows;
  for (const std::string_view text : texts) rows.push_back(live_row(text));
  return rows;
}

TEST(LiveRows, MoreTextIsOnlyAppended) {
  LiveRows live(80, 24, true);
  EXPECT_EQ(live.update({}, live_rows({"ab"})), "ab");
  EXPECT_EQ(live.update({}, live_rows({"abc"})), "c");
  EXPECT_EQ(live.update({}, live_rows({"abc"})), "");
  EXPECT_EQ(live.update({}, live_rows({"abc", "d"})), "\r\nd");
  EXPECT_EQ(live.update(live_rows({"abc", "de"}), live_rows({"f"})), "e\r\nf");
  EXPECT_EQ(live.update(live_rows({"f"}), {}), "");
  EXPECT_EQ(live.update(live_rows({"g"}), {}), "\r\ng");
  EXPECT_EQ(live.finish(), "\r\n");
  EXPECT_EQ(live.finish(), "");
}

TEST(LiveRows, AChangeIsWrittenFromTheFirstDifference) {
  LiveRows live(80, 24, true);
  live.update({}, live_rows({"abc", "def"}));
  EXPECT_EQ(live.update({}, live_rows({"abX", "def"})), "\r\x1b[1A\x1b[2C\x1b[JX\r\ndef");
  EXPECT_EQ(live.update({}, live_rows({"abX", "d"})), "\r\x1b[1C\x1b[J");
  EXPECT_EQ(live.update({}, live_rows({"abX"})), "\r\x1b[1A\x1b[3C\x1b[J");
  EXPECT_EQ(live.update({}, {}), "\r\x1b[J");
  EXPECT_EQ(live.finish(), "");
}

TEST(LiveRows, StylesAreWrittenAroundTheirText) {
  LiveRows live(80, 24, true);
  ScreenRow row = live_row("a", {.bold = true});
  row.append_visible("b", {});
  EXPECT_EQ(live.update({}, std::vector{row}), "\x1b[0;1ma\x1b[0mb");
  LiveRows plain(80, 24, false);
  EXPECT_EQ(plain.update({}, std::vector{row}), "ab");
}

TEST(LiveRows, RowsAboveTheScreenAreNotTouched) {
  LiveRows live(80, 3, true);
  live.update({}, live_rows({"a", "b", "c", "d", "e"}));
  EXPECT_EQ(live.update({}, live_rows({"A", "B", "C", "D", "E"})), "\r\x1b[2A\x1b[JC\r\nD\r\nE");
}

TEST(LiveRows, AFullRowIsNotErasedFromItsLastColumn) {
  LiveRows live(3, 5, true);
  testing::Screen screen(5, 3);
  screen.feed(live.update({}, live_rows({"abc", "d"})));
  screen.feed(live.update({}, live_rows({"abc"})));
  EXPECT_EQ(screen.text(), "abc");
  screen.feed(live.update({}, live_rows({"abc", "e"})));
  EXPECT_EQ(screen.text(), "abc\ne");
}

// Any sequence of updates leaves the final rows and the open ones.
TEST(LiveRows, TheScreenShowsTheLastUpdate) {
  constexpr std::string_view kWords[] = {"", "a", "ab", "abcdefgh", "漢字漢字", "e\xCC\x81", "e", "x y"};
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    LiveRows live(8, 30, true);
    testing::Screen screen(30, 8);
    std::string expected;
    for (int step = 0; step < 6; ++step) {
      std::vector<ScreenRow> final_rows, open_rows;
      std::string open;
      for (size_t n = random() % 3; n > 0; --n) final_rows.push_back(live_row(kWords[random() % std::size(kWords)]));
      for (size_t n = random() % 4; n > 0; --n) open_rows.push_back(live_row(kWords[random() % std::size(kWords)]));
      const auto append = [](const std::vector<ScreenRow>& rows, std::string& out) {
        for (const ScreenRow& row : rows) out += (row.runs.empty() ? "" : row.runs[0].text) + "\n";
      };
      append(final_rows, expected);
      append(open_rows, open);
      screen.feed(live.update(final_rows, open_rows));
      std::string all = expected + open;
      all.erase(all.find_last_not_of('\n') + 1);
      ASSERT_EQ(screen.text_with_history(), all) << round << " " << step;
    }
  }
}

}  // namespace
}  // namespace tessera::cli
