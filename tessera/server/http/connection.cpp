#include "tessera/server/http/connection.h"

#include <algorithm>
#include <exception>
#include <utility>

namespace tessera::server {
namespace {

constexpr size_t kMaxKeptBuffer = 16 << 10;  // larger buffers of output are freed when they are sent
constexpr int kMaxRounds = 8;                // of one connection before others have their turn

void empty_buffer(std::string& buffer) {
  if (buffer.capacity() > kMaxKeptBuffer)
    std::string().swap(buffer);
  else
    buffer.clear();
}

std::string_view rest_after(std::string_view text, size_t n) { return text.substr(std::min(n, text.size())); }

}  // namespace

Connection::Connection(IoThread& thread, std::shared_ptr<SharedState> shared,
                       std::unique_ptr<WatchedDescriptor> descriptor, std::unique_ptr<TlsSession> session, Peer peer,
                       bool is_counted)
    : thread_(thread),
      shared_(std::move(shared)),
      descriptor_(std::move(descriptor)),
      transport_(descriptor_->descriptor(), std::move(session)),
      peer_(std::move(peer)),
      is_counted_(is_counted),
      head_({.head_bytes = shared_->options.limits.head_bytes,
             .n_fields = shared_->options.limits.n_fields,
             .target_bytes = shared_->options.limits.target_bytes}) {}

// Without memory for a request it gets 503; without memory for that the connection closes.
template <class F>
void Connection::guarded(F f) {
  const auto self = shared_from_this();
  try {
    return f();
  } catch (const std::exception&) {
    if (descriptor_ == nullptr) return;
  }
  try {
    if (exchange_ != nullptr || phase == Phase::closing) return lose();
    refuse({503, "No memory for the request"});
  } catch (const std::exception&) {
    lose();
  }
}

void Connection::start() {
  guarded([&] {
    is_handshaking_ = transport_.is_tls();
    on_readable();  // often the request is there already
  });
}

void Connection::start_refusal() {
  guarded([&] {
    if (transport_.is_tls()) return close();
    reports_ = false;
    refuse({503, "Too many connections (--max-connections)"});
    if (descriptor_ != nullptr) wait_readable();
  });
}

void Connection::on_event(IoEvent event) {
  if (descriptor_ == nullptr) return;
  (event == IoEvent::readable ? waits_readable_ : waits_writable_) = false;
  guarded([&] {
    if (event == IoEvent::readable || is_handshaking_) on_readable();
    if (descriptor_ != nullptr && n_sent_ < out_head_.size() + out_body_.size()) flush();
  });
}

void Connection::wait_readable() {
  if (waits_readable_) return;
  descriptor_->wait(IoEvent::readable, shared_from_this());
  waits_readable_ = true;
}

void Connection::wait_writable() {
  if (waits_writable_) return;
  descriptor_->wait(IoEvent::writable, shared_from_this());
  waits_writable_ = true;
}

void Connection::advance_handshake() {
  switch (transport_.handshake().state) {
    case IoResult::State::done:
      is_handshaking_ = false;
      return thread_.enter(*this, Phase::head);  // the time of the head begins
    case IoResult::State::wait_readable:
      return wait_readable();
    case IoResult::State::wait_writable:
      return wait_writable();
    case IoResult::State::end:
    case IoResult::State::failed:
      return close();
  }
}

// While a request is answered, one byte more than may be kept is read, to notice that there are more.
size_t Connection::read_bytes() const {
  const size_t stray_bytes = shared_->options.limits.stray_bytes;
  size_t n = std::max<size_t>(stray_bytes, 1);
  if (exchange_ != nullptr)
    n = stray_bytes - std::min(stray_.size(), stray_bytes) + 1;
  else if (phase == Phase::closing)
    n = IoThread::kScratchBytes;
  else if (incoming_ != nullptr && !incoming_->reader.is_chunked())
    n = static_cast<size_t>(std::min<uint64_t>(incoming_->reader.n_missing(), IoThread::kScratchBytes));
  return std::clamp<size_t>(n, 1, IoThread::kScratchBytes);
}

void Connection::on_readable() {
  if (is_handshaking_) advance_handshake();
  const auto is_paused = [this] { return incoming_ != nullptr && incoming_->is_full; };
  if (is_handshaking_ || descriptor_ == nullptr || is_half_closed_ || is_paused()) return;
  for (int round = 0; round < kMaxRounds || transport_.has_pending(); ++round) {
    const IoResult result = transport_.read(thread_.scratch(), read_bytes());
    switch (result.state) {
      case IoResult::State::done:
        receive({thread_.scratch(), result.n});
        break;
      case IoResult::State::wait_readable:
        return wait_readable();
      case IoResult::State::wait_writable:
        wait_writable();
        return wait_readable();
      case IoResult::State::end:
        return on_end();
      case IoResult::State::failed:
        return lose();
    }
    if (descriptor_ == nullptr || is_half_closed_ || is_paused()) return;
  }
  wait_readable();
}

// An answer that is complete is still sent: some clients end their side after the request.
void Connection::on_end() {
  if (exchange_ == nullptr || !exchange_->is_ended()) return lose();
  is_half_closed_ = true;
}

void Connection::receive(std::string_view bytes) {
  if (phase == Phase::closing) return;
  if (exchange_ == nullptr) return process(bytes);
  stray_ += bytes;
  if (stray_.size() > shared_->options.limits.stray_bytes) lose();
}

void Connection::process(std::string_view bytes) {
  is_processing_ = true;
  bool has_new_head = false;
  while (!bytes.empty() && descriptor_ != nullptr && exchange_ == nullptr && phase != Phase::closing) {
    if (phase == Phase::idle) {
      thread_.enter(*this, Phase::head);
      has_new_head = true;
    }
    const size_t n = phase == Phase::head ? process_head(bytes) : process_body(bytes);
    bytes.remove_prefix(n);
  }
  is_processing_ = false;
  if (exchange_ != nullptr) stray_ += bytes;
  if (has_new_head && phase == Phase::head && descriptor_ != nullptr) thread_.limit_heads();
}

void Connection::flush() {
  guarded([&] {
    for (int round = 0; round < kMaxRounds; ++round) {
      if (descriptor_ == nullptr || !send_output() || exchange_ == nullptr) return;
      switch (exchange_->take_output(out_head_, out_body_)) {
        case ConnectionExchange::Output::none:
          return;
        case ConnectionExchange::Output::bytes:
          break;
        case ConnectionExchange::Output::finished:
          return finish_exchange();
        case ConnectionExchange::Output::aborted:
          return lose();
      }
    }
    thread_.post_flush(shared_from_this());
  });
}

// False: not all is sent yet, or the connection is closed.
bool Connection::send_output() {
  while (n_sent_ < out_head_.size() + out_body_.size()) {
    const size_t n_head = std::min(n_sent_, out_head_.size());
    const IoResult result = transport_.write(rest_after(out_head_, n_head), rest_after(out_body_, n_sent_ - n_head));
    switch (result.state) {
      case IoResult::State::done:
        n_sent_ += result.n;
        exchange_->mark_sent(result.n);
        break;
      case IoResult::State::wait_writable:
        wait_writable();
        return false;
      case IoResult::State::wait_readable:
        return false;  // on_event() continues
      case IoResult::State::end:
      case IoResult::State::failed:
        lose();
        return false;
    }
  }
  n_sent_ = 0;
  empty_buffer(out_head_);
  empty_buffer(out_body_);
  return true;
}

void Connection::finish_exchange() {
  const auto exchange = std::move(exchange_);
  exchange_ = nullptr;
  exchange->finish();
  report(exchange->request(), exchange->status());
  const bool is_draining = shared_->is_draining.load(std::memory_order_relaxed);
  if (!exchange->keeps_alive() || is_half_closed_ || is_draining) return linger();
  std::string().swap(out_head_);
  std::string().swap(out_body_);
  thread_.enter(*this, Phase::idle);
  if (is_processing_ || stray_.empty()) return;
  const std::string input = std::exchange(stray_, {});
  process(input);
}

void Connection::report(const HttpRequest& request, int status) {
  if (!std::exchange(reports_, true) || !shared_->options.on_finished) return;
  try {
    shared_->options.on_finished(request, status);
  } catch (const std::exception&) {
    // An observer's error is none of the request's.
  }
}

void Connection::linger() {
  std::string().swap(stray_);
  incoming_.reset();
  head_.reset();
  transport_.end_writing();
  if (is_half_closed_) return close();
  thread_.enter(*this, Phase::closing);
}

void Connection::lose() {
  const auto self = shared_from_this();
  if (const auto exchange = std::exchange(exchange_, nullptr)) {
    const int status = exchange->is_aborted() ? exchange->status() : 0;
    exchange->lose();
    report(exchange->request(), status != 0 ? status : 499);
  } else if (incoming_ != nullptr) {
    report(incoming_->request, 499);
  }
  close();
}

void Connection::close() {
  if (descriptor_ == nullptr) return;
  const auto self = shared_from_this();
  descriptor_.reset();
  std::string().swap(out_head_);
  std::string().swap(out_body_);
  std::string().swap(stray_);
  incoming_.reset();
  n_sent_ = 0;
  thread_.remove(*this);
}

void Connection::time_out() {
  guarded([&] {
    const bool has_request_phase = phase == Phase::head || phase == Phase::body;
    if (!has_request_phase || is_handshaking_) return close();
    refuse({408, phase == Phase::head ? "The head took too long" : "The body took too long (--http-timeout)"});
  });
}

void Connection::evict() {
  if (phase == Phase::head && !is_handshaking_)
    guarded([&] { refuse({408, "Too many connections without a request"}); });
  if (exchange_ != nullptr) return lose();
  close();
}

void Connection::check_progress(int64_t now) {
  const int64_t limit = shared_->options.limits.body_stall_ms;
  if (phase == Phase::body && incoming_ != nullptr && now - incoming_->progress_ms > limit) return time_out();
  if (exchange_ == nullptr) return;
  if (exchange_->is_aborted() || (exchange_->is_ended() && exchange_->stalled_ms() > limit)) lose();
}

}  // namespace tessera::server
