// Files of logits: the error of others against them, and files that are damaged.
#include "tessera/eval/reference_logits.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tests/gguf/raw_gguf.h"
#include "tests/support/testing.h"

namespace tessera::eval {
namespace {

using testing::bytes_of;
using testing::RawGguf;

std::string logits_of(int32_t n, int32_t n_vocab, std::initializer_list<int32_t> ids,
                      std::initializer_list<float> logits) {
  RawGguf raw;
  raw.number(n).number(n_vocab);
  for (const int32_t id : ids) raw.number(id);
  for (const float logit : logits) raw.number(logit);
  return raw.bytes();
}

Result<ReferenceLogits> parse_logits(const std::string& text) {
  return ReferenceLogits::parse(bytes_of(text), "f.logits");
}

TEST(ReferenceLogits, ErrorIsThatOfAllLogits) {
  const std::string text = logits_of(2, 3, {2, 0}, {1, 2, 2, 0, 0, 4});
  ASSERT_OK_AND_ASSIGN(ReferenceLogits reference, parse_logits(text));
  EXPECT_TRUE(std::ranges::equal(reference.ids(), std::vector<int32_t>{2, 0}));
  EXPECT_EQ(reference.n_vocab(), 3);
  const std::vector<float> first = {1, 2, 3}, second = {0, 2, 4};
  ASSERT_OK(reference.compare_next(first));
  ASSERT_OK(reference.compare_next(second));
  EXPECT_DOUBLE_EQ(reference.nmse(), (1.0 + 4.0) / 25.0);
}

TEST(ReferenceLogits, EqualLogitsGiveZeroAndNansNeverPass) {
  const std::string text = logits_of(1, 2, {1}, {1, -1});
  ASSERT_OK_AND_ASSIGN(ReferenceLogits same, parse_logits(text));
  const std::vector<float> logits = {1, -1}, bad = {std::nanf(""), -2};
  ASSERT_OK(same.compare_next(logits));
  EXPECT_EQ(same.nmse(), 0.0);
  ASSERT_OK_AND_ASSIGN(ReferenceLogits other, parse_logits(text));
  ASSERT_OK(other.compare_next(bad));
  EXPECT_TRUE(std::isnan(other.nmse()));
  EXPECT_TRUE(std::isnan(other.rows()[0].max_difference));  // a later number does not replace it
}

TEST(ReferenceLogits, DamagedFilesAreRefused) {
  const std::string good = logits_of(1, 2, {1}, {1, -1});
  ASSERT_OK(parse_logits(good));
  for (size_t n = 0; n < good.size(); ++n) EXPECT_ERROR(parse_logits(good.substr(0, n)), "f.logits: ");
  EXPECT_ERROR(parse_logits(good + "x"), "21 bytes are not the logits of 1 tokens of a vocabulary of 2");
  for (const int32_t n : {INT32_MAX, 2})
    EXPECT_ERROR(parse_logits(logits_of(n, 2, {1}, {1, -1})), "are not the logits of");
  for (const int32_t n : {INT32_MIN, -1, 0}) {
    EXPECT_ERROR(parse_logits(logits_of(n, 2, {1}, {1, -1})), "no logits of `tessera logits`");
    EXPECT_ERROR(parse_logits(logits_of(1, n, {1}, {1, -1})), "no logits of `tessera logits`");
  }
  EXPECT_ERROR(parse_logits(logits_of(INT32_MAX, INT32_MAX, {1}, {1, -1})), "are not the logits of");
  for (const int32_t id : {-1, 2}) EXPECT_ERROR(parse_logits(logits_of(1, 2, {id}, {1, -1})), "token 0 is ");
}

TEST(ReferenceLogits, OtherVocabulariesAndInfinitiesAreRefused) {
  const std::string text = logits_of(1, 2, {1}, {1, std::numeric_limits<float>::infinity()});
  ASSERT_OK_AND_ASSIGN(ReferenceLogits reference, parse_logits(text));
  const std::vector<float> two(2), three(3);
  EXPECT_ERROR(reference.compare_next(two), "f.logits: logit 1 after token 0 is inf");
  EXPECT_ERROR(reference.compare_next(three), "logits of 2 tokens, the model has 3");
}

}  // namespace
}  // namespace tessera::eval
