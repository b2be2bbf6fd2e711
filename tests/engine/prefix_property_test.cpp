// Random schedules of a prefix cache: sequences start, run in batches of any mix, pause, fork, end and are preempted,
// in caches so small that blocks and marks are evicted all the time. All logits have the bits of a text that was
// computed at once, a batch for which make_room() succeeds fits, and in the end every block is free.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tessera/base/rng.h"
#include "tessera/engine/prefix_cache.h"
#include "tests/support/editable_model.h"
#include "tests/support/engine_support.h"
#include "tests/support/spec_model.h"

namespace tessera {
namespace {

using namespace testing;

constexpr int32_t kTextTokens = 330;
constexpr int32_t kScheduleSlots = 3;

struct Text {
  std::vector<int32_t> tokens;
  std::vector<float> logits;  // of all tokens, computed at once
};

/// Texts of which most share a beginning with an earlier one.
Result<std::vector<Text>> make_texts(const std::shared_ptr<Engine>& engine, int n) {
  Rng rng(5);
  std::vector<Text> texts;
  TESSERA_ASSIGN(
      const auto session,
      Session::create(engine, {.n_ctx = kTextTokens, .n_outputs = kTextTokens, .threads = {.n_threads = 1}}));
  for (int i = 0; i < n; ++i) {
    Text text{.tokens = token_ids(*engine, kTextTokens, static_cast<uint32_t>(i) + 10), .logits = {}};
    const std::vector<int32_t>& other = texts.empty() ? text.tokens : texts[rng.next_u32() % texts.size()].tokens;
    const std::array<uint32_t, 6> lengths = {0, 5, 64, 100, 128, rng.next_u32() % 300};
    std::copy_n(other.begin(), lengths[rng.next_u32() % lengths.size()], text.tokens.begin());
    TESSERA_TRY(session->clear());
    TESSERA_ASSIGN(text.logits, logits_of(*session, text.tokens));
    texts.push_back(std::move(text));
  }
  return texts;
}

struct ScheduleCounts {
  int64_t n_reused = 0, n_evicted_blocks = 0, n_evicted_marks = 0, n_preempted = 0, n_forked = 0;
};

class PrefixSchedule {
 public:
  PrefixSchedule(const std::shared_ptr<Engine>& engine, const std::vector<Text>& texts, uint64_t seed)
      : texts_(texts), rng_(seed) {
    const int64_t n_ctx = 64 * between(6, 8);
    session_ = Session::create(engine, {.n_ctx = n_ctx,
                                        .n_ubatch = between(0, 1) == 0 ? 64 : 200,
                                        .n_sequences = kScheduleSlots,
                                        .n_outputs = 256,
                                        .n_cache_tokens = 64 * between(0, 5),
                                        .n_cache_marks = between(0, 8),
                                        .threads = {.n_threads = 1}})
                   .value();
    cache_ = PrefixCache::create(*session_, between(1, 4)).value();
    n_vocab_ = static_cast<size_t>(engine->model().info().n_vocab);
  }

  void step() {
    const int32_t s = between(0, kScheduleSlots - 1);
    switch (between(0, 9)) {
      case 0:
      case 1:
        return slots_[static_cast<size_t>(s)].text == nullptr ? begin(s) : run();
      case 2:
        return end(s);
      case 3:
        return fork(s, between(0, kScheduleSlots - 1));
      case 4:
        return insert(s, static_cast<PrefixCache::Tail>(between(0, 2)));
      case 5:
        if (between(0, 9) == 0) cache_->clear();
        return;
      default:
        return run();
    }
  }

  void finish() {
    for (int32_t s = 0; s < kScheduleSlots; ++s) end(s);
    for (const KvGroup& group : session_->cache().groups()) EXPECT_EQ(group.n_idle_blocks(), group.n_used_blocks());
    EXPECT_EQ(cache_->counters().n_blocks_in_use, 0);
    counts_.n_evicted_blocks = cache_->counters().n_evicted_blocks;
    counts_.n_evicted_marks = cache_->counters().n_evicted_marks;
    cache_->clear();
    for (const KvGroup& group : session_->cache().groups()) EXPECT_EQ(group.n_used_blocks(), 0);
    EXPECT_EQ(cache_->counters().n_blocks + cache_->counters().n_marks, 0);
    if (session_->is_recurrent()) {
      EXPECT_EQ(session_->n_free_marks(), session_->options().n_cache_marks);
    }
  }

  const ScheduleCounts& counts() const { return counts_; }

 private:
  struct Slot {
    const Text* text = nullptr;  // null: the slot is free
    int32_t n_done = 0;
  };

  int32_t between(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(rng_.next_u32() % static_cast<uint32_t>(high - low + 1));
  }
  Slot& slot(int32_t s) { return slots_[static_cast<size_t>(s)]; }
  std::span<const int32_t> done_tokens(const Slot& of) const {
    return std::span(of.text->tokens).first(static_cast<size_t>(of.n_done));
  }

  void begin(int32_t s) {
    const Text& text = texts_[rng_.next_u32() % texts_.size()];
    const int32_t n = between(0, 1) == 0 ? kTextTokens : between(1, kTextTokens);
    const auto prompt = std::span(text.tokens).first(static_cast<size_t>(n));
    const PrefixRoot root{.salt = between(0, 5) == 0 ? "other" : ""};
    const PrefixMatch match = cache_->match(root, prompt);
    ASSERT_OK_AND_ASSIGN(const PrefixMatch attached, cache_->attach(s, root, prompt));
    ASSERT_EQ(attached.n_tokens, match.n_tokens);
    ASSERT_LT(attached.n_tokens, std::ssize(prompt));
    ASSERT_EQ(session_->max_position(s).value_or(-1) + 1, attached.n_tokens);
    slot(s) = {.text = &text, .n_done = attached.n_tokens};
    counts_.n_reused += attached.n_tokens;
  }

  void insert(int32_t s, PrefixCache::Tail tail) {
    if (slot(s).text != nullptr) ASSERT_OK(cache_->insert(s, done_tokens(slot(s)), tail));
  }

  void end(int32_t s) {
    if (slot(s).text == nullptr) return;
    if (between(0, 3) > 0) insert(s, PrefixCache::Tail::end);
    cache_->drop(s);
    ASSERT_OK(session_->remove(s, 0, 1 << 20));
    slot(s) = {};
  }

  void fork(int32_t from, int32_t to) {
    if (slot(from).text == nullptr || slot(from).n_done == 0 || slot(to).text != nullptr) return;
    ASSERT_OK(session_->copy(from, to, 0, 1 << 20));
    ASSERT_OK(cache_->fork(from, to));
    slot(to) = slot(from);
    ++counts_.n_forked;
  }

  // Some tokens of some slots. If they do not fit, slots are preempted until they do.
  void run() {
    std::vector<BatchToken> batch;
    for (int32_t s = 0; s < kScheduleSlots; ++s) {
      if (slot(s).text == nullptr || between(0, 3) == 0) continue;
      const int32_t n = between(0, 2) == 0 ? 1 : between(1, 85);
      for (int32_t p = slot(s).n_done; p < std::min(slot(s).n_done + n, kTextTokens); ++p)
        batch.push_back({slot(s).text->tokens[static_cast<size_t>(p)], p, s, true});
    }
    while (!batch.empty() && !cache_->make_room(batch)) {
      const int32_t victim = batch.back().sequence;
      insert(victim, PrefixCache::Tail::end);
      cache_->drop(victim);
      ASSERT_OK(session_->remove(victim, 0, 1 << 20));
      slot(victim) = {};
      std::erase_if(batch, [&](const BatchToken& t) { return t.sequence == victim; });
      ++counts_.n_preempted;
    }
    if (!batch.empty()) decode(batch);
  }

  void decode(const std::vector<BatchToken>& tokens) {
    Batch batch;
    for (const BatchToken& t : tokens) batch.add(t);
    ASSERT_OK(session_->decode(batch));
    for (size_t i = 0; i < tokens.size(); ++i) {
      Slot& of = slot(tokens[i].sequence);
      const auto expected =
          std::span(of.text->logits).subspan(static_cast<size_t>(tokens[i].position) * n_vocab_, n_vocab_);
      ASSERT_TRUE(same_bits(session_->logits(static_cast<int64_t>(i)), expected)) << "position " << tokens[i].position;
      of.n_done = tokens[i].position + 1;
    }
    for (int32_t s = 0; s < kScheduleSlots; ++s)
      if (between(0, 1) == 0) insert(s, between(0, 3) == 0 ? PrefixCache::Tail::mark : PrefixCache::Tail::open);
  }

  const std::vector<Text>& texts_;
  Rng rng_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<PrefixCache> cache_;
  std::array<Slot, kScheduleSlots> slots_;
  size_t n_vocab_ = 0;
  ScheduleCounts counts_;
};

class PrefixSchedules : public ::testing::TestWithParam<const char*> {
 protected:
  // gemma2 with a window of 30 in half of its layers.
  Result<std::shared_ptr<Engine>> load() const {
    if (std::string_view(GetParam()) != "gemma2-window") return load_engine(arch_model(GetParam()));
    const std::string original = arch_model("gemma2-dense");
    EditableModel model(original);
    model.builder.set("gemma2.attention.sliding_window", uint32_t{30});
    return load_engine(model.write("schedule_window.gguf"));
  }
};

INSTANTIATE_TEST_SUITE_P(Models, PrefixSchedules,
                         ::testing::Values("llama-dense", "gemma2-window", "mamba-dense", "lfm2-dense"),
                         [](const auto& instance) {
                           std::string name = instance.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

TEST_P(PrefixSchedules, GiveTheBitsOfTextsComputedAtOnce) {
  ASSERT_OK_AND_ASSIGN(const auto engine, load());
  ASSERT_OK_AND_ASSIGN(const auto texts, make_texts(engine, 6));
  const int n_schedules = all_or_few(100, 10);
  ScheduleCounts sum;
  for (int seed = 0; seed < n_schedules; ++seed) {
    PrefixSchedule schedule(engine, texts, static_cast<uint64_t>(seed));
    for (int i = 0; i < 60 && !HasFailure(); ++i) schedule.step();
    if (!HasFailure()) schedule.finish();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    const ScheduleCounts& counts = schedule.counts();
    sum.n_reused += counts.n_reused;
    sum.n_evicted_blocks += counts.n_evicted_blocks;
    sum.n_evicted_marks += counts.n_evicted_marks;
    sum.n_preempted += counts.n_preempted;
    sum.n_forked += counts.n_forked;
  }
  // The relevant cases occurred.
  const bool needs_marks = std::string_view(GetParam()) != "llama-dense";
  EXPECT_GT(sum.n_reused, 20 * n_schedules);
  EXPECT_GT(sum.n_evicted_blocks, n_schedules);
  EXPECT_GT(sum.n_evicted_marks, needs_marks ? n_schedules : -1);
  EXPECT_GT(sum.n_preempted, n_schedules / 4);
  EXPECT_GT(sum.n_forked, n_schedules / 4);
}

}  // namespace
}  // namespace tessera
