// A generation on its way back to its client: collects the events of the scheduler by sequence and writes them in the
// client's dialect, as one answer or as a stream. Each dialect derives a class.
//
// Events arrive on the strand of the exchange, so nothing here is locked.
#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/server/api/context.h"
#include "tessera/server/api/generation_task.h"
#include "tessera/server/api/live_streams.h"
#include "tessera/server/api/token_gaps.h"
#include "tessera/server/json/writer.h"

namespace tessera::server {

/// A sequence of a generation as far as it has come.
struct Choice {
  uint32_t index = 0;
  int32_t slot = -1;
  int64_t n_prompt = 0;
  int64_t n_cached = 0;
  int64_t n_generated = 0;
  std::string text{};                       // collected if there is no stream
  std::vector<int32_t> tokens{};            // collected if the dialect asks for them
  std::vector<TokenProbs> probs{};          // whose text was not sent yet; without a stream all
  std::vector<TokenProbs> prompt_scores{};  // of its second and later tokens, as far as they were asked for
  size_t n_settled_probs = 0;               // those at the front that no stop string can remove
  bool has_new_line = false;
  std::unique_ptr<SequenceEnd> end{};  // once it has ended
  Clock::time_point last_token{};      // with an access log

  std::span<const TokenProbs> settled_probs() const { return std::span(probs).first(n_settled_probs); }
  /// Forgets them, once they are written.
  void drop_settled_probs() {
    probs.erase(probs.begin(), probs.begin() + static_cast<ptrdiff_t>(n_settled_probs));
    n_settled_probs = 0;
  }
};

class Generation : public TaskSink, public LiveStream, public std::enable_shared_from_this<Generation> {
 public:
  /// Submits a task with this as its sink. The stream begins when the queue has taken the task. Errors: the refusal.
  FieldResult<> start(TaskSpec spec);
  /// Names of fields that the server does not know, for the head of the answer.
  void set_ignored_fields(std::string names) { ignored_fields_ = std::move(names); }

  void on_event(TaskEvent& event) final;
  void flush() final;
  size_t n_unsent() const final { return streams_ ? exchange_->n_unsent() : 0; }
  int64_t stalled_ms() const final { return streams_ ? exchange_->stalled_ms() : 0; }
  void ping(std::chrono::steady_clock::time_point now) final;
  Exchange& exchange() final { return *exchange_; }

 protected:
  Generation(ApiContext& context, ServedModel& model, std::shared_ptr<Exchange> exchange, GenerationFields fields);

  // Hooks of a dialect. With a stream they append to out().
  virtual void on_started(Choice&) {}
  /// The sequence waits, with n_before others before it.
  virtual void on_waiting(Choice&, int64_t n_before);
  virtual void on_progress(Choice&, const TaskEvent&) {}
  /// More tokens of the prompt have their scores.
  virtual void on_scored(Choice&) {}
  virtual void on_token(Choice&, const TaskEvent&) {}
  /// The sequence has ended without an error; choice.end is set. `rest` is the last piece of its text.
  virtual void on_end(Choice&, const std::string& rest) = 0;
  /// All sequences have ended: the end of the stream.
  virtual void on_all_ended() {}
  /// All sequences have ended without an error, and there is no stream.
  virtual std::string whole_answer() = 0;
  virtual std::string error_piece(const FieldError& error);
  /// Written into a stream that was silent for sse_ping_interval.
  virtual std::string_view ping_piece() const { return ":\n\n"; }
  virtual std::string_view stream_type() const { return kEventStreamType; }

  ApiContext& context() { return context_; }
  ServedModel& model() { return model_; }
  const GenerationFields& fields() const { return fields_; }
  std::vector<Choice>& choices() { return choices_; }
  bool streams() const { return streams_; }
  /// Writes the member `trace` of a final object, if the client asked for it.
  void write_trace(JsonWriter& writer, const SequenceEnd& end) const;
  std::string& out() { return out_; }

  bool collects_tokens_ = false;

 private:
  void begin();
  HttpAnswer new_answer() const;
  void collect(Choice& choice, TaskEvent& event);
  void end_choice(Choice& choice, TaskEvent& event);
  void note_end(const SequenceEnd& end);
  void finish();
  void fail(const FieldError& error);

  ApiContext& context_;
  ServedModel& model_;
  std::shared_ptr<Exchange> exchange_;
  GenerationFields fields_;
  std::string ignored_fields_;
  bool streams_;
  bool has_begun_ = false;
  bool has_failed_ = false;
  std::weak_ptr<Task> task_;
  std::vector<Choice> choices_;
  size_t n_open_ = 0;
  std::string out_;
  std::chrono::steady_clock::time_point last_write_;
  GenerationNote note_{};
  std::unique_ptr<TokenGaps> gaps_{};  // null without an access log
};

/// The times and rates of a sequence, as llama-server's `timings`. `generation_ms` is that of n_generated - 1 steps, as
/// the first token comes from the step of the prompt.
struct Timings {
  int64_t n_cached = 0, n_prompt = 0, n_generated = 0;
  int64_t n_guessed = 0, n_guessed_right = 0;                                   // see SequenceEnd
  double prompt_ms = 0, generation_ms = 0, queue_ms = -1, first_token_ms = -1;  // the last two: -1 for not known
  bool is_timed_out = false;
  bool is_exact = true;  // see SequenceEnd
};
Timings timings_of(const SequenceEnd& end);
void write_timings(JsonWriter& writer, const Timings& timings);

/// The refusal for the error of a sequence.
FieldError sequence_error(const SequenceEnd& end);

}  // namespace tessera::server
