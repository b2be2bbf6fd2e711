// Properties of the view of replies that hold for any text: the screen does not depend on the pieces, no control
// character of the text is written, the bytes written stay linear in the text.
#include <gtest/gtest.h>

#include <random>

#include "tests/cli/view_documents.h"
#include "tests/cli/view_support.h"

namespace tessera {
namespace {

using testing::ShownReply;
using testing::window;

TEST(ViewProperty, ScreenIsTheSameForEverySplitInTwo) {
  for (const std::string_view document : testing::kViewDocuments) {
    const std::string whole = looks_of(testing::show(document, window(40, 12)));
    for (size_t n = 1; n < document.size(); ++n) {
      const auto split = testing::show_pieces({document.substr(0, n), document.substr(n)}, window(40, 12));
      ASSERT_EQ(looks_of(split), whole) << "split at " << n << " of: " << document;
    }
  }
}

TEST(ViewProperty, ScreenIsTheSameByteByByteAtEachWidth) {
  for (const auto& [n_columns, n_rows] : {std::pair{20, 10}, {40, 24}, {80, 24}, {120, 40}}) {
    for (const bool has_colour : {true, false}) {
      for (const std::string_view document : testing::kViewDocuments) {
        const auto options = window(n_columns, n_rows, has_colour);
        ASSERT_EQ(looks_of(testing::show_bytewise(document, options)), looks_of(testing::show(document, options)))
            << n_columns << " columns: " << document;
      }
    }
  }
}

TEST(ViewProperty, PausesDoNotChangeTheResult) {
  for (const std::string_view document : testing::kViewDocuments) {
    ShownReply reply(window(40, 12));
    for (size_t i = 0; i < document.size(); i += 3) {
      reply.content(document.substr(i, 3));
      reply.pause();
    }
    reply.finish();
    ASSERT_EQ(looks_of(reply), looks_of(testing::show(document, window(40, 12)))) << document;
  }
}

TEST(ViewProperty, AllDocumentsInOneReply) {
  std::string all;
  for (const std::string_view document : testing::kViewDocuments) all.append(document) += "\n\n";
  for (const auto& [n_columns, n_rows] : {std::pair{20, 10}, {80, 24}}) {
    const auto options = window(n_columns, n_rows);
    EXPECT_EQ(looks_of(testing::show_bytewise(all, options)), looks_of(testing::show(all, options)));
  }
}

// Random bytes with many marks among them.
std::string random_text(std::mt19937& random, size_t n) {
  constexpr std::string_view kMarks =
      "**__``~~[[]]((!!##--++>>||  \n\n\t\r\\\\&<$:=1.x\x1b\x07\x9b\xC2\x9b\xE2\x80\xAE";
  std::string text;
  for (size_t i = 0; i < n; ++i) {
    const auto pick = random();
    text += pick % 8 == 0 ? static_cast<char>(pick >> 8) : kMarks[(pick >> 8) % kMarks.size()];
  }
  return text;
}

// Takes out the sequences that the view may write: style, moves, erasing.
std::string without_own_sequences(std::string_view bytes) {
  std::string rest;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const size_t end = bytes.substr(i).starts_with("\x1b[") ? bytes.find_first_not_of("0123456789;", i + 2) : 0;
    if (end > 0 && end < bytes.size() && std::string_view("mACJ").find(bytes[end]) != std::string_view::npos) {
      i = end;
    } else if (bytes.substr(i).starts_with("\r\n")) {
      ++i;
    } else if (!bytes.substr(i).starts_with("\r\x1b[")) {
      rest += bytes[i];
    }
  }
  return rest;
}

TEST(ViewProperty, NoControlCharacterOfTheTextIsWritten) {
  std::mt19937 random(1);
  for (int round = 0; round < 120; ++round) {
    const std::string text = random_text(random, 200);
    ShownReply reply(window(30, 8));
    if (round % 3 == 0) reply.reasoning(text);
    for (size_t i = 0; i < text.size(); i += 1 + random() % 9) {
      const size_t n = std::min<size_t>(text.size() - i, 9);
      reply.content(std::string_view(text).substr(i, n));
    }
    reply.write(reply.view.call(text.substr(0, 20), text));
    reply.finish();
    const std::string rest = without_own_sequences(reply.written);
    ASSERT_EQ(cli::visible(rest), rest);
    ASSERT_TRUE(reply.screen.unknown().empty());
  }
}

TEST(ViewProperty, RandomTextLooksTheSameByteByByte) {
  std::mt19937 random(2);
  for (int round = 0; round < 40; ++round) {
    const std::string text = random_text(random, 300);
    const auto options = window(60, 30);
    ASSERT_EQ(looks_of(testing::show_bytewise(text, options)), looks_of(testing::show(text, options))) << round;
  }
}

TEST(ViewProperty, NoRowIsWiderThanTheWindow) {
  std::mt19937 random(3);
  for (const auto& [n_columns, n_rows] : {std::pair{8, 4}, {20, 10}, {33, 9}}) {
    std::string all = random_text(random, 2000);
    for (const std::string_view document : testing::kViewDocuments) all.append("\n\n").append(document);
    // A terminal that is wider shows the same rows unless one has gone over the edge.
    cli::ReplyView view(window(n_columns, n_rows));
    const std::string bytes = view.content(all, 0) + view.finish();
    testing::Screen narrow(n_rows, n_columns), wide(n_rows, 3 * n_columns);
    narrow.feed(bytes);
    wide.feed(bytes);
    EXPECT_EQ(narrow.text_with_history(), wide.text_with_history()) << n_columns;
  }
}

// Text that costs much if anything is looked at again and again. Each unit comes 100 KiB long, whole and in pieces.
TEST(ViewProperty, WorkIsLinearInHostileText) {
  constexpr std::string_view kUnits[] = {"*",          "_ ",        "[",        "|",       "`",     "a|",     "> ",
                                         "- ",         "**a ",      "](",       "[a](",    "<a",    "&",      "\\",
                                         "$a ",        "\\( ",      "~~a",      "`` ` ",   "*a_ ",  "| a ",   "1. a\n",
                                         "|a|\n|-|\n", "e\xCC\x81", "\xCC\x81", "    a\n", "a\n\n", "*a **b "};
  for (const std::string_view unit : kUnits) {
    std::string text;
    while (text.size() < (size_t{100} << 10)) text += unit;
    cli::ReplyView whole(window(80, 24)), pieces(window(80, 24));
    size_t n_written = whole.content(text, 0).size() + whole.finish().size();
    EXPECT_LT(n_written, 40 * text.size()) << unit;
    n_written = 0;
    for (size_t i = 0; i < text.size(); i += 400)
      n_written += pieces.content(std::string_view(text).substr(i, 400), static_cast<int64_t>(i)).size();
    EXPECT_LT(n_written + pieces.finish().size(), 60 * text.size()) << unit;
  }
}

}  // namespace
}  // namespace tessera
