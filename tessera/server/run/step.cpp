// A step of the scheduler: the choice of its tokens, the decoding, and the next tokens of its sequences.
#include <algorithm>
#include <tuple>

#include "tessera/server/run/scheduler.h"
#include "tessera/server/run/token_scores.h"

namespace tessera::server {

namespace {

constexpr size_t kMostPrompts = 4;            // that share a step
constexpr double kLeastTargetMs = 50;         // of the default target
constexpr double kDecodeSteps = 3;            // of the default target, in steps without prompts
constexpr double kAverageShare = 0.1;         // of the last step in the average
constexpr int64_t kParallelLogits = 1 << 16;  // logits of a step from which sampling is divided among threads

}  // namespace

double Scheduler::target_ms() const {
  return options_.step_target_ms > 0 ? options_.step_target_ms : std::max(kLeastTargetMs, kDecodeSteps * decode_ms_);
}

// --- planning

// Returns whether there is anything to compute.
bool Scheduler::plan_step() {
  clear_step();
  add_decoding();
  turn_.set_streaming(work_.n_decoding > 0);
  plan_prefill(work_);
  return batch_.size() > 0;
}

// The sequences that generate share the guesses of a step.
void Scheduler::add_decoding() {
  std::vector<Slot*> decoding;
  for (Slot& slot : slots_->all())
    if (slot.is_decoding() && slot.can_run()) decoding.push_back(&slot);
  for (Slot* slot : decoding) {
    work_.n_decoding += slot->n_pending();
    guess(*slot, std::ssize(decoding));
    const auto n_guesses = std::ssize(slot->guesses);
    for (int64_t i = 0; i < slot->n_pending() + n_guesses; ++i)
      work_.n_pairs += static_cast<double>(slot->n_computed + i + 1);
    work_.n_decoding += n_guesses;
    add_chunk({.slot = slot, .n_tokens = slot->n_pending(), .is_of_prompt = false});
  }
}

// A draft model that fails makes no guesses.
void Scheduler::guess(Slot& slot, int64_t n_decoding) {
  const Sequence& sequence = *slot.sequence;
  if (!slot.speculator || !may_guess_) return;
  int64_t n_most = std::min({options_.speculation.n_most / n_decoding, slots_->most_guesses(slot),
                             options_.slot_context - sequence.n_tokens()});
  if (sequence.spec().n_predict >= 0) n_most = std::min(n_most, sequence.spec().n_predict - sequence.n_generated() - 1);
  if (n_most < 1) return;
  if (slot.n_told < 0) {
    slot.speculator->begin(sequence.tokens());
  } else {
    for (const int32_t token : sequence.tokens().subspan(static_cast<size_t>(slot.n_told)))
      slot.speculator->append(token);
  }
  slot.n_told = sequence.n_tokens();
  const auto ms_with = [&](int64_t n) { return step_times_.ms(work_.n_decoding + n); };
  const Speculator::Step step{.n_most = n_most,
                              .position = static_cast<int32_t>(sequence.n_tokens() - 1),
                              .ms_with = ms_with,
                              .n_others = n_decoding - 1};
  if (const auto guesses = slot.speculator->draft(step, nullptr)) slot.guesses.assign(guesses->begin(), guesses->end());
  was_narrow_ |= slot.speculator->was_shortened();
}

void Scheduler::clear_step() {
  drop_guesses();
  was_narrow_ = false;
  batch_.clear();
  chunks_.clear();
  rows_.clear();
  scored_.clear();
  n_rows_ = 0;
  work_ = {};
}

// The tokens that each prompt could compute in this step. Every slot has a row of logits for its next token. The
// session's other rows are for scores, and the first prompts get them.
std::vector<StepPrompt> Scheduler::step_prompts(std::span<Slot* const> slots) const {
  int64_t n_rows = session_.options().n_outputs - options_.n_slots;
  if (options_.speculation.is_on()) n_rows -= options_.speculation.n_most;
  std::vector<StepPrompt> prompts;
  for (const Slot* slot : slots) {
    StepPrompt& prompt = prompts.emplace_back();
    prompt = {.position = slot->n_computed, .n_wanted = slot->n_pending(), .score_work = 0};
    if (!slot->sequence->is_scoring()) continue;
    prompt.score_work = row_work_;
    // After a preemption, tokens that have their scores are computed again without rows.
    const int64_t n_without = std::max<int64_t>(slot->sequence->n_scored() - 1 - slot->n_computed, 0);
    prompt.n_wanted = std::min(prompt.n_wanted, n_without + 1 + n_rows);
    n_rows -= std::max<int64_t>(prompt.n_wanted - n_without - 1, 0);
  }
  return prompts;
}

// The prompts of a step, the most urgent first. Without streams there is no limit of time, and tokens are divided
// instead.
void Scheduler::plan_prefill(const StepWork& decoding) {
  std::vector<Slot*> slots;
  for (Slot& slot : slots_->all())
    if (slot.can_run() && !slot.is_decoding()) slots.push_back(&slot);
  if (slots.empty()) return;
  std::ranges::sort(slots, {}, [this](const Slot* slot) {
    return std::tuple(slot->priority, queue().counter(slot->sequence->task().spec().client), slot->arrival);
  });
  slots.resize(std::min(slots.size(), kMostPrompts));
  const bool is_alone = decoding.n_decoding == 0 && !turn_.others_stream();
  int64_t n_most = is_alone && queue().is_empty() ? options_.n_batch : options_.n_ubatch;
  // The blocks of windows are counted exactly for one micro-batch only.
  if (session_.needs_marks()) n_most = std::max(options_.n_ubatch - decoding.n_decoding, kChunkTokens);
  const std::vector<StepPrompt> prompts = step_prompts(slots);
  const std::vector<int64_t> planned =
      is_alone ? divide_tokens(prompts, n_most) : divide_time(forecast_, decoding, prompts, n_most, target_ms());
  for (size_t i = 0; i < slots.size(); ++i) {
    Slot& slot = *slots[i];
    const int64_t n = std::min(planned[i], slots_->tokens_to_mark(slot));
    // A session with few rows of logits scores few tokens at a time. The first prompt always advances.
    const bool has_few_rows = i == 0 && n < kChunkTokens && slot.sequence->is_scoring();
    const bool is_whole = n == slot.n_pending() || n == slots_->tokens_to_mark(slot) || has_few_rows;
    const int64_t n_tokens = is_whole ? n : n - n % kChunkTokens;
    if (n_tokens <= 0) continue;
    work_.add_prefill(slot.n_computed, n_tokens);
    add_chunk({.slot = &slot, .n_tokens = n_tokens, .is_of_prompt = true});
  }
}

void Scheduler::add_chunk(const Chunk& chunk) {
  Slot& slot = *chunk.slot;
  const Sequence& sequence = *slot.sequence;
  ScoredRows scored{.slot = &slot, .first_row = n_rows_, .n = 0};
  for (int64_t i = slot.n_computed; i < slot.n_computed + chunk.n_tokens; ++i) {
    const bool wants_logits = sequence.wants_logits_after(i);
    batch_.add({.token = sequence.tokens()[static_cast<size_t>(i)],
                .position = static_cast<int32_t>(i),
                .sequence = slot.id,
                .wants_logits = wants_logits});
    if (!wants_logits) continue;
    if (i + 1 == sequence.n_tokens()) {
      rows_.push_back({&slot, n_rows_});
    } else {
      ++scored.n;
    }
    ++n_rows_;
  }
  for (auto position = static_cast<int32_t>(sequence.n_tokens()); const int32_t token : slot.guesses)
    batch_.add({.token = token, .position = position++, .sequence = slot.id, .wants_logits = true});
  n_rows_ += std::ssize(slot.guesses);
  chunks_.push_back(chunk);
  work_.score_work += row_work_ * static_cast<double>(scored.n);
  if (scored.n > 0) scored_.push_back(scored);
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
    const bool had_guesses = drop_guesses();
    if (decoded.error().code() == ErrorCode::cancelled) return;  // the next look at the slots ends the sequences
    if (decoded.error().code() != ErrorCode::limit) return try_each_alone();
    may_guess_ = false;
    if ((!had_guesses && !make_room()) || !plan_step()) return;
  }
}

Result<> Scheduler::decode() {
  TESSERA_TRY(slots_->make_room(batch_));
  for (const Row& row : rows_)
    if (sample::TokenMask* mask = row.slot->sequence->spec().chain->mask()) mask->prepare();
  for (const Chunk& chunk : chunks_)
    if (!chunk.slot->guesses.empty()) TESSERA_TRY(session_.checkpoint(chunk.slot->id));
  std::vector<std::shared_ptr<Task>> tasks;
  for (const Chunk& chunk : chunks_) tasks.push_back(chunk.slot->sequence->shared_task());
  return compute(std::move(tasks), forecast_.ms(work_),
                 [this](const CancelToken& cancel) { return session_.decode(batch_, &cancel); });
}

// The session does not hold the guesses of a step that failed, or of no step yet. Returns whether there were any.
bool Scheduler::drop_guesses() {
  bool had_guesses = false;
  for (Slot& slot : slots_->all()) {
    if (slot.guesses.empty()) continue;
    had_guesses = true;
    slots_->drop_guesses(slot);
  }
  return had_guesses;
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
    clear_step();
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
  const auto decoded = Clock::now();
  score_prompts();
  if (step_ms > 0) step_ms += std::chrono::duration<double, std::milli>(Clock::now() - decoded).count();
  if (step_ms > 0) {
    forecast_.learn(work_, step_ms);
    if (work_.n_prefill == 0) {
      decode_ms_ += kAverageShare * (step_ms - decode_ms_);
      step_times_.learn(work_.n_decoding, step_ms);
      if (was_narrow_) step_times_.note_narrow_step();
    }
  }
  ++metrics().decode_calls;
  metrics().busy_slot_steps += chunks_.size();
  metrics().prompt_tokens += static_cast<uint64_t>(work_.n_prefill);
  metrics().step_seconds.observe(step_ms * 1e-3);
  metrics().step_tokens.observe(static_cast<double>(batch_.size()));
  metrics().step_sequences.observe(static_cast<double>(chunks_.size()));
  now_ = Clock::now();
  for (const Chunk& chunk : chunks_) note_progress(chunk);
  sample_rows();
}

void Scheduler::note_progress(const Chunk& chunk) {
  Slot& slot = *chunk.slot;
  Sequence& sequence = *slot.sequence;
  if (session_.is_recurrent() && !slot.guesses.empty()) {
    slot.n_held = chunk.n_tokens;
  } else {
    slots_->note_computed(slot, chunk.n_tokens);
  }
  if (chunk.is_of_prompt) sequence.trace(TraceStage::chunk, chunk.n_tokens, now_);
  if (chunk.is_of_prompt)
    queue().charge(sequence.task().spec().client, FairQueue::kPromptTokenCost * static_cast<double>(chunk.n_tokens));
  if (auto event = sequence.progress(std::min(slot.n_computed, sequence.n_prompt()), now_))
    send(sequence.shared_task(), std::move(*event));
  if (slot.n_computed >= sequence.n_prompt()) sequence.task().note_prompt(sequence.index());
  if (slot.n_computed < sequence.n_tokens() || sequence.spec().n_predict != 0) return;
  sequence.end(EndReason::length);
  end_sequence(slot);
}

// Calls work(i, thread) for each of n rows of logits, on the sampling threads if that is worth it.
void Scheduler::for_each_row(int64_t n, const std::function<void(int64_t i, size_t thread)>& work) {
  if (sampling_threads_ && n > 1 && n * session_.engine().model().info().n_vocab >= kParallelLogits) {
    sampling_threads_->run([&](ThreadContext& thread) {
      for (int64_t i = thread.next_chunk(); i < n; i = thread.next_chunk()) work(i, static_cast<size_t>(thread.index));
    });
  } else {
    for (int64_t i = 0; i < n; ++i) work(i, 0);
  }
}

// The rows are reduced at once, before the end of a sequence frees its slot.
void Scheduler::score_prompts() {
  for (const ScoredRows& rows : scored_) {
    Sequence& sequence = *rows.slot->sequence;
    const auto tokens = sequence.tokens().subspan(static_cast<size_t>(sequence.n_scored()));
    const auto n_top = static_cast<size_t>(sequence.spec().n_prompt_probs);
    std::vector<TokenProbs> scores(static_cast<size_t>(rows.n));
    for_each_row(rows.n, [&](int64_t i, size_t thread) {
      const auto index = static_cast<size_t>(i);
      scores[index] = score_token(session_.logits(rows.first_row + i), tokens[index], n_top, top_buffers_[thread]);
    });
    send(sequence.shared_task(), sequence.add_scores(std::move(scores)));
  }
}

// A row's token depends on that row, its chain and its seed only, so rows may be sampled on any thread. In each round
// every sequence gets a token. Those whose guess was right go on with the next row.
void Scheduler::sample_rows() {
  while (!rows_.empty()) {
    for_each_row(std::ssize(rows_), [this](int64_t i, size_t) {
      const Row& row = rows_[static_cast<size_t>(i)];
      row.slot->sequence->choose(session_.logits(row.index));
    });
    now_ = Clock::now();
    std::erase_if(rows_, [this](Row& row) { return !accept_token(row); });
  }
}

// Returns whether the session has the logits of the next token already.
bool Scheduler::accept_token(Row& row) {
  Slot& slot = *row.slot;
  Sequence& sequence = *slot.sequence;
  const auto last = sequence.last_token();
  TaskEvent event = sequence.accept(now_);
  if (last != Clock::time_point{}) {
    metrics().between_tokens_seconds.observe(std::chrono::duration<double>(now_ - last).count());
  } else {
    metrics().first_token_seconds.observe(
        std::chrono::duration<double>(now_ - sequence.task().spec().received).count());
  }
  send(sequence.shared_task(), std::move(event));
  const int64_t n_before = sequence.n_generated() - 1;
  accept_forced(sequence);
  const int64_t n_new = sequence.n_generated() - n_before;
  queue().charge(sequence.task().spec().client, FairQueue::kGeneratedTokenCost * static_cast<double>(n_new));
  metrics().generated_tokens += static_cast<uint64_t>(n_new);
  metrics().most_tokens = std::max(metrics().most_tokens.load(), static_cast<uint64_t>(sequence.n_tokens()));
  if (has_next_row(row)) return true;
  note_guesses(slot);
  slots_->settle_guesses(slot);
  if (!sequence.has_ended()) fit_context(slot);
  if (sequence.has_ended()) end_sequence(slot);
  return false;
}

void Scheduler::accept_forced(Sequence& sequence) {
  std::vector<int32_t> forced = sequence.forced();
  for (; !forced.empty() && !sequence.has_ended() && has_place(sequence); forced.pop_back()) {
    sequence.choose_forced(forced.back());
    send(sequence.shared_task(), sequence.accept(now_));
  }
}

void Scheduler::note_guesses(const Slot& slot) {
  if (slot.guesses.empty()) return;
  slot.sequence->note_guesses(std::ssize(slot.guesses), static_cast<int64_t>(slot.n_right));
  ++metrics().drafts;
  metrics().guesses += slot.guesses.size();
  metrics().right_guesses += slot.n_right;
}

// Compares the new tokens of a sequence with its guesses.
bool Scheduler::has_next_row(Row& row) {
  Slot& slot = *row.slot;
  const Sequence& sequence = *slot.sequence;
  if (slot.guesses.empty()) return false;
  const size_t n_before = slot.n_right;
  const auto first = static_cast<size_t>(slot.n_computed + slot.n_held);
  const auto tokens = sequence.tokens().subspan(std::min(first, static_cast<size_t>(sequence.n_tokens())));
  slot.n_right = static_cast<size_t>(std::ranges::mismatch(tokens, slot.guesses).in1 - tokens.begin());
  row.index += static_cast<int64_t>(slot.n_right - n_before);
  return !sequence.has_ended() && slot.n_right == tokens.size();
}

bool Scheduler::has_place(const Sequence& sequence) const {
  return sequence.spec().shifts_context || sequence.n_tokens() < options_.slot_context;
}

// A sequence with a full context ends, or forgets tokens. If the session cannot move the others, they are computed
// again, in any slot.
void Scheduler::fit_context(Slot& slot) {
  const std::shared_ptr<Sequence> sequence = slot.sequence;
  if (!has_place(*sequence)) return sequence->end(EndReason::context_full);
  while (sequence->n_tokens() > options_.slot_context) {
    if (slot.n_computed < 2) return sequence->end(EndReason::context_full);
    if (!slots_->shift(slot)) return preempt(slot, PreemptionReason::memory);
  }
}

}  // namespace tessera::server
