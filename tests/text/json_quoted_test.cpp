#include "tessera/text/json_quoted.h"

#include <gtest/gtest.h>

namespace tessera::text {
namespace {

TEST(JsonQuoted, EscapesWhatJsonWantsEscaped) {
  EXPECT_EQ(json_quoted(""), R"("")");
  EXPECT_EQ(json_quoted("a \"b\" \\ /"), R"("a \"b\" \\ /")");
  EXPECT_EQ(json_quoted("\b\f\n\r\t"), R"("\b\f\n\r\t")");
  EXPECT_EQ(json_quoted(std::string_view("\0\x1f\x7f", 3)), "\"\\u0000\\u001f\x7f\"");
}

TEST(JsonQuoted, KeepsUtf8AndReplacesOtherBytes) {
  EXPECT_EQ(json_quoted("h\u00e9 \U0001F600"), "\"h\u00e9 \U0001F600\"");
  EXPECT_EQ(json_quoted("a\xff"), "\"a\uFFFD\"");
}

}  // namespace
}  // namespace tessera::text
