// Conversations as users edit them.
#include "tessera/cli/conversation.h"

#include <gtest/gtest.h>

namespace tessera::cli {
namespace {

const text::ToolCall kRain = {.name = "rain", .arguments = R"({"day": "Monday"})", .id = "a1"};
const text::ToolCall kWind = {.name = "wind", .arguments = "{}", .id = "a2"};

Conversation with_calls() {
  Conversation conversation;
  conversation.add("How is the weather?");
  conversation.messages.push_back({.role = "assistant", .content = "I look.", .calls = {kRain, kWind}});
  return conversation;
}

TEST(Conversation, TheSystemMessageComesFirst) {
  Conversation conversation;
  conversation.add("Hello");
  EXPECT_EQ(conversation.with_system().size(), 1u);
  conversation.system = "Be kind.";
  const auto all = conversation.with_system();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].role, "system");
  EXPECT_EQ(all[0].content, "Be kind.");
  EXPECT_EQ(all[1].role, "user");
}

TEST(Conversation, LinesAfterCallsAreTheirResultsInOrder) {
  Conversation conversation = with_calls();
  ASSERT_EQ(conversation.open_calls().size(), 2u);
  conversation.add("dry");
  ASSERT_EQ(conversation.open_calls().size(), 1u);
  EXPECT_EQ(conversation.open_calls()[0], kWind);
  conversation.add("calm");
  EXPECT_TRUE(conversation.open_calls().empty());
  EXPECT_EQ(conversation.messages[2].role, "tool");
  EXPECT_EQ(conversation.messages[2].call_id, "a1");
  EXPECT_EQ(conversation.messages[2].content, "dry");
  EXPECT_EQ(conversation.messages[3].call_id, "a2");
  conversation.add("Thanks");
  EXPECT_EQ(conversation.messages[4].role, "user");
  EXPECT_TRUE(conversation.open_calls().empty());
}

TEST(Conversation, CallsOfEarlierAnswersAreClosed) {
  Conversation conversation = with_calls();
  conversation.messages.push_back({.role = "user", .content = "Never mind."});
  EXPECT_TRUE(conversation.open_calls().empty());
  EXPECT_TRUE(Conversation().open_calls().empty());
}

TEST(Conversation, FilesComeWithTheNextMessageInFencesThatTheyDoNotHold) {
  Conversation conversation;
  conversation.attach("a.txt", "one\n");
  conversation.attach("b.md", "```\ncode\n```");
  EXPECT_TRUE(conversation.has_attachments());
  conversation.add("Compare them.");
  EXPECT_FALSE(conversation.has_attachments());
  EXPECT_EQ(conversation.messages[0].content,
            "Compare them.\n\na.txt:\n```\none\n```\n\nb.md:\n````\n```\ncode\n```\n````");
  conversation.attach("c", "");
  conversation.add("");
  EXPECT_EQ(conversation.messages[1].content, "c:\n```\n```");
}

TEST(Conversation, AResultOfACallTakesNoFiles) {
  Conversation conversation = with_calls();
  conversation.attach("a.txt", "one");
  conversation.add("dry");
  EXPECT_EQ(conversation.messages.back().content, "dry");
  EXPECT_TRUE(conversation.has_attachments());
}

TEST(Conversation, UndoRemovesTheLastMessageWithItsAnswerAndResults) {
  Conversation conversation = with_calls();
  conversation.add("dry");
  conversation.add("calm");
  conversation.messages.push_back({.role = "assistant", .content = "Dry and calm."});
  conversation.add("And tomorrow?");
  EXPECT_EQ(conversation.undo(), "And tomorrow?");
  EXPECT_EQ(conversation.messages.size(), 5u);
  EXPECT_EQ(conversation.undo(), "How is the weather?");
  EXPECT_TRUE(conversation.messages.empty());
  EXPECT_EQ(conversation.undo(), std::nullopt);
}

TEST(Conversation, OnlyAnAnswerAtTheEndIsRemoved) {
  Conversation conversation = with_calls();
  conversation.add("dry");
  EXPECT_FALSE(conversation.remove_answer());
  conversation.messages.pop_back();
  EXPECT_TRUE(conversation.remove_answer());
  EXPECT_FALSE(conversation.remove_answer());
  EXPECT_EQ(conversation.messages.size(), 1u);
}

}  // namespace
}  // namespace tessera::cli
