// Checks of a model's tokenizer and logits.
#include "tessera/eval/verify_model.h"

#include <gtest/gtest.h>

#include "tests/support/editable_model.h"
#include "tests/support/engine_support.h"

namespace tessera::eval {
namespace {

using namespace testing;

TEST(CheckTokenizer, CountsTextsOrSaysWhyNot) {
  std::string warning;
  ASSERT_OK_AND_ASSIGN(const auto files, ModelFiles::open(story_model()));
  ASSERT_OK_AND_ASSIGN(const auto found, check_tokenizer(*files, warning));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->n_tokens, 512u);
  EXPECT_GT(found->n_round_trips, 250u);
  EXPECT_EQ(warning, "");

  EditableModel edited(story_model());
  edited.builder.set("tokenizer.ggml.model", "of the future");
  ASSERT_OK_AND_ASSIGN(const auto unknown, ModelFiles::open(edited.write("unknown.gguf")));
  ASSERT_OK_AND_ASSIGN(const auto none, check_tokenizer(*unknown, warning));
  EXPECT_FALSE(none.has_value());
  EXPECT_NE(warning.find("the tokenizer is not checked: "), std::string::npos) << warning;

  GgufBuilder builder;
  builder.set("general.architecture", "llama");
  ASSERT_OK_AND_ASSIGN(const auto bytes, gguf_to_bytes(builder, {}));
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  ASSERT_OK_AND_ASSIGN(const auto without, ModelFiles::open(write_temporary("without.gguf", text)));
  warning.clear();
  ASSERT_OK_AND_ASSIGN(const auto nothing, check_tokenizer(*without, warning));
  EXPECT_FALSE(nothing.has_value());
  EXPECT_EQ(warning, "");
}

// The file that `tessera logits` writes, with one number added to the first logit.
std::string reference_file(const Engine& engine, std::span<const int32_t> ids, std::span<const float> logits,
                           float added) {
  const std::array<int32_t, 2> head = {static_cast<int32_t>(ids.size()),
                                       static_cast<int32_t>(engine.model().info().n_vocab)};
  std::vector<float> changed(logits.begin(), logits.end());
  changed[0] += added;
  std::string text(reinterpret_cast<const char*>(head.data()), sizeof head);
  text.append(reinterpret_cast<const char*>(ids.data()), ids.size_bytes());
  return text.append(reinterpret_cast<const char*>(changed.data()), changed.size() * sizeof(float));
}

TEST(CheckLogits, ComparesWithTheLimit) {
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(story_model()));
  const std::vector<int32_t> ids = {1, 5, 9};
  SessionOptions options;
  fit_to_logits(options, ids.size());
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, options));
  std::vector<float> logits;
  const CancelToken never;
  ASSERT_OK(for_each_logits(*session, ids, never, [&](std::span<const float> row) -> Result<> {
    logits.insert(logits.end(), row.begin(), row.end());
    return {};
  }));
  const std::string same = write_temporary("same.logits", reference_file(*engine, ids, logits, 0));
  ASSERT_OK(session->clear());
  ASSERT_OK_AND_ASSIGN(ReferenceLogits reference, ReferenceLogits::open(same));
  EXPECT_EQ(reference.name(), same);
  ASSERT_OK(check_logits(*session, reference, 0.0, never));
  EXPECT_EQ(reference.nmse(), 0.0);

  const std::string other = write_temporary("other.logits", reference_file(*engine, ids, logits, 50));
  ASSERT_OK(session->clear());
  ASSERT_OK_AND_ASSIGN(ReferenceLogits changed, ReferenceLogits::open(other));
  const auto refused = check_logits(*session, changed, 1e-9, never);
  EXPECT_ERROR(refused, other + ": the model's logits differ: normalised mean squared error ");
  EXPECT_ERROR(refused, " at position 0)");
  EXPECT_EQ(refused.error().code(), ErrorCode::mismatch);
}

}  // namespace
}  // namespace tessera::eval
