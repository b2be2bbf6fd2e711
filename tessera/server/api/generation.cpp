#include "tessera/server/api/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tessera/server/json/error_body.h"

namespace tessera::server {

Generation::Generation(ApiContext& context, ServedModel& model, std::shared_ptr<Exchange> exchange,
                       GenerationFields fields)
    : context_(context),
      model_(model),
      exchange_(std::move(exchange)),
      fields_(std::move(fields)),
      streams_(fields_.stream),
      last_write_(std::chrono::steady_clock::now()),
      gaps_(context.options().notes_requests ? std::make_unique<TokenGaps>() : nullptr) {}

FieldResult<> Generation::start(TaskSpec spec) {
  n_open_ = spec.sequences.size();
  choices_.resize(n_open_);
  for (size_t i = 0; i < n_open_; ++i) {
    choices_[i].index = static_cast<uint32_t>(i);
    choices_[i].n_prompt = std::ssize(spec.sequences[i].prompt);
  }
  const auto self = shared_from_this();
  spec.sink = self;
  auto task = model_.scheduler().submit(std::move(spec));
  if (!task) return std::unexpected(refusal_error(task.error()));
  exchange_->on_gone([scheduler = &model_.scheduler(), weak = std::weak_ptr(*task)] {
    if (const auto running = weak.lock()) scheduler->cancel(running);
  });
  if (streams_) context_.streams().add(self);
  exchange_->post([self, weak = std::weak_ptr(*task)] {
    self->task_ = weak;
    self->begin();
  });
  return {};
}

HttpAnswer Generation::new_answer() const {
  HttpAnswer answer;
  if (!ignored_fields_.empty()) answer.fields.push_back({"X-Ignored-Fields", ignored_fields_});
  if (!streams_) return answer;
  answer.content_type = stream_type();
  answer.fields.push_back({"Cache-Control", "no-cache"});
  answer.fields.push_back({"X-Accel-Buffering", "no"});
  return answer;
}

void Generation::begin() {
  if (std::exchange(has_begun_, true) || !streams_) return;
  exchange_->begin_stream(new_answer());
}

void Generation::on_event(TaskEvent& event) {
  if (has_failed_) return;
  Choice& choice = choices_[event.sequence];
  switch (event.kind) {
    case TaskEvent::Kind::waiting:
      on_waiting(choice, event.n_done);
      return;
    case TaskEvent::Kind::started:
      choice.slot = event.slot;
      choice.n_cached = event.n_cached;
      on_started(choice);
      return;
    case TaskEvent::Kind::progress:
      on_progress(choice, event);
      return;
    case TaskEvent::Kind::scored:
      std::ranges::move(event.scores, std::back_inserter(choice.prompt_scores));
      on_scored(choice);
      return;
    case TaskEvent::Kind::token:
      if (event.token < 0) return;  // the end follows, with the error
      collect(choice, event);
      on_token(choice, event);
      return;
    case TaskEvent::Kind::ended:
      end_choice(choice, event);
      return;
  }
}

// A comment of an event stream: clients that do not look for it ignore it.
void Generation::on_waiting(Choice&, int64_t n_before) {
  if (streams_ && stream_type() == kEventStreamType) out_ += fmt::format(": queue {}\n\n", n_before);
}

void Generation::collect(Choice& choice, TaskEvent& event) {
  ++choice.n_generated;
  if (gaps_) {
    const Clock::time_point now = Clock::now();
    if (choice.last_token != Clock::time_point{})
      gaps_->add(std::chrono::duration<double, std::milli>(now - choice.last_token).count());
    choice.last_token = now;
  }
  if (event.probs) choice.probs.push_back(std::move(*event.probs));
  if (!event.text.empty() || !event.is_held) choice.n_settled_probs = choice.probs.size();
  if (!choice.has_new_line) choice.has_new_line = event.text.find('\n') != std::string::npos;
  if (!streams_) choice.text += event.text;
  if (collects_tokens_) choice.tokens.push_back(event.token);
}

void Generation::end_choice(Choice& choice, TaskEvent& event) {
  choice.end = std::move(event.end);
  choice.n_cached = choice.end->n_cached;
  --n_open_;
  if (gaps_) note_end(*choice.end);
  if (choice.end->reason == EndReason::failed) return fail(sequence_error(*choice.end));
  // Tokens of a stop string are no part of the text.
  if (choice.end->reason == EndReason::stop_word) choice.probs.resize(choice.n_settled_probs);
  choice.n_settled_probs = choice.probs.size();
  if (!streams_) choice.text += event.text;
  on_end(choice, event.text);
  if (n_open_ == 0) finish();
}

// Adds a sequence to the line of the request. Queue and first token are those of the first one.
void Generation::note_end(const SequenceEnd& end) {
  if (note_.reason.empty()) {
    note_.model = model_.facts().id;
    note_.queue_ms = end.queue_ms;
    if (end.n_generated > 0) note_.first_token_ms = end.first_token_ms;
  }
  note_.n_prompt += end.n_prompt;
  note_.n_cached += end.n_cached;
  note_.n_generated += end.n_generated;
  note_.gap_p99_ms = gaps_->p99_ms();
  note_.reason = end_reason_name(end.reason);
  exchange_->note(note_);
}

void Generation::finish() {
  if (streams_) {
    begin();
    on_all_ended();
    flush();
    exchange_->end_stream();
  } else {
    HttpAnswer answer = new_answer();
    answer.body = whole_answer();
    exchange_->answer(std::move(answer));
  }
}

// One error ends all sequences of the request.
void Generation::fail(const FieldError& error) {
  has_failed_ = true;
  if (const auto task = task_.lock()) model_.scheduler().cancel(task);
  if (!streams_ || !has_begun_) return answer_error(*exchange_, error);
  out_ += error_piece(error);
  flush();
  exchange_->end_stream();
}

std::string Generation::error_piece(const FieldError& error) {
  const HttpRequest& request = exchange_->request();
  return error_event(error, dialect_of_path(request.path), request.id);
}

void Generation::flush() {
  if (!streams_ || out_.empty()) return;
  begin();
  last_write_ = std::chrono::steady_clock::now();
  exchange_->write(std::exchange(out_, {}));
}

void Generation::ping(std::chrono::steady_clock::time_point now) {
  if (n_open_ == 0 || has_failed_) return;
  if (fields_.sse_ping_interval_s < 0 || now - last_write_ < std::chrono::seconds(fields_.sse_ping_interval_s)) return;
  last_write_ = now;
  exchange_->write(std::string(ping_piece()));
}

void Generation::write_trace(JsonWriter& writer, const SequenceEnd& end) const {
  if (!fields_.trace) return;
  const Clock::time_point received = exchange_->request().received;
  const auto write = [&](const TraceEntry& entry) {
    writer.begin_object().member("ms", std::chrono::duration<double, std::milli>(entry.time - received).count());
    writer.member("what", trace_stage_name(entry.stage)).member("n", entry.n).end_object();
  };
  writer.key("trace").begin_array();
  write({.time = received, .stage = TraceStage::received, .n = 0});
  for (const TraceEntry& entry : end.trace) write(entry);
  writer.end_array();
}

Timings timings_of(const SequenceEnd& end) {
  return {.n_cached = end.n_cached,
          .n_prompt = end.n_prompt - end.n_cached,
          .n_generated = end.n_generated,
          .n_guessed = end.n_guessed,
          .n_guessed_right = end.n_guessed_right,
          .prompt_ms = end.prompt_ms,
          .generation_ms = end.generation_ms,
          .queue_ms = end.queue_ms,
          .first_token_ms = end.first_token_ms,
          .is_timed_out = end.reason == EndReason::time,
          .is_exact = end.is_exact};
}

void write_timings(JsonWriter& writer, const Timings& timings) {
  const auto per = [](double amount, double n) { return n > 0 ? amount / n : 0.0; };
  const auto n_prompt = static_cast<double>(timings.n_prompt);
  const auto n_steps = static_cast<double>(std::max<int64_t>(timings.n_generated - 1, 0));
  writer.begin_object();
  writer.member("cache_n", timings.n_cached);
  writer.member("prompt_n", timings.n_prompt);
  writer.member("prompt_ms", timings.prompt_ms);
  writer.member("prompt_per_token_ms", per(timings.prompt_ms, n_prompt));
  writer.member("prompt_per_second", per(n_prompt * 1e3, timings.prompt_ms));
  writer.member("predicted_n", timings.n_generated);
  writer.member("predicted_ms", timings.generation_ms);
  writer.member("predicted_per_token_ms", per(timings.generation_ms, n_steps));
  writer.member("predicted_per_second", per(n_steps * 1e3, timings.generation_ms));
  if (timings.n_guessed > 0)
    writer.member("draft_n", timings.n_guessed).member("draft_n_accepted", timings.n_guessed_right);
  if (timings.queue_ms >= 0) writer.member("queue_ms", timings.queue_ms);
  if (timings.first_token_ms >= 0) writer.member("ttft_ms", timings.first_token_ms);
  if (timings.is_timed_out) writer.member("timeout", true);
  if (!timings.is_exact) writer.member("exact", false);
  writer.end_object();
}

FieldError sequence_error(const SequenceEnd& end) {
  if (end.is_overloaded) return unavailable(end.error->message());
  // Everything that a client can do wrong was found before, but for a grammar that nothing can follow.
  return field_error_of(*end.error, {});
}

}  // namespace tessera::server
