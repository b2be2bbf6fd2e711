#include "tessera/server/http/connection_exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <exception>
#include <iterator>
#include <utility>

#include "tessera/server/http/answer_head.h"
#include "tessera/server/http/connection.h"
#include "tessera/server/http/io_thread.h"
#include "tessera/server/http/status.h"

namespace tessera::server {
namespace {

constexpr std::string_view kLastChunk = "0\r\n\r\n";

// The present date. Its text is made once a second on each thread that answers. It has no destructor: without memory to
// note one for the end of a thread, the C library ends the process.
std::string_view present_date() {
  thread_local int64_t second = -1;
  thread_local std::array<char, 32> text;
  thread_local size_t n_bytes = 0;
  if (const int64_t now = std::time(nullptr); now != second) {
    n_bytes = http_date(now).copy(text.data(), text.size());
    second = now;
  }
  return {text.data(), n_bytes};
}

}  // namespace

ConnectionExchange::ConnectionExchange(ExchangeSetup setup, std::shared_ptr<Connection> connection,
                                       std::shared_ptr<IoThread> thread, std::shared_ptr<SharedState> shared)
    : Exchange(std::move(setup.request)),
      thread_(std::move(thread)),
      shared_(std::move(shared)),
      minor_version_(setup.minor_version),
      cors_(std::move(setup.cors)),
      connection_(std::move(connection)),
      keeps_alive_(setup.keeps_alive),
      held_(std::move(setup.held)) {}

ConnectionExchange::~ConnectionExchange() { shared_->held.give(n_unsent_.load()); }

// Runs a change under the mutex. Without memory the exchange is aborted; if even the flush cannot be posted, the next
// tick of the thread closes the connection.
template <class F>
void ConnectionExchange::guarded(F change) {
  const std::lock_guard lock(mutex_);
  try {
    change();
  } catch (const std::exception&) {
    if (state_ != State::closed) state_ = State::aborted;
  }
}

void ConnectionExchange::ask_for_flush() {
  if (is_flush_posted_ || connection_ == nullptr) return;
  is_flush_posted_ = true;
  thread_->post_flush(connection_);
}

void ConnectionExchange::add_unsent(size_t n) {
  if (n_unsent_.fetch_add(n, std::memory_order_relaxed) == 0) progress_ms_.store(now_ms(), std::memory_order_relaxed);
}

// Handlers take the body before they answer, and then it counts no more.
void ConnectionExchange::release_body() {
  if (request_.body.empty()) held_.release();
}

void ConnectionExchange::start_answer(HttpAnswer& answer, bool is_stream) {
  AnswerFraming framing{
      .minor_version = minor_version_, .request_id = request_.id, .date = present_date(), .cors = &cors_};
  if (!is_stream) framing.content_length = answer.body.size();
  drops_body_ = request_.method == "HEAD" || !status_has_body(answer.status);
  is_chunked_ = is_stream && !drops_body_ && minor_version_ > 0;
  if (is_stream && minor_version_ == 0 && !drops_body_) keeps_alive_ = false;  // the end of the connection ends it
  keeps_alive_ = keeps_alive_ && !shared_->is_draining.load(std::memory_order_relaxed);
  framing.keeps_alive = keeps_alive_;
  pending_head_ = write_answer_head(answer, framing);
  if (!drops_body_) pending_body_ = std::move(answer.body);
  status_ = answer.status;
  shared_->held.take_anyway(pending_head_.size());
  add_unsent(pending_head_.size() + pending_body_.size());
  state_ = is_stream ? State::streaming : State::ended;
  ask_for_flush();
}

void ConnectionExchange::answer(HttpAnswer answer) {
  guarded([&] {
    release_body();
    if (state_ != State::fresh) return;
    const bool has_bytes = request_.method != "HEAD" && status_has_body(answer.status);
    if (has_bytes && !shared_->held.take(answer.body.size())) {
      answer = shared_->write_problem({.status = 503,
                                       .type = problem_type(503),
                                       .message = "No memory for the answer (--http-memory)",
                                       .path = request_.path,
                                       .request_id = request_.id});
      shared_->held.take_anyway(answer.body.size());
    }
    start_answer(answer, false);
  });
}

void ConnectionExchange::begin_stream(HttpAnswer head) {
  guarded([&] {
    release_body();
    if (state_ != State::fresh) return;
    const bool has_bytes = request_.method != "HEAD" && status_has_body(head.status);
    if (has_bytes) shared_->held.take_anyway(head.body.size());
    start_answer(head, true);
  });
}

void ConnectionExchange::write(std::string piece) {
  guarded([&] {
    if (state_ != State::streaming || drops_body_ || piece.empty()) return;
    if (!shared_->held.take(piece.size())) {
      state_ = State::aborted;  // a status is no longer possible
    } else {
      const size_t n = piece.size();
      add_unsent(n);
      if (pending_body_.empty() && n > pending_body_.capacity())
        pending_body_ = std::move(piece);
      else
        pending_body_ += piece;
    }
    ask_for_flush();
  });
}

void ConnectionExchange::end_stream() {
  guarded([&] {
    if (state_ != State::streaming) return;
    state_ = State::ended;
    ask_for_flush();
  });
}

void ConnectionExchange::abort() {
  std::vector<std::function<void()>> dropped;  // the handler ends it, the client has not left
  guarded([&] {
    if (state_ == State::closed) return;
    state_ = State::aborted;
    dropped.swap(gone_callbacks_);
    gone_.store(true, std::memory_order_release);
    ask_for_flush();
  });
}

void ConnectionExchange::refuse(int status, const std::string& message, std::vector<HttpField> fields) {
  HttpAnswer refusal = shared_->write_problem({.status = status,
                                               .type = problem_type(status),
                                               .message = message,
                                               .path = request_.path,
                                               .request_id = request_.id});
  for (HttpField& field : fields) refusal.fields.push_back(std::move(field));
  answer(std::move(refusal));
  if (!is_ended()) abort();  // a stream has begun
}

int64_t ConnectionExchange::stalled_ms() const {
  if (n_unsent() == 0) return 0;
  return std::max<int64_t>(0, now_ms() - progress_ms_.load(std::memory_order_relaxed));
}

void ConnectionExchange::on_gone(std::function<void()> f) {
  bool is_late = false;
  guarded([&] {
    is_late = is_gone();
    if (!is_late && state_ != State::closed) gone_callbacks_.push_back(f);
  });
  // A stopped thread runs no tasks: then this one does.
  if (is_late && !thread_->post(f)) f();
}

void ConnectionExchange::post(std::function<void()> task) { thread_->post(std::move(task)); }

size_t ConnectionExchange::io_thread() const { return thread_->index(); }

ConnectionExchange::Output ConnectionExchange::take_output(std::string& head, std::string& body) {
  const std::lock_guard lock(mutex_);
  is_flush_posted_ = false;
  if (state_ == State::aborted) return Output::aborted;
  const bool takes_end = state_ == State::ended && !is_end_taken_;
  if (pending_head_.empty() && pending_body_.empty() && !takes_end)
    return is_end_taken_ ? Output::finished : Output::none;
  const size_t n_before = pending_head_.size() + pending_body_.size();
  head.swap(pending_head_);
  body.swap(pending_body_);
  if (is_chunked_ && !body.empty()) {
    fmt::format_to(std::back_inserter(head), "{:x}\r\n", body.size());
    body += "\r\n";
  }
  if (is_chunked_ && takes_end) (body.empty() ? head : body) += kLastChunk;
  is_end_taken_ |= takes_end;
  const size_t n_framing = head.size() + body.size() - n_before;
  shared_->held.take_anyway(n_framing);
  if (n_framing > 0) add_unsent(n_framing);
  if (head.empty() && body.empty()) return Output::finished;
  return Output::bytes;
}

void ConnectionExchange::mark_sent(size_t n) {
  progress_ms_.store(now_ms(), std::memory_order_relaxed);
  const bool is_drained = n_unsent_.fetch_sub(n, std::memory_order_relaxed) == n;
  shared_->held.give(n);
  if (is_drained && drained_) drained_();
}

bool ConnectionExchange::is_ended() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::ended;
}

bool ConnectionExchange::is_aborted() const {
  const std::lock_guard lock(mutex_);
  return state_ == State::aborted;
}

bool ConnectionExchange::keeps_alive() const {
  const std::lock_guard lock(mutex_);
  return keeps_alive_;
}

int ConnectionExchange::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

// Drops what will not be sent. Under the mutex.
void ConnectionExchange::close_state() {
  state_ = State::closed;
  connection_.reset();
  std::string().swap(pending_head_);
  std::string().swap(pending_body_);
  shared_->held.give(n_unsent_.exchange(0));
}

void ConnectionExchange::finish() {
  std::vector<std::function<void()>> dropped;  // destroyed without the mutex
  const std::lock_guard lock(mutex_);
  close_state();
  dropped.swap(gone_callbacks_);
}

void ConnectionExchange::lose() {
  std::vector<std::function<void()>> callbacks;
  {
    const std::lock_guard lock(mutex_);
    close_state();
    gone_.store(true, std::memory_order_release);
    callbacks.swap(gone_callbacks_);
  }
  for (const auto& callback : callbacks) {
    try {
      callback();
    } catch (const std::exception&) {
      // A callback has no caller that could use its error.
    }
  }
}

}  // namespace tessera::server
