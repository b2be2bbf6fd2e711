// Streamed completions under measurement (streams.h).
#include "bench/serve/streams.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

namespace tessera::load {
namespace {

constexpr double kPauseAfterFailure_s = 0.01;  // a server that refuses everything is not flooded

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

/// Returns how a stream ended, for the table of failures.
std::string failure_name(const Answer& answer) {
  switch (answer.outcome) {
    case Outcome::unreachable:
      return "unreachable";
    case Outcome::disconnected:
      return "disconnected";
    case Outcome::malformed:
      return "malformed";
    case Outcome::answered:
      break;
  }
  return answer.status == 200 ? "incomplete" : fmt::format("status {}", answer.status);
}

}  // namespace

std::string completion_body(const Completion& completion) {
  std::string prompt;
  if (completion.ids.empty()) {
    prompt = nlohmann::json(completion.text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  } else {
    prompt = fmt::format("[{}]", fmt::join(completion.ids, ","));
  }
  std::string body = fmt::format(R"({{"prompt":{},"n_predict":{},"stream":true,"temperature":0,"ignore_eos":true)",
                                 prompt, completion.n_tokens);
  if (completion.priority != 0) body += fmt::format(R"(,"priority":{})", completion.priority);
  if (!completion.more.empty()) body += "," + completion.more;
  return body + "}";
}

Request completion_request(const Completion& completion, const std::string& api_key, const std::string& source) {
  Request request;
  request.target = "/completion";
  request.body = completion_body(completion);
  request.api_key = api_key;
  request.source = source;
  return request;
}

double find_number(std::string_view json, std::string_view name, double missing) {
  const std::string key = fmt::format("\"{}\":", name);
  const size_t at = json.find(key);
  if (at == std::string_view::npos) return missing;
  const std::string digits(json.substr(at + key.size(), 32));  // strtod needs an end
  char* end = nullptr;
  const double value = std::strtod(digits.c_str(), &end);
  return end == digits.c_str() ? missing : value;
}

int64_t Tally::n_failed() const {
  int64_t n = 0;
  for (const auto& [name, count] : failures) n += count;
  return n;
}

void StreamMeter::take(std::string_view event, double now_ms) {
  if (contains(event, R"("stop":true)")) {
    final_event_ = event;
    // A server may send several tokens in one event, or hold back one that ends inside a code point.
    const auto n_predicted = static_cast<int64_t>(find_number(event, "tokens_predicted"));
    if (n_predicted > n_tokens_) tally_->n_tokens += n_predicted - std::exchange(n_tokens_, n_predicted);
    return;
  }
  if (!contains(event, R"("stop":false)") || contains(event, R"("prompt_progress":)")) {
    has_error_ |= event.starts_with(R"({"error")");
    return;
  }
  if (last_ms_ == 0) {
    tally_->ttft_ms.add(now_ms - sent_ms_);
  } else {
    tally_->gap_ms.add(now_ms - last_ms_);
  }
  last_ms_ = now_ms;
  ++n_tokens_;
  ++tally_->n_tokens;
}

bool StreamMeter::end(const Answer& answer) {
  const bool is_whole = answer.outcome == Outcome::answered && answer.status == 200 && !has_error_;
  if (is_whole && !final_event_.empty()) {
    ++tally_->n_complete;
    tally_->total_ms.add(answer.ended_ms - answer.sent_ms);
    return true;
  }
  ++tally_->failures[has_error_ ? "error event" : failure_name(answer)];
  return false;
}

struct ClosedLoop::Worker {
  CallId call = 0;
  StreamMeter meter{0, nullptr};
};

ClosedLoop::ClosedLoop(Client& client, Plan plan) : client_(client), plan_(std::move(plan)) {
  for (int64_t i = 0; i < plan_.n_workers; ++i) workers_.push_back(std::make_shared<Worker>());
  n_tokens_by_worker_.resize(workers_.size());
}

void ClosedLoop::start() {
  n_left_ = plan_.n_requests;
  for (int64_t i = 0; i < plan_.n_workers; ++i) next(i);
}

void ClosedLoop::next(int64_t number) {
  if (n_left_ <= 0) return;
  --n_left_;
  ++n_running_;
  const std::shared_ptr<Worker> worker = workers_[static_cast<size_t>(number)];
  worker->meter = StreamMeter(client_.now_ms(), &tally_);
  Handlers handlers;
  handlers.on_event = [this, number, worker](std::string_view event, double now_ms) {
    const int64_t n_before = worker->meter.n_tokens();
    worker->meter.take(event, now_ms);
    n_tokens_by_worker_[static_cast<size_t>(number)] += static_cast<double>(worker->meter.n_tokens() - n_before);
  };
  handlers.on_end = [this, number, worker](const Answer& answer) {
    worker->call = 0;
    --n_running_;
    const bool is_complete = worker->meter.end(answer);
    if (on_end) on_end();
    if (is_complete) return next(number);
    ++n_running_;  // the pause belongs to the worker's work
    const std::weak_ptr<bool> alive = alive_;
    client_.after(kPauseAfterFailure_s, [this, number, alive] {
      if (alive.expired()) return;  // the loop is gone
      --n_running_;
      next(number);
    });
  };
  worker->call = client_.send(plan_.make(number, n_sent_++), std::move(handlers));
}

void ClosedLoop::drop_all() {
  stop();
  for (const std::shared_ptr<Worker>& worker : workers_) {
    if (worker->call != 0) --n_running_;
    client_.drop(std::exchange(worker->call, 0));
  }
}

void ClosedLoop::clear() {
  tally_ = {};
  std::fill(n_tokens_by_worker_.begin(), n_tokens_by_worker_.end(), 0);
}

}  // namespace tessera::load
