// The request of a client as the scheduler sees it: one or more sequences to compute, and the events that it sends
// back. A worker makes a task; the scheduler owns it until its last event.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/result.h"
#include "tessera/engine/adapter_set.h"
#include "tessera/sample/chain.h"
#include "tessera/server/run/reasoning_limit.h"
#include "tessera/server/run/sequence_trace.h"

namespace tessera::server {

using Clock = std::chrono::steady_clock;

/// The error of sequences that a shutdown ends.
inline constexpr std::string_view kShuttingDown = "The server is shutting down";
/// The error of a sequence or request when the system has no memory left.
inline constexpr std::string_view kOutOfMemory = "The server is out of memory";

/// The reason why a sequence ended.
enum class EndReason : uint8_t {
  eos,           // the model or the grammar ended it
  stop_word,     // a stop string
  length,        // the number of tokens that was asked for
  context_full,  // no position is left
  time,          // the time that was asked for, or the deadline
  cancelled,     // the client left or asked for the end
  slow_reader,   // the client took no byte for too long
  failed,        // see SequenceEnd::error
};

struct TokenProb {
  int32_t id = 0;
  float value = 0;  // a logarithm before the samplers, or a probability after them
};

/// The n most probable tokens at a place, and the chosen one.
struct TokenProbs {
  TokenProb chosen{};
  std::vector<TokenProb> top{};
  int64_t rank = 0;  // of the chosen token by its raw logit, from 1; 0: not known
};

/// One sequence of a task.
struct SequenceSpec {
  std::vector<int32_t> prompt;           // not empty
  std::unique_ptr<sample::Chain> chain;  // has accepted the prompt
  int64_t n_predict = -1;                // -1: until the end; 0: the prompt is only computed
  std::vector<std::string> stop{};
  bool ignores_end = false;      // generate on after a token that ends a text
  bool renders_special = false;  // special tokens are part of the text
  int32_t n_probs = -1;          // TokenProbs with so many tokens; -1: none
  bool probs_after_sampling = false;
  int32_t n_prompt_probs = -1;           // scores each prompt token but the first, with so many others; -1: none
  int64_t n_indent = 0;                  // ends before a line with less indent
  int64_t most_ms = -1;                  // ends at the first line that ends after this time of generation; -1: none
  int32_t slot = -1;                     // the slot to use, with the tokens that it holds; -1: any
  bool reuses_cache = true;              // reads and writes the prefix cache
  int64_t n_cache_reuse = 0;             // fewest tokens of a chunk that is reused at another place; 0: none are
  std::string cache_salt{};              // only sequences of the same salt share their starts
  std::vector<AdapterScale> adapters{};  // the only ones that it is computed with, by index in the session, ascending
  bool shifts_context = false;           // a full context forgets tokens, and the text goes on
  int64_t n_keep = 0;                    // the first tokens, which are not forgotten; -1: the prompt
  int64_t n_discard = 0;                 // tokens to forget; 0: half of the others
  bool is_traced = false;                // its end has a trace
  int64_t progress_tokens = 0;           // report each time so many prompt tokens are computed; 0: never
  std::shared_ptr<const ReasoningLimit> reasoning{};  // null: no bound
  std::optional<size_t> same_prompt_as{};  // an earlier sequence of the task, whose prompt is computed once for both
};

/// The counts and times of a sequence.
struct SequenceEnd {
  EndReason reason = EndReason::eos;
  std::string stopping_word{};
  std::optional<Error> error{};
  bool is_overloaded = false;  // the error is temporary: the server drains or the queue was too long
  int64_t n_prompt = 0;
  int64_t n_cached = 0;  // prompt tokens that were not computed
  int64_t n_generated = 0;
  int64_t n_stored = 0;                        // tokens that the cache holds afterwards
  int64_t n_guessed = 0, n_guessed_right = 0;  // guesses that steps have verified, and the right ones
  bool is_exact = true;     // false: K and V depend on tokens that are not there, after a shift or a reused chunk
  bool is_shifted = false;  // the context was shifted
  double queue_ms = 0, prompt_ms = 0, generation_ms = 0, first_token_ms = 0;
  std::vector<TraceEntry> trace{};
  std::vector<float> values{};  // the embedding or the scores of a text, by an Embedder
};

struct TaskEvent {
  enum class Kind : uint8_t {
    waiting,   // so many other sequences are before it in the queue: n_done; about every second
    started,   // the sequence has a slot; n_cached is known
    progress,  // more of the prompt is computed
    scored,    // the next tokens of the prompt have their scores
    token,
    ended,  // the last event of a sequence, with the rest of its text
  };
  Kind kind = Kind::token;
  uint32_t sequence = 0;
  int32_t slot = -1;
  int32_t token = -1;  // of Kind::token
  int64_t n_done = 0;  // prompt tokens that are computed or cached
  int64_t n_cached = 0;
  double prompt_ms = 0;      // since the start of the prompt
  double generation_ms = 0;  // since the first token
  std::string text{};        // new text that no later token can change
  bool is_held = false;      // some bytes of this or of earlier tokens may belong to a stop string or a code point
  std::unique_ptr<TokenProbs> probs{};
  std::vector<TokenProbs> scores{};  // of Kind::scored
  std::unique_ptr<SequenceEnd> end{};
};

/// The receiver of a task's events. All functions but n_unsent() and stalled_ms() run on the task's I/O thread.
class TaskSink {
 public:
  virtual ~TaskSink() = default;
  virtual void on_event(TaskEvent& event) = 0;
  /// Called after the last event of each step.
  virtual void flush() = 0;
  /// Bytes that the client has not taken, and for how long it has taken none. From any thread.
  virtual size_t n_unsent() const = 0;
  virtual int64_t stalled_ms() const = 0;
};

struct GenerationFields;

struct TaskSpec {
  std::string client;
  std::string cache_owner{};  // tasks of other owners share no cached tokens; empty: with all without an owner
  int priority = 0;           // -10 (first) to 10
  std::optional<Clock::time_point> deadline{};
  Clock::time_point received{};
  std::vector<SequenceSpec> sequences;
  std::shared_ptr<const GenerationFields> fields{};  // for GET /slots, without long texts and lists; may be null
  bool wants_scores = false;                         // of an Embedder: scores of the rank head, not embeddings
  size_t io_thread = 0;
  std::shared_ptr<TaskSink> sink;
  std::shared_ptr<const void> place{};  // Mailbox::Place, until the task is submitted
};

class Task {
 public:
  Task(uint64_t id, TaskSpec spec)
      : id_(id), spec_(std::move(spec)), n_open_(spec_.sequences.size()), has_prompt_(spec_.sequences.size()) {
    for (const SequenceSpec& sequence : spec_.sequences) n_tokens_ += static_cast<int64_t>(sequence.prompt.size());
  }

  uint64_t id() const { return id_; }
  TaskSpec& spec() { return spec_; }
  const TaskSpec& spec() const { return spec_; }
  /// Tokens of all prompts.
  int64_t n_tokens() const { return n_tokens_; }
  bool is_cancelled() const { return cancelled_.load(std::memory_order_acquire); }
  void mark_cancelled() { cancelled_.store(true, std::memory_order_release); }

  // --- for the scheduler's thread only

  /// The index of the next sequence, or nothing. One sequence of a task waits at a time, so the queue stays short.
  std::optional<size_t> take_next() {
    return n_taken_ < spec_.sequences.size() ? std::optional(n_taken_++) : std::nullopt;
  }
  /// The number of sequences without an end.
  size_t n_open() const { return n_open_; }
  void close_one() { --n_open_; }
  /// Whether the prompt of a sequence is in the cache, or will never be.
  bool has_prompt(size_t sequence) const { return has_prompt_[sequence]; }
  void note_prompt(size_t sequence) { has_prompt_[sequence] = true; }
  /// Whether a sequence had a slot, so that the task does not count as waiting. Returns the old value.
  bool leave_queue() { return std::exchange(has_left_queue_, true); }

 private:
  uint64_t id_;
  TaskSpec spec_;
  int64_t n_tokens_ = 0;
  size_t n_open_;
  size_t n_taken_ = 0;
  std::vector<bool> has_prompt_;
  bool has_left_queue_ = false;
  std::atomic<bool> cancelled_{false};
};

}  // namespace tessera::server
