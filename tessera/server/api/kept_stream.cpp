#include "tessera/server/api/kept_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <iterator>

namespace tessera::server {

namespace {

constexpr size_t kPieceBytes = size_t{64} << 10;
constexpr size_t kReaderWindow = size_t{128} << 10;  // of a reader; the rest waits in the buffer

int64_t now_s() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

FieldError refuse_place(std::string message) { return {.message = std::move(message), .param = "from"}; }

}  // namespace

KeptStream::KeptStream(KeptStreams& streams, std::shared_ptr<ByteBudget> held, Name name, std::function<void()> stop)
    : streams_(streams), held_(std::move(held)), name_(std::move(name)), stop_(std::move(stop)), started_s_(now_s()) {}

KeptStream::~KeptStream() { streams_.give(buffer_.n_held(), *held_); }

void KeptStream::begin(HttpAnswer head, const std::shared_ptr<Exchange>& first_reader) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::waiting) return;
    state_ = State::running;
    keep(std::exchange(head.body, {}));
    head_ = std::move(head);
    add_reader(first_reader, 0);
  }
  leave_on_end(first_reader);
}

void KeptStream::append(std::string_view piece) {
  const std::lock_guard lock(mutex_);
  if (state_ != State::running) return;
  keep(piece);
  pump();
}

void KeptStream::end() {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::running) return;
    state_ = State::ended;
    completed_s_ = now_s();
    pump();
  }
  streams_.note_end(*this);
}

void KeptStream::fail() {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::ended || state_ == State::failed) return;
    state_ = State::failed;
    for (const Reader& reader : readers_) reader.exchange->abort();
    readers_.clear();
  }
  streams_.erase(*this);
}

FieldResult<> KeptStream::follow(const std::shared_ptr<Exchange>& exchange, uint64_t from) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == State::waiting) return std::unexpected(unavailable(kLoadingModel));
    if (from < buffer_.begin())
      return std::unexpected(refuse_place(
          fmt::format("Parameter 'from': {} is before the first byte that is kept, {}", from, buffer_.begin())));
    if (from > buffer_.end())
      return std::unexpected(
          refuse_place(fmt::format("Parameter 'from': {} is beyond the {} bytes of the stream", from, buffer_.end())));
    if (readers_.size() >= streams_.limits().n_readers)
      return std::unexpected(
          FieldError{.status = 429,
                     .type = "rate_limit_error",
                     .message = fmt::format("The stream has {} readers already", streams_.limits().n_readers),
                     .retry_after_s = 1});
    add_reader(exchange, from);
  }
  leave_on_end(exchange);
  return {};
}

// With the mutex held.
void KeptStream::add_reader(std::shared_ptr<Exchange> exchange, uint64_t from) {
  exchange->on_drained([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    const std::lock_guard lock(self->mutex_);
    self->pump();
  });
  exchange->begin_stream(head_);
  if (exchange->request().method == "HEAD") return exchange->end_stream();
  readers_.push_back({std::move(exchange), from});
  pump();
}

// Without the mutex: the function may run at once.
void KeptStream::leave_on_end(const std::shared_ptr<Exchange>& exchange) {
  exchange->on_gone([weak = weak_from_this(), left = exchange.get()] {
    if (const auto self = weak.lock()) self->detach(left);
  });
}

void KeptStream::detach(const Exchange* exchange) {
  const std::lock_guard lock(mutex_);
  std::erase_if(readers_, [&](const Reader& reader) { return reader.exchange.get() == exchange; });
}

void KeptStream::cut_slow_readers() {
  const std::lock_guard lock(mutex_);
  std::erase_if(readers_, [&](const Reader& reader) {
    const bool is_slow = reader.exchange->stalled_ms() > streams_.limits().slow_reader_ms;
    if (is_slow) reader.exchange->abort();
    return is_slow;
  });
}

KeptStreamFacts KeptStream::facts() const {
  const std::lock_guard lock(mutex_);
  return {.is_done = state_ == State::ended,
          .begin = buffer_.begin(),
          .end = buffer_.end(),
          .started_s = started_s_,
          .completed_s = completed_s_};
}

// Without memory the bytes count, but are not kept.
void KeptStream::keep(std::string_view piece) {
  try {
    while (!piece.empty()) {
      if (buffer_.room() == 0 && !make_room()) return forget_all(piece.size());
      piece.remove_prefix(buffer_.fill(piece));
    }
  } catch (const std::exception&) {
    forget_all(piece.size());
  }
}

// Adds a block. Older ones are forgotten when that would exceed the limit of this stream, or when no other stream can
// make room.
bool KeptStream::make_room() {
  const size_t n_most = streams_.limits().stream_bytes;
  while (buffer_.n_held() > 0 && buffer_.n_held() + buffer_.next_block() > n_most + kPieceBytes)
    streams_.give(buffer_.drop_block(), *held_);
  size_t n_new = buffer_.next_block();
  while (!streams_.take(n_new, *held_)) {
    if (buffer_.n_held() == 0) return false;
    streams_.give(buffer_.drop_block(), *held_);
    n_new = buffer_.next_block();
  }
  try {
    buffer_.add_block();
  } catch (const std::exception&) {
    streams_.give(n_new, *held_);
    return false;
  }
  return true;
}

void KeptStream::forget_all(size_t n_skipped) {
  streams_.give(buffer_.n_held(), *held_);
  buffer_.skip(n_skipped);
}

// With the mutex held.
void KeptStream::pump() {
  std::erase_if(readers_, [this](Reader& reader) { return !pump(reader); });
}

// Passes on what the reader has room for. False: it has all, or it is cut off.
bool KeptStream::pump(Reader& reader) {
  if (reader.place < buffer_.begin()) {
    reader.exchange->abort();
    return false;
  }
  while (reader.place < buffer_.end() && reader.exchange->n_unsent() < kReaderWindow) {
    std::string piece = buffer_.read(reader.place, kPieceBytes);
    reader.place += piece.size();
    reader.exchange->write(std::move(piece));
  }
  if (state_ == State::running || reader.place < buffer_.end()) return true;
  reader.exchange->end_stream();
  return false;
}

// --- the streams of a server

FieldResult<> KeptStreams::add(const std::shared_ptr<KeptStream>& stream) {
  std::vector<std::shared_ptr<KeptStream>> forgotten;  // ends without the mutex
  std::shared_ptr<KeptStream> replaced;
  {
    const std::lock_guard lock(mutex_);
    const auto& [client, id] = stream->name();
    if (const auto old = entries_.find(stream->name()); old != entries_.end()) replaced = take_out(old);
    const auto n_own = std::ranges::count_if(entries_, [&](const auto& one) { return one.first.first == client; });
    if (static_cast<size_t>(n_own) >= limits_.n_client_streams) {
      forgotten.push_back(take_oldest_ended(&client));
      if (forgotten.back() == nullptr)
        return std::unexpected(
            FieldError{.status = 429,
                       .type = "rate_limit_error",
                       .message = fmt::format("{} streams with X-Conversation-Id run already", n_own),
                       .retry_after_s = 1});
    } else if (entries_.size() >= limits_.n_streams) {
      forgotten.push_back(take_oldest_ended(nullptr));
      if (forgotten.back() == nullptr)
        return std::unexpected(FieldError{.status = 503,
                                          .type = "unavailable_error",
                                          .message = "Too many streams with X-Conversation-Id",
                                          .retry_after_s = 1});
    }
    entries_[stream->name()] = {.stream = stream};
  }
  if (replaced) replaced->stop();
  return {};
}

std::shared_ptr<KeptStream> KeptStreams::find(const KeptStream::Name& name) {
  const std::lock_guard lock(mutex_);
  const auto place = entries_.find(name);
  return place == entries_.end() ? nullptr : place->second.stream;
}

void KeptStreams::erase(const KeptStream& stream) {
  std::shared_ptr<KeptStream> forgotten;
  const std::lock_guard lock(mutex_);
  const auto place = entries_.find(stream.name());
  if (place != entries_.end() && place->second.stream.get() == &stream) forgotten = take_out(place);
}

void KeptStreams::note_end(const KeptStream& stream) {
  const std::lock_guard lock(mutex_);
  const auto place = entries_.find(stream.name());
  if (place == entries_.end() || place->second.stream.get() != &stream) return;
  place->second.end = Clock::now();
  ended_.push_back(stream.name());
}

void KeptStreams::tick() {
  std::vector<std::shared_ptr<KeptStream>> alive, forgotten;
  {
    const std::lock_guard lock(mutex_);
    const Clock::time_point oldest = Clock::now() - limits_.lifetime;
    while (!ended_.empty() && *entries_.find(ended_.front())->second.end <= oldest)
      forgotten.push_back(take_oldest_ended(nullptr));
    for (const auto& [name, entry] : entries_) alive.push_back(entry.stream);
  }
  for (const auto& stream : alive) stream->cut_slow_readers();
}

void KeptStreams::clear() {
  Entries forgotten;
  const std::lock_guard lock(mutex_);
  ended_.clear();
  forgotten.swap(entries_);
}

bool KeptStreams::take(size_t n, ByteBudget& held) {
  while (true) {
    if (kept_.take(n)) {
      if (held.take(n)) return true;
      kept_.give(n);
    }
    std::shared_ptr<KeptStream> forgotten;
    const std::lock_guard lock(mutex_);
    forgotten = take_oldest_ended(nullptr);
    if (forgotten == nullptr) return false;
  }
}

void KeptStreams::give(size_t n, ByteBudget& held) {
  kept_.give(n);
  held.give(n);
}

// Null: there is none, of this client or of any.
std::shared_ptr<KeptStream> KeptStreams::take_oldest_ended(const std::string* client) {
  const auto place = std::ranges::find_if(
      ended_, [&](const KeptStream::Name& name) { return client == nullptr || name.first == *client; });
  return place == ended_.end() ? nullptr : take_out(entries_.find(*place));
}

std::shared_ptr<KeptStream> KeptStreams::take_out(Entries::iterator place) {
  if (place->second.end) std::erase(ended_, place->first);
  auto stream = std::move(place->second.stream);
  entries_.erase(place);
  return stream;
}

}  // namespace tessera::server
