// Editing a text in another program.
#include "tessera/cli/external_editor.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tessera/cli/line_editor.h"
#include "tests/cli/fake_terminal.h"
#include "tests/support/testing.h"

namespace tessera::cli {
namespace {

// Sets variables of the environment, and sets them back at the end.
class Environment {
 public:
  Environment(std::initializer_list<std::pair<const char*, std::string>> values) {
    for (const auto& [name, value] : values) {
      const char* old = std::getenv(name);
      old_.emplace_back(name, old == nullptr ? std::nullopt : std::optional<std::string>(old));
      ::setenv(name, value.c_str(), 1);
    }
  }
  ~Environment() {
    for (const auto& [name, value] : old_) value ? ::setenv(name, value->c_str(), 1) : ::unsetenv(name);
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::vector<std::pair<const char*, std::optional<std::string>>> old_;
};

Result<std::string> edited(const std::string& command, std::string_view text) {
  const Environment environment({{"VISUAL", command}});
  testing::FakeTerminal terminal;
  return edit_externally(terminal, text);
}

TEST(ExternalEditor, EditsTheText) {
  EXPECT_EQ(edited("sed -i s/one/two/", "one\nline").value(), "two\nline");
  EXPECT_EQ(edited("true", "same\n").value(), "same");  // editors end the last line
  EXPECT_EQ(edited("sh -c 'printf \"\\377a\" > \"$1\"' x", "").value(),
            "\ufffd"
            "a");
}

TEST(ExternalEditor, KeepsTheTextPrivate) {
  const std::string folder = testing::temporary_path("editor_tmp"), seen = testing::temporary_path("editor_seen");
  std::filesystem::create_directories(folder);
  const Environment environment({{"TMPDIR", folder}});
  const std::string list = "sh -c 'stat -c %a \"$1\" \"$(dirname \"$1\")\" > " + seen + "; touch \"$1~\"' x";
  ASSERT_OK(edited(list, "secret"));
  EXPECT_EQ(testing::read_all(seen), "600\n700\n");
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST(ExternalEditor, ReportsAnEditorThatFails) {
  EXPECT_ERROR(edited("false", "x"), "editor false ended with status 1");
  EXPECT_ERROR(edited("kill -9 $$; true", "x"), "ended by signal 9");
  EXPECT_ERROR(edited("rm", "x"), "cannot open");
  EXPECT_ERROR(edited("truncate -s 9M", "x"), "longer than");
  const Environment environment({{"TMPDIR", "/nowhere"}});
  EXPECT_ERROR(edited("true", "x"), "cannot create a folder");
}

TEST(ExternalEditor, IsNamedByTheEnvironment) {
  const std::string programs = testing::temporary_path("editor_path");
  const auto command = [&](const char* visual, const char* editor) {
    const Environment environment({{"VISUAL", visual}, {"EDITOR", editor}, {"PATH", "/nowhere:" + programs}});
    return external_editor_command();
  };
  EXPECT_EQ(command("code --wait", "vi"), "code --wait");
  EXPECT_EQ(command("", "emacs"), "emacs");
  EXPECT_EQ(command("", ""), "");
  for (const char* program : {"nano", "vi"}) {
    std::filesystem::create_directories(programs);
    std::filesystem::copy_file("/bin/true", programs + "/" + program);
    EXPECT_EQ(command("", ""), program);
  }
}

TEST(ExternalEditor, ChangesTheLineThatIsEdited) {
  const auto line_after = [](const std::string& editor, const std::string& shown) {
    const Environment environment({{"VISUAL", editor}});
    testing::FakeTerminal terminal;
    terminal.type("one\x1b[200~1\r2\x1b[201~\x07").see(shown).type("!\r");
    const LineHistory history;
    return LineEditor(terminal, history).read(">>> ", "... ")->text;
  };
  EXPECT_EQ(line_after("sed -i s/one/two/", ">>> two1\n... 2"), "two1\n2!");
  EXPECT_EQ(line_after("true", ">>> one[2 lines]"), "one1\n2!");
  EXPECT_EQ(line_after("false", ">>> one[2 lines]\n(editor false ended with status 1)"), "one1\n2!");
}

}  // namespace
}  // namespace tessera::cli
