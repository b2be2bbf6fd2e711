#include "tessera/server/run/embedder.h"

#include <algorithm>
#include <new>
#include <utility>

namespace tessera::server {

namespace {

constexpr double kDefaultTargetMs = 50;
constexpr size_t kMostStarted = 2;  // texts that are computed in several batches
constexpr std::string_view kTooLate = "The deadline has passed";

}  // namespace

Embedder::Embedder(Session& session, const EmbeddingUse& use, const EmbedderOptions& options, ModelMetrics& metrics,
                   ComputeTurns& turns, PostToIo post_to_io)
    : TaskRunner(options.queue, metrics, session.engine().tokenizer()),
      session_(session),
      use_(use),
      options_(options),
      n_batch_(std::min(options.n_batch, session.options().n_ubatch)),
      is_causal_(session.engine().model().info().embeds_causally()),
      turn_(turns),
      outbox_(std::move(post_to_io)),
      forecast_(options.token_ms) {
  for (int32_t id = session.options().n_sequences - 1; id >= 0; --id) free_ids_.push_back(id);
}

Result<std::unique_ptr<Embedder>> Embedder::create(Session& session, const EmbeddingUse& use,
                                                   const EmbedderOptions& options, ModelMetrics& metrics,
                                                   ComputeTurns& turns, PostToIo post_to_io) {
  std::unique_ptr<Embedder> embedder(new Embedder(session, use, options, metrics, turns, std::move(post_to_io)));
  TESSERA_TRY(embedder->start_thread());
  return embedder;
}

Embedder::~Embedder() { stop(); }

void Embedder::drain() {
  mailbox().close();
  drains_ = true;
  mailbox().wake();
}

// --- the thread

void Embedder::run() {
  while (!is_stopping() || !is_idle()) {
    wait_for_mail();
    try {
      drop_ended();
      if (plan_batch()) run_batch();
    } catch (const std::bad_alloc&) {
      for (Text& text : texts_) text.sequence->fail({ErrorCode::out_of_memory, std::string(kOutOfMemory)}, true);
    }
    end_texts();
    outbox_.post();
  }
  turn_.release();
}

// Sleeps until there is something to do, and waits for the turn to do it.
void Embedder::wait_for_mail() {
  if (texts_.empty() && queue().is_empty()) {
    turn_.release();
    read_mail(mailbox().take(std::nullopt));
  }
  turn_.take();
  read_mail(mailbox().take_now());
}

void Embedder::read_mail(const Mailbox::Mail& mail) {
  now_ = Clock::now();
  queue_tasks(mail.tasks, now_);
}

// --- ends

bool Embedder::is_over(const TaskSpec& spec) const { return ends_all() || (spec.deadline && now_ >= *spec.deadline); }

void Embedder::end_over(Sequence& sequence) const {
  if (sequence.task().is_cancelled()) return sequence.end(EndReason::cancelled);
  const bool is_shutdown = ends_all() || drains_;
  sequence.fail({ErrorCode::cancelled, std::string(is_shutdown ? kShuttingDown : kTooLate)}, true);
}

void Embedder::drop_ended() {
  for (Text& text : texts_) {
    const Task& task = text.sequence->task();
    if (task.is_cancelled() || is_over(task.spec())) end_over(*text.sequence);
  }
  end_texts();
  if (queue().is_empty()) return;
  const bool has_cancels = take_cancels();
  if (!has_cancels && !drains_ && !ends_all() && !queue().has_deadline_before(now_)) return;
  const auto is_dropped = [&](const FairQueue::Waiting& one) {
    const Task& task = one.sequence->task();
    const bool has_begun = one.sequence->index() > 0;
    return task.is_cancelled() || (drains_ && !has_begun) || is_over(task.spec());
  };
  for (const FairQueue::Waiting& waiting : queue().drop_if(is_dropped)) end_waiting(waiting);
}

// Ends a text that waited, and those of its task that come after it.
void Embedder::end_waiting(const FairQueue::Waiting& waiting) {
  const std::shared_ptr<Task> task = waiting.sequence->shared_task();
  queue().end(task->spec().client);
  std::shared_ptr<Sequence> sequence = waiting.sequence;
  while (true) {
    end_over(*sequence);
    finish(*sequence);
    const std::optional<size_t> index = task->take_next();
    if (!index) return;
    sequence = std::make_shared<Sequence>(task, *index, session_.engine().tokenizer(), waiting.since);
  }
}

// Removes the texts that have ended from the session.
void Embedder::end_texts() {
  std::erase_if(texts_, [this](Text& text) {
    if (!text.sequence->has_ended()) return false;
    const int64_t n_tokens = text.sequence->n_tokens();
    static_cast<void>(session_.remove(text.id, 0, static_cast<int32_t>(n_tokens)));
    free_ids_.push_back(text.id);
    n_stored_ -= n_tokens;
    queue().end(text.sequence->task().spec().client);
    finish(*text.sequence);
    return true;
  });
}

void Embedder::finish(Sequence& sequence) {
  Task& task = sequence.task();
  leave_queue(task, now_);
  TaskEvent event = sequence.finish(0, now_);
  ++metrics().ended[static_cast<size_t>(event.end->reason)];
  add(metrics().prompt_seconds, event.end->prompt_ms * 1e-3);
  metrics().queue_seconds.observe(event.end->queue_ms * 1e-3);
  outbox_.add(sequence.shared_task(), std::move(event));
  close_one(task);
}

// --- planning

// Returns whether there is anything to compute. Texts that wait and texts that have begun come first in turns, so that
// short texts do not wait for the end of a long one.
bool Embedder::plan_batch() {
  batch_.clear();
  chunks_.clear();
  work_ = {};
  is_bounded_ = turn_.others_stream();
  n_started_ = texts_.size();
  const size_t n_begun = n_started_, first = ++n_batches_ / 2;
  if (n_batches_ % 2 == 0) admit();
  for (size_t i = 0; i < n_begun; ++i) {
    const size_t index = (first + i) % n_begun;
    const int64_t n = chunk_size(texts_[index].n_done, texts_[index].n_pending());
    if (n > 0) add_chunk(index, n);
  }
  if (n_batches_ % 2 != 0) admit();
  return batch_.size() > 0;
}

StepWork Embedder::work_with(int64_t position, int64_t n_tokens) const {
  StepWork work = work_;
  is_causal_ ? work.add_prefill(position, n_tokens) : work.add_encoded(n_tokens);
  return work;
}

// The number of tokens that the batch takes of a text of which n_pending are left; 0: none. The first chunk of a batch
// has at least some tokens, or the whole text if it is computed at once.
int64_t Embedder::chunk_size(int64_t position, int64_t n_pending) const {
  const int64_t n_left = n_batch_ - work_.n_prefill;
  const double target_ms = options_.step_target_ms > 0 ? options_.step_target_ms : kDefaultTargetMs;
  int64_t n = n_pending;
  if (is_causal_) {
    n = std::min(n_pending, n_left);
    if (is_bounded_ && n > 0) n = forecast_.prefill_budget(work_, position, n, target_ms);
  }
  if (work_.n_prefill == 0 || n <= 0) return std::max<int64_t>(n, 0);
  const bool fits = n <= n_left && (!is_bounded_ || forecast_.ms(work_with(position, n)) <= target_ms);
  return fits ? n : 0;
}

void Embedder::admit() {
  while (!queue().is_empty() && !free_ids_.empty() && admit_next()) {
  }
}

// Starts the next text, if the batch and the session have room for it. A text without room is not passed by others:
// otherwise it might wait for ever.
bool Embedder::admit_next() {
  const FairQueue::Waiting* next = queue().next(now_, [](const FairQueue::Waiting&) { return true; });
  const int64_t n_tokens = next->n_tokens;
  const int64_t n = chunk_size(0, n_tokens);
  if (n == 0 || (!texts_.empty() && n_stored_ + n_tokens > session_.n_ctx())) return false;
  if (n < n_tokens && n_started_++ >= kMostStarted) return false;
  // All memory is there before the text leaves the queue.
  const bool wants_scores = next->sequence->task().spec().wants_scores;
  const nn::Pooling pooling = wants_scores ? nn::Pooling::rank : use_.pooling.value_or(nn::Pooling::mean);
  TextPooler pooler(session_.engine().model().info(), pooling, n_tokens);
  texts_.reserve(texts_.size() + 1);
  const FairQueue::Waiting waiting = queue().take(next);
  texts_.push_back({.sequence = waiting.sequence, .id = free_ids_.back(), .pooler = std::move(pooler)});
  free_ids_.pop_back();
  static_cast<void>(session_.set_adapters(texts_.back().id, texts_.back().sequence->spec().adapters));  // checked
  n_stored_ += n_tokens;
  Task& task = waiting.sequence->task();
  leave_queue(task, now_);
  static_cast<void>(waiting.sequence->start(-1, 0, now_));  // nobody needs the event
  queue().charge(waiting.client, FairQueue::kPromptTokenCost * static_cast<double>(n_tokens));
  add_chunk(texts_.size() - 1, n);
  queue_next(waiting.sequence->shared_task(), waiting.since, waiting.arrival);
  return true;
}

void Embedder::add_chunk(size_t index, int64_t n_tokens) {
  const Text& text = texts_[index];
  const auto tokens = text.sequence->tokens();
  const Range wanted = text.pooler.wanted();
  Chunk chunk{.text = index, .n_tokens = n_tokens};
  work_ = work_with(text.n_done, n_tokens);
  for (int64_t i = text.n_done; i < text.n_done + n_tokens; ++i) {
    const bool is_wanted = i >= wanted.begin && i < wanted.end;
    if (is_wanted) ++chunk.n_rows;
    batch_.add({.token = tokens[static_cast<size_t>(i)],
                .position = static_cast<int32_t>(i),
                .sequence = text.id,
                .wants_logits = is_wanted});
  }
  chunks_.push_back(chunk);
}

// --- running

void Embedder::run_batch() {
  const auto begin = Clock::now();
  const Result<> decoded = decode();
  if (decoded) {
    finish_batch();
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
    forecast_.learn(work_, ms);
    metrics().step_seconds.observe(ms * 1e-3);
    metrics().step_tokens.observe(static_cast<double>(work_.n_prefill));
  } else if (decoded.error().code() != ErrorCode::cancelled) {
    try_each_alone();
  }
  now_ = Clock::now();  // the next look at the texts ends those that were cancelled
}

Result<> Embedder::decode() {
  std::vector<std::shared_ptr<Task>> tasks;
  for (const Chunk& chunk : chunks_) tasks.push_back(texts_[chunk.text].sequence->shared_task());
  Result<> decoded = compute(std::move(tasks), forecast_.ms(work_),
                             [this](const CancelToken& cancel) { return session_.decode(batch_, &cancel); });
  ++metrics().decode_calls;
  return decoded;
}

// An error of the device or of the engine: only the texts that fail by themselves end.
void Embedder::try_each_alone() {
  for (const Chunk& chunk : std::exchange(chunks_, {})) {
    batch_.clear();
    chunks_.clear();
    work_ = {};
    add_chunk(chunk.text, chunk.n_tokens);
    if (Result<> decoded = decode(); decoded) {
      finish_batch();
    } else if (decoded.error().code() != ErrorCode::cancelled) {
      texts_[chunk.text].sequence->fail(std::move(decoded).error());
    }
  }
}

// Pools the rows of the batch. Texts that are whole get their results.
void Embedder::finish_batch() {
  const int64_t n_embd = session_.engine().model().info().n_embd;
  int64_t row = 0;
  for (const Chunk& chunk : chunks_) {
    Text& text = texts_[chunk.text];
    if (chunk.n_rows > 0) text.pooler.add({session_.embedding(row).data(), static_cast<size_t>(chunk.n_rows * n_embd)});
    row += chunk.n_rows;
    text.n_done += chunk.n_tokens;
  }
  metrics().prompt_tokens += static_cast<uint64_t>(work_.n_prefill);
  for (const Chunk& chunk : chunks_) {
    Text& text = texts_[chunk.text];
    if (text.n_pending() > 0) continue;
    auto values = text.pooler.finish(session_, nullptr);
    if (values) {
      text.sequence->set_values(std::move(*values));
      text.sequence->end(EndReason::eos);
    } else {
      text.sequence->fail(std::move(values).error());
    }
  }
}

}  // namespace tessera::server
