// The page of tessera graph in a real browser: it loads without an error, searches, shows and draws.
// TESSERA_UPDATE_DOCS=1 updates the picture in the docs.
#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>

#include "tests/cli/cli_support.h"

namespace tessera {
namespace {

using testing::ProgramOutput;
using testing::read_all;
using testing::run_program;
using testing::temporary_dir;

std::string find_browser() {
  for (const char* path : {"/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"})
    if (std::filesystem::exists(path)) return path;
  return "";
}

struct Page {
  std::string dom, errors;

  /// Returns the attribute data-NAME of the body, which the script sets.
  std::string mark(const std::string& name) const {
    std::smatch found;
    return std::regex_search(dom, found, std::regex("<body[^>]* data-" + name + "=\"([^\"]*)\"")) ? found[1]
                                                                                                  : std::string();
  }
  /// Returns the content of the element with this id.
  std::string element(const std::string& id) const {
    std::smatch found;
    return std::regex_search(dom, found, std::regex("id=\"" + id + "\"[^>]*>([^]*?)</(aside|output|nav|h1)>"))
               ? found[1]
               : std::string();
  }
  bool panel_has(const std::string& name, const std::string& value) const {
    return element("panel").find("<dt>" + name + "</dt><dd>" + value) != std::string::npos;
  }
};

class GraphPage : public ::testing::Test {
 protected:
  void SetUp() override {
    browser_ = find_browser();
    if (browser_.empty()) GTEST_SKIP() << "no chromium";
    make_page(testing::story_model());
  }

  void make_page(const std::string& model) {
    page_ = (temporary_dir() / "page.html").string();
    const ProgramOutput output = run_program({"graph", "-m", model, "-p", "64", "-o", page_, "-q"});
    ASSERT_EQ(output.status, 0) << output.err;
  }

  Page load(const std::string& hash, const std::string& flags = "--dump-dom") const {
    const std::string out = (temporary_dir() / "dom").string(), err = (temporary_dir() / "log").string();
    const std::string command =
        browser_ +
        " --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --disable-background-networking"
        " --enable-logging=stderr --user-data-dir=" +
        (temporary_dir() / "profile").string() + " --window-size=1500,940 " + flags + " 'file://" + page_ + "#" + hash +
        "' >" + out + " 2>" + err;
    EXPECT_EQ(std::system(command.c_str()), 0);
    Page page{.dom = read_all(out), .errors = {}};
    const std::string log = read_all(err);
    const std::regex console("[^\n]*CONSOLE[^\n]*");
    for (std::sregex_iterator i(log.begin(), log.end(), console), end; i != end; ++i)
      page.errors += (*i)[0].str() + "\n";
    return page;
  }

  std::string browser_, page_;
};

TEST_F(GraphPage, DrawsEveryNodeOfTheStep) {
  const Page page = load("");
  EXPECT_EQ(page.errors, "");
  EXPECT_EQ(page.mark("step"), "prefill");
  EXPECT_EQ(page.mark("view"), "graph");
  EXPECT_EQ(page.mark("nodes"), "91");
  EXPECT_EQ(page.mark("slices"), "1");
  EXPECT_NE(page.element("model").find("story.gguf"), std::string::npos);
  EXPECT_TRUE(page.panel_has("nodes", "91 that run"));
  EXPECT_TRUE(page.panel_has("step", "prefill of 64 tokens"));
  // A canvas has no elements, so the script counts the painted boxes.
  EXPECT_EQ(page.mark("painted"), "91");
}

TEST_F(GraphPage, TheOtherStepAndTheOtherViewsShow) {
  for (const char* view : {"memory", "time"}) {
    const Page page = load(std::string("step=1&view=") + view);
    EXPECT_EQ(page.errors, "") << view;
    EXPECT_EQ(page.mark("step"), "decode");
    EXPECT_EQ(page.mark("view"), view);
    EXPECT_TRUE(page.panel_has("step", "decode of 1 token")) << view;
    EXPECT_EQ(page.mark("painted"), std::string(view) == "memory" ? page.mark("values") : "0");
    EXPECT_EQ(page.dom.find("<h2>By operation") != std::string::npos, std::string(view) == "time");
  }
}

TEST_F(GraphPage, SearchFindsByNameOperationAndLayer) {
  EXPECT_EQ(load("q=attention").mark("hits"), "5");
  EXPECT_EQ(load("q=mul_mat%20layer%203").mark("hits"), "7");
}

TEST_F(GraphPage, AClickedNodeTellsWhatItIs) {
  // The script clicks at the node's position and uses the same handlers as a mouse.
  const Page page = load("click=27");
  EXPECT_EQ(page.errors, "");
  EXPECT_EQ(page.mark("node"), "27");
  EXPECT_NE(page.element("panel").find("<h2>paged_attention</h2>"), std::string::npos) << page.element("panel");
  EXPECT_TRUE(page.panel_has("type, shape", "f32 [8, 8, 64]"));
  EXPECT_TRUE(page.panel_has("layer", "0"));
  EXPECT_TRUE(page.panel_has("device", "cpu"));
  EXPECT_TRUE(page.panel_has("bytes", "16384"));
  EXPECT_NE(page.element("panel").find("Shares its bytes with"), std::string::npos);
  EXPECT_EQ(load("fold=1").mark("painted"), "0");
}

TEST_F(GraphPage, NonsenseInTheAddressIsIgnored) {
  const Page page = load("step=9&view=x&node=99999&q=%3Cscript%3E&click=-1");
  EXPECT_EQ(page.errors, "");
  EXPECT_EQ(page.mark("step"), "prefill");
  EXPECT_EQ(page.mark("node"), "-1");
  EXPECT_EQ(page.mark("hits"), "0");
}

TEST_F(GraphPage, ThePictureOfTheDocs) {
  const char* update = std::getenv("TESSERA_UPDATE_DOCS");
  const bool updates = update != nullptr && std::string(update) == "1";
  const std::string path =
      updates ? testing::source_dir() + "/docs/images/graph.png" : (temporary_dir() / "graph.png").string();
  if (updates) std::filesystem::create_directories(testing::source_dir() + "/docs/images");
  load("node=27&fit=1", "--screenshot=" + path);
  const std::string png = read_all(path);
  EXPECT_TRUE(png.starts_with("\x89PNG"));
  EXPECT_GT(png.size(), 40'000u);  // an empty page has 20 kB
  EXPECT_LT(png.size(), 300'000u);
}

}  // namespace
}  // namespace tessera
