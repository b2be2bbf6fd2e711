// A step of the scheduler: the choice of its tokens, the decoding, and the next tokens of its sequences.
#include <algorithm>
#include <tuple>

#include "tessera/server/run/scheduler.h"

namespace tessera::server {

namespace {

constexpr int64_t kChunkTokens = 16;   // parts of prompts are multiples of it, so that prepared graphs are used again
constexpr size_t kMostPrompts = 4;     // that share a step
constexpr double kLeastTargetMs = 50;  // of the default target
constexpr double kDecodeSteps = 3;     // of the default target, in steps without prompts
constexpr double kAverageShare = 0.1;  // of the last step in the average
constexpr int64_t kParallelLogits = 1 << 16;  // logits of a step from which sampling is divided among threads

}  // namespace

double Scheduler::target_ms() const {
  return options_.step_target_ms > 0 ? options_.step_target_ms : std::max(kLeastTargetMs, kDecodeSteps * decode_ms_);
}

// --- planning

// Returns whether there is anything to compute.
bool Scheduler::plan_step() {
  batch_.clear();
  chunks_.clear();
  rows_.clear();
  work_ = {};
  for (Slot& slot : slots_->all()) {
    if (!slot.is_decoding() || slot.is_paused) continue;
    for (int64_t i = 0; i < slot.n_pending(); ++i) work_.n_pairs += static_cast<double>(slot.n_computed + i + 1);
    work_.n_decoding += slot.n_pending();
    add_chunk({.slot = &slot, .n_tokens = slot.n_pending(), .is_of_prompt = false});
  }
  turn_.set_streaming(work_.n_decoding > 0);
  plan_prefill(work_);
  return batch_.size() > 0;
}

// The prompts of a step, the most urgent first. Half of the budget is for the first one, so that short prompts do not
// wait for the end of a long one.
void Scheduler::plan_prefill(const StepWork& decoding) {
  std::vector<Slot*> prompts;
  for (Slot& slot : slots_->all())
    if (slot.sequence && !slot.is_decoding() && !slot.is_paused) prompts.push_back(&slot);
  if (prompts.empty()) return;
  std::ranges::sort(prompts, {}, [this](const Slot* slot) {
    return std::tuple(slot->priority, queue_.counter(slot->sequence->task().spec().client), slot->arrival);
  });
  prompts.resize(std::min(prompts.size(), kMostPrompts));
  const bool is_alone = decoding.n_decoding == 0 && !turn_.others_stream();
  int64_t n_most = is_alone && queue_.is_empty() ? options_.n_batch : options_.n_ubatch;
  // The blocks of windows are counted exactly for one micro-batch only.
  if (session_.needs_marks()) n_most = std::max(options_.n_ubatch - decoding.n_decoding, kChunkTokens);
  int64_t budget = n_most;
  if (!is_alone) budget = forecast_.prefill_budget(decoding, prompts.front()->n_computed, n_most, target_ms());
  int64_t n_first = prompts.front()->n_pending();
  if (prompts.size() > 1) n_first = std::min(n_first, std::max(budget / 2, kChunkTokens));
  int64_t n_left = budget - std::min(budget, n_first);
  std::vector<int64_t> n_others;
  for (const Slot* slot : std::span(prompts).subspan(1)) {
    n_others.push_back(std::min(slot->n_pending(), n_left));
    n_left -= n_others.back();
  }
  n_first = std::min({n_first + n_left, prompts.front()->n_pending(), budget});
  for (size_t i = 0; i < prompts.size(); ++i) {
    Slot& slot = *prompts[i];
    int64_t n = i == 0 ? n_first : n_others[i - 1];
    n = std::min(n, slots_->tokens_to_mark(slot));
    if (n < slot.n_pending() && n != slots_->tokens_to_mark(slot)) n -= n % kChunkTokens;
    if (n <= 0) continue;
    work_.n_prefill += n;
    work_.n_pairs += static_cast<double>(n) * (static_cast<double>(slot.n_computed) + static_cast<double>(n) / 2);
    add_chunk({.slot = &slot, .n_tokens = n, .is_of_prompt = true});
  }
}

void Scheduler::add_chunk(const Chunk& chunk) {
  Slot& slot = *chunk.slot;
  const auto tokens = slot.sequence->tokens();
  const int64_t end = slot.n_computed + chunk.n_tokens;
  const bool wants_row = end == slot.sequence->n_tokens() && slot.sequence->spec().n_predict != 0;
  for (int64_t i = slot.n_computed; i < end; ++i)
    batch_.add({.token = tokens[static_cast<size_t>(i)],
                .position = static_cast<int32_t>(i),
                .sequence = slot.id,
                .wants_logits = wants_row && i + 1 == end});
  chunks_.push_back(chunk);
  if (wants_row) rows_.push_back({&slot, std::ssize(rows_)});
}

// --- running

void Scheduler::run_step() {
  while (true) {
    const auto begin = Clock::now();
    const Result<> decoded = decode();
    if (decoded) {
      finish_step(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
      return;
    }
    now_ = Clock::now();
    if (decoded.error().code() == ErrorCode::cancelled) return;  // the next look at the slots ends the sequences
    if (decoded.error().code() != ErrorCode::limit) return try_each_alone();
    if (!make_room() || !plan_step()) return;
  }
}

Result<> Scheduler::decode() {
  TESSERA_TRY(slots_->make_room(batch_));
  for (const Row& row : rows_)
    if (sample::TokenMask* mask = row.slot->sequence->spec().chain->mask()) mask->prepare();
  set_running_tasks(true);
  const auto due = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                      std::chrono::duration<double, std::milli>(forecast_.ms(work_)));
  step_due_ns_.store(due.time_since_epoch().count(), std::memory_order_relaxed);
  Result<> decoded = session_.decode(batch_, &cancel_step_);
  step_due_ns_.store(0, std::memory_order_relaxed);
  set_running_tasks(false);
  return decoded;
}

// Tells cancel() whose tokens the step computes. If nobody wants them any more, the step stops.
void Scheduler::set_running_tasks(bool is_running) {
  const std::lock_guard lock(running_mutex_);
  running_.clear();
  if (!is_running) return;
  cancel_step_.reset();
  for (const Chunk& chunk : chunks_) running_.push_back(chunk.slot->sequence->shared_task());
  if (ends_all_) cancel_step_.cancel();
}

// The cache is full, and it keeps nothing that could go: takes the slot of the least urgent sequence. One that is alone
// ends. Returns whether another try makes sense.
bool Scheduler::make_room() {
  Slot* victim = nullptr;
  for (Slot& slot : slots_->all()) {
    if (slot.is_idle()) continue;
    const auto key = [](const Slot& s) { return std::tuple(s.priority, s.arrival); };
    if (victim == nullptr || key(slot) > key(*victim)) victim = &slot;
  }
  if (victim == nullptr) return false;
  if (slots_->n_busy() > 1) {
    preempt(*victim, PreemptionReason::memory);
    return true;
  }
  victim->sequence->end(EndReason::context_full);
  end_sequence(*victim);
  return false;
}

// An error of the device or of the engine: only the sequences that fail by themselves end.
void Scheduler::try_each_alone() {
  const std::vector<Chunk> chunks = chunks_;
  for (const Chunk& chunk : chunks) {
    batch_.clear();
    chunks_.clear();
    rows_.clear();
    work_ = {};
    add_chunk(chunk);
    if (Result<> decoded = decode(); decoded) {
      finish_step(0);
    } else if (decoded.error().code() != ErrorCode::cancelled) {
      chunk.slot->sequence->fail(std::move(decoded).error());
      end_sequence(*chunk.slot);
    }
  }
}

// --- after decoding

void Scheduler::finish_step(double step_ms) {
  if (step_ms > 0) {
    forecast_.learn(work_, step_ms);
    if (work_.n_prefill == 0) decode_ms_ += kAverageShare * (step_ms - decode_ms_);
  }
  ++metrics_.decode_calls;
  metrics_.busy_slot_steps += chunks_.size();
  metrics_.prompt_tokens += static_cast<uint64_t>(work_.n_prefill);
  metrics_.step_seconds.observe(step_ms * 1e-3);
  metrics_.step_tokens.observe(static_cast<double>(batch_.size()));
  metrics_.step_sequences.observe(static_cast<double>(chunks_.size()));
  now_ = Clock::now();
  for (const Chunk& chunk : chunks_) note_progress(chunk);
  sample_rows();
}

void Scheduler::note_progress(const Chunk& chunk) {
  Slot& slot = *chunk.slot;
  Sequence& sequence = *slot.sequence;
  slots_->note_computed(slot, chunk.n_tokens);
  if (chunk.is_of_prompt)
    queue_.charge(sequence.task().spec().client, FairQueue::kPromptTokenCost * static_cast<double>(chunk.n_tokens));
  if (auto event = sequence.progress(std::min(slot.n_computed, sequence.n_prompt()), now_))
    send(sequence.shared_task(), std::move(*event));
  if (slot.n_computed >= sequence.n_prompt()) sequence.task().note_prompt(sequence.index());
  if (slot.n_computed < sequence.n_tokens() || sequence.spec().n_predict != 0) return;
  sequence.end(EndReason::length);
  end_sequence(slot);
}

// A row's token depends on that row, its chain and its seed only, so rows may be sampled on any thread.
void Scheduler::sample_rows() {
  const auto choose = [this](const Row& row) { row.slot->sequence->choose(session_.logits(row.index)); };
  const int64_t n_logits = std::ssize(rows_) * session_.engine().model().info().n_vocab;
  if (sampling_threads_ && rows_.size() > 1 && n_logits >= kParallelLogits) {
    sampling_threads_->run([&](ThreadContext& thread) {
      for (int64_t i = thread.next_chunk(); i < std::ssize(rows_); i = thread.next_chunk())
        choose(rows_[static_cast<size_t>(i)]);
    });
  } else {
    for (const Row& row : rows_) choose(row);
  }
  now_ = Clock::now();
  for (const Row& row : rows_) accept_token(*row.slot);
}

void Scheduler::accept_token(Slot& slot) {
  Sequence& sequence = *slot.sequence;
  const auto last = sequence.last_token();
  TaskEvent event = sequence.accept(now_);
  if (last != Clock::time_point{}) {
    metrics_.between_tokens_seconds.observe(std::chrono::duration<double>(now_ - last).count());
  } else {
    metrics_.first_token_seconds.observe(std::chrono::duration<double>(now_ - sequence.task().spec().received).count());
  }
  send(sequence.shared_task(), std::move(event));
  const int64_t n_before = sequence.n_generated() - 1;
  std::vector<int32_t> forced = sequence.forced();
  for (; !forced.empty() && !sequence.has_ended(); forced.pop_back()) {
    sequence.choose_forced(forced.back());
    send(sequence.shared_task(), sequence.accept(now_));
  }
  const int64_t n_new = sequence.n_generated() - n_before;
  queue_.charge(sequence.task().spec().client, FairQueue::kGeneratedTokenCost * static_cast<double>(n_new));
  metrics_.generated_tokens += static_cast<uint64_t>(n_new);
  metrics_.most_tokens = std::max(metrics_.most_tokens.load(), static_cast<uint64_t>(sequence.n_tokens()));
  if (!sequence.has_ended() && sequence.n_tokens() >= options_.slot_context) sequence.end(EndReason::context_full);
  if (sequence.has_ended()) end_sequence(slot);
}

}  // namespace tessera::server
