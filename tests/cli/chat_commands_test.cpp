// The commands of a chat: their effect on the conversation, their texts, completion and hints.
#include "tessera/cli/chat_commands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/cli/chat_support.h"

namespace tessera::cli {
namespace {

using testing::read_all;
using testing::temporary_dir;
using testing::write_temporary;
using Next = CommandResult::Next;

class ChatCommandsTest : public ::testing::Test {
 protected:
  CommandResult run(std::string_view line) {
    Result<CommandResult> result = commands_.run(line);
    EXPECT_OK(result);
    return result.value_or(CommandResult());
  }
  /// Expects an error and no change.
  std::string refusal(std::string_view line) {
    const Conversation before = chat_->conversation;
    const auto changed = chat_->settings.changed().size();
    const Result<CommandResult> result = commands_.run(line);
    EXPECT_FALSE(result) << line;
    EXPECT_EQ(chat_->conversation, before) << line;
    EXPECT_EQ(chat_->settings.changed().size(), changed) << line;
    return result ? "" : result.error().message();
  }
  void talk() {
    chat_->conversation.add("Hello, fox.");
    chat_->conversation.messages.push_back({.role = "assistant", .content = "Good day."});
  }

  std::unique_ptr<Chat> chat_ = testing::open_chat();
  ChatCommands commands_{*chat_, false};
};

TEST_F(ChatCommandsTest, OneSlashBeginsACommandTwoAMessage) {
  EXPECT_TRUE(ChatCommands::is_command("/help"));
  EXPECT_TRUE(ChatCommands::is_command("/"));
  EXPECT_FALSE(ChatCommands::is_command("//help"));
  EXPECT_FALSE(ChatCommands::is_command("help"));
  EXPECT_FALSE(ChatCommands::is_command(""));
}

TEST_F(ChatCommandsTest, HelpListsAllCommandsInEightyColumns) {
  const std::string text = run("/help").text;
  for (const ChatCommandInfo& command : chat_commands())
    EXPECT_NE(text.find(std::string(command.name()) + " "), std::string::npos) << command.name();
  for (size_t begin = 0; begin < text.size(); begin = text.find('\n', begin) + 1)
    EXPECT_LE(text.find('\n', begin) - begin, 80u) << text.substr(begin, 90);
  EXPECT_EQ(run("/?").text, text);
  EXPECT_EQ(run("/help regen").text, "/regen [SEED]\n  replace the last answer by another one\n");
  EXPECT_EQ(run("/help /quit").text.substr(0, 17), "/bye /exit /quit ");
  EXPECT_NE(run("/help keys").text.find("Ctrl-R"), std::string::npos);
  EXPECT_NE(refusal("/help nothing").find("unknown command /nothing"), std::string::npos);
}

TEST_F(ChatCommandsTest, ThePageListsThem) {
  const std::string page = read_all(testing::source_dir() + "/docs/chat.md");
  const size_t begin = page.find("<!-- commands:begin -->"), end = page.find("<!-- commands:end -->");
  ASSERT_LT(begin, end);
  const std::string table = page.substr(begin, end - begin);
  for (const ChatCommandInfo& command : chat_commands()) {
    EXPECT_NE(table.find("| `" + std::string(command.name())), std::string::npos) << command.name();
    EXPECT_NE(table.find(" | " + std::string(command.summary) + " |\n"), std::string::npos) << command.name();
  }
  EXPECT_EQ(std::ranges::count(table, '\n'), static_cast<std::ptrdiff_t>(chat_commands().size()) + 3);
}

TEST_F(ChatCommandsTest, UnknownCommandsNameTheNearestOne) {
  EXPECT_NE(refusal("/hlep").find("did you mean /help?"), std::string::npos);
  EXPECT_NE(refusal("/home/user/a.txt").find("// begins a message"), std::string::npos);
  EXPECT_NE(refusal("/").find("unknown command /"), std::string::npos);
  EXPECT_NE(refusal("/bye now").find("/bye takes no argument"), std::string::npos);
  EXPECT_EQ(refusal("/\x1b[31m").find('\x1b'), std::string::npos);
}

TEST_F(ChatCommandsTest, ByeExitAndQuitLeave) {
  for (const std::string_view line : {"/bye", "/exit", "/quit", "  /bye  "}) EXPECT_EQ(run(line).next, Next::leave);
}

TEST_F(ChatCommandsTest, RegenRemovesTheAnswerAndAsksForAnother) {
  EXPECT_NE(refusal("/regen").find("no answer"), std::string::npos);
  talk();
  EXPECT_NE(refusal("/regen x").find("/regen: "), std::string::npos);
  EXPECT_NE(refusal("/regen -4").find("/regen: "), std::string::npos);
  const CommandResult result = run("/regen 42");
  EXPECT_EQ(result.next, Next::reply);
  EXPECT_EQ(result.seed, 42);
  EXPECT_EQ(chat_->conversation.messages.size(), 1u);
  chat_->conversation.messages.push_back({.role = "assistant", .content = "Good day."});
  EXPECT_TRUE(run("/regen").seed.has_value());
}

TEST_F(ChatCommandsTest, UndoAndEditRemoveTheLastTurn) {
  talk();
  EXPECT_EQ(run("/undo").text, "removed: Hello, fox.\n");
  EXPECT_TRUE(chat_->conversation.messages.empty());
  EXPECT_NE(refusal("/undo").find("no message"), std::string::npos);
  EXPECT_NE(refusal("/edit").find("no message"), std::string::npos);
  talk();
  const CommandResult edited = run("/edit");
  EXPECT_EQ(edited.next, Next::edit);
  EXPECT_EQ(edited.line, "Hello, fox.");
  EXPECT_TRUE(chat_->conversation.messages.empty());
}

TEST_F(ChatCommandsTest, ClearKeepsSystemMessageAndSettings) {
  run("/system Be kind.");
  run("/set temp 0.5");
  talk();
  run("/clear");
  EXPECT_TRUE(chat_->conversation.messages.empty());
  EXPECT_EQ(chat_->conversation.system, "Be kind.");
  EXPECT_EQ(chat_->settings.sampling.params.temp, 0.5f);
}

TEST_F(ChatCommandsTest, SystemSetsAndShowsTheMessage) {
  EXPECT_EQ(run("/system").text, "none\n");
  EXPECT_EQ(run("/system  You are a  pirate. ").text, "set\n");
  EXPECT_EQ(run("/system").text, "You are a  pirate.\n");
}

TEST_F(ChatCommandsTest, SystemSaysWhereATemplateHasNoSystemMessage) {
  chat_ = testing::open_chat("{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% endif %}{% endfor %}");
  ChatCommands commands(*chat_, false);
  const auto result = commands.run("/system Be kind.");
  ASSERT_OK(result);
  EXPECT_NE(result->text.find("no system message"), std::string::npos);
  chat_->conversation.add("Hello");
  EXPECT_EQ(commands.run("/show prompt")->text, "Be kind.\nHello\n");
}

TEST_F(ChatCommandsTest, SetListsShowsAndChanges) {
  EXPECT_NE(run("/set").text.find("top-k "), std::string::npos);
  EXPECT_EQ(run("/set temp 0.25").text.substr(0, 10), "temp  0.25");
  EXPECT_EQ(run("/set temp").text.substr(0, 10), "temp  0.25");
  EXPECT_NE(refusal("/set tmep 1").find("/set: unknown setting \"tmep\", did you mean temp?"), std::string::npos);
  EXPECT_NE(refusal("/set tmep").find("did you mean temp?"), std::string::npos);
  EXPECT_NE(refusal("/set temp x").find("temp"), std::string::npos);
}

TEST_F(ChatCommandsTest, ThinkSwitchesReasoning) {
  EXPECT_NE(run("/think").text.find("auto"), std::string::npos);
  const std::string text = run("/think off").text;
  EXPECT_EQ(chat_->settings.thinking, Thinking::off);
  EXPECT_NE(text.find("cannot switch reasoning"), std::string::npos) << text;
  EXPECT_NE(refusal("/think loudly").find("on, off, hide"), std::string::npos);
}

TEST_F(ChatCommandsTest, ReadAttachesFiles) {
  const std::string one = write_temporary("chat_one.txt", "first"), two = write_temporary("chat two.txt", "second");
  const std::string text = run("/read " + one + " \"" + two + "\"").text;
  EXPECT_NE(text.find("chat_one.txt: 5 bytes, "), std::string::npos) << text;
  EXPECT_NE(text.find("chat two.txt: 6 bytes, "), std::string::npos) << text;
  chat_->conversation.add("Compare.");
  EXPECT_EQ(chat_->conversation.messages[0].content,
            "Compare.\n\n" + one + ":\n```\nfirst\n```\n\n" + two + ":\n```\nsecond\n```");
  run("/read " + (temporary_dir() / "chat_o*.txt").string());
  EXPECT_TRUE(chat_->conversation.has_attachments());
}

TEST_F(ChatCommandsTest, ReadRefusesAllIfOneFileFails) {
  const std::string good = write_temporary("chat_good.txt", "first");
  const std::string binary = write_temporary("chat_bad.bin", std::string("a\0b", 3));
  const std::string large = write_temporary("chat_large.txt", std::string((1 << 20) + 1, 'x'));
  EXPECT_NE(refusal("/read " + good + " " + binary).find("not a text file"), std::string::npos);
  EXPECT_NE(refusal("/read " + good + " " + large).find("1048576"), std::string::npos);
  EXPECT_NE(refusal("/read " + good + " /nowhere/*.txt").find("no such file"), std::string::npos);
  EXPECT_NE(refusal("/read /tmp").find("/tmp"), std::string::npos);
  EXPECT_NE(refusal("/read").find("want a file"), std::string::npos);
  EXPECT_NE(refusal("/read \"a").find("no end"), std::string::npos);
}

TEST_F(ChatCommandsTest, ToolsAreReadFromAFileAndTurnedOff) {
  const std::string path = write_temporary("chat_tools.json", R"([{"function": {"name": "rain", "parameters": {}}}])");
  EXPECT_EQ(run("/tools").text, "0 tools\n");
  EXPECT_EQ(run("/tools " + path).text, "1 tool\n");
  EXPECT_NE(refusal("/tools " + write_temporary("chat_no_tools.json", "{}")).find("not a JSON list"),
            std::string::npos);
  EXPECT_EQ(run("/tools").text, "1 tool\n");
  EXPECT_EQ(run("/tools off").text, "0 tools\n");
}

TEST_F(ChatCommandsTest, ShowsThePromptWithItsTokens) {
  talk();
  chat_->conversation.add("\x1b[31mred");
  const std::string prompt = run("/show prompt").text;
  EXPECT_EQ(prompt, "[user] Hello, fox.\n[assistant] Good day.\n[user] ^[[31mred\n[assistant] \n");
  const std::string tokens = run("/show tokens").text;
  EXPECT_NE(tokens.find(" tokens\n"), std::string::npos);
  EXPECT_EQ(tokens.find('\x1b'), std::string::npos);
  ChatCommands styled(*chat_, true);
  EXPECT_TRUE(styled.run("/show prompt")->text.starts_with("[user] \x1b[4mHello, fox.\x1b[24m\n"));
}

TEST_F(ChatCommandsTest, ShowsModelTemplateMemoryAndStats) {
  EXPECT_NE(run("/show").text.find("context       256 tokens"), std::string::npos) << run("/show").text;
  EXPECT_EQ(run("/show template").text, std::string(testing::kPlainChatTemplate) + "\n");
  EXPECT_NE(run("/show memory").text.find("total"), std::string::npos);
  EXPECT_EQ(run("/show stats").text, "no reply yet\n");
  chat_->conversation.add("Hello");
  ASSERT_OK(chat_->settings.set("predict", "5"));
  ASSERT_OK(chat_->settings.set("ignore-eos", "on"));
  CancelToken none;
  ASSERT_OK(chat_->reply({}, none));
  EXPECT_NE(run("/show stats").text.find("5 new tokens"), std::string::npos);
  EXPECT_NE(refusal("/show all").find("known: info, template"), std::string::npos);
}

TEST_F(ChatCommandsTest, CompletesNamesSettingsSubjectsAndFiles) {
  using List = std::vector<std::string>;
  EXPECT_EQ(commands_.complete("/re"), (List{"/regen ", "/read "}));
  EXPECT_EQ(commands_.complete("/help re"), (List{"regen ", "read "}));
  EXPECT_EQ(commands_.complete("/help k"), (List{"keys "}));
  EXPECT_EQ(commands_.complete("/set top-"), (List{"top-k ", "top-p ", "top-nsigma "}));
  EXPECT_EQ(commands_.complete("/show m"), (List{"memory "}));
  EXPECT_EQ(commands_.complete("/think h"), (List{"hide "}));
  EXPECT_EQ(commands_.complete("hello /re"), List());
  EXPECT_EQ(commands_.complete("//re"), List());
  EXPECT_EQ(commands_.complete("/bye "), List());
  EXPECT_EQ(commands_.complete("/nothing a"), List());
  const std::string path = write_temporary("chat_complete_me.txt", "");
  EXPECT_EQ(commands_.complete("/read x " + path.substr(0, path.size() - 6)), (List{path + " "}));
  std::filesystem::create_directories(temporary_dir() / "chat_complete_folder");
  EXPECT_EQ(commands_.complete("/load " + (temporary_dir() / "chat_complete_f").string()),
            (List{(temporary_dir() / "chat_complete_folder/").string()}));
}

TEST_F(ChatCommandsTest, HintsShowTheArguments) {
  EXPECT_EQ(ChatCommands::hint("/set"), " [NAME [VALUE]]");
  EXPECT_EQ(ChatCommands::hint("/set "), "[NAME [VALUE]]");
  EXPECT_EQ(ChatCommands::hint("/set temp"), "");
  EXPECT_EQ(ChatCommands::hint("/bye"), "");
  EXPECT_EQ(ChatCommands::hint("hello"), "");
}

TEST_F(ChatCommandsTest, ASchemaBindsAnswersUntilItIsOff) {
  EXPECT_EQ(run("/schema").text, "answers are free\n");
  const std::string path = write_temporary("chat_schema.json", R"({"const": [1]})");
  EXPECT_EQ(run("/schema " + path).text, "answers follow a grammar\n");
  EXPECT_NE(refusal("/schema " + write_temporary("chat_bad_schema.json", R"({"type": 1})")).find("json_schema#/type"),
            std::string::npos);
  EXPECT_TRUE(chat_->grammar);
  EXPECT_EQ(run("/schema off").text, "answers are free\n");
  EXPECT_FALSE(chat_->grammar);
}

// --- saved chats

TEST_F(ChatCommandsTest, ASavedChatIsLoadedWithSettingsAndTools) {
  talk();
  run("/system Be kind.");
  run("/set temp 0.5");
  run("/tools " + write_temporary("chat_tools.json", R"([{"name": "rain"}])"));
  chat_->conversation.messages.push_back({.role = "user", .content = "Rain?"});
  chat_->conversation.messages.push_back(
      {.role = "assistant", .reasoning = "Hm.", .calls = {{.name = "rain", .arguments = "{\"a\": 1}", .id = "x"}}});
  chat_->conversation.messages.push_back({.role = "tool", .content = "dry", .call_id = "x"});
  chat_->conversation.messages.push_back({.role = "assistant", .content = "Dr", .is_cut = true});
  const std::string path = (temporary_dir() / "saved_chat.json").string();
  EXPECT_EQ(run("/save " + path).text, "saved 6 messages\n");

  const auto other = testing::open_chat();
  ChatCommands commands(*other, false);
  const auto loaded = commands.run("/load " + path);
  ASSERT_OK(loaded);
  EXPECT_EQ(loaded->text, "6 messages\n");
  EXPECT_EQ(other->conversation, chat_->conversation);
  EXPECT_EQ(other->settings.sampling.params.temp, 0.5f);
  EXPECT_EQ(other->n_tools(), 1u);
}

TEST_F(ChatCommandsTest, AChatOfAnotherModelIsLoadedWithAWarning) {
  const std::string path =
      write_temporary("other_model.json", R"({"model": {"name": "big\u001b", "fingerprint": "1"}, "messages": []})");
  EXPECT_EQ(run("/load " + path).text, "0 messages\nwarning: the chat was held with another model (big^[)\n");
}

TEST_F(ChatCommandsTest, DamagedFilesAreRefusedWithThePlace) {
  talk();
  const auto refused = [&](const std::string& json) {
    return refusal("/load " + write_temporary("damaged_chat.json", json));
  };
  EXPECT_NE(refused("{").find("not JSON"), std::string::npos);
  EXPECT_NE(refused("[]").find("want an object"), std::string::npos);
  EXPECT_NE(refused(R"({"system": 1})").find("system: want a text"), std::string::npos);
  EXPECT_NE(refused(R"({"messages": {}})").find("messages: want a list"), std::string::npos);
  EXPECT_NE(refused(R"({"messages": [3]})").find("messages[0]: want an object"), std::string::npos);
  EXPECT_NE(refused(R"({"messages": [{"role": "system"}]})").find("messages[0].role: want user"), std::string::npos);
  EXPECT_NE(refused(R"({"messages": [{"role": "user", "content": []}]})").find("messages[0].content: want a text"),
            std::string::npos);
  EXPECT_NE(refused(R"({"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": "f"}}]}]})")
                .find("messages[0].tool_calls[0].function.arguments: want"),
            std::string::npos);
  EXPECT_NE(refused(R"({"messages": [{"role": "assistant", "tool_calls": [{"function": 1}]}]})")
                .find("messages[0].tool_calls[0].function: want an object"),
            std::string::npos);
  EXPECT_NE(refused(R"({"messages": [{"role": "user", "cut": 1}]})").find("messages[0].cut: want true"),
            std::string::npos);
  EXPECT_NE(refused(R"({"settings": {"temp": 1}})").find("settings.temp: want a text"), std::string::npos);
  EXPECT_NE(refused(R"({"settings": {"heat": "1"}})").find("settings: unknown setting"), std::string::npos);
  EXPECT_NE(refused(R"({"settings": []})").find("settings: want an object"), std::string::npos);
  EXPECT_NE(refused(R"({"tools": "x"})").find("tools: not a JSON list"), std::string::npos);
  EXPECT_NE(refused(R"({"model": 1})").find("model: want an object"), std::string::npos);
  EXPECT_NE(refused(std::string(2'000'000, '[')).find("not JSON"), std::string::npos);
  EXPECT_NE(refusal("/load /nowhere/a.json").find("/nowhere/a.json"), std::string::npos);
  EXPECT_NE(refusal("/save /nowhere/a.json").find("/nowhere"), std::string::npos);
  EXPECT_NE(refusal("/save").find("want one file"), std::string::npos);
  EXPECT_NE(refusal("/load a b").find("want one file"), std::string::npos);
}

}  // namespace
}  // namespace tessera::cli
