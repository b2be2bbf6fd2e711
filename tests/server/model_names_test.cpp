// The files in which names of models stand: their form, their limits, and what is left out.
#include "tessera/server/models/model_names.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/testing.h"

namespace tessera::server {
namespace {

using namespace testing;

TEST(ModelName, HasOneOrTwoParts) {
  const std::string longest(100, 'n');
  for (const std::string& name :
       {std::string("a"), std::string("a:b"), std::string("A-1_.x:7b"), longest, longest + ":" + longest})
    EXPECT_TRUE(is_model_name(name)) << name;
  for (const std::string& name : {std::string(), std::string(":"), std::string("a:"), std::string(":b"),
                                  std::string("a:b:c"), longest + "n", "a:" + longest + "n", longest + "n:a",
                                  std::string(".a"), std::string("a:.b"), std::string("a/b"), std::string("a b")})
    EXPECT_FALSE(is_model_name(name)) << name;
}

TEST(NamedModel, IsReadAsItIsWritten) {
  const NamedModel model{.file = "sub/a.gguf",
                         .system = "Be kind",
                         .messages = R"([{"role":"user","content":"a"}])",
                         .options = R"({"seed":3})",
                         .adapters = {"blobs/a", "b"},
                         .is_hidden = true};
  const std::string text = named_model_text(model);
  EXPECT_EQ(text,
            "{\"tessera_name\":1,\"file\":\"sub/a.gguf\",\"system\":\"Be kind\",\"messages\":[{\"role\":\"user\","
            "\"content\":\"a\"}],\"options\":{\"seed\":3},\"adapters\":[\"blobs/a\",\"b\"],\"hidden\":true}\n");
  ASSERT_OK_AND_ASSIGN(const NamedModel read, parse_named_model(text));
  EXPECT_EQ(named_model_text(read), text);
  EXPECT_TRUE(read.is_hidden);
  ASSERT_OK_AND_ASSIGN(const NamedModel least, parse_named_model(R"({"tessera_name":1,"file":"a"})"));
  EXPECT_FALSE(least.is_hidden);
  EXPECT_EQ(named_model_text(least), "{\"tessera_name\":1,\"file\":\"a\"}\n");
}

TEST(NamedModel, StaysInItsDirectory) {
  const auto with_file = [](const std::string& file) {
    return parse_named_model(R"({"tessera_name":1,"file":")" + file + R"("})");
  };
  const auto with_adapter = [](const std::string& file) {
    return parse_named_model(R"({"tessera_name":1,"file":"a","adapters":["b",")" + file + R"("]})");
  };
  for (const char* file : {"a.gguf", "a/b.gguf", "..a", "a..", "a/..b"}) {
    EXPECT_OK(with_file(file));
    EXPECT_OK(with_adapter(file));
  }
  for (const char* file : {"", "..", "../a", "a/../b", "a/..", ".", "./a", "a/./b", "/a"}) {
    EXPECT_ERROR(with_file(file), "");
    EXPECT_ERROR(with_adapter(file), "outside of the directory");
  }
}

TEST(NamedModel, OtherTextsAreNone) {
  for (const char* text :
       {"", "5", "{}", R"({"file":"a"})", R"({"tessera_name":0,"file":"a"})", R"({"tessera_name":2,"file":"a"})",
        R"({"tessera_name":1})", R"({"tessera_name":1,"file":5})", R"({"tessera_name":1,"file":"a","system":5})",
        R"({"tessera_name":1,"file":"a","messages":{}})", R"({"tessera_name":1,"file":"a","options":[]})",
        R"({"tessera_name":1,"file":"a","hidden":1})", R"({"tessera_name":1,"file":"a","adapters":"b"})",
        R"({"tessera_name":1,"file":"a","adapters":[5]})"})
    EXPECT_ERROR(parse_named_model(text), "not a name of a model");
  const auto with_adapters = [](size_t n) {
    std::string text = R"({"tessera_name":1,"file":"a","adapters":["b")";
    for (size_t i = 1; i < n; ++i) text += ",\"b\"";
    return parse_named_model(text + "]}");
  };
  EXPECT_OK(with_adapters(kMostNamedAdapters));
  EXPECT_ERROR(with_adapters(kMostNamedAdapters + 1), "adapters");
}

class NameFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(directory_ / name, std::ios::binary) << text;
  }
  std::vector<std::string> names(size_t n_most = 100) const {
    std::vector<std::string> names;
    const auto models = read_named_models(directory_.string(), n_most);
    EXPECT_OK(models);
    if (models)
      for (const auto& [name, model] : *models) names.push_back(name);
    return names;
  }

  static constexpr const char* kText = R"({"tessera_name":1,"file":"a.gguf"})";
  std::filesystem::path directory_ = temporary_path("name_files");
};

TEST_F(NameFiles, AreReadByName) {
  for (const char* name : {"c.json", "a.json", "b:7.json"}) write(name, kText);
  EXPECT_EQ(names(), (std::vector<std::string>{"a", "b:7", "c"}));
}

TEST_F(NameFiles, OthersAreLeftOut) {
  write("good.json", kText);
  write("good.gguf", kText);
  write("no name.json", kText);
  write(".json", kText);
  write("broken.json", "{");
  write("large.json", std::string(kText) + std::string(kMaxNamedModelBytes, ' '));
  std::filesystem::create_directories(directory_ / "folder.json");
  std::filesystem::create_symlink(directory_ / "good.json", directory_ / "link.json");
  EXPECT_EQ(names(), std::vector<std::string>{"good"});
}

TEST_F(NameFiles, HaveAMostNumber) {
  for (const char* name : {"a.json", "b.json", "c.json"}) write(name, kText);
  EXPECT_EQ(names(3).size(), 3u);
  EXPECT_ERROR(read_named_models(directory_.string(), 2), "more than 2 names");
  EXPECT_ERROR(read_named_models((directory_ / "no").string(), 2), "no");
}

}  // namespace
}  // namespace tessera::server
