// Parts of prefixes as bytes: another session continues from them with the same bits.
#include <gtest/gtest.h>

#include "tests/support/editable_model.h"
#include "tests/support/engine_support.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;

/// gemma2 with a window that spans several blocks.
std::string wide_window_model() {
  EditableModel model(arch_model("gemma2-dense"));
  model.builder.set("gemma2.attention.sliding_window", uint32_t{150});
  return model.write("wide_window.gguf");
}

class SavedPartTest : public ::testing::Test {
 protected:
  struct Saved {
    SavedPart part{};
    std::vector<std::byte> bytes{};
  };

  void open(const std::string& path, int64_t n_ubatch = 512) {
    ASSERT_OK_AND_ASSIGN(engine_, load_engine(path));
    ASSERT_OK_AND_ASSIGN(session_, Session::create(engine_, {.n_ctx = 512,
                                                             .n_ubatch = n_ubatch,
                                                             .n_sequences = 2,
                                                             .n_outputs = 400,
                                                             .n_cache_tokens = 256,
                                                             .n_cache_marks = 2}));
  }
  /// The whole blocks of sequence 0, which ends at n positions, and the parts of a mark there.
  void save(int32_t n, std::vector<Saved>& saved) {
    const bool needs_marks = session_->needs_marks();
    Mark mark;
    if (needs_marks) {
      ASSERT_OK_AND_ASSIGN(mark, session_->retain_mark(0));
    }
    std::vector<SavedPart> parts;
    for (int64_t block = 0; block < n / 64; ++block) parts.push_back({.logical = block});
    if (needs_marks) std::ranges::copy(session_->parts_of_mark(n), std::back_inserter(parts));
    for (const SavedPart& part : parts) {
      const bool is_block = part.kind == SavedPart::Kind::block;
      int32_t place = session_->place_of(part, mark);
      if (is_block) {
        ASSERT_OK_AND_ASSIGN(place, session_->retain_block(0, part.logical));
      }
      ASSERT_OK_AND_ASSIGN(auto bytes, session_->save_part(part, place));
      ASSERT_OK_AND_ASSIGN(const size_t n_bytes, session_->part_bytes(part));
      EXPECT_EQ(bytes.size(), n_bytes);
      saved.push_back({part, std::move(bytes)});
      if (is_block) session_->release_block(place);
    }
    if (needs_marks) session_->release_mark(mark);
  }
  /// Computes all tokens, and again from parts at n positions: the last logits are the same bits.
  void expect_same_bits(int32_t n) {
    const auto tokens = token_ids(*engine_, n + 20);
    ASSERT_OK_AND_ASSIGN(const auto whole, logits_of(*session_, tokens));
    ASSERT_OK(session_->clear());
    ASSERT_OK(session_->decode(Batch::prompt(std::span(tokens).first(static_cast<size_t>(n)), 0, 0)));
    std::vector<Saved> saved;
    save(n, saved);
    ASSERT_OK(session_->clear());
    // Other numbers where the parts go.
    ASSERT_OK(session_->decode(Batch::prompt(token_ids(*engine_, n + 20, 9), 0, 1)));
    ASSERT_OK(session_->clear());
    ASSERT_OK(session_->cut_for_parts(1, 0));
    for (const auto& [part, bytes] : saved) ASSERT_OK(session_->restore_part(1, part, bytes));
    ASSERT_EQ(session_->max_position(1), n - 1);
    ASSERT_OK(session_->decode(Batch::prompt(std::span(tokens).subspan(static_cast<size_t>(n)), n, 1)));
    const auto n_vocab = static_cast<size_t>(engine_->model().info().n_vocab);
    EXPECT_TRUE(std::ranges::equal(session_->logits(0), std::span(whole).last(n_vocab))) << n;
  }

  std::shared_ptr<Engine> engine_;
  std::unique_ptr<Session> session_;
};

TEST_F(SavedPartTest, BlocksContinueWithTheSameBits) {
  for (const int64_t n_ubatch : {512, 24}) {
    open(story_model(), n_ubatch);
    expect_same_bits(64);
    expect_same_bits(192);
  }
}

TEST_F(SavedPartTest, MarksContinueWithTheSameBits) {
  const std::string wide = wide_window_model();
  for (const std::string& model : {wide, arch_model("gemma2-dense"), arch_model("mamba-dense"),
                                   arch_model("lfm2-dense"), arch_model("jamba-dense")}) {
    SCOPED_TRACE(model);
    open(model, 100);
    for (const int32_t n : {1, 10, 64, 100, 192, 333}) expect_same_bits(n);
  }
}

TEST_F(SavedPartTest, AMarkHasTheRowsThatTheNextTokenSees) {
  open(wide_window_model());
  const auto parts = session_->parts_of_mark(333);  // 333 - 149 = 184 = 2 * 64 + 56
  ASSERT_EQ(parts.size(), 5u);
  EXPECT_EQ(parts[0], (SavedPart{.logical = 5, .end_row = 13}));
  const auto window = SavedPart::Kind::window;
  EXPECT_EQ(parts[1], (SavedPart{.kind = window, .group = 1, .logical = 2, .begin_row = 56, .end_row = 64}));
  EXPECT_EQ(parts[3], (SavedPart{.kind = window, .group = 1, .logical = 4, .begin_row = 0, .end_row = 64}));
  EXPECT_EQ(parts[4], (SavedPart{.kind = window, .group = 1, .logical = 5, .begin_row = 0, .end_row = 13}));
  open(arch_model("mamba-dense"));
  ASSERT_EQ(session_->parts_of_mark(128).size(), 1u);
  EXPECT_EQ(session_->parts_of_mark(128)[0], (SavedPart{.kind = SavedPart::Kind::state, .logical = 1, .end_row = 64}));
}

TEST_F(SavedPartTest, PartsThatDoNotFitAreRefused) {
  open(story_model());
  ASSERT_OK(session_->decode(Batch::prompt(token_ids(*engine_, 5), 0, 1)));
  ASSERT_OK_AND_ASSIGN(const auto before, session_->save_state(1));
  ASSERT_OK_AND_ASSIGN(const size_t n_bytes, session_->part_bytes({}));
  const std::vector<std::byte> saved(n_bytes);
  EXPECT_ERROR(session_->restore_part(1, {}, saved), "sequence 1 ends at 5, want 0");
  EXPECT_ERROR(session_->restore_part(5, {}, saved), "sequence 5");
  EXPECT_ERROR(session_->restore_part(0, {}, std::span(saved).first(n_bytes - 1)), "bytes, want");
  EXPECT_ERROR(session_->cut_for_parts(1, 5), "multiple of 64");
  EXPECT_ERROR(session_->save_part({}, 0), "not retained");
  EXPECT_ERROR(session_->save_part({}, -1), "not retained");
  for (const SavedPart& part : {SavedPart{.logical = 8}, SavedPart{.logical = -1}, SavedPart{.end_row = 0},
                                SavedPart{.end_row = 65}, SavedPart{.begin_row = -1}, SavedPart{.group = 1}})
    EXPECT_ERROR(session_->part_bytes(part), "no such part");
  ASSERT_OK_AND_ASSIGN(const auto after, session_->save_state(1));
  EXPECT_EQ(before, after);
}

TEST_F(SavedPartTest, AStateWithoutItsBlocksIsRefused) {
  open(arch_model("lfm2-dense"));
  const SavedPart state = session_->parts_of_mark(10).back();
  ASSERT_EQ(state.kind, SavedPart::Kind::state);
  ASSERT_OK_AND_ASSIGN(const size_t n_bytes, session_->part_bytes(state));
  EXPECT_ERROR(session_->restore_part(0, state, std::vector<std::byte>(n_bytes)), "ends at 0, want 10");
  EXPECT_ERROR(session_->save_part(state, 0), "no retained state");
  EXPECT_ERROR(session_->save_part(state, -1), "no retained state");
}

}  // namespace
}  // namespace tessera
