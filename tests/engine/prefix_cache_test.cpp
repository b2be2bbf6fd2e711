// The prefix cache on sessions of tiny models: what is reused, evicted and refused. prefix_property_test.cpp compares
// the bits of logits.
#include "tessera/engine/prefix_cache.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/support/editable_model.h"
#include "tests/support/engine_support.h"
#include "tests/support/lora_support.h"
#include "tests/support/spec_model.h"
#include "tests/support/tiny_encoder.h"

namespace tessera {
namespace {

using namespace testing;
using Tail = PrefixCache::Tail;

class PrefixCacheTest : public ::testing::Test {
 protected:
  void SetUp() override { open("llama-dense"); }

  void open(const char* model, int64_t n_cache_tokens = 1024, int32_t n_marks = 4, int32_t n_branch_marks = 32) {
    cache_.reset();
    ASSERT_OK_AND_ASSIGN(engine_, load_engine(arch_model(model)));
    ASSERT_OK_AND_ASSIGN(
        session_,
        Session::create(engine_,
                        {.n_ctx = 512, .n_sequences = 3, .n_cache_tokens = n_cache_tokens, .n_cache_marks = n_marks}));
    ASSERT_OK_AND_ASSIGN(cache_, PrefixCache::create(*session_, n_branch_marks));
    text_ = token_ids(*engine_, 512);
  }

  std::span<const int32_t> text(int64_t n) const { return std::span(text_).first(static_cast<size_t>(n)); }
  /// The first n_same tokens of the text, then others. The first of these differs for each seed from 1 on.
  std::vector<int32_t> branch(int64_t n_same, int64_t n, uint32_t seed) const {
    std::vector<int32_t> ids = token_ids(*engine_, n, seed);
    std::copy_n(text_.begin(), n_same, ids.begin());
    const auto n_vocab = static_cast<int32_t>(engine_->model().info().n_vocab);
    if (n > n_same)
      ids[static_cast<size_t>(n_same)] = (text_[static_cast<size_t>(n_same)] + static_cast<int32_t>(seed)) % n_vocab;
    return ids;
  }

  int32_t attach(int32_t sequence, std::span<const int32_t> tokens, const PrefixRoot& root = {}) {
    const PrefixMatch match = cache_->match(root, tokens);
    const auto attached = cache_->attach(sequence, root, tokens);
    EXPECT_OK(attached);
    if (!attached) return -1;
    EXPECT_EQ(attached->n_tokens, match.n_tokens);
    EXPECT_EQ(attached->n_blocks, match.n_blocks);
    EXPECT_EQ(attached->n_idle_blocks, match.n_idle_blocks);
    return attached->n_tokens;
  }
  /// Decodes what the sequence does not store.
  void decode(int32_t sequence, std::span<const int32_t> tokens) {
    const int32_t begin = session_->max_position(sequence).value_or(-1) + 1;
    const Batch batch = Batch::prompt(tokens.subspan(static_cast<size_t>(begin)), begin, sequence);
    ASSERT_OK(cache_->make_room(batch.tokens()));
    ASSERT_OK(session_->decode(batch));
  }
  void leave(int32_t sequence) {
    cache_->drop(sequence);
    ASSERT_OK(session_->remove(sequence, 0, 1 << 20));
  }
  /// A whole request. Returns the number of reused tokens.
  int32_t serve(std::span<const int32_t> tokens, const PrefixRoot& root = {}, Tail tail = Tail::end) {
    const int32_t n_reused = attach(0, tokens, root);
    decode(0, tokens);
    EXPECT_OK(cache_->insert(0, tokens, tail));
    leave(0);
    return n_reused;
  }
  int64_t n_used(size_t group = 0) const { return session_->cache().groups()[group].n_used_blocks(); }
  int64_t n_idle(size_t group = 0) const { return session_->cache().groups()[group].n_idle_blocks(); }

  std::shared_ptr<Engine> engine_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<PrefixCache> cache_;
  std::vector<int32_t> text_;
};

TEST_F(PrefixCacheTest, ReusesToTheTokenButNeverTheLast) {
  EXPECT_EQ(serve(text(200)), 0);
  EXPECT_EQ(n_idle(), 4);
  EXPECT_EQ(serve(text(200)), 199);
  EXPECT_EQ(serve(text(150)), 149);
  EXPECT_EQ(serve(text(128)), 127);
  EXPECT_EQ(serve(text(1)), 0);
  EXPECT_EQ(serve(text(300)), 200);
  EXPECT_EQ(serve(text(300)), 299);
  EXPECT_EQ(serve(branch(100, 180, 7)), 100);
  EXPECT_EQ(serve(branch(100, 180, 7)), 179);
  EXPECT_EQ(serve(branch(5, 6, 8)), 5);
  const PrefixCounters counters = cache_->counters();
  EXPECT_EQ(counters.n_lookups, 10);
  EXPECT_EQ(counters.n_hits, 8);
  EXPECT_EQ(counters.n_tokens_reused, 199 + 149 + 127 + 200 + 299 + 100 + 179 + 5);
  EXPECT_EQ(counters.n_tokens_asked, 200 + 200 + 150 + 128 + 1 + 300 + 300 + 180 + 180 + 6);
  EXPECT_EQ(counters.n_evicted_blocks, 0);
}

TEST_F(PrefixCacheTest, AnEmptyPromptReusesNothing) {
  serve(text(100));
  EXPECT_EQ(attach(0, {}), 0);
  EXPECT_OK(cache_->insert(0, {}, Tail::end));
}

TEST_F(PrefixCacheTest, BlocksEnterWhileASequenceRuns) {
  EXPECT_EQ(attach(0, text(200)), 0);
  decode(0, text(200));
  ASSERT_OK(cache_->insert(0, text(200)));
  EXPECT_EQ(cache_->counters().n_blocks, 3);
  EXPECT_EQ(cache_->counters().n_blocks_in_use, 3);
  EXPECT_EQ(attach(1, text(200)), 192);
  EXPECT_EQ(n_used(), 4);
  EXPECT_EQ(n_idle(), 0);
  leave(0);
  EXPECT_EQ(n_used(), 3);
  EXPECT_EQ(n_idle(), 0);
  leave(1);
  EXPECT_EQ(n_idle(), 3);
  EXPECT_EQ(cache_->counters().n_blocks_in_use, 0);
}

TEST_F(PrefixCacheTest, EqualBlocksComputedTwiceAreMerged) {
  attach(0, text(150));
  attach(1, text(150));  // neither finds anything
  decode(0, text(150));
  decode(1, text(150));
  EXPECT_EQ(n_used(), 6);
  ASSERT_OK(cache_->insert(0, text(150)));
  ASSERT_OK(cache_->insert(1, text(150)));
  EXPECT_EQ(n_used(), 4);
  EXPECT_EQ(cache_->counters().n_blocks, 2);
}

TEST_F(PrefixCacheTest, ALongerBlockTakesThePlaceOfItsBeginning) {
  serve(text(70));
  serve(text(90));
  EXPECT_EQ(cache_->counters().n_blocks, 2);
  serve(text(80));
  EXPECT_EQ(cache_->counters().n_blocks, 2);
  serve(text(128));
  EXPECT_EQ(cache_->counters().n_blocks, 2);
  EXPECT_EQ(n_used(), 2);
}

TEST_F(PrefixCacheTest, RootsShareNothing) {
  EXPECT_EQ(serve(text(100)), 0);
  EXPECT_EQ(serve(text(100), {.salt = "a"}), 0);
  EXPECT_EQ(serve(text(100), {.salt = "b"}), 0);
  EXPECT_EQ(serve(text(100), {.salt = "a"}), 99);
  EXPECT_EQ(serve(text(100), {.salt = std::string("a\0", 2)}), 0);
  EXPECT_EQ(cache_->match({.salt = "c"}, text(100)).n_tokens, 0);
}

TEST_F(PrefixCacheTest, AdaptersWithTheirScalesAreARoot) {
  const std::string path = story_model();
  cache_.reset();
  ASSERT_OK_AND_ASSIGN(engine_, load_engine(path));
  std::vector<SessionAdapter> adapters;
  for (const int seed : {1, 2}) {
    const std::string file = write_lora(path, fmt::format("prefix{}.gguf", seed), 4, 8, static_cast<uint64_t>(seed));
    ASSERT_OK_AND_ASSIGN(const auto adapter, Adapter::open_lora(*engine_, file));
    ASSERT_OK(adapter->load());
    adapters.push_back({adapter, 0});
  }
  ASSERT_OK_AND_ASSIGN(session_, Session::create(engine_, {.n_ctx = 512, .adapters = adapters}));
  ASSERT_OK_AND_ASSIGN(cache_, PrefixCache::create(*session_));
  text_ = token_ids(*engine_, 512);
  const auto with = [&](std::vector<AdapterScale> scales) {
    EXPECT_OK(session_->set_adapters(0, scales));
    return serve(text(70), {.adapters = scales});
  };
  EXPECT_EQ(with({}), 0);
  EXPECT_EQ(with({{0, 1.0f}}), 0);
  EXPECT_EQ(with({{0, 0.5f}}), 0);
  EXPECT_EQ(with({{1, 0.5f}}), 0);
  EXPECT_EQ(with({{1, 1.0f}, {0, 0.5f}}), 0);
  EXPECT_EQ(with({{0, 0.5f}, {1, 1.0f}}), 69);
  EXPECT_EQ(with({{0, 3.0f}, {0, 0.5f}, {1, 0.0f}}), 69);  // the last scale of an adapter counts
  EXPECT_ERROR(cache_->attach(0, {}, text(70)), "sequence 0 has other adapters than the root");
  EXPECT_ERROR(cache_->attach(0, {.adapters = {{0, 0.25f}}}, text(70)), "other adapters than the root");
}

TEST_F(PrefixCacheTest, AMatchCountsTheBlocksThatNobodyUses) {
  serve(text(200));
  const PrefixMatch idle = cache_->match({}, text(200));
  EXPECT_EQ(idle.n_blocks, 4);
  EXPECT_EQ(idle.n_idle_blocks, 4);
  attach(1, text(130));
  const PrefixMatch shared = cache_->match({}, text(200));
  EXPECT_EQ(shared.n_tokens, 199);
  EXPECT_EQ(shared.n_blocks, 4);
  EXPECT_EQ(shared.n_idle_blocks, 1);
}

TEST_F(PrefixCacheTest, TheWholeBlocksOfAPathAreKnown) {
  serve(text(200));
  const auto n_blocks = [&](std::span<const int32_t> tokens) { return cache_->blocks_of({}, tokens).size(); };
  EXPECT_EQ(n_blocks(text(300)), 3u);
  EXPECT_EQ(n_blocks(text(192)), 3u);
  EXPECT_EQ(n_blocks(text(191)), 2u);
  EXPECT_EQ(n_blocks(text(64)), 1u);
  EXPECT_EQ(n_blocks(text(63)), 0u);
  EXPECT_EQ(n_blocks({}), 0u);
  EXPECT_EQ(n_blocks(branch(100, 180, 7)), 1u);
  EXPECT_TRUE(cache_->blocks_of({.salt = "other"}, text(200)).empty());
}

TEST_F(PrefixCacheTest, TheMarksOfAPathAreKnown) {
  open("gemma2-dense");
  for (const int64_t n : {90, 100, 128}) serve(text(n));
  using Marks = std::vector<int32_t>;
  EXPECT_EQ(cache_->marks_of({}, text(127)), (Marks{90, 100}));
  EXPECT_EQ(cache_->marks_of({}, text(100)), (Marks{90, 100}));
  EXPECT_EQ(cache_->marks_of({}, text(95)), Marks{90});
  EXPECT_EQ(cache_->marks_of({}, text(90)), Marks{90});
  EXPECT_EQ(cache_->marks_of({}, text(89)), Marks{});
  EXPECT_EQ(cache_->marks_of({}, text(300)), (Marks{90, 100, 128}));
  EXPECT_EQ(cache_->marks_of({.salt = "other"}, text(128)), Marks{});
  for (const int64_t n : {90, 100, 128}) {
    const PrefixCache::HeldMark held = cache_->mark_at({}, text(n));
    ASSERT_NE(held.mark, nullptr) << n;
    EXPECT_EQ(held.mark->n_positions, n);
    EXPECT_GE(held.block, 0) << n;
  }
  for (const int64_t n : {64, 95, 127, 200}) EXPECT_EQ(cache_->mark_at({}, text(n)).mark, nullptr) << n;
  EXPECT_EQ(cache_->mark_at({.salt = "other"}, text(128)).mark, nullptr);
}

TEST_F(PrefixCacheTest, TokensMayBeInsertedAgain) {
  EXPECT_EQ(attach(0, text(128)), 0);
  decode(0, text(128));
  EXPECT_OK(cache_->insert(0, text(128)));
  EXPECT_OK(cache_->insert(0, text(128)));
  EXPECT_ERROR(cache_->insert(0, text(127)), "want at least the 128");
  leave(0);
  cache_.reset();
  EXPECT_OK(PrefixCache::create(*session_, 1));
  EXPECT_ERROR(PrefixCache::create(*session_, 0), "want at least 1");
}

TEST_F(PrefixCacheTest, EvictsTheLeastRecentlyUsedLeaves) {
  open("llama-dense", 0);  // ten blocks
  const auto a = branch(0, 128, 3), b = branch(0, 128, 4), c = branch(0, 128, 5), d = branch(0, 128, 6);
  serve(a);
  serve(b);
  serve(c);
  serve(d);
  serve(a);
  EXPECT_EQ(session_->cache().groups()[0].n_free_blocks(), 2);
  ASSERT_OK(cache_->make_room(std::array<int64_t, 1>{5}));
  EXPECT_EQ(cache_->counters().n_evicted_blocks, 3);
  EXPECT_EQ(cache_->match({}, b).n_tokens, 0);
  EXPECT_EQ(cache_->match({}, c).n_tokens, 64);
  EXPECT_EQ(cache_->match({}, d).n_tokens, 127);
  EXPECT_EQ(cache_->match({}, a).n_tokens, 127);
}

TEST_F(PrefixCacheTest, EvictsNothingInUseAndNothingInVain) {
  open("llama-dense", 0);
  serve(branch(0, 128, 3));
  attach(0, text(300));
  decode(0, text(300));
  ASSERT_OK(cache_->insert(0, text(300)));
  EXPECT_EQ(session_->cache().groups()[0].n_free_blocks(), 3);
  const auto refused = cache_->make_room(std::array<int64_t, 1>{6});
  EXPECT_ERROR(refused, "6 blocks of 64 tokens needed, 3 of 10 free");
  EXPECT_EQ(refused.error().code(), ErrorCode::limit);
  EXPECT_EQ(cache_->counters().n_blocks, 6);
  ASSERT_OK(cache_->make_room(std::array<int64_t, 1>{5}));
  EXPECT_EQ(cache_->counters().n_blocks, 4);
  EXPECT_EQ(cache_->match({}, text(300)).n_tokens, 256);
}

// The cache is full, and the sequence's last block is shared with the cache alone.
TEST_F(PrefixCacheTest, ASharedLastBlockNeedsNoCopyOnceItIsEvicted) {
  open("llama-dense", 0);
  serve(text(500));
  attach(0, text(501));
  EXPECT_EQ(n_used(), 8);
  attach(1, branch(0, 128, 3));
  decode(1, branch(0, 128, 3));
  EXPECT_EQ(n_used(), 10);
  const Batch batch = Batch::prompt(std::span(text_).subspan(500, 1), 500, 0);
  EXPECT_EQ(session_->cache().blocks_to_decode(batch.tokens()), std::vector<int64_t>{1});
  ASSERT_OK(cache_->make_room(batch.tokens()));
  EXPECT_OK(session_->decode(batch));
  EXPECT_EQ(n_used(), 10);
}

TEST_F(PrefixCacheTest, ForksContinueLikeTheirOrigin) {
  attach(0, text(140));
  decode(0, text(140));
  ASSERT_OK(cache_->insert(0, text(140)));
  ASSERT_OK(session_->copy(0, 1, 0, 140));
  ASSERT_OK(cache_->fork(0, 1));
  leave(0);
  EXPECT_EQ(cache_->counters().n_blocks_in_use, 2);
  decode(1, text(200));
  ASSERT_OK(cache_->insert(1, text(200), Tail::end));
  leave(1);
  EXPECT_EQ(serve(text(300)), 200);
  EXPECT_ERROR(cache_->fork(0, 3), "sequence 3");
  ASSERT_OK(cache_->attach(0, {}, text(300)));
  EXPECT_ERROR(cache_->fork(0, 1), "does not store position 255");
  EXPECT_OK(cache_->fork(1, 0));  // of a sequence that is not known
  EXPECT_EQ(cache_->counters().n_blocks_in_use, 0);
}

TEST_F(PrefixCacheTest, ARestoredSequenceEnters) {
  decode(0, text(200));
  ASSERT_OK_AND_ASSIGN(const auto state, session_->save_state(0));
  ASSERT_OK(session_->restore_state(1, state));
  ASSERT_OK(cache_->begin(1, {}));
  ASSERT_OK(cache_->insert(1, text(200), Tail::end));
  ASSERT_OK(cache_->begin(0, {}));
  ASSERT_OK(cache_->insert(0, text(200)));
  EXPECT_EQ(n_used(), 3 + 2);  // the full blocks were merged
  leave(0);
  leave(1);
  EXPECT_EQ(cache_->n_available_blocks(), session_->cache().groups()[0].n_blocks());
  EXPECT_EQ(serve(text(300)), 200);
  EXPECT_ERROR(cache_->begin(3, {}), "sequence 3");
}

TEST_F(PrefixCacheTest, UnknownSequencesAreLeftAlone) {
  decode(0, text(200));
  ASSERT_OK(cache_->insert(0, text(200), Tail::end));
  EXPECT_EQ(cache_->counters().n_blocks, 0);
  cache_->drop(0);
  cache_->drop(7);
  EXPECT_ERROR(cache_->attach(0, {}, text(10)), "sequence 0 has positions already");
  EXPECT_ERROR(cache_->attach(3, {}, text(10)), "sequence 3, want 0 to 2");
  EXPECT_ERROR(cache_->insert(-1, text(10)), "sequence -1");
}

TEST_F(PrefixCacheTest, InsertRefusesTokensThatAreNotStored) {
  attach(0, text(100));
  decode(0, text(100));
  EXPECT_ERROR(cache_->insert(0, text(101)), "101 tokens, but sequence 0 stores fewer");
  EXPECT_ERROR(cache_->insert(0, text(90), Tail::end), "90 tokens, but sequence 0 stores more");
  EXPECT_OK(cache_->insert(0, text(90)));
  EXPECT_ERROR(cache_->insert(0, text(60)), "60 tokens of sequence 0, want at least the 64");
  EXPECT_EQ(cache_->counters().n_blocks, 1);
}

TEST_F(PrefixCacheTest, ClearReleasesEverything) {
  serve(text(200));
  attach(0, text(100));
  decode(0, text(100));
  cache_->clear();
  EXPECT_EQ(cache_->counters().n_blocks, 0);
  EXPECT_EQ(n_idle(), 0);
  EXPECT_EQ(n_used(), 2);
  ASSERT_OK(cache_->insert(0, text(100), Tail::end));  // no longer known
  EXPECT_EQ(cache_->counters().n_blocks, 0);
  leave(0);
  EXPECT_EQ(n_used(), 0);
}

TEST_F(PrefixCacheTest, ADestroyedCacheReleasesItsBlocks) {
  serve(text(200));
  EXPECT_EQ(n_used(), 4);
  cache_.reset();
  EXPECT_EQ(n_used(), 0);
}

TEST_F(PrefixCacheTest, RefusesWhatItCannotServe) {
  EXPECT_ERROR(PrefixCache::create(*session_, 0), "0 marks per branch");
  ASSERT_OK_AND_ASSIGN(const auto encoder, load_engine(TinyEncoder("bert").write("prefix_encoder.gguf")));
  ASSERT_OK_AND_ASSIGN(const auto session, Session::create(encoder, {.n_ctx = 64, .embeddings = true}));
  EXPECT_ERROR(PrefixCache::create(*session), "bert: the start of a sequence cannot be reused");
}

TEST_F(PrefixCacheTest, ItsRoomIsPlanned) {
  const auto bytes = [&](int64_t n_cache_tokens) {
    return Session::plan(*engine_, {.n_ctx = 512, .n_cache_tokens = n_cache_tokens})->bytes(MemoryPart::Kind::cache);
  };
  const size_t block_bytes = session_->cache().groups()[0].block_bytes();
  EXPECT_EQ(bytes(640) - bytes(0), 10 * block_bytes);
  EXPECT_GT(block_bytes, 0u);
  EXPECT_EQ(session_->allocated_memory().bytes(MemoryPart::Kind::cache),
            Session::plan(*engine_, session_->options())->bytes(MemoryPart::Kind::cache));
}

// --- models that need marks

TEST_F(PrefixCacheTest, RecurrentModelsResumeAtMarks) {
  for (const char* model : {"mamba-dense", "lfm2-dense"}) {
    open(model);
    EXPECT_TRUE(session_->needs_marks());
    attach(0, text(300));
    for (const int n : {100, 128, 200}) {
      decode(0, text(n));
      ASSERT_OK(cache_->insert(0, text(n), Tail::mark));
    }
    decode(0, text(250));
    ASSERT_OK(cache_->insert(0, text(250)));
    EXPECT_EQ(cache_->counters().n_marks, 3);
    const auto reused = [&](std::span<const int32_t> tokens) { return cache_->match({}, tokens).n_tokens; };
    EXPECT_EQ(reused(text(300)), 200);
    EXPECT_EQ(reused(text(201)), 200);
    EXPECT_EQ(reused(text(200)), 128);
    EXPECT_EQ(reused(text(128)), 100);
    EXPECT_EQ(reused(text(100)), 0);
    EXPECT_EQ(reused(branch(110, 300, 9)), 100);
    leave(0);
    EXPECT_EQ(cache_->counters().n_blocks, 3 + 2);  // and a part of a block for the marks at 100 and 200
    EXPECT_EQ(serve(branch(110, 300, 9)), 100);
  }
}

TEST_F(PrefixCacheTest, BlocksWithoutAMarkGoWithTheirSequence) {
  open("mamba-dense");
  attach(0, text(300));
  decode(0, text(100));
  ASSERT_OK(cache_->insert(0, text(100), Tail::mark));
  decode(0, text(300));
  ASSERT_OK(cache_->insert(0, text(300)));
  EXPECT_EQ(cache_->counters().n_blocks, 5);
  leave(0);
  EXPECT_EQ(cache_->counters().n_blocks, 2);
  cache_->clear();
  attach(0, text(300));
  decode(0, text(300));
  ASSERT_OK(cache_->insert(0, text(300)));
  leave(0);
  EXPECT_EQ(n_used(), 0);
}

TEST_F(PrefixCacheTest, MarksBeyondTheirRoomReplaceTheLeastRecentlyUsed) {
  open("mamba-dense", 1024, 2);
  serve(branch(0, 100, 3));
  serve(branch(0, 100, 4));
  EXPECT_EQ(serve(branch(0, 120, 3), {}, Tail::open), 100);
  EXPECT_EQ(cache_->counters().n_marks, 2);
  serve(branch(0, 100, 5));
  EXPECT_EQ(cache_->match({}, branch(0, 120, 3)).n_tokens, 100);
  EXPECT_EQ(cache_->match({}, branch(0, 120, 4)).n_tokens, 0);
  EXPECT_EQ(cache_->match({}, branch(0, 120, 5)).n_tokens, 100);
  EXPECT_EQ(cache_->counters().n_marks, 2);
  EXPECT_EQ(cache_->counters().n_evicted_marks, 1);
  open("mamba-dense", 1024, 0);  // without room nothing is kept
  serve(text(100));
  EXPECT_EQ(n_used(), 0);
}

TEST_F(PrefixCacheTest, TheDensestMarksOfABranchGo) {
  open("mamba-dense", 1024, 20, 3);
  attach(0, text(500));
  for (const int n : {50, 100, 110, 300, 310, 320}) {
    decode(0, text(n));
    ASSERT_OK(cache_->insert(0, text(n), Tail::mark));
  }
  // 100 goes for 300, between 50 and 110. Then 50 goes, between 0 and 110, and then 310.
  const auto reused = [&](int64_t n) { return cache_->match({}, text(n)).n_tokens; };
  EXPECT_EQ(reused(400), 320);
  EXPECT_EQ(reused(320), 300);
  EXPECT_EQ(reused(300), 110);
  EXPECT_EQ(reused(110), 0);
  EXPECT_EQ(cache_->counters().n_marks, 3);
  // A later sequence of the branch knows its marks.
  leave(0);
  EXPECT_EQ(attach(0, text(500)), 320);
  decode(0, text(400));
  ASSERT_OK(cache_->insert(0, text(400), Tail::mark));
  EXPECT_EQ(cache_->counters().n_marks, 3);
  EXPECT_EQ(reused(401), 400);
  EXPECT_EQ(reused(400), 300);
}

// The node of the second sequence's mark is where that of an evicted mark of the first one was.
TEST_F(PrefixCacheTest, EvictedMarksOfABranchDoNotCount) {
  open("mamba-dense", 1024, 20, 2);
  attach(0, text(300));
  decode(0, text(50));
  ASSERT_OK(cache_->insert(0, text(50), Tail::mark));
  decode(0, text(60));
  ASSERT_OK(cache_->make_room(std::array<int64_t, 1>{session_->cache().groups()[0].n_free_blocks() + 1}));
  EXPECT_EQ(cache_->counters().n_marks, 0);
  const auto other = branch(0, 50, 1);
  attach(1, other);
  decode(1, std::span(other).first(40));
  ASSERT_OK(cache_->insert(1, std::span(other).first(40), Tail::mark));
  for (const int n : {100, 200}) {
    decode(0, text(n));
    ASSERT_OK(cache_->insert(0, text(n), Tail::mark));
  }
  EXPECT_EQ(cache_->match({}, other).n_tokens, 40);
  EXPECT_EQ(cache_->counters().n_marks, 3);
}

class PrefixWindowTest : public PrefixCacheTest {
 protected:
  void SetUp() override {
    const std::string original = arch_model("gemma2-dense");
    EditableModel model(original);
    model.builder.set("gemma2.attention.sliding_window", uint32_t{30});
    ASSERT_OK_AND_ASSIGN(engine_, load_engine(model.write("prefix_window.gguf")));
    ASSERT_OK_AND_ASSIGN(
        session_,
        Session::create(engine_,
                        {.n_ctx = 2048, .n_ubatch = 64, .n_sequences = 3, .n_cache_tokens = 1024, .n_cache_marks = 2}));
    ASSERT_OK_AND_ASSIGN(cache_, PrefixCache::create(*session_));
    text_ = token_ids(*engine_, 2048);
  }
};

TEST_F(PrefixWindowTest, AMarkKeepsTheBlocksOfItsWindow) {
  attach(0, text(300));
  for (const int n : {100, 200, 256}) {
    decode(0, text(n));
    ASSERT_OK(cache_->insert(0, text(n), Tail::mark));
  }
  leave(0);
  EXPECT_EQ(cache_->counters().n_blocks, 4 + 2);
  EXPECT_EQ(n_idle(0), 4);          // the marks at 100 and 200 are in full blocks
  EXPECT_EQ(n_idle(1), 1 + 2 + 1);  // from 71, from 171 and from 227 on; the block from 192 on was not full at 200
  EXPECT_EQ(attach(0, text(201)), 200);
  EXPECT_EQ(attach(1, text(230)), 200);
  EXPECT_EQ(attach(2, text(300)), 256);
}

TEST_F(PrefixWindowTest, MarksMakeRoomForOtherWindows) {
  const int64_t n_blocks = session_->cache().groups()[1].n_blocks();
  const auto long_text = [&](uint32_t seed) { return branch(0, 150, seed); };
  for (uint32_t seed = 1; seed < 30; ++seed) ASSERT_EQ(serve(long_text(seed)), 0);
  EXPECT_GT(cache_->counters().n_evicted_marks + cache_->counters().n_evicted_blocks, 0);
  ASSERT_OK(cache_->make_room(std::array<int64_t, 2>{0, n_blocks}));
  EXPECT_EQ(cache_->counters().n_marks, 0);
  EXPECT_EQ(n_used(0), 0);  // blocks without a mark are of no use
}

}  // namespace
}  // namespace tessera
