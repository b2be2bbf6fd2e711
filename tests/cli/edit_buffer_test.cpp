// The text of an edited line: moves, erasing, kill and yank, undo, blocks.
#include "tessera/cli/edit_buffer.h"

#include <gtest/gtest.h>

#include "tessera/base/rng.h"
#include "tessera/text/utf8.h"

namespace tessera::cli {
namespace {

// A buffer with "|" at the cursor's place in the text.
EditBuffer buffer_of(std::string_view text) {
  EditBuffer buffer;
  const size_t bar = text.find('|');
  buffer.reset(text.substr(0, bar));
  const std::string rest(text.substr(bar + 1));
  if (!rest.empty()) {
    buffer.replace(buffer.text().size(), buffer.text().size(), rest);
    while (buffer.cursor() > bar) buffer.move(EditTarget::left);
  }
  return buffer;
}

std::string shown(const EditBuffer& buffer) {
  std::string text;
  for (size_t at = 0; at < buffer.text().size();) {
    if (at == buffer.cursor()) text += '|';
    const EditUnit unit = buffer.unit_at(at);
    text += unit.shown;
    at += unit.n_bytes;
  }
  return buffer.cursor() == buffer.text().size() ? text + "|" : text;
}

std::string moved(std::string_view text, EditTarget target) {
  EditBuffer buffer = buffer_of(text);
  buffer.move(target);
  return shown(buffer);
}

std::string killed(std::string_view text, EditTarget target) {
  EditBuffer buffer = buffer_of(text);
  buffer.kill(target);
  return shown(buffer);
}

TEST(EditBuffer, MovesByClusters) {
  EXPECT_EQ(moved("ae\u0301|b", EditTarget::left), "a|e\u0301b");
  EXPECT_EQ(moved("|\U0001F1E9\U0001F1EAx", EditTarget::right), "\U0001F1E9\U0001F1EA|x");
  EXPECT_EQ(moved("|ab", EditTarget::left), "|ab");
  EXPECT_EQ(moved("ab|", EditTarget::right), "ab|");
  EXPECT_FALSE(buffer_of("|ab").move(EditTarget::left));
}

TEST(EditBuffer, MovesByWords) {
  EXPECT_EQ(moved("one two_2  |", EditTarget::word_left), "one |two_2  ");
  EXPECT_EQ(moved("one.two|", EditTarget::word_left), "one.|two");
  EXPECT_EQ(moved("one.two|", EditTarget::blank_word_left), "|one.two");
  EXPECT_EQ(moved("caf\u00e9 x|", EditTarget::blank_word_left), "caf\u00e9 |x");
  EXPECT_EQ(moved("|  caf\u00e9-x", EditTarget::word_right), "  caf\u00e9|-x");
  EXPECT_EQ(moved("caf\u00e9|-x", EditTarget::word_right), "caf\u00e9-x|");
}

TEST(EditBuffer, MovesInLines) {
  EXPECT_EQ(moved("one\ntw|o\nthree", EditTarget::line_start), "one\n|two\nthree");
  EXPECT_EQ(moved("one\ntw|o\nthree", EditTarget::line_end), "one\ntwo|\nthree");
  EXPECT_EQ(moved("one\ntw|o\nthree", EditTarget::text_start), "|one\ntwo\nthree");
  EXPECT_EQ(moved("one\ntw|o\nthree", EditTarget::text_end), "one\ntwo\nthree|");
  EXPECT_EQ(moved("one\ntw|o\nthree", EditTarget::up), "on|e\ntwo\nthree");
  EXPECT_EQ(moved("one\ntw|o\nthree", EditTarget::down), "one\ntwo\nth|ree");
  EXPECT_EQ(moved("on|e\ntwo", EditTarget::up), "on|e\ntwo");
  EXPECT_EQ(moved("one\n|two", EditTarget::down), "one\n|two");
}

TEST(EditBuffer, KeepsTheColumnOverShortLines) {
  EditBuffer buffer = buffer_of("abcdef|\nx\n\u4e2d\u4e2d\u4e2d\u4e2d");
  buffer.move(EditTarget::down);
  EXPECT_EQ(shown(buffer), "abcdef\nx|\n\u4e2d\u4e2d\u4e2d\u4e2d");
  buffer.move(EditTarget::down);
  EXPECT_EQ(shown(buffer), "abcdef\nx\n\u4e2d\u4e2d\u4e2d|\u4e2d");
  buffer.move(EditTarget::left);
  buffer.move(EditTarget::up);
  buffer.move(EditTarget::up);
  EXPECT_EQ(shown(buffer), "abcd|ef\nx\n\u4e2d\u4e2d\u4e2d\u4e2d");
}

TEST(EditBuffer, ErasesAndKills) {
  EditBuffer buffer = buffer_of("ae\u0301|b");
  EXPECT_TRUE(buffer.erase(EditTarget::left));
  EXPECT_EQ(shown(buffer), "a|b");
  EXPECT_TRUE(buffer.erase(EditTarget::right));
  EXPECT_FALSE(buffer.erase(EditTarget::right));
  EXPECT_EQ(shown(buffer), "a|");
  EXPECT_EQ(killed("one two |three\nx", EditTarget::line_end), "one two |\nx");
  EXPECT_EQ(killed("one|\ntwo", EditTarget::line_end), "one|two");
  EXPECT_EQ(killed("x\none |two", EditTarget::line_start), "x\n|two");
  EXPECT_EQ(killed("a b.c|d", EditTarget::blank_word_left), "a |d");
  EXPECT_EQ(killed("a |b.c", EditTarget::word_right), "a |.c");
}

TEST(EditBuffer, YanksWhatWasKilledInARow) {
  EditBuffer buffer = buffer_of("one two three|");
  EXPECT_FALSE(buffer.yank());
  buffer.kill(EditTarget::word_left);
  buffer.kill(EditTarget::word_left);
  buffer.move(EditTarget::text_start);
  EXPECT_TRUE(buffer.yank());
  EXPECT_EQ(shown(buffer), "two three|one ");
  buffer.kill(EditTarget::line_end);
  buffer.yank();
  buffer.yank();
  EXPECT_EQ(shown(buffer), "two threeone one |");
  buffer.reset("");
  buffer.yank();
  EXPECT_EQ(shown(buffer), "one |");  // the killed text outlives the line
}

TEST(EditBuffer, TransposesUnits) {
  const auto transposed = [](std::string_view text) {
    EditBuffer buffer = buffer_of(text);
    buffer.transpose();
    return shown(buffer);
  };
  EXPECT_EQ(transposed("ab|c"), "acb|");
  EXPECT_EQ(transposed("abc|"), "acb|");
  EXPECT_EQ(transposed("|abc"), "|abc");
  EXPECT_EQ(transposed("a|"), "a|");
  EXPECT_EQ(transposed("e\u0301|\u4e2dx"), "\u4e2de\u0301|x");
  EXPECT_EQ(transposed("x\n|ab"), "x\n|ab");
}

TEST(EditBuffer, UndoesWordsTypedAndOtherChanges) {
  EditBuffer buffer;
  for (const char c : std::string_view("one two")) buffer.insert({&c, 1});
  EXPECT_TRUE(buffer.undo());
  EXPECT_EQ(shown(buffer), "one |");
  EXPECT_TRUE(buffer.undo());
  EXPECT_EQ(shown(buffer), "one|");
  buffer.kill(EditTarget::line_start);
  EXPECT_EQ(shown(buffer), "|");
  buffer.undo();
  EXPECT_EQ(shown(buffer), "one|");
  buffer.insert("x");
  buffer.move(EditTarget::left);
  buffer.insert("y");
  buffer.undo();
  EXPECT_EQ(shown(buffer), "one|x");
  EXPECT_TRUE(buffer.undo());
  EXPECT_TRUE(buffer.undo());
  EXPECT_EQ(shown(buffer), "|");
  EXPECT_FALSE(buffer.undo());
}

TEST(EditBuffer, TreatsABlockAsOneUnit) {
  EditBuffer buffer = buffer_of("see |.");
  buffer.insert_block("one\ntwo\nthree\n");
  EXPECT_EQ(shown(buffer), "see [3 lines]|.");
  EXPECT_TRUE(buffer.has_blocks());
  EXPECT_EQ(buffer.full_text(), "see one\ntwo\nthree\n.");
  buffer.move(EditTarget::left);
  EXPECT_EQ(shown(buffer), "see |[3 lines].");
  buffer.move(EditTarget::word_right);
  EXPECT_EQ(shown(buffer), "see [3 lines]|.");
  buffer.move(EditTarget::word_left);
  EXPECT_EQ(shown(buffer), "see |[3 lines].");
  buffer.erase(EditTarget::right);
  EXPECT_EQ(buffer.full_text(), "see .");
  buffer.undo();
  EXPECT_EQ(buffer.full_text(), "see one\ntwo\nthree\n.");
  buffer.kill(EditTarget::line_end);
  buffer.yank();
  buffer.yank();
  EXPECT_EQ(shown(buffer), "see [3 lines].[3 lines].|");
  EXPECT_EQ(buffer.full_text(), "see one\ntwo\nthree\n.one\ntwo\nthree\n.");
  buffer.reset("");
  buffer.yank();  // a killed block outlives the line too
  EXPECT_EQ(buffer.full_text(), "one\ntwo\nthree\n.");
  buffer.erase(EditTarget::left);
  buffer.kill(EditTarget::blank_word_left);
  EXPECT_EQ(shown(buffer), "|");
}

TEST(EditBuffer, ExpandsABlock) {
  EditBuffer buffer = buffer_of("a |b");
  EXPECT_FALSE(buffer.expand_block());
  buffer.insert_block("1\n2");
  EXPECT_TRUE(buffer.expand_block());  // before the cursor
  EXPECT_EQ(shown(buffer), "a 1\n2|b");
  buffer.undo();
  buffer.move(EditTarget::left);
  EXPECT_TRUE(buffer.expand_block());  // at the cursor
  EXPECT_EQ(shown(buffer), "a 1\n2|b");
  EXPECT_FALSE(buffer.has_blocks());
  buffer.insert_block(std::string(5000, 'x'));
  EXPECT_EQ(shown(buffer), "a 1\n2[5000 characters]|b");
}

TEST(EditBuffer, HoldsValidTextOnly) {
  EditBuffer buffer;
  buffer.insert("a\xff\x80\x80\x80\x80z");
  EXPECT_FALSE(buffer.has_blocks());
  EXPECT_TRUE(text::is_valid_utf8(buffer.text()));
  buffer.assign("\xe4");
  buffer.insert_block("\xff");
  EXPECT_EQ(buffer.full_text(), "\ufffd\ufffd");
  EXPECT_EQ(buffer_of("a\x1b|").unit_at(1).shown, "^[");
}

TEST(EditBuffer, SurvivesAnyOrderOfEdits) {
  Rng rng(5);
  const std::string pieces[] = {"a", " ", "\n", "\u4e2d", "\u0301", "\u200d", "\U0001F468", "_", "\U0001F1E9"};
  EditBuffer buffer;
  for (int i = 0; i < 20000; ++i) {
    const auto target = static_cast<EditTarget>(rng.next_u32() % 11);
    switch (rng.next_u32() % 9) {
      case 0:
        buffer.insert(pieces[rng.next_u32() % 9]);
        break;
      case 1:
        buffer.insert_block("x\ny");
        break;
      case 2:
        buffer.erase(target);
        break;
      case 3:
        buffer.kill(target);
        break;
      case 4:
        buffer.text().size() < 300 && buffer.yank();
        break;
      case 5:
        buffer.transpose();
        break;
      case 6:
        buffer.undo();
        break;
      case 7:
        buffer.text().size() < 300 && buffer.expand_block();
        break;
      default:
        buffer.move(target);
    }
    ASSERT_LE(buffer.cursor(), buffer.text().size());
    ASSERT_TRUE(text::is_valid_utf8(buffer.full_text())) << i;
    if (i % 500 == 499) buffer.reset("");
  }
}

}  // namespace
}  // namespace tessera::cli
