// A sequence by itself: its reports, its ends by time and its errors. The test chooses its tokens.
#include "tessera/server/run/sequence.h"

#include "tessera/engine/generate.h"
#include "tests/server/slots_support.h"

namespace tessera {
namespace {

using namespace testing;
using namespace server;
using std::chrono::milliseconds;

class Sequences : public SlotsTest {
 protected:
  void SetUp() override { open(); }

  std::shared_ptr<Sequence> with_chain(const Change& change) {
    return sequence_of(tokens(20), [&](SequenceSpec& spec) {
      sample::SamplerParams params;
      params.seed = 1;
      spec.chain = sample::Chain::create(params, sampling_vocab(engine_), 512).value();
      change(spec);
    });
  }
  /// Adds a text, a token at a time.
  void add(Sequence& sequence, const std::string& text, Clock::time_point now) {
    const auto ids = engine_->tokenizer().tokenize(text, {});
    ASSERT_TRUE(ids.has_value());
    for (const int32_t id : *ids) {
      sequence.choose_forced(id);
      sequence.accept(now);
    }
  }

  const Clock::time_point now_ = Clock::now();
};

TEST_F(Sequences, ReportSoManyTokensOfThePrompt) {
  const auto sequence = sequence_of(tokens(40), [](SequenceSpec& spec) { spec.progress_tokens = 10; });
  EXPECT_TRUE(sequence->start(0, 5, now_).has_value());
  EXPECT_FALSE(sequence->start(0, 5, now_).has_value()) << "it has started";
  EXPECT_FALSE(sequence->progress(14, now_).has_value());
  const auto event = sequence->progress(15, now_ + milliseconds(7));
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->n_done, 15);
  EXPECT_EQ(event->n_cached, 5);
  EXPECT_EQ(event->prompt_ms, 7);
  EXPECT_FALSE(sequence->progress(24, now_).has_value());
  EXPECT_TRUE(sequence->progress(25, now_).has_value());
  EXPECT_TRUE(sequence->progress(40, now_).has_value());
  EXPECT_FALSE(sequence->progress(41, now_).has_value());
  const auto silent = sequence_of(tokens(40));
  EXPECT_FALSE(silent->progress(40, now_).has_value());
}

TEST_F(Sequences, EndByTimeAtTheFirstLineThatEndsLater) {
  const auto sequence = with_chain([](SequenceSpec& spec) { spec.most_ms = 10; });
  add(*sequence, "a", now_);
  add(*sequence, "b\n", now_ + milliseconds(10));
  EXPECT_FALSE(sequence->has_ended());
  add(*sequence, "c", now_ + milliseconds(12));
  EXPECT_FALSE(sequence->has_ended()) << "the line goes on";
  add(*sequence, "\n", now_ + milliseconds(12));
  ASSERT_TRUE(sequence->has_ended());
  EXPECT_EQ(sequence->finish(0, now_).end->reason, EndReason::time);
}

TEST_F(Sequences, EndBeforeALineWithLessIndent) {
  const auto sequence = with_chain([](SequenceSpec& spec) { spec.n_indent = 2; });
  add(*sequence, "a\n  b\n\n \t c\n", now_);
  EXPECT_FALSE(sequence->has_ended());
  add(*sequence, "d", now_);  // the tokenizer puts a space before it
  ASSERT_TRUE(sequence->has_ended());
  EXPECT_EQ(sequence->finish(0, now_).end->reason, EndReason::length);
}

TEST_F(Sequences, TheFirstErrorCounts) {
  const auto sequence = sequence_of(tokens(4));
  sequence->end(EndReason::length);
  sequence->end(EndReason::time);
  sequence->fail({ErrorCode::io, "first"}, true);
  sequence->fail({ErrorCode::io, "second"});
  sequence->end(EndReason::length);
  const auto event = sequence->finish(0, now_);
  EXPECT_EQ(event.end->reason, EndReason::failed);
  EXPECT_EQ(event.end->error->message(), "first");
  EXPECT_TRUE(event.end->is_overloaded);
}

TEST_F(Sequences, HaveTheTimesOfTheirParts) {
  const auto sequence = with_chain([](SequenceSpec&) {});
  const auto queued = Clock::time_point{};
  const auto started = queued + milliseconds(10), first = started + milliseconds(20);
  sequence->start(0, 0, started);
  for (const int ms : {0, 5, 30}) {
    sequence->choose_forced(300);
    sequence->accept(first + milliseconds(ms));
  }
  sequence->end(EndReason::length);
  const auto end = sequence->finish(22, first + milliseconds(40)).end;
  EXPECT_EQ(end->queue_ms, 10);
  EXPECT_EQ(end->prompt_ms, 20);
  EXPECT_EQ(end->generation_ms, 40);
  EXPECT_EQ(end->first_token_ms, 30);
  EXPECT_EQ(end->n_generated, 3);
  EXPECT_EQ(end->n_stored, 22);
  const auto never = sequence_of(tokens(4));
  never->end(EndReason::cancelled);
  const auto unused = never->finish(0, queued + milliseconds(5)).end;
  EXPECT_EQ(unused->queue_ms, 5);
  EXPECT_EQ(unused->prompt_ms, 0);
  EXPECT_EQ(unused->generation_ms, 0);
  EXPECT_EQ(unused->first_token_ms, 0);
}

TEST_F(Sequences, ForgetSomeOfTheTokensThatAreNotKept) {
  const auto range = [&](int64_t n_keep, int64_t n_discard, int64_t n_stored) {
    const auto sequence = sequence_of(tokens(20), [&](SequenceSpec& spec) {
      spec.n_keep = n_keep;
      spec.n_discard = n_discard;
    });
    return sequence->forgettable(n_stored);
  };
  using Pair = std::pair<int64_t, int64_t>;
  EXPECT_EQ(range(0, 0, 100), Pair(0, 50));
  EXPECT_EQ(range(4, 0, 100), Pair(4, 52));
  EXPECT_EQ(range(-1, 0, 100), Pair(20, 60));
  EXPECT_EQ(range(50, 0, 100), Pair(20, 60)) << "the prompt at most";
  EXPECT_EQ(range(4, 7, 100), Pair(4, 11));
  EXPECT_EQ(range(4, 500, 100), Pair(4, 100));
  EXPECT_EQ(range(-1, 0, 10), Pair(8, 9)) << "a token goes in any case";
  EXPECT_EQ(range(-1, 0, 2), Pair(0, 1));
}

TEST_F(Sequences, WantTheLogitsOfTheNextToken) {
  const auto plain = sequence_of(tokens(5));
  for (int64_t i = 0; i < 4; ++i) EXPECT_FALSE(plain->wants_logits_after(i)) << i;
  EXPECT_TRUE(plain->wants_logits_after(4));
  const auto computed = sequence_of(tokens(5), [](SequenceSpec& spec) { spec.n_predict = 0; });
  EXPECT_FALSE(computed->wants_logits_after(4));
  const auto scored = sequence_of(tokens(5), [](SequenceSpec& spec) { spec.n_prompt_probs = 0; });
  for (int64_t i = 0; i < 5; ++i) EXPECT_TRUE(scored->wants_logits_after(i)) << i;
  EXPECT_EQ(std::ssize(scored->reusable_tokens()), 1);
  EXPECT_EQ(scored->add_scores(std::vector<TokenProbs>(2)).n_done, 3);
  EXPECT_FALSE(scored->wants_logits_after(1));
  EXPECT_TRUE(scored->wants_logits_after(2));
  EXPECT_EQ(std::ssize(scored->reusable_tokens()), 3);
}

}  // namespace
}  // namespace tessera
