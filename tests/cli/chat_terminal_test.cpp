// tessera chat in a terminal: what a user types, and the screen that follows.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "tests/cli/pty.h"
#include "tests/support/scripted_model.h"

namespace tessera {
namespace {

using namespace testing;

constexpr char kEscape = '\x1b';

class ChatTerminal : public ::testing::Test {
 protected:
  static std::string model_with(const std::vector<ScriptedReply>& replies) {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    return scripted_model(replies, fmt::format("{}.gguf", test->name()));
  }

  void open(const std::string& model, std::vector<std::string> more = {}, std::vector<std::string> env = {},
            int n_rows = 24, int n_columns = 80) {
    home_ = temporary_dir() / "chat_home";
    std::vector<std::string> args = {program_path(), "chat", "-q", "-m", model, "--temp", "0", "-c", "4096", "-t", "1"};
    args.insert(args.end(), more.begin(), more.end());
    env.insert(env.end(), {"TERM=xterm-256color", "HOME=" + home_.string()});
    child_ = std::make_unique<PtyChild>(args, env, n_rows, n_columns);
    ASSERT_TRUE(user().wait_for_text(">>>"));
  }
  PtyUser& user() { return child_->user(); }
  std::string screen() { return child_->screen().text(); }

  /// Types a line and waits for a text on the screen.
  void say(std::string_view line, std::string_view awaited) {
    user().type(std::string(line) + "\r");
    ASSERT_TRUE(user().wait_for_text(awaited)) << line;
  }
  /// Waits until the last row with text is the prompt.
  void wait_for_prompt(std::string_view prompt = ">>>") {
    ASSERT_TRUE(user().wait_for([&](const Screen& screen) {
      const std::string row = screen.row(screen.cursor_row());
      return row.starts_with(prompt) && screen.cursor_column() == static_cast<int>(prompt.size()) + 1;
    }));
  }
  void leave() {
    user().type("/bye\r");
    EXPECT_EQ(child_->wait_for_exit(), 0);
  }

  std::filesystem::path home_;
  std::unique_ptr<PtyChild> child_;
};

TEST_F(ChatTerminal, GreetsAnswersAndLeaves) {
  open(model_with({{{"It is", " **green**."}}, {{"And", " _blue_."}}}));
  EXPECT_TRUE(child_->screen().row(0).starts_with("scripted, ")) << screen();
  EXPECT_NE(child_->screen().row(0).find("context 4096 tokens. /help lists commands."), std::string::npos);
  say("Which colour?", "It is green.");
  say("Only that?", "And blue.");
  wait_for_prompt();
  leave();
}

TEST_F(ChatTerminal, MarkdownIsStyledAndPlainWithoutColours) {
  const std::string model = model_with({{{"It is", " **green**.\n\n# Trees", "\n\n- oak\n", "- pine\n"}}});
  open(model);
  say("Which colour?", "pine");
  wait_for_prompt();
  const Screen& screen = child_->screen();
  ASSERT_TRUE(screen.row(2).starts_with("It is green.")) << screen.text();
  EXPECT_TRUE(screen.cell(2, 6).style.bold);
  EXPECT_FALSE(screen.cell(2, 0).style.bold);
  EXPECT_EQ(screen.cell(1, 0).style.colour, "32");  // the prompt
  leave();
  for (const bool by_flag : {true, false}) {
    open(model, by_flag ? std::vector<std::string>{"--no-color"} : std::vector<std::string>{},
         by_flag ? std::vector<std::string>{} : std::vector<std::string>{"NO_COLOR=1"});
    say("Which colour?", "pine");
    wait_for_prompt();
    leave();
    EXPECT_EQ(user().output().find("\x1b[1m"), std::string::npos);
    EXPECT_EQ(user().output().find("[0;"), std::string::npos);
    EXPECT_EQ(user().output().find("[32m"), std::string::npos);
  }
}

TEST_F(ChatTerminal, ControlCharactersOfTheModelAreShown) {
  open(model_with({{{"a\x1b]52;c;aGk=\x07", "b\x1b[2J",
                     "\xC2\x9B"
                     "31mc"}}}));
  say("Go", "^[]52;c;aGk=^Gb^[[2J<U+009B>31mc");
  wait_for_prompt();
  leave();
  EXPECT_EQ(user().output().find("\x1b]52"), std::string::npos);
}

TEST_F(ChatTerminal, CtrlCStopsAReplyAndKeepsItsText) {
  open(model_with({{{"on ", "and "}, true}, {{"Second."}}}));
  say("Tell me", "on and on and");
  user().type("\x03");
  ASSERT_TRUE(user().wait_for_text("stopped"));
  wait_for_prompt();
  // A reply that was stopped late fills more than the screen.
  say("/show prompt", "<reply1>");
  EXPECT_NE(user().output().find("[assistant] \x1b[4mon and on"), std::string::npos);  // underlined
  say("More", "Second.");
  wait_for_prompt();
  leave();
}

TEST_F(ChatTerminal, EscapeStopsAReplyToo) {
  open(model_with({{{"on ", "and "}, true}}));
  say("Tell me", "on and on and");
  user().type(std::string(1, kEscape));
  ASSERT_TRUE(user().wait_for_text("stopped"));
  wait_for_prompt();
  leave();
}

TEST_F(ChatTerminal, CtrlCTwiceOnAnEmptyLineLeaves) {
  open(model_with({{{"Yes."}}}));
  user().type("a line");
  ASSERT_TRUE(user().wait_for_text(">>> a line"));
  user().type("\x03");
  ASSERT_TRUE(user().wait_for([](const Screen& screen) { return screen.text().find("a line") == std::string::npos; }));
  user().type("\x03");
  ASSERT_TRUE(user().wait_for_text("Ctrl-C again"));
  user().type("\x03");
  EXPECT_EQ(child_->wait_for_exit(), 0);
}

TEST_F(ChatTerminal, CtrlDLeavesAndTheTerminalIsAsBefore) {
  open(model_with({{{"Yes."}}}));
  EXPECT_EQ(child_->modes().c_lflag & ICANON, 0u);
  user().type("\x04");
  EXPECT_EQ(child_->wait_for_exit(), 0);
  EXPECT_NE(child_->modes().c_lflag & ICANON, 0u);
  EXPECT_NE(child_->modes().c_lflag & ECHO, 0u);
}

TEST_F(ChatTerminal, ASignalEndsTheChatAndTheTerminalIsAsBefore) {
  open(model_with({{{"on ", "and "}, true}}));
  say("Tell me", "on and on and");
  child_->send_signal(SIGTERM);
  child_->send_signal(SIGTERM);
  child_->wait_for_exit();
  EXPECT_NE(child_->modes().c_lflag & ECHO, 0u);
}

TEST_F(ChatTerminal, KeysTypedDuringAReplyAreTheNextLine) {
  open(model_with({{{"on ", "and "}, true}, {{"Second."}}}));
  say("Tell me", "on and on and");
  user().type("next");
  user().type("\x03");
  ASSERT_TRUE(user().wait_for_text(">>> next"));
  user().type(" please\r");
  ASSERT_TRUE(user().wait_for_text("Second."));
  leave();
}

TEST_F(ChatTerminal, ReasoningIsDimOrHidden) {
  const std::string model = model_with({{{"<think>", "Hm, let me see.", "</think>", "Four."}}});
  open(model);
  say("2 + 2?", "Four.");
  wait_for_prompt();
  EXPECT_EQ(child_->screen().row(2), "Hm, let me see.") << screen();
  EXPECT_TRUE(child_->screen().cell(2, 0).style.dim);
  EXPECT_EQ(child_->screen().row(4), "Four.");
  EXPECT_FALSE(child_->screen().cell(4, 0).style.dim);
  leave();
  open(model, {"--think", "hide"});
  say("2 + 2?", "Four.");
  wait_for_prompt();
  EXPECT_EQ(screen().find("let me see"), std::string::npos) << screen();
  EXPECT_NE(screen().find("thought for "), std::string::npos) << screen();
  leave();
}

TEST_F(ChatTerminal, ACallIsShownAndTheNextLineIsItsResult) {
  const std::string tools = write_temporary(
      "terminal_tools.json", R"([{"type": "function", "function": {"name": "rain", "parameters": {}}}])");
  open(model_with(
      {{{"I look.", "<tool_call>\n{\"name\": \"rain\", \"arguments\": {\"day\": \"Monday\"}}\n</tool_call>"}},
       {{"It stays dry."}}}));
  say("/tools " + tools, "1 tool");
  say("Rain on Monday?", "rain(day=\"Monday\")");
  wait_for_prompt("rain =");
  say("no rain", "It stays dry.");
  wait_for_prompt();
  say("/show prompt", "\"content\": \"no rain\"");
  leave();
}

TEST_F(ChatTerminal, EditBringsTheLastMessageBackAndRegenReplacesTheAnswer) {
  open(model_with({{{"First."}}, {{"Second."}}}));
  say("one two", "First.");
  wait_for_prompt();
  user().type("/edit\r");
  ASSERT_TRUE(user().wait_for_text(">>> one two"));
  user().type(" three\r");
  ASSERT_TRUE(user().wait_for([](const Screen& screen) {
    const std::string text = screen.text();
    return text.find("First.") != text.rfind("First.");
  }));
  wait_for_prompt();
  say("/show prompt", "[user] one two three\n[assistant] First.\n");
  say("/regen", "[user] one two three");
  say("/undo", "removed: one two three");
  leave();
}

TEST_F(ChatTerminal, ErrorsKeepTheChat) {
  open(model_with({{{"Yes."}}}));
  say("/nonsense", "unknown command /nonsense");
  say("/read /nowhere", "no such file");
  say(std::string(300, 'x'), "Yes.");
  say("/set predict 0", "predict  0");
  leave();
}

TEST_F(ChatTerminal, AMessageMayBeginWithASlash) {
  open(model_with({{{"Yes."}}}));
  say("//etc is a folder", "Yes.");
  wait_for_prompt();
  say("/show prompt", "[user] /etc is a folder");
  leave();
}

TEST_F(ChatTerminal, TextOfSeveralLinesIsOneMessage) {
  open(model_with({{{"Yes."}}}));
  user().type("\x1b[200~first\nsecond\nthird\x1b[201~");
  ASSERT_TRUE(user().wait_for_text("[3 lines]"));
  say("", "Yes.");
  wait_for_prompt();
  say("/show prompt", "[user] first\nsecond\nthird");
  leave();
}

TEST_F(ChatTerminal, HistoryIsKeptForTheNextChat) {
  const std::string model = model_with({{{"Yes."}}});
  std::filesystem::remove_all(temporary_dir() / "chat_home");
  open(model);
  say("remember me", "Yes.");
  wait_for_prompt();
  leave();
  open(model);
  user().type("\x1b[A");  // Up: /bye
  ASSERT_TRUE(user().wait_for_text(">>> /bye"));
  user().type("\x1b[A");
  ASSERT_TRUE(user().wait_for_text(">>> remember me"));
  user().type("\x15");  // Ctrl-U
  leave();
  open(model, {"--no-history"});
  user().type("\x1b[A");
  say("/help set", "/set [NAME [VALUE]]");
  EXPECT_EQ(screen().find("remember me"), std::string::npos);
  leave();
}

TEST_F(ChatTerminal, AnotherWidthLaysTheReplyOutAnew) {
  open(model_with({{{"one two three four five six seven eight nine ten ", "eleven twelve ", "end."}}}), {}, {}, 24, 40);
  say("Count", "end.");
  wait_for_prompt();
  EXPECT_EQ(child_->screen().row(3), "one two three four five six seven eight") << screen();
  user().resize(12, 30);
  say("/help bye", "leave (also Ctrl-D)");
  leave();
}

TEST_F(ChatTerminal, TheSessionFileIsSavedAfterEachReply) {
  const std::string model = model_with({{{"First."}}, {{"Second."}}});
  const std::string file = (temporary_dir() / "terminal_session.json").string();
  std::filesystem::remove(file);
  open(model, {"--session", file});
  say("one", "First.");
  wait_for_prompt();
  leave();
  open(model, {"--session", file});
  say("two", "Second.");
  wait_for_prompt();
  leave();
  EXPECT_NE(read_all(file).find("\"Second.\""), std::string::npos);
}

TEST_F(ChatTerminal, ADumbTerminalGetsNoControlSequences) {
  home_ = temporary_dir() / "chat_home";
  const std::string model = model_with({{{"**bold**", "\x1b[1m"}}});
  child_ = std::make_unique<PtyChild>(
      std::vector<std::string>{program_path(), "chat", "-q", "-m", model, "--temp", "0", "-c", "4096"},
      std::vector<std::string>{"TERM=dumb", "HOME=" + home_.string()});
  ASSERT_TRUE(user().wait_for_text(">>>"));
  say("Go", "**bold**^[[1m");
  user().type("/bye\r");
  EXPECT_EQ(child_->wait_for_exit(), 0);
  EXPECT_EQ(user().output().find(kEscape), std::string::npos);
}

TEST_F(ChatTerminal, ALineTypedDuringAReplyIsReadAfterItOnADumbTerminal) {
  const std::string model = model_with({{{"on ", "and "}, true}});
  child_ = std::make_unique<PtyChild>(
      std::vector<std::string>{program_path(), "chat", "-q", "-m", model, "--temp", "0", "-c", "4096", "-n", "3000"},
      std::vector<std::string>{"TERM=dumb", "HOME=" + (temporary_dir() / "chat_home").string()});
  ASSERT_TRUE(user().wait_for_text(">>>"));
  say("Go", "on and on and");
  user().type("/bye\r");
  EXPECT_EQ(child_->wait_for_exit(), 0);
  EXPECT_NE(user().output().find("stopped after 3000 tokens"), std::string::npos);
}

}  // namespace
}  // namespace tessera
