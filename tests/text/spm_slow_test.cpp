// Ten megabytes of one thing: time stays near linear, and the text comes back.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>

#include "tessera/text/detokenize.h"
#include "tessera/text/utf8.h"
#include "tests/support/testing.h"
#include "tests/support/vocab_from_gguf.h"

namespace tessera::text {
namespace {

constexpr size_t kNBytes = 10'000'000;

TEST(SpmSlow, TenMegabytesOfAnyByteTakeSeconds) {
  TESSERA_SHARED_OR_SKIP(vocab_path, "vocab/phi-3.gguf");
  ASSERT_OK_AND_ASSIGN(const auto tokenizer, testing::tokenizer_from_gguf(vocab_path));
  for (const std::string unit : {"A", "\n", " ", ".", "<", "\xF0\x9F\x98\x80", "\xE2\x80\x8D", "\xCC\x81", "\x80",
                                 "\xF0", "\xC0\xAF", "<|end|>", "the cat. "}) {
    std::string text;
    while (text.size() < kNBytes) text += unit;
    const auto start = std::chrono::steady_clock::now();
    const auto tokens = tokenizer->tokenize(text);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    std::printf("%-12s %5.2f s, %zu tokens\n", quote_text(unit).c_str(), seconds, tokens->size());
    // Measured 0.1 to 7 s on a busy core; anything quadratic takes hours.
    EXPECT_LT(seconds, 60) << quote_text(unit);
    EXPECT_TRUE(detokenize(*tokenizer, *tokens).value() == text) << quote_text(unit);
  }
}

}  // namespace
}  // namespace tessera::text
