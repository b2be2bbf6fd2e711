// A step of the scheduler: the choice of its tokens, the decoding, and the next tokens of its sequences.
#include <algorithm>
#include <tuple>

#include "tessera/server/run/scheduler.h"
#include "tessera/server/run/token_scores.h"

namespace tessera::server {

namespace {

constexpr int64_t kChunkTokens = 16;   // parts of prompts are multiples of it, so that prepared graphs are used again
constexpr size_t kMostPrompts = 4;     // that share a step
constexpr double kSpareTime = 0.1;     // of the target, for prompts beside one that takes it all
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
  clear_step();
  for (Slot& slot : slots_->all()) {
    if (!slot.is_decoding() || !slot.can_run()) continue;
    for (int64_t i = 0; i < slot.n_pending(); ++i) work_.n_pairs += static_cast<double>(slot.n_computed + i + 1);
    work_.n_decoding += slot.n_pending();
    add_chunk({.slot = &slot, .n_tokens = slot.n_pending(), .is_of_prompt = false});
  }
  turn_.set_streaming(work_.n_decoding > 0);
  plan_prefill(work_);
  return batch_.size() > 0;
}

void Scheduler::clear_step() {
  batch_.clear();
  chunks_.clear();
  rows_.clear();
  scored_.clear();
  n_rows_ = 0;
  work_ = {};
}

// The tokens that each prompt could compute in this step. Every slot has a row of logits for its next token. The
// session's other rows are for scores, and the first prompts get them.
std::vector<int64_t> Scheduler::wanted_tokens(std::span<Slot* const> prompts) const {
  int64_t n_rows = session_.options().n_outputs - options_.n_slots;
  std::vector<int64_t> wanted;
  for (const Slot* slot : prompts) {
    wanted.push_back(slot->n_pending());
    if (!slot->sequence->is_scoring()) continue;
    // After a preemption, tokens that have their scores are computed again without rows.
    const int64_t n_without = std::max<int64_t>(slot->sequence->n_scored() - 1 - slot->n_computed, 0);
    wanted.back() = std::min(wanted.back(), n_without + 1 + n_rows);
    n_rows -= std::max<int64_t>(wanted.back() - n_without - 1, 0);
  }
  return wanted;
}

// The prompts of a step, the most urgent first. Half of the time is for the first one, so that short prompts do not
// wait for the end of a long one. Without streams there is no limit of time, and tokens are divided instead.
void Scheduler::plan_prefill(const StepWork& decoding) {
  std::vector<Slot*> prompts;
  for (Slot& slot : slots_->all())
    if (slot.can_run() && !slot.is_decoding()) prompts.push_back(&slot);
  if (prompts.empty()) return;
  std::ranges::sort(prompts, {}, [this](const Slot* slot) {
    return std::tuple(slot->priority, queue().counter(slot->sequence->task().spec().client), slot->arrival);
  });
  prompts.resize(std::min(prompts.size(), kMostPrompts));
  const bool is_alone = decoding.n_decoding == 0 && !turn_.others_stream();
  int64_t n_most = is_alone && queue().is_empty() ? options_.n_batch : options_.n_ubatch;
  // The blocks of windows are counted exactly for one micro-batch only.
  if (session_.needs_marks()) n_most = std::max(options_.n_ubatch - decoding.n_decoding, kChunkTokens);
  const std::vector<int64_t> wanted = wanted_tokens(prompts);
  const std::vector<int64_t> planned =
      is_alone ? divide_tokens(wanted, n_most) : divide_time(prompts, wanted, n_most, decoding);
  for (size_t i = 0; i < prompts.size(); ++i) {
    Slot& slot = *prompts[i];
    const int64_t n = std::min(planned[i], slots_->tokens_to_mark(slot));
    // A session with few rows of logits scores few tokens at a time. The first prompt always advances.
    const bool has_few_rows = i == 0 && n < kChunkTokens && slot.sequence->is_scoring();
    const bool is_whole = n == slot.n_pending() || n == slots_->tokens_to_mark(slot) || has_few_rows;
    const int64_t n_tokens = is_whole ? n : n - n % kChunkTokens;
    if (n_tokens <= 0) continue;
    add_prefill(work_, slot, n_tokens);
    add_chunk({.slot = &slot, .n_tokens = n_tokens, .is_of_prompt = true});
  }
}

// Divides n_most tokens: half for the first prompt, the rest for the others in their order, and what is left for the
// first again.
std::vector<int64_t> Scheduler::divide_tokens(std::span<const int64_t> wanted, int64_t n_most) {
  std::vector<int64_t> planned = {wanted.front()};
  if (wanted.size() > 1) planned[0] = std::min(planned[0], std::max(n_most / 2, kChunkTokens));
  int64_t n_left = n_most - std::min(n_most, planned[0]);
  for (const int64_t n : wanted.subspan(1)) {
    planned.push_back(std::min(n, n_left));
    n_left -= planned.back();
  }
  planned[0] = std::min({planned[0] + n_left, wanted.front(), n_most});
  return planned;
}

// Divides the time of a step likewise. A token costs more the later its position is, so each prompt has its own
// forecast. Beside a long prompt, of which a few tokens take all the time, short ones get a little more.
std::vector<int64_t> Scheduler::divide_time(std::span<Slot* const> prompts, std::span<const int64_t> wanted,
                                            int64_t n_most, const StepWork& decoding) const {
  const double target = target_ms();
  const bool scores = std::ranges::any_of(prompts, [](const Slot* slot) { return slot->sequence->is_scoring(); });
  const auto affordable = [&](size_t i, const StepWork& work, int64_t n_free, double until_ms) {
    return std::min(wanted[i],
                    forecast_.prefill_budget(work, prompts[i]->n_computed, n_free, until_ms, scores ? row_work_ : 0));
  };
  const double begin_ms = forecast_.ms(decoding);
  const double first_ms = prompts.size() > 1 ? begin_ms + (target - begin_ms) / 2 : target;
  std::vector<int64_t> planned = {affordable(0, decoding, n_most, first_ms)};
  StepWork others = decoding, all = decoding;
  add_prefill(all, *prompts[0], planned[0]);
  const double others_ms = std::max(target, forecast_.ms(all)) + kSpareTime * target;
  int64_t n_free = n_most - planned[0];
  for (size_t i = 1; i < prompts.size(); ++i) {
    const int64_t n = n_free > 0 ? affordable(i, all, n_free, others_ms) : 0;
    StepWork with = all;
    add_prefill(with, *prompts[i], n);
    const bool fits = forecast_.ms(with) <= others_ms;  // the forecast's least number may not
    planned.push_back(fits ? n : 0);
    if (!fits) continue;
    all = with;
    add_prefill(others, *prompts[i], n);
    n_free -= n;
  }
  planned[0] = std::max(planned[0], affordable(0, others, planned[0] + n_free, target));
  return planned;
}

void Scheduler::add_prefill(StepWork& work, const Slot& slot, int64_t n_tokens) {
  const auto n = static_cast<double>(n_tokens);
  work.n_prefill += n_tokens;
  work.n_pairs += n * (static_cast<double>(slot.n_computed) + n / 2);
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
    if (decoded.error().code() == ErrorCode::cancelled) return;  // the next look at the slots ends the sequences
    if (decoded.error().code() != ErrorCode::limit) return try_each_alone();
    if (!make_room() || !plan_step()) return;
  }
}

Result<> Scheduler::decode() {
  TESSERA_TRY(slots_->make_room(batch_));
  for (const Row& row : rows_)
    if (sample::TokenMask* mask = row.slot->sequence->spec().chain->mask()) mask->prepare();
  std::vector<std::shared_ptr<Task>> tasks;
  for (const Chunk& chunk : chunks_) tasks.push_back(chunk.slot->sequence->shared_task());
  return compute(std::move(tasks), forecast_.ms(work_),
                 [this](const CancelToken& cancel) { return session_.decode(batch_, &cancel); });
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
    if (work_.n_prefill == 0) decode_ms_ += kAverageShare * (step_ms - decode_ms_);
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
  slots_->note_computed(slot, chunk.n_tokens);
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

// A row's token depends on that row, its chain and its seed only, so rows may be sampled on any thread.
void Scheduler::sample_rows() {
  for_each_row(std::ssize(rows_), [this](int64_t i, size_t) {
    const Row& row = rows_[static_cast<size_t>(i)];
    row.slot->sequence->choose(session_.logits(row.index));
  });
  now_ = Clock::now();
  for (const Row& row : rows_) accept_token(*row.slot);
}

void Scheduler::accept_token(Slot& slot) {
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
  std::vector<int32_t> forced = sequence.forced();
  for (; !forced.empty() && !sequence.has_ended() && has_place(sequence); forced.pop_back()) {
    sequence.choose_forced(forced.back());
    send(sequence.shared_task(), sequence.accept(now_));
  }
  const int64_t n_new = sequence.n_generated() - n_before;
  queue().charge(sequence.task().spec().client, FairQueue::kGeneratedTokenCost * static_cast<double>(n_new));
  metrics().generated_tokens += static_cast<uint64_t>(n_new);
  metrics().most_tokens = std::max(metrics().most_tokens.load(), static_cast<uint64_t>(sequence.n_tokens()));
  if (!sequence.has_ended()) fit_context(slot);
  if (sequence.has_ended()) end_sequence(slot);
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
