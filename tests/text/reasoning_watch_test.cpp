// The watch over a reply's reasoning finds what ReplyParser finds, in pieces of any length.
#include "tessera/text/chat/reasoning_watch.h"

#include <gtest/gtest.h>

#include "tests/support/testing.h"

namespace tessera::text {
namespace {

ReplyFamily family_of(const char* name) { return find_reply_family(name).value(); }

// Whether the reasoning is open after each byte: "-" or "o".
std::string opens(const ReplyFamily& family, std::string_view tail, std::string_view text, size_t n_bytes = 1) {
  ReasoningWatch watch(family, tail);
  std::string states;
  for (size_t i = 0; i < text.size(); i += n_bytes) {
    const auto piece = text.substr(i, n_bytes);
    watch.feed(piece);
    states.append(piece.size(), watch.is_open() ? 'o' : '-');
  }
  return states;
}

TEST(ReasoningWatch, FollowsTheMarks) {
  const ReplyFamily qwen = family_of("qwen3-coder");
  EXPECT_EQ(opens(qwen, "", " \n<think>ab</think>c<think>d"), "--------oooooooooo----------");
  EXPECT_EQ(opens(qwen, "<think>\n", "a</think>b"), "oooooooo--");
  EXPECT_EQ(opens(qwen, "<think></think>", "<think>a"), "--------");
  EXPECT_EQ(opens(qwen, "", "x<think>a"), "---------");
  EXPECT_EQ(opens(qwen, "", "<thing><think>a"), "---------------");
  EXPECT_EQ(opens(qwen, "", "<think>a</think>", 16), "----------------");
}

TEST(ReasoningWatch, SomeFamiliesReasonAgain) {
  const ReplyFamily harmony = family_of("gpt-oss");
  const std::string begin = harmony.reasoning_begin, end = harmony.reasoning_end;
  ReasoningWatch watch(harmony, "<|start|>assistant");
  EXPECT_FALSE(watch.is_open());
  for (int i = 0; i < 2; ++i) {
    watch.feed(begin + "Hm");
    EXPECT_TRUE(watch.is_open());
    watch.feed(end);
    EXPECT_FALSE(watch.is_open());
    watch.feed("<|start|>assistant");
  }
}

TEST(ReasoningWatch, FamiliesWithoutMarksHaveNone) {
  EXPECT_EQ(opens(family_of("llama-3"), "<think>", "<think>a"), "--------");
}

TEST(ReasoningWatch, KnowsAnIncompleteCodePoint) {
  ReasoningWatch watch(family_of("qwen3-coder"), "<think>");
  watch.feed("a\xE2\x82");
  EXPECT_TRUE(watch.ends_in_code_point());
  watch.feed("\xAC");
  EXPECT_FALSE(watch.ends_in_code_point());
}

}  // namespace
}  // namespace tessera::text
