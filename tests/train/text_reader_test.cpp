// Reading documents from text files: separators, empty documents, and cuts of long documents.
#include "tessera/train/text_reader.h"

#include <gtest/gtest.h>

#include "tests/support/testing.h"

namespace tessera::train {
namespace {

using Strings = std::vector<std::string>;

/// The documents, with their pieces concatenated. `bar` is inserted at each cut.
Strings documents(TextReader reader, const std::string& bar = "") {
  Strings all;
  bool in_document = false;
  while (true) {
    const auto piece = reader.next();
    EXPECT_OK(piece);
    if (!piece || !*piece) break;
    EXPECT_EQ((*piece)->begins_document, !in_document);
    if ((*piece)->begins_document) {
      all.emplace_back();
    } else {
      all.back() += bar;
    }
    all.back() += (*piece)->text;
    in_document = !(*piece)->ends_document;
  }
  EXPECT_FALSE(in_document);
  return all;
}

Strings documents_of(const std::string& text, const std::string& separator, size_t max_bytes = 1 << 20) {
  return documents(TextReader({testing::write_temporary("text.txt", text)}, separator, max_bytes));
}

TEST(TextReader, AFileIsADocumentWithoutASeparator) {
  EXPECT_EQ(documents_of("one\n\ntwo\n", ""), (Strings{"one\n\ntwo"}));
}

TEST(TextReader, DocumentsAreWhatStandsBetweenSeparators) {
  EXPECT_EQ(documents_of("one\n<|end|>\ntwo<|end|>three\n\n", "<|end|>"), (Strings{"one", "two", "three"}));
  EXPECT_EQ(documents_of("one\ntwo\r\n\n three \n", "\n"), (Strings{"one", "two", " three "}));
  EXPECT_EQ(documents_of("a\nb\n\nc\n\n\n\nd", "\n\n"), (Strings{"a\nb", "c", "d"}));
}

TEST(TextReader, EmptyDocumentsAreLeftOut) {
  EXPECT_EQ(documents_of("", "x"), Strings{});
  EXPECT_EQ(documents_of("\n\r\n", ""), Strings{});
  EXPECT_EQ(documents_of("xx\nxaxx\n", "x"), Strings{"a"});
}

TEST(TextReader, EveryFileBeginsADocument) {
  const Strings paths{testing::write_temporary("a.txt", "one|two"), testing::write_temporary("b.txt", ""),
                      testing::write_temporary("c.txt", "three")};
  EXPECT_EQ(documents(TextReader(paths, "|")), (Strings{"one", "two", "three"}));
  EXPECT_EQ(documents(TextReader({}, "|")), Strings{});
}

TEST(TextReader, TheSizeOfPiecesChangesNoDocument) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += i % 7 == 0 ? "<end>" : i % 5 == 0 ? " caf\xC3\xA9\n" : " word 12.";
  const Strings whole = documents_of(text, "<end>");
  ASSERT_GT(whole.size(), 30u);
  for (size_t max_bytes = 1; max_bytes < 60; ++max_bytes)
    EXPECT_EQ(documents_of(text, "<end>", max_bytes), whole) << max_bytes;
}

TEST(TextReader, LongDocumentsAreCutInFrontOfASpaceBetweenWords) {
  const auto cut = [](const std::string& text, size_t max_bytes) {
    return documents(TextReader({testing::write_temporary("text.txt", text)}, "", max_bytes), "|");
  };
  EXPECT_EQ(cut("one two three", 9), Strings{"one two| three"});
  EXPECT_EQ(cut("one two  .three", 9), Strings{"one| two  .th|ree"});
  EXPECT_EQ(cut("abcdefgh", 3), Strings{"abc|def|gh"});
  EXPECT_EQ(cut("\xC3\xA9\xC3\xA9\xC3\xA9", 3), Strings{"\xC3\xA9|\xC3\xA9|\xC3\xA9"});
  EXPECT_EQ(cut("\x80\x80\x80\x80\x80\x80", 5), Strings{"\x80\x80\x80\x80\x80|\x80"});
}

TEST(TextReader, AFileThatCannotBeReadIsNamed) {
  TextReader missing({testing::temporary_dir() / "missing.txt"}, "");
  EXPECT_ERROR(missing.next(), "missing.txt: cannot open");
  TextReader folder({testing::temporary_dir()}, "");
  EXPECT_ERROR(folder.next(), "is a directory");
}

}  // namespace
}  // namespace tessera::train
