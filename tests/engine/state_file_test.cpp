// States in files, and the number of their bytes before they are saved.
#include "tessera/engine/state_file.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/engine_support.h"
#include "tests/support/spec_model.h"
#include "tests/support/tiny_t5.h"

namespace tessera {
namespace {

using namespace testing;

class StateFileTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_OK_AND_ASSIGN(engine_, load_engine(story_model()));
    ASSERT_OK_AND_ASSIGN(session_, Session::create(engine_, {.n_ctx = 128, .n_sequences = 2}));
    ASSERT_OK(session_->decode(Batch::prompt(token_ids(*engine_, 7), 0, 0)));
    ASSERT_OK(session_->decode(Batch::prompt(token_ids(*engine_, 3, 2), 0, 1)));
    ASSERT_OK_AND_ASSIGN(state_, session_->save_state(0));
    path_ = temporary_path("sequence.state");
  }

  std::shared_ptr<Engine> engine_;
  std::unique_ptr<Session> session_;
  std::vector<std::byte> state_;
  std::string path_;
};

TEST_F(StateFileTest, HoldsTheStateAndReplacesAnOlderFile) {
  ASSERT_OK(save_state_file(*session_, 1, path_));
  ASSERT_OK(save_state_file(*session_, 0, path_));
  const std::string bytes = read_all(path_);
  EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(bytes)), state_));
  ASSERT_OK(restore_state_file(*session_, 1, path_));
  ASSERT_OK_AND_ASSIGN(const auto now, session_->save_state(1));
  EXPECT_EQ(now, state_);
}

TEST_F(StateFileTest, LeavesNothingBehindAfterErrors) {
  EXPECT_ERROR(save_state_file(*session_, 2, temporary_path("none.state")), "sequence 2");
  EXPECT_FALSE(std::filesystem::exists(temporary_path("none.state")));
  EXPECT_ERROR(save_state_file(*session_, 0, temporary_path("no/such/folder")), "no/such/folder");
}

TEST_F(StateFileTest, RefusesOtherFilesAndKeepsTheSequence) {
  ASSERT_OK_AND_ASSIGN(const auto other, session_->save_state(1));
  const auto refuse = [&](const std::string& path, const std::string& text, ErrorCode code) {
    const auto restored = restore_state_file(*session_, 1, path);
    EXPECT_ERROR(restored, text);
    if (restored) return;
    EXPECT_EQ(restored.error().code(), code);
    EXPECT_NE(restored.error().message().find(path), std::string::npos);
    ASSERT_OK_AND_ASSIGN(const auto now, session_->save_state(1));
    EXPECT_EQ(now, other);
  };
  refuse(temporary_path("missing.state"), "", ErrorCode::not_found);
  refuse(temporary_dir().string(), "", ErrorCode::io);
  refuse(write_temporary("empty.state", ""), "state: 0 bytes", ErrorCode::format);
  std::string bytes(reinterpret_cast<const char*>(state_.data()), state_.size());
  refuse(write_temporary("cut.state", bytes.substr(0, bytes.size() - 1)), "state: damaged", ErrorCode::format);
  bytes[bytes.size() / 2] ^= 1;
  refuse(write_temporary("damaged.state", bytes), "state: damaged", ErrorCode::format);
  ASSERT_OK_AND_ASSIGN(const uint64_t most, session_->most_state_bytes());
  const std::string large = write_temporary("large.state", "x");
  std::filesystem::resize_file(large, most);
  refuse(large, "state: not a saved state", ErrorCode::format);
  std::filesystem::resize_file(large, most + 1);
  refuse(large, "a state of this session has at most " + std::to_string(most), ErrorCode::limit);
}

// For each kind of memory: the number of bytes is known before, and a full sequence has the most.
void expect_bytes(Session& session, int64_t n_ctx, int32_t n_vocab) {
  for (int32_t n = 0; n < n_ctx; n += n == 0 ? 1 : 7) {
    ASSERT_OK(session.clear());
    if (session.has_encoder()) ASSERT_OK(session.encode(0, std::vector<int32_t>(static_cast<size_t>(n % 5 + 1), 7)));
    std::vector<int32_t> tokens;
    for (int32_t i = 0; i < n; ++i) tokens.push_back(i % n_vocab);
    if (n > 0) ASSERT_OK(session.decode(Batch::prompt(tokens, 0, 0)));
    ASSERT_OK_AND_ASSIGN(const auto state, session.save_state(0));
    ASSERT_OK_AND_ASSIGN(const uint64_t n_bytes, session.state_bytes(0));
    EXPECT_EQ(n_bytes, state.size()) << n << " tokens";
    ASSERT_OK_AND_ASSIGN(const uint64_t most, session.most_state_bytes());
    EXPECT_LE(n_bytes, most);
  }
}

TEST_F(StateFileTest, BytesAreKnownBeforeTheyAreSaved) {
  expect_bytes(*session_, 128, 512);
  EXPECT_ERROR(session_->state_bytes(2), "sequence 2");
  ASSERT_OK(session_->clear());
  std::vector<int32_t> all(128, 5);
  ASSERT_OK(session_->decode(Batch::prompt(all, 0, 0)));
  ASSERT_OK_AND_ASSIGN(const uint64_t n_bytes, session_->state_bytes(0));
  ASSERT_OK_AND_ASSIGN(const uint64_t most, session_->most_state_bytes());
  EXPECT_EQ(n_bytes, most);
}

TEST(StateBytes, HaveWindowsAndRecurrentStates) {
  for (const char* name : {"gemma2-dense", "mamba2-dense", "lfm2-dense"}) {
    SCOPED_TRACE(name);
    ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(arch_model(name)));
    ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, {.n_ctx = 100}));
    expect_bytes(*session, 100, 30);
  }
}

TEST(StateBytes, HaveThePromptOfAnEncoder) {
  TinyT5 tiny("t5");
  ASSERT_OK_AND_ASSIGN(const auto engine, load_engine(tiny.write("t5.gguf")));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(engine, {.n_ctx = 32, .n_sequences = 2}));
  expect_bytes(*session, 32, 30);
  ASSERT_OK(session->clear());
  ASSERT_OK(session->encode(0, std::vector<int32_t>(32, 7)));
  ASSERT_OK(session->decode(Batch::prompt(std::vector<int32_t>(32, 5), 0, 0)));
  ASSERT_OK_AND_ASSIGN(const uint64_t n_bytes, session->state_bytes(0));
  ASSERT_OK_AND_ASSIGN(const uint64_t most, session->most_state_bytes());
  EXPECT_EQ(n_bytes, most);
}

}  // namespace
}  // namespace tessera
