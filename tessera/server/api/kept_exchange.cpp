#include "tessera/server/api/kept_exchange.h"

#include <fmt/format.h>

#include <utility>

#include "tessera/server/json/error_body.h"
#include "tessera/server/json/top_level.h"

namespace tessera::server {

namespace {

HttpRequest take_request(Exchange& exchange) {
  HttpRequest request = exchange.request();
  exchange.take_body();
  return request;
}

}  // namespace

FieldResult<std::shared_ptr<Exchange>> keep_stream(ApiContext& context, const std::shared_ptr<Exchange>& exchange) {
  const auto id = exchange->request().field("x-conversation-id");
  if (!id || id->empty()) return exchange;
  if (id->size() > kMaxConversationBytes)
    return std::unexpected(FieldError{
        .message = fmt::format("X-Conversation-Id: {} bytes, want at most {}", id->size(), kMaxConversationBytes)});
  if (!has_top_level_true(exchange->request().body, "stream")) return exchange;
  const KeptStream::Name name(exchange->request().client.name, *id);
  KeptStreams& streams = context.kept_streams();
  const auto kept = std::make_shared<KeptExchange>(streams, exchange);
  const auto stream =
      std::make_shared<KeptStream>(streams, exchange->held_budget(), name, [weak = std::weak_ptr(kept)] {
        if (const auto running = weak.lock()) running->stop();
      });
  kept->write_to(stream);
  TESSERA_READ(streams.add(stream));
  return kept;
}

KeptExchange::KeptExchange(KeptStreams& streams, std::shared_ptr<Exchange> client)
    : Exchange(take_request(*client)), streams_(streams), client_(std::move(client)) {
  hold(client_->held());
  keep_place(client_->take_place());
}

// Without an end, for want of memory: nothing more comes.
KeptExchange::~KeptExchange() {
  if (stream_) stream_->fail();
}

// Changes the state. False: it was another one than `from`.
bool KeptExchange::leave(State from, State to) {
  const std::lock_guard lock(mutex_);
  if (state_ != from) return false;
  state_ = to;
  return true;
}

void KeptExchange::stop() {
  std::vector<std::function<void()>> callbacks;
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::ended || gone_.exchange(true)) return;
    callbacks.swap(gone_callbacks_);
  }
  if (leave(State::fresh, State::ended)) {
    client_->answer(
        error_answer({.status = 400, .type = "cancelled", .message = "The stream was stopped before it began"},
                     request_.path, request_.id));
    stream_->fail();
  }
  for (auto& callback : callbacks) post(std::move(callback));
}

void KeptExchange::answer(HttpAnswer answer) {
  if (!leave(State::fresh, State::ended)) return;
  client_->answer(std::move(answer));
  stream_->fail();
}

void KeptExchange::begin_stream(HttpAnswer head) {
  if (leave(State::fresh, State::streaming)) stream_->begin(std::move(head), client_);
}

void KeptExchange::write(std::string piece) { stream_->append(piece); }

void KeptExchange::end_stream() {
  if (!leave(State::streaming, State::ended)) return;
  const bool is_late = client_->is_gone();
  stream_->end();
  if (is_late) streams_.report_late_end(request_);
}

void KeptExchange::abort() {
  leave(State::fresh, State::ended);
  leave(State::streaming, State::ended);
  stream_->fail();
}

void KeptExchange::on_gone(std::function<void()> f) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_gone()) return gone_callbacks_.push_back(std::move(f));
  }
  post(std::move(f));
}

void KeptExchange::note(GenerationNote note) {
  request_.note = note;
  client_->note(std::move(note));
}

}  // namespace tessera::server
