// Grammars of replies: the reasoning of the families, then the answer.
#include "tessera/text/chat/reply_grammar.h"

#include <gtest/gtest.h>

#include "tessera/text/grammar/matcher.h"

namespace tessera::text {
namespace {

using grammar::Grammar;
using grammar::Matcher;

/// Whether a text is a reply with the answer "[1]"; control tokens are written in their text.
bool is_reply(std::string_view family_name, std::string_view prompt_tail, bool may_reason,
              const std::vector<std::string>& pieces) {
  const auto family = find_reply_family(family_name);
  EXPECT_TRUE(family);
  const std::vector<std::string> controls = {"<|channel|>", "<|message|>", "<|end|>", "<|start|>",
                                             "<|START_RESPONSE|>"};
  std::vector<grammar::MaskVocab::Token> tokens(controls.size());
  for (const std::string& piece : pieces) tokens.push_back({piece});
  const auto find = [&](std::string_view text) -> std::optional<int32_t> {
    const auto found = std::ranges::find(controls, text);
    return found == controls.end() ? std::nullopt : std::optional(static_cast<int32_t>(found - controls.begin()));
  };
  const auto answer = Grammar::from_json_schema(R"({"const": [1]})");
  const auto reply = reply_grammar(*family, {.answer = answer->get()}, prompt_tail, may_reason, find);
  EXPECT_TRUE(reply);
  Matcher matcher(*reply, std::make_shared<const grammar::MaskVocab>(tokens));
  for (size_t i = 0; i < pieces.size(); ++i) {
    const auto control = find(pieces[i]);
    if (!matcher.accept_token(control.value_or(static_cast<int32_t>(controls.size() + i)))) return false;
  }
  return matcher.is_complete();
}

TEST(ReplyGrammar, ReasoningIsFreeAndTheAnswerFollowsTheGrammar) {
  EXPECT_TRUE(is_reply("plain", "", true, {"[1]"}));
  EXPECT_TRUE(is_reply("plain", "", true, {"<think>", "a < b [2]", "</think>\n\n", "[1]"}));
  EXPECT_TRUE(is_reply("plain", "", true, {"<th", "ink></thi", "nk>[1", "]"}));
  EXPECT_FALSE(is_reply("plain", "", true, {"<think>", "</think>", "[2]"}));
  EXPECT_FALSE(is_reply("plain", "", true, {"<think>", "a", "</think>", "</think>", "[1]"}));
  EXPECT_FALSE(is_reply("plain", "", true, {"<think>", "a"}));
  EXPECT_FALSE(is_reply("plain", "", false, {"<think>", "</think>", "[1]"}));
  EXPECT_FALSE(is_reply("plain", "", true, {"Sure: [1]"}));
}

TEST(ReplyGrammar, ThePromptMayHaveBegunTheReasoning) {
  EXPECT_TRUE(is_reply("plain", "<think>\n", true, {"Hm.", "</think>", "[1]"}));
  EXPECT_FALSE(is_reply("plain", "<think>\n", true, {"[1]"}));
  EXPECT_TRUE(is_reply("plain", "<think>\n\n</think>\n\n", false, {"[1]"}));
}

TEST(ReplyGrammar, MarksMayBeControlTokens) {
  EXPECT_TRUE(is_reply("gpt-oss", "<|start|>assistant", true,
                       {"<|channel|>", "analysis", "<|message|>", "Hm.", "<|end|>", "<|start|>", "assistant",
                        "<|channel|>", "final", "<|message|>", "[1]"}));
  EXPECT_TRUE(is_reply("gpt-oss", "<|start|>assistant", false, {"<|channel|>", "final", "<|message|>", "[1]"}));
  EXPECT_FALSE(is_reply("gpt-oss", "<|start|>assistant", true, {"[1]"}));
  EXPECT_TRUE(is_reply("command-r7b", "", false, {"<|START_RESPONSE|>", "[1]"}));
  EXPECT_TRUE(is_reply("command-r7b", "", false, {"[1]"}));
}

}  // namespace
}  // namespace tessera::text
