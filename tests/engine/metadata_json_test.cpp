// Metadata values as JSON: every type, nested arrays, values that JSON has not.
#include "tessera/engine/metadata_json.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/gguf/raw_gguf.h"
#include "tests/support/testing.h"

namespace tessera {
namespace {

using namespace testing;

std::string json_of(const GgufFile& file, std::string_view key) {
  const GgufValue* value = file.metadata().find(key);
  EXPECT_NE(value, nullptr) << key;
  std::string text;
  const auto append = [&](std::string_view piece) -> Result<> {
    text += piece;
    return {};
  };
  if (value != nullptr) EXPECT_OK(write_json(*value, append));
  return text;
}

TEST(MetadataJson, WritesEveryType) {
  const std::string bytes = small_gguf();
  ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::parse(bytes_of(bytes), "f.gguf"));
  const std::pair<const char*, const char*> want[] = {{"general.architecture", "\"llama\""},
                                                      {"u8", "200"},
                                                      {"i8", "-100"},
                                                      {"u16", "60000"},
                                                      {"i16", "-30000"},
                                                      {"u32", "4000000000"},
                                                      {"i32", "-2000000000"},
                                                      {"f32", "1.5"},
                                                      {"bool", "true"},
                                                      {"u64", "9223372036854775808"},
                                                      {"i64", "-5"},
                                                      {"f64", "0.1"},
                                                      {"ints", "[7,-8,9]"},
                                                      {"floats", "[0.5,-2]"},
                                                      {"bools", "[true,false]"},
                                                      {"strings", R"(["one","","three"])"},
                                                      {"nested", R"([["a","bc"],[4]])"}};
  EXPECT_EQ(file->metadata().entries().size(), std::size(want));
  for (const auto& [key, json] : want) EXPECT_EQ(json_of(*file, key), json) << key;
}

TEST(MetadataJson, WritesWhatJsonHasNotAsTheNearest) {
  RawGguf g(0, 5);
  g.key("nan", 6, std::numeric_limits<float>::quiet_NaN()).key("inf", 12, -std::numeric_limits<double>::infinity());
  g.key("text", 8).text("a\"\n\xff");
  g.array("none", 5, 0);
  g.array("deep", 9, 2).number(9u).number(uint64_t{1}).number(4u).number(uint64_t{0});
  g.number(4u).number(uint64_t{2}).number(1u).number(2u);
  ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::parse(bytes_of(g.bytes()), "f.gguf"));
  EXPECT_EQ(json_of(*file, "nan"), "null");
  EXPECT_EQ(json_of(*file, "inf"), "null");
  EXPECT_EQ(json_of(*file, "text"), "\"a\\\"\\n\xef\xbf\xbd\"");
  EXPECT_EQ(json_of(*file, "none"), "[]");
  EXPECT_EQ(json_of(*file, "deep"), "[[[]],[1,2]]");
}

TEST(MetadataJson, StopsAtAnErrorOfTheSink) {
  const std::string bytes = small_gguf();
  ASSERT_OK_AND_ASSIGN(const auto file, GgufFile::parse(bytes_of(bytes), "f.gguf"));
  // The pieces of [["a","bc"],[4]], each refused in turn.
  for (int n_allowed = 0; n_allowed < 11; ++n_allowed) {
    int n = 0;
    const auto refuse = [&](std::string_view) -> Result<> {
      if (n == n_allowed) return fail(ErrorCode::io, "full");
      ++n;
      return {};
    };
    EXPECT_ERROR(write_json(*file->metadata().find("nested"), refuse), "full");
    EXPECT_EQ(n, n_allowed);
  }
}

}  // namespace
}  // namespace tessera
