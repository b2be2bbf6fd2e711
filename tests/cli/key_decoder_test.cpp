// Keys from bytes of terminals.
#include "tessera/cli/key_decoder.h"

#include <gtest/gtest.h>

#include <vector>

#include "tessera/base/rng.h"
#include "tessera/text/utf8.h"

namespace tessera::cli {
namespace {

// The names of the keys that the bytes are, with a flush at the end.
std::string keys_of(std::string_view bytes, bool flushes = true) {
  KeyDecoder decoder;
  decoder.feed(bytes);
  if (flushes) decoder.flush();
  std::string names;
  while (const auto key = decoder.next()) {
    names += (names.empty() ? "" : " ") + key_name(*key);
    if (key->code == KeyCode::paste) names += "(" + key->text + ")";
  }
  return names;
}

TEST(KeyDecoder, ReadsCharactersAndControls) {
  EXPECT_EQ(keys_of("aB\u4e2d"), "a B \u4e2d");
  EXPECT_EQ(keys_of("\x01\x1a\r\n\t\x7f\b\x1f"), "Ctrl-A Ctrl-Z Enter Ctrl-J Tab Backspace Backspace Ctrl-_");
  EXPECT_EQ(keys_of(std::string_view("\0", 1)), "Ctrl- ");
  EXPECT_EQ(keys_of("\xff"
                    "a\xe4\xb8"
                    "b"),
            "\ufffd a \ufffd b");
}

TEST(KeyDecoder, ReadsModifiersOfAllForms) {
  EXPECT_EQ(keys_of("\x1b[A\x1bOB\x1b[C\x1bOD"), "Up Down Right Left");
  EXPECT_EQ(keys_of("\x1b[1;5C\x1b[1;3D\x1b[1;2A\x1b[3;5~"), "Ctrl-Right Alt-Left Shift-Up Ctrl-Delete");
  EXPECT_EQ(keys_of("\x1b[97;5u\x1b[13;2u\x1b[27u\x1b[9;2u\x1b[13;3u"), "Ctrl-A Shift-Enter Esc Shift-Tab Alt-Enter");
  EXPECT_EQ(keys_of("\x1b[97:65;6:1u\x1b[97;5:3u"), "Ctrl-A");  // a release is no key
  EXPECT_EQ(keys_of("\x1b[27;5;13~\x1b[27;3;98~"), "Ctrl-Enter Alt-B");
  EXPECT_EQ(keys_of("\x1b[57414u\x1b[57441u"), "Enter");
  EXPECT_EQ(keys_of("\x1bOd\x1b[c\x1b[3^\x1b[7$\x1b[5@"),
            "Ctrl-Left Shift-Right Ctrl-Delete Shift-Home Ctrl-Shift-PageUp");
}

TEST(KeyDecoder, ReadsNamedKeys) {
  EXPECT_EQ(keys_of("\x1b[H\x1b[F\x1bOH\x1bOF\x1b[1~\x1b[4~\x1b[7~\x1b[8~"), "Home End Home End Home End Home End");
  EXPECT_EQ(keys_of("\x1b[2~\x1b[3~\x1b[5~\x1b[6~\x1b[Z"), "Insert Delete PageUp PageDown Shift-Tab");
  EXPECT_EQ(keys_of("\x1bOP\x1b[15~\x1b[17~\x1b[24~\x1b[1;5R"), "F1 F5 F6 F12 Ctrl-F3");
  EXPECT_EQ(keys_of("\x1bOM"), "Enter");
}

TEST(KeyDecoder, TakesAnEscapeBeforeAKeyAsAlt) {
  EXPECT_EQ(keys_of("\x1b"
                    "b\x1b\r\x1b\x7f\x1b\u00e9"),
            "Alt-B Alt-Enter Alt-Backspace Alt-\u00e9");
  EXPECT_EQ(keys_of("\x1b\x1b[C"), "Alt-Right");
  EXPECT_EQ(keys_of("\x1b\x02x"), "Ctrl-Alt-B x");
}

TEST(KeyDecoder, LeavesALoneEscapeToTheCaller) {
  KeyDecoder decoder;
  decoder.feed("\x1b");
  EXPECT_TRUE(decoder.pending());
  EXPECT_FALSE(decoder.next());
  decoder.flush();
  EXPECT_FALSE(decoder.pending());
  EXPECT_EQ(key_name(decoder.next().value()), "Esc");
  decoder.feed("[A");  // no longer one sequence
  EXPECT_EQ(decoder.next()->text, "[");
  EXPECT_EQ(decoder.next()->text, "A");
  EXPECT_EQ(keys_of("\x1b["), "Alt-[");
  EXPECT_EQ(keys_of("\x1bO"), "Alt-O");
  EXPECT_EQ(keys_of("\x1b]"), "Alt-]");
  EXPECT_EQ(keys_of("\x1b[1;5"), "");
  EXPECT_EQ(keys_of("\xe4\xb8"), "\ufffd");
}

TEST(KeyDecoder, DropsUnknownSequencesWhole) {
  EXPECT_EQ(keys_of("\x1b[?62;22ca"), "a");
  EXPECT_EQ(keys_of("\x1b[24;80Ra\x1b[<0;3;4Mb\x1b[M !!c\x1b[[Ad"), keys_of("\x1b[24;80R") + " a b c d");
  EXPECT_EQ(keys_of("\x1b]11;rgb:0/0/0\x1b\\a\x1b]11;x\ab\x1bP1$r\x1b\\c\x1b_G\x1b\\d"), "a b c d");
  EXPECT_EQ(keys_of("\x1b[99;99;99zq\x1b[I\x1b[O"), "q");
  EXPECT_EQ(keys_of("\x1b[" + std::string(1000, '1') + "~a"), "a");
  EXPECT_EQ(keys_of("\x1b[12\x1b[Aa"), "Up a");  // cut off by another sequence
}

TEST(KeyDecoder, MakesOneKeyOfAPaste) {
  EXPECT_EQ(keys_of("x\x1b[200~a\rb\r\nc\nd\x03\x1b[A\x1b[201~y"), "x Paste(a\nb\nc\nd\x03\x1b[A) y");
  EXPECT_EQ(keys_of("\x1b[200~\x1b[201~"), "Paste()");
  EXPECT_EQ(keys_of("\x1b[200~\xff\u4e2d\x1b[201~"), "Paste(\ufffd\u4e2d)");
  KeyDecoder decoder;
  decoder.feed("\x1b[200~abc\x1b[201");
  EXPECT_FALSE(decoder.pending());
  decoder.flush();
  EXPECT_FALSE(decoder.next());
  decoder.feed("~");
  EXPECT_EQ(decoder.next()->text, "abc");
}

TEST(KeyDecoder, LimitsAPaste) {
  KeyDecoder decoder(1000);
  decoder.feed("\x1b[200~" + std::string(1000, 'a') + "\x1b[201~");
  Key key = decoder.next().value();
  EXPECT_EQ(key.text, std::string(1000, 'a'));
  EXPECT_FALSE(key.is_cut);
  decoder.feed("\x1b[200~" + std::string(1001, 'a') + "\x1b[201~");
  key = decoder.next().value();
  EXPECT_EQ(key.text, std::string(1000, 'a'));
  EXPECT_TRUE(key.is_cut);
  decoder.feed("\x1b[200~" + std::string(999, 'a') + "\u4e2d" + std::string(99, 'b') + "\x1b[201~c");
  key = decoder.next().value();
  EXPECT_EQ(key.text, std::string(999, 'a'));
  EXPECT_TRUE(key.is_cut);
  EXPECT_EQ(decoder.next()->text, "c");
}

TEST(KeyDecoder, GivesTheSameKeysForAnySplit) {
  const std::string bytes =
      "a\x1b[1;5C\u4e2d\x1b[200~p\r\nq\x1b[201~\x1bOA\x1b]1;x\x1b\\\x1b"
      "b\xf0\x9f\x98\x80\x1b[97;5u";
  KeyDecoder whole, single;
  whole.feed(bytes);
  for (const char c : bytes) single.feed({&c, 1});
  while (const auto key = whole.next()) EXPECT_EQ(single.next(), key);
  EXPECT_FALSE(single.next());
  EXPECT_FALSE(single.pending());
}

TEST(KeyDecoder, GivesValidTextForAnyBytes) {
  Rng rng(3);
  constexpr std::string_view kLikely = "\x1b[O]0125;:~u\xe4\xb8\xad\r\aP\\$";
  for (int round = 0; round < 2000; ++round) {
    KeyDecoder decoder;
    for (int i = 0; i < 40; ++i) {
      const auto random = static_cast<char>(rng.next_u32() & 0xff);
      const char c = rng.next_u32() % 4 == 0 ? random : kLikely[rng.next_u32() % kLikely.size()];
      decoder.feed({&c, 1});
      if (rng.next_u32() % 16 == 0) decoder.flush();
    }
    while (const auto key = decoder.next()) ASSERT_TRUE(text::is_valid_utf8(key->text));
  }
}

}  // namespace
}  // namespace tessera::cli
