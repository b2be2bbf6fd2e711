#include "tessera/base/tensor_pattern.h"

#include <string>

#include "tests/support/testing.h"

namespace tessera {
namespace {

bool matches(const char* pattern, const char* name) {
  const auto compiled = TensorPattern::compile(pattern);
  EXPECT_OK(compiled);
  return compiled && compiled->matches(name);
}

TEST(TensorPattern, SearchesInTheName) {
  EXPECT_TRUE(matches("attn_v", "blk.0.attn_v.weight"));
  EXPECT_TRUE(matches("ATTN_V", "blk.0.attn_v.weight"));
  EXPECT_FALSE(matches("^attn_v", "blk.0.attn_v.weight"));
  EXPECT_TRUE(matches("^blk\\.(0|1[0-9])\\.ffn_(up|gate)\\.weight$", "blk.17.ffn_gate.weight"));
  EXPECT_FALSE(matches("^blk\\.(0|1[0-9])\\.ffn_(up|gate)\\.weight$", "blk.7.ffn_gate.weight"));
}

TEST(TensorPattern, SpeaksOtherDialects) {
  EXPECT_TRUE(matches("blk\\.\\d+\\.attn", "blk.12.attn_k.weight"));
  EXPECT_FALSE(matches("blk\\.\\d+\\.attn", "blk.x.attn_k.weight"));
  EXPECT_TRUE(matches("blk\\.[\\d]\\.", "blk.7.attn_k.weight"));
  EXPECT_TRUE(matches("(?:attn|ffn)_\\w+", "blk.7.ffn_up.weight"));
  EXPECT_TRUE(matches("a[]]b", "a]b"));
  EXPECT_TRUE(matches("a[]\\d]b", "a5b"));
}

TEST(TensorPattern, WhatIsWrongOrTooCostlyIsRefused) {
  EXPECT_ERROR(TensorPattern::compile("attn_("), "'attn_(' is not a regular expression");
  EXPECT_ERROR(TensorPattern::compile("[a"), "is not a regular expression");
  EXPECT_ERROR(TensorPattern::compile("(?!a)b"), "is not a regular expression");
  EXPECT_ERROR(TensorPattern::compile("(a)\\1"), "reference back");
  EXPECT_ERROR(TensorPattern::compile("((a{1,255}){1,255}){1,255}"), "repetitions multiply to 65025, limit 4096");
  EXPECT_ERROR(TensorPattern::compile("a{99999999999999999999}"), "repetitions");
  EXPECT_ERROR(TensorPattern::compile(std::string(2000, 'a')), "2000 bytes, limit 1024");
  EXPECT_ERROR(TensorPattern::compile(std::string_view("a\0b", 3)), "NUL");
}

}  // namespace
}  // namespace tessera
