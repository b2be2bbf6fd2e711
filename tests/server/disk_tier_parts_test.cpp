// The disk tier by itself: which parts it writes and reads, and when. The test is the scheduler.
#include <deque>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "tessera/server/run/disk_tier.h"
#include "tests/server/slots_support.h"
#include "tests/support/wait.h"

namespace tessera {
namespace {

using namespace testing;
using namespace server;
namespace fs = std::filesystem;
using std::chrono::milliseconds;

class TierParts : public SlotsTest {
 protected:
  void SetUp() override {
    directory_ = temporary_path("tier_parts");
    fs::remove_all(directory_);
  }
  void TearDown() override {
    storage_.reset();  // its jobs use the tier
    tier_.reset();
  }

  static SessionOptions small_session() { return {.n_ctx = 1024, .n_sequences = 3}; }
  /// Opens a session and a tier with nothing in memory.
  void restart(const std::string& model = "", const SessionOptions& options = small_session()) {
    TearDown();
    commands_.clear();
    restored_.clear();
    open(model, options);
    ASSERT_OK_AND_ASSIGN(storage_, Storage::open({.cache_directory = directory_}));
    tier_ = DiskTier::create(*session_, *slots_, storage_, session_digest(*session_),
                             {.write_delay = milliseconds(100),
                              .post =
                                  [this](std::function<void()> command) {
                                    const std::lock_guard lock(mutex_);
                                    commands_.push_back(std::move(command));
                                  },
                              .on_restored = [this](const Slot& slot) { restored_.push_back(slot.id); },
                              .compute_ms =
                                  [this](int64_t n, int64_t n_before) {
                                    asked_ = {n, n_before};
                                    return compute_ms_;
                                  }});
    ASSERT_NE(tier_, nullptr);
  }

  /// Runs the commands that the disk thread posts until its jobs have ended. Returns their number.
  int64_t finish_jobs() {
    int64_t n = 0;
    EXPECT_TRUE(wait_until([&] {
      while (tier_->n_jobs() > 0) {
        std::function<void()> command;
        {
          const std::lock_guard lock(mutex_);
          if (commands_.empty()) return false;
          command = std::move(commands_.front());
          commands_.pop_front();
        }
        command();
        ++n;
      }
      return true;
    }));
    return n;
  }

  /// Runs a prompt, and writes its parts to the disk.
  void store(const std::vector<int32_t>& prompt) {
    run(prompt);
    tier_->note_tokens(prompt, {}, now_);
    while (tier_->next_write()) {
      tier_->write_some(now_ + milliseconds(100));
      finish_jobs();
    }
  }
  /// The tokens that a prompt finds in memory and on the disk.
  int64_t restore(const std::vector<int32_t>& prompt, bool always = true) {
    Slot& slot = slots_->assign(sequence_of(prompt));
    if (tier_->begin_restore(slot, always)) finish_jobs();
    EXPECT_FALSE(slot.is_restoring);
    const int64_t n = slot.n_computed;
    slots_->release(slot);
    return n;
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(directory_))
      if (entry.is_regular_file()) found.push_back(entry.path());
    return found;
  }

  fs::path file_of(const std::vector<int32_t>& prompt, const SavedPart& part) const {
    PrefixKeys keys(root_digest(session_digest(*session_), "", {}), prompt);
    return fs::path(directory_) / keys.key(part).path();
  }

  std::string directory_;
  std::shared_ptr<Storage> storage_;
  std::unique_ptr<DiskTier> tier_;
  const server::Clock::time_point now_ = server::Clock::now();
  double compute_ms_ = 0;
  std::pair<int64_t, int64_t> asked_{};  // of the forecast
  std::vector<int32_t> restored_;        // slots

 private:
  std::mutex mutex_;
  std::deque<std::function<void()>> commands_;
};

// --- writing

TEST_F(TierParts, KeysDependOnThePrecisionOfAttention) {
  const auto digest_in = [&](AttentionPrecision attention) {
    SessionOptions options = small_session();
    options.attention = attention;
    restart("", options);
    return session_digest(*session_);
  };
  const auto floats = digest_in(AttentionPrecision::float32);
  EXPECT_NE(digest_in(AttentionPrecision::int16), floats);
  EXPECT_EQ(digest_in(AttentionPrecision::automatic), floats);  // the model is in F32
}

TEST_F(TierParts, NeedADirectory) {
  restart();
  EXPECT_EQ(DiskTier::create(*session_, *slots_, nullptr, {}, {}), nullptr);
  ASSERT_OK_AND_ASSIGN(const std::shared_ptr<Storage> without, Storage::open({}));
  EXPECT_EQ(DiskTier::create(*session_, *slots_, without, {}, {}), nullptr);
}

TEST_F(TierParts, AreWrittenOneByOneAfterTheDelay) {
  restart();
  run(tokens(130));
  EXPECT_FALSE(tier_->next_write().has_value());
  tier_->note_tokens({}, {}, now_);
  EXPECT_FALSE(tier_->next_write().has_value());
  tier_->note_tokens(tokens(130), {}, now_);
  EXPECT_EQ(tier_->next_write(), now_ + milliseconds(100));
  tier_->write_some(now_ + milliseconds(99));
  EXPECT_EQ(tier_->n_jobs(), 0);
  tier_->write_some(now_ + milliseconds(100));
  EXPECT_EQ(tier_->n_jobs(), 1);
  tier_->write_some(now_ + milliseconds(100));
  EXPECT_EQ(tier_->n_jobs(), 2);
  tier_->write_some(now_ + milliseconds(100));  // of the files that were there
  EXPECT_EQ(tier_->n_jobs(), 3);
  EXPECT_FALSE(tier_->next_write().has_value());
  EXPECT_EQ(finish_jobs(), 3);
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(TierParts, OfTheSixtyFourLatestSequencesWait) {
  restart();
  for (int i = 0; i < 64; ++i) tier_->note_tokens(tokens(3), {}, now_ + milliseconds(i));
  EXPECT_EQ(tier_->next_write(), now_ + milliseconds(100));
  tier_->note_tokens(tokens(3), {}, now_ + milliseconds(64));
  EXPECT_EQ(tier_->next_write(), now_ + milliseconds(101));
}

TEST_F(TierParts, FourMayBeWrittenAtATime) {
  restart();
  run(tokens(400));
  tier_->note_tokens(tokens(400), {}, now_);
  for (int64_t i = 1; i <= 4; ++i) {
    EXPECT_TRUE(tier_->next_write().has_value());
    tier_->write_some(now_ + milliseconds(100));
    EXPECT_EQ(tier_->n_jobs(), i);
  }
  EXPECT_FALSE(tier_->next_write().has_value());
  tier_->write_some(now_ + milliseconds(100));
  EXPECT_EQ(tier_->n_jobs(), 4);
  finish_jobs();
  EXPECT_TRUE(tier_->next_write().has_value());
}

TEST_F(TierParts, ThatHaveLeftMemoryEndTheirSequence) {
  restart();
  tier_->note_tokens(tokens(300), {}, now_);
  tier_->note_tokens(tokens(3), {}, now_ + milliseconds(1));
  tier_->write_some(now_ + milliseconds(100));
  EXPECT_EQ(tier_->next_write(), now_ + milliseconds(101));
  finish_jobs();
  EXPECT_TRUE(storage_->cache()->is_empty());
}

TEST_F(TierParts, LaterOnesCountAsUsedEarlier) {
  restart();
  store(tokens(300));
  run(tokens(300));
  tier_->note_tokens(tokens(300), {}, now_);  // all are on the disk, and count as used again
  tier_->write_some(now_ + milliseconds(100));
  finish_jobs();
  std::vector<fs::file_time_type> times;
  for (const fs::path& path : files()) times.push_back(fs::last_write_time(path));
  std::ranges::sort(times);
  ASSERT_EQ(times.size(), 4u);
  EXPECT_EQ(times[3] - times[0], std::chrono::microseconds(3));
  restart();
  ASSERT_EQ(restore(tokens(70)), 64);  // the first block is used now
  EXPECT_GT(fs::last_write_time(file_of(tokens(300), {.logical = 0})), times[3]);
}

TEST_F(TierParts, AWriteThatFailsIsFollowedByAPause) {
  restart();
  run(tokens(130));
  for (const int i : {0, 1}) tier_->note_tokens(tokens(130), {}, now_ + milliseconds(i));
  fs::remove_all(directory_);
  write_temporary("tier_parts", "in place of the directory");
  tier_->write_some(now_ + milliseconds(100));
  finish_jobs();
  ASSERT_TRUE(tier_->next_write().has_value());
  EXPECT_GT(*tier_->next_write(), now_ + std::chrono::seconds(9));
  tier_->write_some(now_ + std::chrono::seconds(9));
  EXPECT_EQ(tier_->n_jobs(), 0);
  tier_->begin_flush();
  EXPECT_EQ(tier_->next_write(), server::Clock::time_point::min());
  tier_->write_some(now_);
  finish_jobs();
  EXPECT_FALSE(tier_->next_write().has_value());
  fs::remove(directory_);
}

TEST_F(TierParts, OfTheLatestSequenceComeFirstAtTheEnd) {
  restart();
  run(tokens(70));
  run(tokens(70, 1));
  tier_->note_tokens(tokens(70), {}, now_);
  tier_->note_tokens(tokens(70, 1), {}, now_);
  tier_->begin_flush();
  tier_->write_some(now_);
  EXPECT_EQ(tier_->n_jobs(), 1);
  finish_jobs();
  restart();
  EXPECT_EQ(restore(tokens(70)), 0);
  EXPECT_EQ(restore(tokens(70, 1)), 64);
}

TEST_F(TierParts, OfAllSequencesCanBeForgotten) {
  restart();
  store(tokens(130));
  run(tokens(70, 1));
  tier_->note_tokens(tokens(70, 1), {}, now_);
  uint64_t n_removed = 0;
  tier_->clear([&](uint64_t n) { n_removed = n; });
  EXPECT_EQ(tier_->n_jobs(), 1);
  finish_jobs();
  EXPECT_EQ(n_removed, 2u);
  EXPECT_FALSE(tier_->next_write().has_value());
  EXPECT_TRUE(storage_->cache()->is_empty());
}

// --- reading

TEST_F(TierParts, AreReadInAFewJobs) {
  restart();
  store(tokens(300));
  restart();
  Slot& slot = slots_->assign(sequence_of(tokens(300)));
  ASSERT_TRUE(tier_->begin_restore(slot, true));
  EXPECT_TRUE(slot.is_restoring);
  EXPECT_EQ(tier_->n_jobs(), 1);
  EXPECT_EQ(finish_jobs(), 1);
  EXPECT_EQ(slot.n_computed, 256);
  EXPECT_FALSE(slot.is_restoring);
  EXPECT_EQ(restored_, std::vector<int32_t>{slot.id});
}

// With this the time of reading is known after the first read.
TEST_F(TierParts, AreReadIfThatIsFasterThanComputing) {
  restart();
  store(tokens(300));
  restart();
  compute_ms_ = 0;
  EXPECT_EQ(restore(tokens(300), false), 256) << "the time is not known yet";
  EXPECT_EQ(asked_, std::pair(int64_t{256}, int64_t{0}));
  slots_->clear();
  EXPECT_EQ(restore(tokens(300), false), 0) << "no time is shorter than none";
  EXPECT_EQ(restore(tokens(300), true), 256);
  slots_->clear();
  compute_ms_ = 60'000;
  EXPECT_EQ(restore(tokens(300), false), 256);
  slots_->clear();
  run(tokens(130));
  EXPECT_EQ(restore(tokens(300), false), 256);
  EXPECT_EQ(asked_, std::pair(int64_t{126}, int64_t{130}));
}

TEST_F(TierParts, AReadOfNothingTellsNoTime) {
  restart();
  store(tokens(70));
  restart();
  for (const fs::path& path : files()) fs::remove(path);
  EXPECT_EQ(restore(tokens(70), false), 0);
  EXPECT_EQ(restored_.size(), 1u);
  store(tokens(70));
  slots_->clear();
  compute_ms_ = 60'000;
  EXPECT_EQ(restore(tokens(70), false), 64);
  slots_->clear();
  compute_ms_ = 0;
  EXPECT_EQ(restore(tokens(70), false), 0);
}

TEST_F(TierParts, OfASlotThatHasLostItsSequenceAreOfNoUse) {
  restart();
  store(tokens(130));
  store(tokens(200, 1));
  restart();
  Slot& slot = slots_->assign(sequence_of(tokens(130)));
  ASSERT_TRUE(tier_->begin_restore(slot, true));
  slots_->release(slot);
  finish_jobs();
  EXPECT_TRUE(restored_.empty());
  EXPECT_EQ(slot.n_computed, 0);

  Slot& other = slots_->assign(sequence_of(tokens(130)));
  ASSERT_TRUE(tier_->begin_restore(other, true));
  slots_->release(other);
  const auto in_slot = [&](SequenceSpec& spec) { spec.slot = other.id; };
  EXPECT_EQ(slots_->assign(sequence_of(tokens(200, 1), in_slot)).id, other.id);
  other.sequence->spec().slot = -1;
  ASSERT_TRUE(tier_->begin_restore(other, true));
  EXPECT_EQ(tier_->n_jobs(), 2);
  finish_jobs();
  EXPECT_EQ(restored_, std::vector<int32_t>{other.id});
  EXPECT_EQ(other.n_computed, 192);
}

TEST_F(TierParts, OfASlotThatIsAskedForAreNotRead) {
  restart();
  store(tokens(130));
  restart();
  const auto asks = [](SequenceSpec& spec) { spec.slot = 0; };
  EXPECT_FALSE(tier_->begin_restore(slots_->assign(sequence_of(tokens(130), asks)), true));
  const auto shares_nothing = [](SequenceSpec& spec) { spec.reuses_cache = false; };
  EXPECT_FALSE(tier_->begin_restore(slots_->assign(sequence_of(tokens(130), shares_nothing)), true));
  EXPECT_EQ(tier_->n_jobs(), 0);
}

TEST_F(TierParts, UpToTheFirstOneThatIsDamagedAreOfUse) {
  restart();
  store(tokens(300));
  std::ofstream(file_of(tokens(300), {.logical = 2})) << "damaged";
  restart();
  EXPECT_EQ(restore(tokens(300)), 128);
  EXPECT_EQ(restored_.size(), 1u);
  EXPECT_EQ(storage_->cache()->counters().n_damaged_files, 1u);
}

// --- marks

class TierMarks : public TierParts {
 protected:
  static SessionOptions with_marks() { return {.n_ctx = 1024, .n_sequences = 3, .n_cache_marks = 6}; }
  void restart_with(const char* model) { restart(model, with_marks()); }
};

TEST_F(TierMarks, TheLatestOneIsFound) {
  for (const char* model : {"gemma2-dense", "lfm2-dense"}) {
    SCOPED_TRACE(model);
    SetUp();
    restart_with(model);
    for (const int64_t n : {40, 129, 200}) store(tokens(n));
    for (const auto& [n_prompt, n_found] : {std::pair(300, 200),
                                            {200, 199},
                                            {199, 129},
                                            {140, 129},
                                            {129, 128},
                                            {128, 40},
                                            {41, 40},
                                            {40, 39},
                                            {39, 0}}) {
      SCOPED_TRACE(n_prompt);
      restart_with(model);
      EXPECT_EQ(restore(tokens(n_prompt)), n_found);
      EXPECT_EQ(restored_.size(), n_found == 0 ? 0u : 1u);
    }
  }
}

TEST_F(TierMarks, InMemoryAreNotRead) {
  restart_with("gemma2-dense");
  store(tokens(200));
  EXPECT_EQ(restore(tokens(300)), 200);
  EXPECT_EQ(restore(tokens(201)), 200);
  EXPECT_TRUE(restored_.empty());
}

TEST_F(TierMarks, OfTheDiskComeAfterThoseOfMemory) {
  restart_with("gemma2-dense");
  for (const int64_t n : {100, 200}) store(tokens(n));
  restart_with("gemma2-dense");
  run(tokens(150));
  EXPECT_EQ(restore(tokens(300)), 200);
  EXPECT_EQ(restored_.size(), 1u);
  slots_->clear();
  run(tokens(250));
  restored_.clear();
  EXPECT_EQ(restore(tokens(300)), 250);
  EXPECT_TRUE(restored_.empty());
}

TEST_F(TierMarks, AnEarlierOneServesIfALaterOneIsGone) {
  restart_with("lfm2-dense");
  for (const int64_t n : {100, 200}) store(tokens(n));
  restart_with("lfm2-dense");
  for (const int32_t mark : {199, 200})
    for (const SavedPart& part : session_->parts_of_mark(mark))
      if (part.kind == SavedPart::Kind::state) {
        EXPECT_TRUE(fs::remove(file_of(tokens(200), part)));
      }
  EXPECT_EQ(restore(tokens(300)), 100);
  EXPECT_EQ(restored_.size(), 1u);
}

}  // namespace
}  // namespace tessera
