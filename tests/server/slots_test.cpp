// The slots of a session: which one a sequence gets, the tokens that it finds there, and the room for others.
#include "tests/server/slots_support.h"

#include <limits>

namespace tessera {
namespace {

using namespace testing;
using server::SequenceSpec;
using server::Slot;

class SlotRooms : public SlotsTest {
 protected:
  /// The most tokens of a prompt, with this start, for which there is room.
  int64_t most_tokens(const std::vector<int32_t>& start = {}, bool reuses_cache = true) {
    int64_t n = 0;
    for (int64_t step = 1 << 14; step > 0; step /= 2) {
      std::vector<int32_t> prompt = start;
      prompt.resize(static_cast<size_t>(n + step), 300);
      if (std::ssize(prompt) <= std::ssize(start)) continue;
      const auto sequence = sequence_of(prompt, [&](SequenceSpec& spec) { spec.reuses_cache = reuses_cache; });
      if (slots_->has_room(*sequence)) n += step;
    }
    return n;
  }
};

TEST_F(SlotRooms, AreThoseOfTheBlocks) {
  open();
  ASSERT_EQ(session_->cache().groups().front().n_blocks(), 10);
  EXPECT_EQ(most_tokens(), 639);
  Slot& slot = slots_->assign(sequence_of(tokens(128)));
  EXPECT_EQ(most_tokens(), 511);  // two blocks are promised
  compute(slot, 128);
  EXPECT_EQ(most_tokens(), 511);             // two blocks are taken
  EXPECT_EQ(most_tokens(tokens(128)), 639);  // and shared
  slots_->release(slot);
  EXPECT_EQ(most_tokens(), 639);  // they can go
  EXPECT_EQ(most_tokens(tokens(128)), 639);
  EXPECT_EQ(most_tokens(tokens(128), false), 639);
}

TEST_F(SlotRooms, AHundredthIsLeftForSequencesThatGrow) {
  open("", {.n_ctx = 64 * 200, .n_sequences = 2});
  ASSERT_EQ(session_->cache().groups().front().n_blocks(), 201);
  EXPECT_EQ(most_tokens(), 64 * 199 - 1);
}

TEST_F(SlotsTest, TheOneThatWasNotUsedForTheLongestTimeIsNext) {
  open();
  const auto next = [&] { return slots_->assign(sequence_of(tokens(3))).id; };
  EXPECT_EQ(next(), 0);
  EXPECT_EQ(next(), 1);
  EXPECT_EQ(next(), 2);
  EXPECT_EQ(slots_->n_busy(), 3u);
  EXPECT_FALSE(slots_->has_idle());
  for (const int32_t id : {1, 2, 0}) slots_->release(slots_->at(id));
  EXPECT_TRUE(slots_->has_idle());
  EXPECT_EQ(next(), 1);
  EXPECT_EQ(next(), 2);
  slots_->release(slots_->at(1));
  EXPECT_EQ(slots_->assign(sequence_of(tokens(3), [](SequenceSpec& spec) { spec.slot = 1; })).id, 1);
  EXPECT_EQ(next(), 0);
}

TEST_F(SlotsTest, ASlotThatIsAskedForGivesItsLastTokensOnly) {
  open();
  const auto in_slot = [&](int32_t slot, int64_t n, int64_t first = 0) {
    return run(tokens(n, first), [slot](SequenceSpec& spec) { spec.slot = slot; });
  };
  EXPECT_EQ(in_slot(0, 200), 0);
  EXPECT_EQ(in_slot(1, 200), 0);
  EXPECT_EQ(in_slot(0, 200), 199);
  EXPECT_EQ(in_slot(0, 150), 149);
  EXPECT_EQ(in_slot(0, 200), 150);
  EXPECT_EQ(in_slot(0, 200, 1), 0);
  EXPECT_EQ(in_slot(2, 200), 0);
  EXPECT_EQ(run(tokens(200)), 199);
}

// --- choices with the same prompt

class SlotChoices : public SlotsTest {
 protected:
  static Change same_as(size_t index) {
    return [index](SequenceSpec& spec) { spec.same_prompt_as = index; };
  }
};

TEST_F(SlotChoices, CopyThePromptOfOneThatRuns) {
  open();
  const auto choices = task_of({tokens(100), tokens(100), tokens(100)}, {nullptr, same_as(0), same_as(0)});
  Slot& first = slots_->assign(choices[0]);
  compute(first, 98);
  EXPECT_EQ(slots_->assign(choices[1]).n_computed, 64) << "a token is missing";
  compute(first, 1);
  EXPECT_EQ(slots_->assign(choices[2]).n_computed, 99);
}

TEST_F(SlotChoices, CopyNoOtherPrompt) {
  open("", {.n_ctx = 512, .n_sequences = 4});
  const auto choices = task_of({tokens(70), tokens(100, 1), tokens(100, 1)}, {nullptr, nullptr, same_as(1)});
  compute(slots_->assign(sequence_of(tokens(70))), 70);
  compute(slots_->assign(choices[0]), 6);
  compute(slots_->assign(choices[1]), 100);
  EXPECT_EQ(slots_->assign(choices[2]).n_computed, 99);
}

TEST_F(SlotChoices, CopyNothingFromASlotThatIsRead) {
  open();
  const auto choices = task_of({tokens(100), tokens(100)}, {nullptr, same_as(0)});
  Slot& first = slots_->assign(choices[0]);
  compute(first, 100);
  first.is_restoring = true;
  EXPECT_EQ(slots_->assign(choices[1]).n_computed, 64);
}

TEST_F(SlotChoices, OfOneTokenHaveNothingToCopy) {
  open();
  const auto choices = task_of({tokens(1), tokens(1)}, {nullptr, same_as(0)});
  compute(slots_->assign(choices[0]), 1);
  EXPECT_EQ(slots_->assign(choices[1]).n_computed, 0);
}

TEST_F(SlotChoices, OfRecurrentModelsHaveNothingToCopy) {
  open("mamba-dense", {.n_ctx = 512, .n_sequences = 3, .n_cache_marks = 4});
  const auto choices = task_of({tokens(100), tokens(100)}, {nullptr, same_as(0)});
  Slot& first = slots_->assign(choices[0]);
  compute(first, 100);
  Slot& second = slots_->assign(choices[1]);
  EXPECT_EQ(second.n_computed, 99) << "the mark at the end of the prompt";
}

// --- chunks at other places

class SlotChunks : public SlotsTest {
 protected:
  using Tokens = std::vector<int32_t>;
  static Tokens join(const std::vector<Tokens>& parts) {
    Tokens all;
    for (const Tokens& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  }
  void run_in(int32_t slot, const Tokens& prompt, const std::string& salt = "") {
    run(prompt, [&](SequenceSpec& spec) {
      spec.slot = slot;
      spec.cache_salt = salt;
    });
  }
  /// The tokens that a prompt finds if chunks of at least 16 tokens may move. slot: the one that it asks for.
  int64_t found(const Tokens& prompt, int32_t slot = -1, int64_t n_cache_reuse = 16) {
    Slot& used = slots_->assign(sequence_of(prompt, [&](SequenceSpec& spec) {
      spec.n_cache_reuse = n_cache_reuse;
      spec.slot = slot;
    }));
    const int64_t n = used.n_computed;
    is_moved_ = !used.sequence->shares_cache();
    slots_->release(used);
    return n;
  }

  const Tokens start_ = tokens(70), chunk_ = tokens(50, 1), junk_ = tokens(20, 2), other_ = tokens(90, 3);
  const Tokens source_ = join({start_, junk_, chunk_}), prompt_ = join({start_, chunk_, other_});
  bool is_moved_ = false;
};

TEST_F(SlotChunks, MoveBehindTheCommonStart) {
  open();
  run_in(0, source_);
  EXPECT_EQ(found(prompt_), 120);
  EXPECT_TRUE(is_moved_);
}

TEST_F(SlotChunks, TheLastTokenIsAlwaysComputed) {
  open();
  run_in(0, source_);
  EXPECT_EQ(found(join({start_, chunk_})), 119);
}

TEST_F(SlotChunks, MoveOnlyIfThatIsAskedFor) {
  open();
  run_in(0, source_);
  EXPECT_EQ(found(prompt_, -1, 0), 70);
  EXPECT_FALSE(is_moved_);
  const Change is_scored = [](SequenceSpec& spec) {
    spec.n_cache_reuse = 16;
    spec.n_prompt_probs = 0;
  };
  EXPECT_EQ(slots_->assign(sequence_of(prompt_, is_scored)).n_computed, 0);
}

TEST_F(SlotChunks, ComeFromTheSlotWithTheLongestStart) {
  open();
  run_in(0, source_);
  run_in(1, other_);
  EXPECT_EQ(found(prompt_), 120);
  open();
  run_in(1, source_);
  run_in(0, other_);
  EXPECT_EQ(found(prompt_), 120);
}

TEST_F(SlotChunks, OfEqualOnesComeFromTheLatest) {
  for (const int32_t later : {0, 1}) {
    open();
    run_in(1 - later, join({start_, junk_, other_}));
    run_in(later, source_);
    EXPECT_EQ(found(prompt_), 120) << later;
  }
}

TEST_F(SlotChunks, ComeFromTheSlotThatIsAskedFor) {
  open();
  run_in(1, source_);
  EXPECT_EQ(found(prompt_, 0), 0);
  EXPECT_EQ(found(prompt_, 2), 0);
  EXPECT_EQ(found(prompt_, 1), 120);
}

TEST_F(SlotChunks, OfAnotherSaltStayThere) {
  open();
  run_in(0, source_, "salt");
  EXPECT_EQ(found(prompt_), 0);
}

TEST_F(SlotChunks, ThatAreInTheCacheDoNotMove) {
  open();
  run_in(0, join({start_, chunk_}));
  run_in(0, other_);
  run_in(1, source_);
  EXPECT_EQ(found(prompt_), 120);
  EXPECT_FALSE(is_moved_);
}

TEST_F(SlotChunks, OfModelsWithMarksDoNotMove) {
  open("gemma2-dense", {.n_ctx = 512, .n_sequences = 3, .n_cache_marks = 4});
  run_in(0, source_);
  EXPECT_EQ(found(prompt_), 0);
  EXPECT_FALSE(is_moved_);
}

TEST_F(SlotsTest, SequencesThatDoNotShareLeaveNothing) {
  open();
  Slot& slot = slots_->assign(sequence_of(tokens(130), [](SequenceSpec& spec) { spec.reuses_cache = false; }));
  compute(slot, 130);
  EXPECT_TRUE(slots_->blocks_of(tokens(130), {}).empty());
  slots_->release(slot);
  EXPECT_TRUE(slots_->blocks_of(tokens(130), {}).empty());
  EXPECT_TRUE(slot.last_tokens.empty());
}

// --- marks

TEST_F(SlotsTest, MarksAreAtTheEndOfThePromptAndEvery8192Tokens) {
  open("gemma2-dense", {.n_ctx = 20'000, .n_sequences = 1, .n_cache_marks = 4});
  Slot& slot = slots_->assign(sequence_of(tokens(20'000)));
  const auto to_mark = [&](int64_t n_computed) {
    slot.n_computed = n_computed;
    return slots_->tokens_to_mark(slot);
  };
  EXPECT_EQ(to_mark(0), 8192);
  EXPECT_EQ(to_mark(8191), 1);
  EXPECT_EQ(to_mark(8192), 8192);
  EXPECT_EQ(to_mark(16'384), 19'999 - 16'384);
  EXPECT_EQ(to_mark(19'998), 1);
  EXPECT_EQ(to_mark(19'999), 24'576 - 19'999);
  slot.n_computed = 0;
  open();
  Slot& other = slots_->assign(sequence_of(tokens(100)));
  EXPECT_EQ(slots_->tokens_to_mark(other), std::numeric_limits<int64_t>::max());
}

TEST_F(SlotsTest, AMarkIsKeptAtTheEndOfThePromptOnly) {
  open("gemma2-dense", {.n_ctx = 512, .n_sequences = 2, .n_cache_marks = 4});
  compute(slots_->assign(sequence_of(tokens(100))), 98);
  EXPECT_EQ(slots_->marks_of(tokens(100), {}), std::vector<int32_t>{});
  compute(slots_->at(0), 1);
  EXPECT_EQ(slots_->marks_of(tokens(100), {}), std::vector<int32_t>{99});
  compute(slots_->at(0), 1);
  EXPECT_EQ(slots_->marks_of(tokens(100), {}), std::vector<int32_t>{99});
  slots_->release(slots_->at(0));
  EXPECT_EQ(slots_->marks_of(tokens(100), {}), (std::vector<int32_t>{99, 100}));
}

TEST_F(SlotsTest, BlocksAreSharedAsSoonAsTheyAreFull) {
  open();
  Slot& slot = slots_->assign(sequence_of(tokens(130)));
  const auto n_blocks = [&] { return slots_->blocks_of(tokens(130), {}).size(); };
  compute(slot, 63);
  EXPECT_EQ(n_blocks(), 0u);
  compute(slot, 1);
  EXPECT_EQ(n_blocks(), 1u);
  compute(slot, 63);
  EXPECT_EQ(n_blocks(), 1u);
  compute(slot, 2);
  EXPECT_EQ(n_blocks(), 2u);
}

// --- facts of a slot, and saved slots

TEST_F(SlotsTest, TheLastSequenceOfASlotIsKnown) {
  open();
  Slot& slot = slots_->assign(sequence_of(tokens(100)));
  EXPECT_FALSE(slot.past.has_value());
  compute(slot, 30);
  EXPECT_EQ(past_of(slot).n_prompt_computed, 30);
  EXPECT_EQ(past_of(slot).n_prompt, 100);
  slots_->release(slot);
  ASSERT_TRUE(slot.past.has_value());
  EXPECT_EQ(slot.past->n_prompt_computed, 30);
  EXPECT_EQ(slot.past->client, "c");
  EXPECT_TRUE(slot.is_idle());
  EXPECT_EQ(slot.n_pending(), 0);
  EXPECT_EQ(std::ssize(slot.last_tokens), 30);
}

TEST_F(SlotsTest, AStateIsThatOfItsTokens) {
  open();
  run(tokens(100));
  ASSERT_OK_AND_ASSIGN(server::Slots::State state, slots_->save(slots_->at(0)));
  EXPECT_EQ(state.tokens, tokens(100));
  open();
  server::Slots::State shorter = state;
  shorter.tokens.pop_back();
  EXPECT_ERROR(slots_->restore(slots_->at(1), shorter, {}), "not of the 99 tokens");
  EXPECT_EQ(slots_->cache().counters().n_blocks, 0);
  EXPECT_TRUE(slots_->at(1).last_tokens.empty());
  ASSERT_OK(slots_->restore(slots_->at(1), state, {}));
  EXPECT_EQ(slots_->at(1).last_tokens, tokens(100));
  EXPECT_EQ(run(tokens(101)), 100);
}

TEST_F(SlotsTest, AStateMakesRoomForItself) {
  open();
  run(tokens(300));
  ASSERT_OK_AND_ASSIGN(const server::Slots::State state, slots_->save(slots_->at(0)));
  open();
  run(tokens(330, 1));  // with this the cache has two free blocks
  ASSERT_OK(slots_->restore(slots_->at(1), state, {}));
  EXPECT_EQ(run(tokens(301)), 300);
}

TEST_F(SlotsTest, AnEmptiedCacheHoldsNothing) {
  open();
  run(tokens(100));
  Slot& busy = slots_->assign(sequence_of(tokens(50, 1)));
  slots_->clear();
  EXPECT_TRUE(slots_->at(0).last_tokens.empty());
  EXPECT_FALSE(busy.is_idle());
  EXPECT_EQ(run(tokens(100)), 0);
}

}  // namespace
}  // namespace tessera
