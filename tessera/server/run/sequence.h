// A sequence of a task while it waits or runs: its tokens, its sampler chain and its text. It knows no session: the
// scheduler computes tokens for it and gives it rows of logits.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tessera/sample/log_probs.h"
#include "tessera/server/run/stop_text.h"
#include "tessera/server/run/task.h"
#include "tessera/text/detokenize.h"

namespace tessera::server {

class Sequence {
 public:
  /// The tokenizer must outlive this.
  Sequence(std::shared_ptr<Task> task, size_t index, const text::Tokenizer& tokenizer, Clock::time_point now);

  Task& task() const { return *task_; }
  const std::shared_ptr<Task>& shared_task() const { return task_; }
  size_t index() const { return index_; }
  SequenceSpec& spec() const { return task_->spec().sequences[index_]; }

  /// Prompt and generated tokens. All but the last generated ones are in the cache while it runs.
  std::span<const int32_t> tokens() const { return tokens_; }
  int64_t n_tokens() const { return static_cast<int64_t>(tokens_.size()); }
  int64_t n_prompt() const { return n_prompt_; }
  /// Prompt tokens that were not computed.
  int64_t n_cached() const { return n_cached_; }
  int64_t n_generated() const { return n_tokens() + n_forgotten_ - n_prompt_; }
  /// Whether the generated text has a line break.
  bool has_new_line() const { return has_new_line_; }
  /// Whether it may read and write the prefix cache.
  bool shares_cache() const { return spec().reuses_cache && n_forgotten_ == 0 && !has_moved_chunks_; }
  /// It continues from tokens that were computed at other places.
  void note_moved_chunks() { has_moved_chunks_ = true; }

  /// The tokens to forget if the n_stored first ones, at least 2, fill the context: their begin and end.
  std::pair<int64_t, int64_t> forgettable(int64_t n_stored) const;
  /// Forgets such tokens: tokens() is shorter then.
  void forget(int64_t begin, int64_t end);

  /// Prompt tokens that have their scores, or need none. Grows up to n_prompt().
  int64_t n_scored() const { return n_scored_; }
  bool is_scoring() const { return n_scored_ < n_prompt_; }
  /// The first tokens, all but the last of which may come from the cache. The others' logits are wanted.
  std::span<const int32_t> reusable_tokens() const {
    return is_scoring() ? tokens().first(static_cast<size_t>(n_scored_)) : tokens();
  }
  /// Whether the logits after the token at a position are wanted.
  bool wants_logits_after(int64_t position) const;
  /// Adds the scores of the next prompt tokens, from n_scored() on. Returns their event.
  TaskEvent add_scores(std::vector<TokenProbs> scores);

  /// The sequence has a slot, whose cache holds its first n_cached tokens. Returns the event, at the first time only.
  std::optional<TaskEvent> start(int32_t slot, int64_t n_cached, Clock::time_point now);
  /// More of the prompt is computed. Returns the event, if the client wants one.
  std::optional<TaskEvent> progress(int64_t n_done, Clock::time_point now);

  /// Chooses the next token by the logits [n_vocab] after the last one. May run on any thread, one call at a time.
  void choose(std::span<const float> logits);
  /// Adds the chosen token to the text. Returns its event; ended() tells whether it was the last.
  TaskEvent accept(Clock::time_point now);

  /// Tokens that must follow, the first one last: by the grammar, or as the reasoning is over its bound. They need no
  /// logits.
  std::vector<int32_t> forced();
  /// Chooses such a token.
  void choose_forced(int32_t token) { chosen_ = token; }

  /// A step has verified guesses of the next tokens.
  void note_guesses(int64_t n, int64_t n_right) {
    n_guessed_ += n;
    n_guessed_right_ += n_right;
  }

  /// Whether a reason for the end was found.
  bool has_ended() const { return end_.has_value(); }
  /// Ends the sequence, unless it has ended.
  void end(EndReason reason);
  void fail(Error error, bool is_overloaded = false);
  /// The result of a text, for its end.
  void set_values(std::vector<float> values) { values_ = std::move(values); }
  /// The last event. has_ended() is true.
  TaskEvent finish(int64_t n_stored, Clock::time_point now);

  /// Adds a stage to the trace, if the client wants one.
  void trace(TraceStage stage, int64_t n, Clock::time_point now) {
    if (trace_) trace_->add(stage, n, now);
  }

  Clock::time_point queued() const { return queued_; }
  /// The time of the last token.
  Clock::time_point last_token() const { return last_token_; }

 private:
  static double ms_between(Clock::time_point from, Clock::time_point to);
  TaskEvent new_event(TaskEvent::Kind kind) const;
  void note_due();
  void note_probs(std::span<const float> logits);
  void check_lines(std::string_view piece, Clock::time_point now);

  std::shared_ptr<Task> task_;
  size_t index_;
  const text::Tokenizer& tokenizer_;
  std::vector<int32_t> tokens_;
  int64_t n_prompt_;
  int64_t n_scored_;
  int64_t n_forgotten_ = 0;
  bool has_moved_chunks_ = false;
  int64_t n_cached_ = 0;
  int32_t slot_ = -1;
  int64_t n_reported_ = 0;  // of the prompt, by progress()
  int64_t n_guessed_ = 0, n_guessed_right_ = 0;

  Result<int32_t> chosen_ = -1;
  std::optional<ReasoningBound> reasoning_;
  std::vector<int32_t> due_;  // tokens that end the reasoning, the first one last
  std::unique_ptr<TokenProbs> probs_;
  sample::TopLogProbs top_;
  text::PieceWriter writer_;
  StopText text_;
  bool has_new_line_ = false;
  int64_t n_blanks_ = -1;  // at the start of the present line; -1: the line has other characters

  Clock::time_point queued_, started_{}, first_token_{}, last_token_{};
  std::optional<SequenceTrace> trace_;
  std::vector<float> values_;
  std::optional<SequenceEnd> end_;
};

}  // namespace tessera::server
