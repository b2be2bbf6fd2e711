// The list of models: presets and directories.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tessera/server/json/top_level.h"
#include "tessera/server/models/catalog.h"
#include "tests/support/testing.h"

namespace tessera::server {
namespace {

using namespace testing;

// --- presets

TEST(Presets, SectionsAndSettingsKeepTheirOrder) {
  ASSERT_OK_AND_ASSIGN(const auto sections,
                       parse_presets("# models\nversion = 1\n\n[*]\nctx-size = 8192\r\n"
                                     "; one\n[ coder ]\n  model=a b.gguf  \n temp = 0.2\nflag =\n"));
  ASSERT_EQ(sections.size(), 2u);
  EXPECT_EQ(sections[0].name, "*");
  EXPECT_EQ(sections[0].settings[0].key, "ctx-size");
  EXPECT_EQ(sections[0].settings[0].value, "8192");
  EXPECT_EQ(sections[1].name, "coder");
  EXPECT_EQ(sections[1].line, 7u);
  ASSERT_EQ(sections[1].settings.size(), 3u);
  EXPECT_EQ(sections[1].settings[0].value, "a b.gguf");
  EXPECT_EQ(sections[1].settings[1].line, 9u);
  EXPECT_EQ(sections[1].settings[2].value, "");
}

TEST(Presets, MistakesNameTheirLine) {
  const std::pair<std::string, std::string> cases[] = {
      {"version = 2\n", "line 1: version \"2\", want 1"},
      {"\nctx-size = 5\n[a]\n", "line 2: \"ctx-size\": a setting before the first [section]"},
      {"[a]\nmodel\n", "line 2: want KEY = VALUE"},
      {"[a]\n= 5\n", "line 2: no key before the ="},
      {"[a\n", "line 1: the section has no ]"},
      {"[ ]\n", "line 1: the section has no name"},
      {"[a]\n[b]\n[a]\n", "line 3: section [a] is given twice"},
      {"[a]\nc = 1\nc = 2\n", "line 3: \"c\" is given twice"},
      {"[a]\nc = \x01\n", "line 2: a control character"},
      {"[a]\nc = \xFF\n", "line 2: a control character, or bytes that are not UTF-8"},
  };
  for (const auto& [text, message] : cases) {
    const auto sections = parse_presets(text);
    ASSERT_FALSE(sections) << text;
    EXPECT_NE(sections.error().message().find(message), std::string::npos) << sections.error().message();
  }
}

TEST(Presets, SizesHaveLimits) {
  EXPECT_ERROR(parse_presets(std::string(kMaxPresetBytes + 1, '\n')), "want at most");
  EXPECT_OK(parse_presets(std::string(kMaxPresetBytes, '\n')));
  std::string text;
  for (size_t i = 0; i < kMaxPresetSections; ++i) text += "[" + std::to_string(i) + "]\n";
  EXPECT_OK(parse_presets(text));
  EXPECT_ERROR(parse_presets(text + "[one more]\n"), "more than 4096 sections");
}

// --- directories

class Catalog : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(directory); }
  void TearDown() override { std::filesystem::remove_all(directory); }
  void write(const std::string& name, const std::string& text = "x") const {
    const std::filesystem::path path = directory / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  std::string path(const std::string& name) const { return (directory / name).string(); }

  std::filesystem::path directory = temporary_path("catalog");
};

TEST_F(Catalog, ADirectoryGivesOneEntryPerModel) {
  write("b.gguf");
  write("a.GGUF");
  write("notes.txt");
  write("mmproj-b.gguf");
  write("big-00001-of-00002.gguf");
  write("big-00002-of-00002.gguf");
  write("folder/x-00001-of-00002.gguf");
  write("folder/x-00002-of-00002.gguf");
  write("empty/readme.md");
  ASSERT_OK_AND_ASSIGN(const auto entries, list_models(directory.string()));
  std::vector<std::string> names;
  for (const CatalogEntry& entry : entries) names.push_back(entry.name);
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b", "big", "folder"}));
  EXPECT_EQ(entries[2].path, path("big-00001-of-00002.gguf"));
  EXPECT_EQ(entries[3].path, path("folder/x-00001-of-00002.gguf"));
  EXPECT_EQ(entries[0].origin, ModelOrigin::directory);
  EXPECT_ERROR(list_models(path("absent")), "absent");
}

TEST_F(Catalog, SectionsAddSettingsAndModels) {
  write("a.gguf");
  write("presets.ini",
        "[*]\nctx-size = 64\n[a]\ntemp = 0\nload-on-startup = true\n[b]\nmodel = sub/b.gguf\nalias = beta, bb\n"
        "tags = small\n");
  ASSERT_OK_AND_ASSIGN(const auto entries,
                       read_catalog({.directory = directory.string(), .presets = path("presets.ini")}));
  ASSERT_EQ(entries.size(), 2u);
  EXPECT_EQ(entries[0].path, path("a.gguf"));
  EXPECT_TRUE(entries[0].is_loaded_first);
  ASSERT_EQ(entries[0].settings.size(), 2u);
  EXPECT_EQ(entries[0].settings[0].key, "ctx-size");  // of all models, before its own
  EXPECT_EQ(entries[0].settings[1].key, "temp");
  EXPECT_EQ(entries[1].path, path("sub/b.gguf"));
  EXPECT_EQ(entries[1].origin, ModelOrigin::preset);
  EXPECT_EQ(entries[1].aliases, (std::vector<std::string>{"beta", "bb"}));
  EXPECT_EQ(entries[1].tags, (std::vector<std::string>{"small"}));
  EXPECT_EQ(entries[1].settings.size(), 1u);
  EXPECT_FALSE(entries[1].is_loaded_first);
}

// A hidden name leaves out the file that it names, and no other file of that name.
TEST_F(Catalog, NamesOfClientsAddAndHideModels) {
  write("a.gguf");
  write("b.gguf");
  write("c.gguf");
  write("a.json", R"({"tessera_name":1,"file":"a.gguf","hidden":true})");
  write("b.json", R"({"tessera_name":1,"file":"a.gguf","hidden":true})");
  write("d.json", R"({"tessera_name":1,"file":"c.gguf"})");
  write("e.json", R"({"tessera_name":1,"file":"absent.gguf"})");
  ASSERT_OK_AND_ASSIGN(const auto entries, read_catalog({.directory = directory.string()}));
  std::vector<std::pair<std::string, std::string>> models;
  for (const CatalogEntry& entry : entries) models.emplace_back(entry.name, entry.path);
  EXPECT_EQ(models, (std::vector<std::pair<std::string, std::string>>{
                        {"b", path("b.gguf")}, {"c", path("c.gguf")}, {"d", path("c.gguf")}}));
}

TEST_F(Catalog, AModelIsLoadedFirstIfASectionSaysSo) {
  write("a.gguf");
  for (const auto& [value, is_first] :
       {std::pair("1", true), {"true", true}, {"on", true}, {"0", false}, {"off", false}, {"yes", false}}) {
    write("presets.ini", std::string("[a]\nload-on-startup = ") + value + "\n");
    ASSERT_OK_AND_ASSIGN(const auto entries,
                         read_catalog({.directory = directory.string(), .presets = path("presets.ini")}));
    EXPECT_EQ(entries[0].is_loaded_first, is_first) << value;
  }
}

TEST_F(Catalog, ASectionNeedsAModel) {
  write("presets.ini", "[c]\ntemp = 0\n");
  const auto entries = read_catalog({.directory = directory.string(), .presets = path("presets.ini")});
  ASSERT_FALSE(entries);
  EXPECT_EQ(entries.error().code(), ErrorCode::not_found);
  EXPECT_NE(entries.error().message().find("presets.ini: line 1: [c]"), std::string::npos) << entries.error().message();
}

TEST(ModelNames, EndingsAreLeftOutFreely) {
  const CatalogEntry entry{.name = "a", .path = "/models/file-q4.gguf", .aliases = {"other:7b"}};
  for (const char* name : {"a", "a:latest", "a.gguf", "other:7b", "file-q4", "file-q4.gguf:latest"})
    EXPECT_TRUE(is_name_of(entry, name)) << name;
  for (const char* name : {"", "b", "A", "other", "a:7b", "/models/file-q4.gguf"})
    EXPECT_FALSE(is_name_of(entry, name)) << name;
}

// --- the name in a body

TEST(TopLevelText, FindsTheKeyOfTheObjectItself) {
  EXPECT_EQ(find_top_level_text(R"({"a":{"model":"no"},"b":["model"],"model":"yes","c":)", "model"), "yes");
  EXPECT_EQ(find_top_level_text(R"({"model":"\u0041"})", "model"), "A");
  for (const char* text : {R"({"a":"model"})", R"({"model":5})", R"({"model":["x"]})", R"({"model":{"model":"x"}})",
                           R"([{"model":"x"}])", R"("model")", "", "{", R"({"a":{"model":"no"}})"})
    EXPECT_EQ(find_top_level_text(text, "model"), std::nullopt) << text;
}

TEST(TopLevelText, DepthCostsNoStack) {
  const std::string deep = "{\"a\":" + std::string(1 << 20, '[');
  EXPECT_EQ(find_top_level_text(deep, "model"), std::nullopt);
}

TEST(TopLevelTrue, IsTheValueOfTheKeyItself) {
  for (const char* text : {R"({"stream":true})", R"({"a":[true],"b":{"stream":false},"stream":true,"c":)"})
    EXPECT_TRUE(has_top_level_true(text, "stream")) << text;
  for (const char* text : {R"({"stream":false})", R"({"stream":1})", R"({"stream":"true"})", R"({"a":true})",
                           R"({"stream":false,"a":true})", R"({"a":{"stream":true}})", R"([true])", "true", "", "{",
                           R"([{"stream":true}])", R"({"stream":[true]})"})
    EXPECT_FALSE(has_top_level_true(text, "stream")) << text;
}

}  // namespace
}  // namespace tessera::server
