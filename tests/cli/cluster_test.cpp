// Grapheme clusters, their widths, and text made safe for a terminal.
#include "tessera/cli/cluster.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tessera/base/rng.h"

namespace tessera::cli {
namespace {

std::vector<std::string> clusters_of(std::string_view text) {
  std::vector<std::string> all;
  while (!text.empty()) {
    all.emplace_back(first_cluster(text).bytes);
    text.remove_prefix(all.back().size());
  }
  return all;
}

std::vector<std::string> clusters_backwards(std::string_view text) {
  std::vector<std::string> all;
  while (!text.empty()) {
    all.emplace(all.begin(), last_cluster(text).bytes);
    text.remove_suffix(all.front().size());
  }
  return all;
}

using Parts = std::vector<std::string>;

TEST(Cluster, HoldsALetterWithItsMarks) {
  EXPECT_EQ(clusters_of("ab"), (Parts{"a", "b"}));
  EXPECT_EQ(clusters_of("e\u0301x"), (Parts{"e\u0301", "x"}));
  EXPECT_EQ(clusters_of("\u1100\u1161\u11a8\u1100"), (Parts{"\u1100\u1161\u11a8", "\u1100"}));
  EXPECT_EQ(clusters_of(""), Parts{});
  EXPECT_EQ(last_cluster("").bytes, "");
}

TEST(Cluster, HoldsAWholeEmoji) {
  const std::string family = "\U0001F468\u200D\U0001F469\u200D\U0001F467", thumb = "\U0001F44D\U0001F3FD";
  EXPECT_EQ(clusters_of(family + thumb + "!"), (Parts{family, thumb, "!"}));
  const std::string germany = "\U0001F1E9\U0001F1EA", france = "\U0001F1EB\U0001F1F7";
  EXPECT_EQ(clusters_of(germany + france), (Parts{germany, france}));
  EXPECT_EQ(clusters_backwards(germany + france), (Parts{germany, france}));
}

TEST(Cluster, EndsAtControlsAndInvalidBytes) {
  EXPECT_EQ(clusters_of("\r\n"), (Parts{"\r", "\n"}));
  EXPECT_EQ(clusters_of("a\xff\u0301"), (Parts{"a", "\xff", "\u0301"}));
  EXPECT_EQ(clusters_of("\xe2\x82"), (Parts{"\xe2", "\x82"}));
  EXPECT_EQ(clusters_backwards("x\xe2\x82"), (Parts{"x", "\xe2", "\x82"}));
}

TEST(Cluster, HasLimitedLength) {
  std::string text = "a";
  for (int i = 0; i < 100; ++i) text += "\u0301";
  EXPECT_EQ(clusters_of(text).size(), 4u);  // 101 code points, 32 in each
  EXPECT_EQ(clusters_of(text), clusters_backwards(text));
}

TEST(Cluster, SplitsInTheSameWayFromBothEnds) {
  const std::array<std::string, 16> pieces = {"a",          " ",      "\u0301", "\u200d",  "\U0001F468", "\U0001F1E9",
                                              "\U0001F3FD", "\ufe0f", "\xff",   "\n",      "\u4e2d",     "\u1100",
                                              "\u1161",     "\u0600", "\u0915", "\xe2\x80"};
  Rng rng(7);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (int i = 0; i < 8; ++i) text += pieces[rng.next_u32() % pieces.size()];
    ASSERT_EQ(clusters_of(text), clusters_backwards(text)) << visible(text) << " in round " << round;
  }
}

TEST(ClusterWidth, IsThatOfTerminals) {
  const std::vector<std::pair<std::string, int>> rows = {
      {"a", 1},
      {"\u00e9", 1},
      {"e\u0301", 1},
      {"\u4e2d", 2},                      // CJK
      {"\uff21", 2},                      // fullwidth A
      {"\uff71", 1},                      // halfwidth katakana
      {"\uac00", 2},                      // Hangul
      {"\u1112\u1161\u11ab", 2},          // Hangul in parts
      {"\U0001F600", 2},                  // emoji
      {"\U0001F44D\U0001F3FD", 2},        // with a skin tone
      {"\U0001F468\u200D\U0001F4BB", 2},  // joined
      {"\U0001F1E9\U0001F1EA", 2},        // flag
      {"\u2764", 1},                      // heart as text
      {"\u2764\ufe0f", 2},                // heart as an emoji
      {"1\ufe0f\u20e3", 2},               // key cap
      {"a\ufe0f", 1},                     // no emoji
      {"\u0915\u093e", 2},                // letter with a spacing mark
      {"\u0915\u094d", 1},                // letter with a nonspacing mark
      {"\u0301", 0},
      {"\u200b", 0},  // zero width space
      {"\u00a0", 1},
      {"\u03b1", 1},  // ambiguous width
      {"\ue000", 1},  // private use
      {"\ufffd", 1},
  };
  for (const auto& [text, n] : rows) {
    EXPECT_EQ(first_cluster(text).n_columns, n) << text;
    EXPECT_EQ(first_cluster(text).bytes, text);
    EXPECT_EQ(n_columns("x" + text + "x"), n + 2) << text;
  }
}

TEST(Visible, EscapesAllThatCouldReachATerminalAsControl) {
  EXPECT_EQ(visible("a\x1b[31mb"), "a^[[31mb");
  EXPECT_EQ(visible(std::string_view("\0\x03\x7f\r", 4)), "^@^C^?^M");
  EXPECT_EQ(visible("\x9b"
                    "31m"),
            "\\x9b31m");
  EXPECT_EQ(visible("\u009b31m\u0085"), "<U+009B>31m<U+0085>");
  EXPECT_EQ(visible("\u202eabc\u2066\u2069\u202a"), "<U+202E>abc<U+2066><U+2069><U+202A>");
  EXPECT_EQ(visible("\u2028\u2029"), "<U+2028><U+2029>");
  EXPECT_EQ(visible("\xed\xa0\x80\xc0\x80"), "\\xed\\xa0\\x80\\xc0\\x80");
  EXPECT_EQ(visible("h\u00e9\u4e2d\U0001F600\u200d"), "h\u00e9\u4e2d\U0001F600\u200d");
}

TEST(Visible, KeepsTheCharactersThatTheCallerWants) {
  EXPECT_EQ(visible("a\n\tb"), "a^J^Ib");
  EXPECT_EQ(visible("a\n\tb\r\x1b", "\n\t"), "a\n\tb^M^[");
  EXPECT_EQ(visible("a\n\tb", "\n"), "a\n^Ib");
  EXPECT_EQ(visible(std::string_view("\0", 1), "\n"), "^@");
}

TEST(Visible, HasTheWidthOfTheText) {
  for (const std::string text : {"\x1b[A", "\xff\xfe", "\u009b", "\u202e", "\t", "\u4e2d\x7f", "e\u0301\u0301"})
    EXPECT_EQ(n_columns(text), n_columns(visible(text))) << visible(text);
  EXPECT_EQ(n_columns("\x1b\xff\u009b"), 2 + 4 + 8);
  EXPECT_TRUE(is_escaped("\u202e"));
  EXPECT_TRUE(is_escaped("\t"));
  EXPECT_FALSE(is_escaped("\u200e"));
}

TEST(Visible, LeavesNoControlByteInAnyBytes) {
  Rng rng(11);
  for (int round = 0; round < 200; ++round) {
    std::string text;
    for (int i = 0; i < 64; ++i) text += static_cast<char>(rng.next_u32() & 0xff);
    const std::string shown = visible(text);
    for (const char c : shown) ASSERT_TRUE(static_cast<uint8_t>(c) >= 0x20 && c != 0x7f);
    ASSERT_EQ(shown, visible(shown));
    ASSERT_EQ(n_columns(text), n_columns(shown));
  }
}

}  // namespace
}  // namespace tessera::cli
