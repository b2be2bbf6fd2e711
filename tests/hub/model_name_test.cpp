// Names of models, and the parts of their file names.
#include "tessera/hub/model_name.h"

#include <gtest/gtest.h>

#include "tessera/hub/part_name.h"
#include "tests/support/testing.h"

namespace tessera::hub {
namespace {

TEST(ModelName, HasARepositoryATagAndARevision) {
  ASSERT_OK_AND_ASSIGN(const ModelName plain, parse_model_name("ggml-org/Qwen3_0.6B-GGUF"));
  EXPECT_EQ(plain.repository, "ggml-org/Qwen3_0.6B-GGUF");
  EXPECT_EQ(plain.tag + plain.revision, "");
  EXPECT_EQ(revision_or_main(plain), "main");
  ASSERT_OK_AND_ASSIGN(const ModelName full, parse_model_name("a/b:UD-Q4_K_XL@refs/pr/1"));
  EXPECT_EQ(full.repository, "a/b");
  EXPECT_EQ(full.tag, "UD-Q4_K_XL");
  EXPECT_EQ(full.revision, "refs/pr/1");
  EXPECT_EQ(revision_or_main(full), "refs/pr/1");
  ASSERT_OK_AND_ASSIGN(const ModelName revision, parse_model_name("a/b@v1.0"));
  EXPECT_EQ(revision.tag, "");
  EXPECT_EQ(revision.revision, "v1.0");
  for (const char* text : {"a/b", "a/b:c", "a/b@c", "a/b:c@d"})
    EXPECT_EQ(to_string(parse_model_name(text).value()), text);
}

TEST(ModelName, OtherTextsAreRefused) {
  const std::string most(96, 'x');
  EXPECT_OK(parse_model_name(most + "/" + most));
  for (const std::string& text : {std::string(), std::string("a"), std::string("/b"), std::string("a/"),
                                  std::string("a/b/c"), std::string("../b"), std::string("a/.."), std::string("a/b..c"),
                                  std::string("a/b--c"), std::string("-a/b"), std::string(".a/b"), std::string("a/b."),
                                  std::string("a b/c"), std::string("a/\xc3\xa4"), most + "x/b", "a/x" + most})
    EXPECT_ERROR(parse_model_name(text), "is not the name of a model: want user/repo[:TAG][@REVISION]");
  for (const std::string text : {"a/b:", "a/b:c/d", "a/b:c:d", "a/b: "})
    EXPECT_ERROR(parse_model_name(text), "is not a tag, such as Q4_K_M");
  for (const std::string text : {"a/b@", "a/b@..", "a/b@x/../y", "a/b@/x", "a/b@x/", "a/b@.", "a/b@x y"})
    EXPECT_ERROR(parse_model_name(text), "is not a revision");
  EXPECT_OK(parse_model_name("a/b@" + std::string(200, 'x')));
  EXPECT_ERROR(parse_model_name("a/b@" + std::string(201, 'x')), "is not a revision");
}

TEST(ModelName, CommitsAreFortyDigits) {
  EXPECT_TRUE(is_commit("0123456789abcdef0123456789abcdef01234567"));
  EXPECT_FALSE(is_commit("0123456789abcdef0123456789abcdef0123456"));
  EXPECT_FALSE(is_commit("0123456789ABCDEF0123456789abcdef01234567"));
  EXPECT_FALSE(is_commit("g123456789abcdef0123456789abcdef01234567"));
  for (const char c : std::string("/:`gAF")) EXPECT_FALSE(is_hex(std::string(1, c), 1)) << c;
  for (const char c : std::string("0123456789abcdef")) EXPECT_TRUE(is_hex(std::string(1, c), 1)) << c;
}

TEST(PartName, HasAPrefixANumberAndACount) {
  const auto part = parse_part_name("dir/m-Q8_0-00002-of-00011.gguf");
  ASSERT_TRUE(part.has_value());
  EXPECT_EQ(part->prefix, "dir/m-Q8_0");
  EXPECT_EQ(part->number, 2u);
  EXPECT_EQ(part->count, 11u);
  EXPECT_EQ(part_path(*part), "dir/m-Q8_0-00002-of-00011.gguf");
  EXPECT_TRUE(parse_part_name("m-00001-of-00001.gguf").has_value());
  for (const std::string other :
       {"m.gguf", "m-00000-of-00002.gguf", "m-00003-of-00002.gguf", "m-0001-of-0002.gguf", "m-00001-of-00002.bin",
        "m-00001_of-00002.gguf", "m00001-of-00002.gguf", "m-0001a-of-00002.gguf", "m-00001-of-0002a.gguf",
        "m-00001-of-0000a.gguf", "-of-00002.gguf", ".gguf"})
    EXPECT_FALSE(parse_part_name(other).has_value()) << other;
}

}  // namespace
}  // namespace tessera::hub
