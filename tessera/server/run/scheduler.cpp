// The thread of the scheduler: mail, admission, and the ends of sequences.
#include "tessera/server/run/scheduler.h"

#include <algorithm>
#include <new>
#include <utility>

namespace tessera::server {

namespace {

constexpr auto kPriorityWait = std::chrono::seconds(1);  // before a better priority takes a slot

// Between two reports of places in the queue. A report costs some 10 us per sequence, so long queues get fewer of them.
constexpr auto kQueueReports = std::chrono::seconds(1);
constexpr auto kQueueReportsPerSequence = std::chrono::milliseconds(1);
constexpr int64_t kKeptTokens = 1 << 18;  // of ended sequences, for guesses
constexpr std::string_view kDeadlinePassed = "The deadline has passed while the request waited";

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// The work of a row of logits beside that of a token without one. The costs are estimates, so errors do not matter.
double row_work(const Session& session) {
  constexpr int64_t kTokens = 16;
  const auto without = session.step_cost(kTokens, 0), with = session.step_cost(kTokens, 1);
  if (!without || !with || without->macs <= 0) return 0;
  return (with->macs - without->macs) / without->macs * static_cast<double>(kTokens);
}

}  // namespace

Scheduler::Scheduler(Session& session, const SchedulerOptions& options, ModelMetrics& metrics, ComputeTurns& turns,
                     PostToIo post_to_io, std::unique_ptr<Slots> slots)
    : TaskRunner(options.queue, metrics, session.engine().tokenizer()),
      session_(session),
      options_(options),
      turn_(turns),
      outbox_(std::move(post_to_io)),
      slots_(std::move(slots)),
      forecast_(options.token_ms),
      texts_(kKeptTokens) {}

Result<std::unique_ptr<Scheduler>> Scheduler::create(Session& session, const SchedulerOptions& options,
                                                     ModelMetrics& metrics, ComputeTurns& turns, PostToIo post_to_io) {
  TESSERA_ASSIGN(auto slots, Slots::create(session, options.n_slots));
  std::unique_ptr<Scheduler> scheduler(
      new Scheduler(session, options, metrics, turns, std::move(post_to_io), std::move(slots)));
  if (options.n_sampling_threads > 1) {
    TESSERA_ASSIGN(scheduler->sampling_threads_,
                   ThreadPool::create({.n_threads = options.n_sampling_threads, .poll = 0}));
  }
  TESSERA_TRY(scheduler->create_speculators());
  scheduler->row_work_ = row_work(session);
  scheduler->top_buffers_.resize(static_cast<size_t>(std::max(1, options.n_sampling_threads)));
  if (options.storage) scheduler->set_storage();
  metrics.n_slots = options.n_slots;
  if (const auto groups = session.cache().groups(); !groups.empty()) metrics.n_blocks = groups.front().n_blocks();
  TESSERA_TRY(scheduler->start_thread());
  return scheduler;
}

Scheduler::~Scheduler() { stop(); }

Result<> Scheduler::create_speculators() {
  for (Slot& slot : slots_->all()) {
    TESSERA_ASSIGN(slot.speculator,
                   create_speculator(options_.speculation, session_.engine().model().info().n_vocab,
                                     {.session = options_.draft, .head = options_.head, .sequence = slot.id}, &texts_));
  }
  return {};
}

// --- from other threads

std::expected<std::shared_ptr<Task>, Refusal> Scheduler::submit(TaskSpec spec) {
  if (!spec.cache_owner.empty())
    for (SequenceSpec& sequence : spec.sequences) sequence.cache_salt = spec.cache_owner + ":" + sequence.cache_salt;
  return TaskRunner::submit(std::move(spec));
}

void Scheduler::inspect(std::function<void(std::span<const SlotView>)> command) {
  mailbox().post([this, command = std::move(command)] {
    std::vector<SlotView> views;
    for (const Slot& slot : slots_->all())
      views.push_back({.id = slot.id,
                       .sequence = slot.sequence.get(),
                       .shown = slot.is_idle() ? slot.past : past_of(slot),
                       .n_last = std::ssize(slot.last_tokens),
                       .is_paused = slot.is_paused,
                       .is_restoring = slot.is_restoring});
    command(views);
  });
}

void Scheduler::drain() {
  mailbox().close();
  mailbox().post([this] {
    for (const FairQueue::Waiting& waiting : queue().drop_if([](const auto& one) { return !one.is_first; }))
      end_waiting(waiting, EndReason::failed, kShuttingDown);
  });
}

// --- the thread

void Scheduler::run() {
  while (!is_stopping() || !is_idle()) {
    wait_for_mail();
    now_ = Clock::now();
    try {
      drop_ended();
      admit();
      may_guess_ = true;
      if (plan_step()) run_step();
      if (disk_ && !is_stopping()) disk_->write_some(now_);
    } catch (const std::bad_alloc&) {
      for (Slot& slot : slots_->all())
        if (slot.sequence) slot.sequence->fail({ErrorCode::out_of_memory, std::string(kOutOfMemory)}, true);
    }
    run_slot_commands();  // before the thread may sleep: the last sequence of a slot may have ended
    report_queue();
    outbox_.post();
    publish_gauges();
  }
  turn_.set_streaming(false);
  turn_.release();
  if (disk_) flush_disk();
}

// Writes what the disk tier lacks of the sequences that have ended, so that the cache survives the end of the program.
// Jobs of the disk thread use this scheduler, so it waits for them in any case.
void Scheduler::flush_disk() {
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(options_.disk_flush_ms);
  disk_->begin_flush();
  const auto may_write = [&] { return disk_->next_write().has_value() && Clock::now() < end; };
  while (may_write() || disk_->n_jobs() > 0) {
    if (may_write()) {
      disk_->write_some(Clock::now());
    } else {
      read_mail(mailbox().take(std::nullopt));
    }
  }
}

bool Scheduler::can_run() const {
  return std::ranges::any_of(slots_->all(), [](const Slot& slot) { return slot.can_run(); });
}

// Sleeps until there is something to do, and waits for the turn to do it.
void Scheduler::wait_for_mail() {
  const bool has_sequences = slots_->n_busy() > 0 || !queue().is_empty();
  const bool may_admit = has_free_slot_ && !queue().is_empty();
  if (!can_run() && !may_admit && !(has_sequences && ends_all())) {
    turn_.set_streaming(false);
    turn_.release();
    // With sequences, all of them wait for slow readers or for the disk.
    const auto poll = std::chrono::milliseconds(options_.paused_poll_ms);
    auto deadline = has_sequences ? std::optional(Clock::now() + poll) : std::nullopt;
    if (const auto write = disk_ && !is_stopping() ? disk_->next_write() : std::nullopt)
      deadline = deadline ? std::min(*deadline, *write) : *write;
    read_mail(mailbox().take(deadline));
  }
  turn_.take();
  read_mail(mailbox().take_now());
}

void Scheduler::read_mail(Mailbox::Mail mail) {
  now_ = Clock::now();
  queue_tasks(mail.tasks, now_);
  for (const std::function<void()>& command : mail.commands) command();
  run_slot_commands();
}

// --- ends

void Scheduler::drop_ended() {
  for (Slot& slot : slots_->all()) {
    if (!slot.sequence) continue;
    if (drop_if_over(slot, now_)) {
      end_sequence(slot);
    } else {
      watch_reader(slot);
    }
  }
  if (queue().is_empty()) return;
  const bool has_cancels = take_cancels();
  if (!has_cancels && !ends_all() && !queue().has_deadline_before(now_)) return;
  const auto is_over = [&](const FairQueue::Waiting& one) {
    return ends_all() || (has_cancels && one.sequence->task().is_cancelled()) || now_ >= one.deadline;
  };
  for (const FairQueue::Waiting& waiting : queue().drop_if(is_over)) {
    if (waiting.sequence->task().is_cancelled()) {
      end_waiting(waiting, EndReason::cancelled, {});
    } else if (ends_all()) {
      end_waiting(waiting, EndReason::failed, kShuttingDown);
    } else {
      // A sequence that had a slot ends like one that still has one.
      end_waiting(waiting, EndReason::time, waiting.is_first ? std::string_view{} : kDeadlinePassed);
    }
  }
}

// Notes the reason if a running sequence must end.
bool Scheduler::drop_if_over(Slot& slot, Clock::time_point now) {
  Sequence& sequence = *slot.sequence;
  const TaskSpec& spec = sequence.task().spec();
  if (sequence.task().is_cancelled()) sequence.end(EndReason::cancelled);
  if (ends_all()) sequence.fail({ErrorCode::cancelled, std::string(kShuttingDown)}, true);
  if (spec.deadline && now >= *spec.deadline) sequence.end(EndReason::time);
  if (slot.is_paused && spec.sink->stalled_ms() > options_.slow_reader_ms) sequence.end(EndReason::slow_reader);
  return sequence.has_ended();
}

// A client that does not read pauses its own sequence only.
void Scheduler::watch_reader(Slot& slot) {
  const size_t n_unsent = slot.sequence->task().spec().sink->n_unsent();
  const bool was_paused = slot.is_paused;
  slot.is_paused = n_unsent >= (was_paused ? options_.stream_buffer / 4 : options_.stream_buffer);
  if (slot.is_paused != was_paused)
    slot.sequence->trace(was_paused ? TraceStage::resumed : TraceStage::paused, static_cast<int64_t>(n_unsent), now_);
}

// Later texts may repeat this one. Texts that must not share the cache are not kept. Without memory no text is: the
// sequence has to end in any case.
void Scheduler::keep_text(const Sequence& sequence) {
  if (!options_.speculation.is_on() || !sequence.shares_cache() || !sequence.spec().cache_salt.empty()) return;
  try {
    texts_.append(sequence.tokens().subspan(static_cast<size_t>(std::min(sequence.n_cached(), sequence.n_tokens()))));
    texts_.end_text();
  } catch (const std::bad_alloc&) {
    texts_.clear();
  }
}

void Scheduler::end_sequence(Slot& slot) {
  const std::shared_ptr<Sequence> sequence = slot.sequence;
  slots_->settle_guesses(slot);
  keep_text(*sequence);
  const int64_t n_stored = slot.n_computed;
  release_slot(slot);
  queue().end(sequence->task().spec().client);
  finish_sequence(*sequence, n_stored);
}

void Scheduler::release_slot(Slot& slot) {
  slots_->settle_guesses(slot);  // after an exception
  const Sequence& sequence = *slot.sequence;
  if (disk_ && sequence.shares_cache())
    disk_->note_tokens(sequence.tokens().first(static_cast<size_t>(slot.n_computed)), root_of(sequence), now_);
  slots_->release(slot);
  has_free_slot_ = true;
}

// Ends a sequence that waited, and those of its task that come after it. An empty error: the reason is none.
void Scheduler::end_waiting(const FairQueue::Waiting& waiting, EndReason reason, std::string_view error) {
  const std::shared_ptr<Task> task = waiting.sequence->shared_task();
  queue().end(task->spec().client);
  std::shared_ptr<Sequence> sequence = waiting.sequence;
  while (true) {
    if (!error.empty()) sequence->fail({ErrorCode::cancelled, std::string(error)}, true);
    sequence->end(reason);
    finish_sequence(*sequence, 0);
    const std::optional<size_t> index = waiting.is_first ? std::nullopt : task->take_next();
    if (!index) return;
    sequence = std::make_shared<Sequence>(task, *index, session_.engine().tokenizer(), waiting.since);
  }
}

void Scheduler::finish_sequence(Sequence& sequence, int64_t n_stored) {
  Task& task = sequence.task();
  task.note_prompt(sequence.index());
  leave_queue(task, now_);
  TaskEvent event = sequence.finish(n_stored, now_);
  const SequenceEnd& end = *event.end;
  ++metrics().ended[static_cast<size_t>(end.reason)];
  add(metrics().prompt_seconds, end.prompt_ms * 1e-3);
  add(metrics().generation_seconds, end.generation_ms * 1e-3);
  metrics().queue_seconds.observe(end.queue_ms * 1e-3);
  metrics().request_seconds.observe(seconds_between(sequence.queued(), now_));
  metrics().prompt_length.observe(static_cast<double>(end.n_prompt));
  metrics().generation_length.observe(static_cast<double>(end.n_generated));
  send(sequence.shared_task(), std::move(event));
  close_one(task);
}

// --- admission

void Scheduler::admit() {
  has_free_slot_ = false;
  while (!queue().is_empty()) {
    if (!slots_->has_idle()) {
      if (!preempt_for_priority()) return;
      continue;
    }
    const FairQueue::Waiting* next =
        queue().next(now_, [this](const FairQueue::Waiting& waiting) { return may_start(waiting); });
    if (next == nullptr) return;
    // A long prompt that has no room yet is not passed by shorter ones: otherwise it might wait for ever.
    if (slots_->n_busy() > 0 && !slots_->has_room(*next->sequence)) {
      if (!preempt_for_priority()) return;
      continue;
    }
    start(queue().take(next));
  }
}

bool Scheduler::may_start(const FairQueue::Waiting& waiting) const {
  const SequenceSpec& spec = waiting.sequence->spec();
  if (spec.same_prompt_as && !waiting.sequence->task().has_prompt(*spec.same_prompt_as)) return false;
  if (spec.slot >= 0 && !slots_->all()[static_cast<size_t>(spec.slot)].is_idle()) return false;
  return !waiting.is_first || waiting.sequence->task().spec().sink->n_unsent() < options_.stream_buffer / 4;
}

void Scheduler::start(const FairQueue::Waiting& waiting) {
  Task& task = waiting.sequence->task();
  leave_queue(task, now_);
  Slot& slot = slots_->assign(waiting.sequence);
  slot.priority = waiting.priority;
  slot.arrival = waiting.arrival;
  slot.is_resumed = waiting.is_first;
  if (!disk_ || !disk_->begin_restore(slot, options_.always_restores)) begin(slot);
  if (!waiting.is_first) queue_next(waiting.sequence->shared_task(), waiting.since, waiting.arrival);
}

// All cached tokens of the slot are in memory now.
void Scheduler::begin(Slot& slot) {
  if (!slot.is_resumed) {
    const auto n_cached = static_cast<uint64_t>(slot.n_computed);
    metrics().cached_prompt_tokens += n_cached;
    metrics().disk_prompt_tokens += n_cached - std::min(n_cached, static_cast<uint64_t>(slot.n_from_memory));
  }
  slot.sequence->trace(slot.is_resumed ? TraceStage::resumed : TraceStage::admitted, slot.n_computed, now_);
  if (auto event = slot.sequence->start(slot.id, slot.n_computed, now_))
    send(slot.sequence->shared_task(), std::move(*event));
}

// The slot of the worst priority, then of the latest arrival, goes to a sequence that is more urgent and has waited
// long enough, or that finds a slot paused. Returns whether a slot became idle.
bool Scheduler::preempt_for_priority() {
  Slot* worst = nullptr;
  for (Slot& slot : slots_->all()) {
    if (slot.is_idle()) continue;
    const auto key = [](const Slot& s) { return std::tuple(s.is_paused, s.priority, s.arrival); };
    if (worst == nullptr || key(slot) > key(*worst)) worst = &slot;
  }
  if (worst == nullptr || !(worst->is_paused || queue().has_better_than(worst->priority))) return false;
  const bool is_taken = queue().any_of([&](const FairQueue::Waiting& one) {
    if (!may_start(one)) return false;
    return worst->is_paused || (one.priority < worst->priority && now_ - one.since >= kPriorityWait);
  });
  if (is_taken) preempt(*worst, worst->is_paused ? PreemptionReason::slow_reader : PreemptionReason::priority);
  return is_taken;
}

void Scheduler::preempt(Slot& slot, PreemptionReason reason) {
  ++metrics().preempted[static_cast<size_t>(reason)];
  const std::shared_ptr<Sequence> sequence = slot.sequence;
  sequence->trace(TraceStage::preempted, slot.n_computed, now_);
  const TaskSpec& spec = sequence->task().spec();
  const uint64_t arrival = slot.arrival;
  release_slot(slot);
  queue().push({.sequence = sequence,
                .client = spec.client,
                .priority = spec.priority,
                .n_tokens = sequence->n_tokens(),
                .since = sequence->queued(),
                .deadline = spec.deadline.value_or(Clock::time_point::max()),
                .is_first = true,
                .arrival = arrival});
  queue().end(spec.client);  // it counts once
}

// --- events

void Scheduler::send(const std::shared_ptr<Task>& task, TaskEvent event) { outbox_.add(task, std::move(event)); }

// Tells those that wait how many are before them.
void Scheduler::report_queue() {
  if (queue().is_empty() || now_ < next_queue_report_) return;
  next_queue_report_ =
      now_ + std::max<Clock::duration>(kQueueReports, kQueueReportsPerSequence * static_cast<int64_t>(queue().size()));
  const std::vector<const FairQueue::Waiting*> order = queue().in_order(now_);
  for (size_t i = 0; i < order.size(); ++i) {
    const Sequence& sequence = *order[i]->sequence;
    send(sequence.shared_task(), {.kind = TaskEvent::Kind::waiting,
                                  .sequence = static_cast<uint32_t>(sequence.index()),
                                  .n_done = static_cast<int64_t>(i)});
  }
}

void Scheduler::publish_gauges() {
  const auto is_paused = [](const Slot& slot) { return slot.is_paused && !slot.is_idle(); };
  metrics().n_busy_slots = static_cast<int64_t>(slots_->n_busy());
  metrics().n_paused_slots = std::ranges::count_if(slots_->all(), is_paused);
  metrics().n_waiting = static_cast<int64_t>(queue().size());
  metrics().n_waiting_tokens = mailbox().n_waiting_tokens();
  if (const auto groups = session_.cache().groups(); !groups.empty())
    metrics().n_used_blocks = groups.front().n_used_blocks();
  const PrefixCounters prefix = slots_->cache().counters();
  metrics().n_prefix_blocks = prefix.n_blocks;
  metrics().n_prefix_blocks_in_use = prefix.n_blocks_in_use;
  metrics().prefix_evictions = static_cast<uint64_t>(prefix.n_evicted_blocks);
}

}  // namespace tessera::server
