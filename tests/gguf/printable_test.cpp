#include "tessera/gguf/printable.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

TEST(Printable, KeepsPlainTextAndUtf8) { EXPECT_EQ(printable("blk.0 模型 é"), "blk.0 模型 é"); }

TEST(Printable, EscapesControls) {
  EXPECT_EQ(printable(std::string_view("a\0\n\t\x1b\x7f\\", 7)), "a\\x00\\n\\t\\x1b\\x7f\\\\");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");  // U+009B starts terminal sequences like ESC [
}

TEST(Printable, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(printable("\xff"), "\\xff");
  EXPECT_EQ(printable("\xe6\xa8"), "\\xe6\\xa8");                    // truncated
  EXPECT_EQ(printable("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");           // not the shortest form
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // above U+10FFFF
}

TEST(Printable, CutsLongText) {
  EXPECT_EQ(printable(std::string(100, 'x'), 10), "xxxxxxxxxx...");
  EXPECT_EQ(printable(std::string(10, 'x'), 10), "xxxxxxxxxx");
}

TEST(Printable, QuotesNames) { EXPECT_EQ(quote_name("a\nb"), "'a\\nb'"); }

}  // namespace
}  // namespace tessera
