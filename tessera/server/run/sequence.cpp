#include "tessera/server/run/sequence.h"

#include <algorithm>
#include <utility>

#include "tessera/server/run/token_scores.h"

namespace tessera::server {

Sequence::Sequence(std::shared_ptr<Task> task, size_t index, const text::Tokenizer& tokenizer, Clock::time_point now)
    : task_(std::move(task)),
      index_(index),
      tokenizer_(tokenizer),
      tokens_(std::move(spec().prompt)),
      n_prompt_(static_cast<int64_t>(tokens_.size())),
      n_scored_(spec().n_prompt_probs >= 0 ? 1 : n_prompt_),  // nothing predicts the first token
      writer_(tokenizer, {.render_special = spec().renders_special, .at_start = false}),
      text_(spec().stop),
      queued_(now) {
  if (spec().reasoning) reasoning_.emplace(spec().reasoning);
  if (!spec().is_traced) return;
  trace_.emplace();
  trace(TraceStage::parsed, n_prompt_, task_->spec().received);
  trace(TraceStage::queued, n_prompt_, now);
}

double Sequence::ms_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

TaskEvent Sequence::new_event(TaskEvent::Kind kind) const {
  return {.kind = kind, .sequence = static_cast<uint32_t>(index_), .slot = slot_, .n_cached = n_cached_};
}

std::optional<TaskEvent> Sequence::start(int32_t slot, int64_t n_cached, Clock::time_point now) {
  slot_ = slot;
  if (started_ != Clock::time_point{}) return std::nullopt;  // it goes on after it lost its slot
  started_ = now;
  n_cached_ = n_reported_ = n_cached;
  TaskEvent event = new_event(TaskEvent::Kind::started);
  event.n_done = n_cached;
  return event;
}

std::optional<TaskEvent> Sequence::progress(int64_t n_done, Clock::time_point now) {
  const int64_t step = spec().progress_tokens;
  if (step <= 0 || n_generated() > 0 || n_done > n_prompt_) return std::nullopt;
  if (n_done < n_prompt_ && n_done - n_reported_ < step) return std::nullopt;
  n_reported_ = n_done;
  TaskEvent event = new_event(TaskEvent::Kind::progress);
  event.n_done = n_done;
  event.prompt_ms = ms_between(started_, now);
  return event;
}

bool Sequence::wants_logits_after(int64_t position) const {
  const int64_t next = position + 1;
  if (next == n_tokens()) return spec().n_predict != 0;
  return next >= n_scored_ && next < n_prompt_;
}

// However many tokens are to be kept, some of those that are stored go.
std::pair<int64_t, int64_t> Sequence::forgettable(int64_t n_stored) const {
  const int64_t n_wanted = spec().n_keep < 0 ? n_prompt_ : std::min(spec().n_keep, n_prompt_);
  const int64_t n_keep = std::min(n_wanted, std::max<int64_t>(n_stored - 2, 0));
  const int64_t n_most = n_stored - n_keep;
  const int64_t n = spec().n_discard > 0 ? std::min(spec().n_discard, n_most) : n_most / 2;
  return {n_keep, n_keep + std::max<int64_t>(n, 1)};
}

void Sequence::forget(int64_t begin, int64_t end) {
  tokens_.erase(tokens_.begin() + begin, tokens_.begin() + end);
  n_forgotten_ += end - begin;
}

TaskEvent Sequence::add_scores(std::vector<TokenProbs> scores) {
  n_scored_ += std::ssize(scores);
  TaskEvent event = new_event(TaskEvent::Kind::scored);
  event.n_done = n_scored_;
  event.scores = std::move(scores);
  return event;
}

void Sequence::note_due() {
  if (!reasoning_ || !due_.empty()) return;
  due_ = reasoning_->take_due();
  std::ranges::reverse(due_);
}

void Sequence::choose(std::span<const float> logits) {
  note_due();
  if (due_.empty()) {
    chosen_ = spec().chain->sample(logits);
  } else {
    chosen_ = due_.back();
    due_.pop_back();
  }
  if (chosen_ && spec().n_probs >= 0) note_probs(logits);
}

void Sequence::note_probs(std::span<const float> logits) {
  const auto n = static_cast<size_t>(spec().n_probs);
  if (!spec().probs_after_sampling) {
    probs_ = std::make_unique<TokenProbs>(score_token(logits, *chosen_, n, top_));
    return;
  }
  probs_ = std::make_unique<TokenProbs>();
  probs_->chosen.id = *chosen_;
  // The chosen token is among the candidates, mostly in front.
  for (const sample::Candidate& one : spec().chain->top_candidates(logits.size())) {
    if (one.id == *chosen_) probs_->chosen.value = static_cast<float>(one.prob);
    if (probs_->top.size() < n && one.prob > 0) probs_->top.push_back({one.id, static_cast<float>(one.prob)});
  }
}

TaskEvent Sequence::accept(Clock::time_point now) {
  TaskEvent event = new_event(TaskEvent::Kind::token);
  if (n_generated() == 0) {
    first_token_ = now;
    trace(TraceStage::first_token, 1, now);
  }
  last_token_ = now;
  event.prompt_ms = ms_between(started_, first_token_);
  event.generation_ms = ms_between(first_token_, now);
  event.n_done = n_prompt_;
  if (!chosen_) {
    fail(std::move(chosen_).error());
    return event;
  }
  sample::Chain& chain = *spec().chain;
  const int32_t token = *chosen_;
  event.token = token;
  event.probs = std::move(probs_);
  if (auto accepted = chain.accept(token); !accepted) {
    fail(std::move(accepted).error());
    return event;
  }
  tokens_.push_back(token);
  if (!spec().ignores_end && tokenizer_.vocab().is_eog(token)) {
    end(EndReason::eos);
    return event;
  }
  std::string piece;
  if (auto written = writer_.append(token, piece); !written) {
    fail(std::move(written).error());
    return event;
  }
  if (reasoning_) reasoning_->add(piece);
  if (!has_new_line_) has_new_line_ = piece.contains('\n');
  check_lines(piece, now);
  event.text = text_.push(piece);
  event.is_held = text_.is_holding() || text_.is_stopped();
  if (text_.is_stopped()) {
    end(EndReason::stop_word);
  } else if (chain.mask() != nullptr && chain.mask()->is_finished()) {
    end(EndReason::eos);
  } else if (spec().n_predict >= 0 && n_generated() >= spec().n_predict) {
    end(EndReason::length);
  }
  return event;
}

std::vector<int32_t> Sequence::forced() {
  if (has_ended() || spec().n_probs >= 0) return {};
  note_due();
  if (!due_.empty()) return std::exchange(due_, {});
  sample::TokenMask* mask = spec().chain->mask();
  if (mask == nullptr) return {};
  std::vector<int32_t> tokens = mask->forced();
  std::ranges::reverse(tokens);
  return tokens;
}

// Ends by indent, and by time at the end of a line, as editors ask for it.
void Sequence::check_lines(std::string_view piece, Clock::time_point now) {
  if (spec().n_indent == 0 && spec().most_ms < 0) return;
  for (const char c : piece) {
    if (c == '\n') {
      if (spec().most_ms >= 0 && ms_between(first_token_, now) > static_cast<double>(spec().most_ms))
        end(EndReason::time);
      n_blanks_ = 0;
    } else if (n_blanks_ >= 0 && (c == ' ' || c == '\t')) {
      ++n_blanks_;
    } else {
      if (n_blanks_ >= 0 && n_blanks_ < spec().n_indent) end(EndReason::length);
      n_blanks_ = -1;
    }
  }
}

void Sequence::end(EndReason reason) {
  if (end_) return;
  end_.emplace();
  end_->reason = reason;
}

void Sequence::fail(Error error, bool is_overloaded) {
  if (end_ && end_->reason == EndReason::failed) return;
  end_.emplace();
  end_->reason = EndReason::failed;
  end_->error = std::move(error);
  end_->is_overloaded = is_overloaded;
}

TaskEvent Sequence::finish(int64_t n_stored, Clock::time_point now) {
  reasoning_.reset();
  TaskEvent event = new_event(TaskEvent::Kind::ended);
  event.text = text_.finish();
  event.end = std::make_unique<SequenceEnd>(std::move(*end_));
  SequenceEnd& end = *event.end;
  end.stopping_word = text_.stopping_word();
  end.n_prompt = n_prompt_;
  end.n_cached = n_cached_;
  end.n_generated = n_generated();
  end.n_stored = n_stored;
  end.n_guessed = n_guessed_;
  end.n_guessed_right = n_guessed_right_;
  end.is_shifted = n_forgotten_ > 0;
  end.is_exact = !end.is_shifted && !has_moved_chunks_;
  end.values = std::move(values_);
  trace(TraceStage::end, end.n_generated, now);
  if (trace_) end.trace = trace_->take();
  const bool has_started = started_ != Clock::time_point{}, has_token = first_token_ != Clock::time_point{};
  end.queue_ms = ms_between(queued_, has_started ? started_ : now);
  end.prompt_ms = has_started ? ms_between(started_, has_token ? first_token_ : now) : 0;
  end.generation_ms = has_token ? ms_between(first_token_, now) : 0;
  end.first_token_ms = has_token ? ms_between(task_->spec().received, first_token_) : 0;
  return event;
}

}  // namespace tessera::server
