// One request and its answer, shared by a connection and the code that answers. A connection has at most one exchange
// at a time.
//
// All functions may be called from any thread; those that answer pass their bytes to the connection's strand. After the
// client has left they do nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "tessera/server/http/message.h"

namespace tessera::server {

class ByteBudget;

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  virtual ~Exchange() = default;

  const HttpRequest& request() const { return request_; }
  /// Moves the body out of the request. A body that was taken before the answer begins stops counting as held then.
  std::string take_body() { return std::move(request_.body); }

  /// Sends a whole answer. Exactly one answer() or begin_stream() per exchange.
  virtual void answer(HttpAnswer answer) = 0;

  /// Begins an answer of unknown length. The body of the head is its first piece.
  virtual void begin_stream(HttpAnswer head) = 0;
  /// Appends to a stream. Pieces that are written before the strand sends leave in one write. If unsent bytes of all
  /// connections pass HttpLimits::held_bytes, the connection closes.
  virtual void write(std::string piece) = 0;
  virtual void end_stream() = 0;
  /// Ends the connection without a proper end of the stream. on_gone() is then not called.
  virtual void abort() = 0;

  /// Bytes of the stream that the system has not taken yet.
  virtual size_t n_unsent() const = 0;
  /// Milliseconds since the client last took a byte, while some are unsent; 0 without unsent bytes.
  virtual int64_t stalled_ms() const = 0;
  /// Calls f each time the system has taken all bytes of the stream, on the strand. Before begin_stream().
  virtual void on_drained(std::function<void()> f) = 0;
  /// The budget of bodies and unsent answers.
  virtual std::shared_ptr<ByteBudget> held_budget() const = 0;

  /// Whether the client has left or the connection has failed.
  bool is_gone() const { return gone_.load(std::memory_order_acquire); }
  /// Calls f on the strand once the client leaves before the end of the answer; at once if it has left.
  virtual void on_gone(std::function<void()> f) = 0;

  /// Keeps an object as long as the exchange exists: the lease of the model that answers. A later one replaces it.
  void hold(std::shared_ptr<void> object) { held_object_ = std::move(object); }
  const std::shared_ptr<void>& held() const { return held_object_; }
  /// Keeps the request's place in a queue until its task takes the place. Not from two threads at a time.
  void keep_place(std::shared_ptr<const void> place) { place_ = std::move(place); }
  std::shared_ptr<const void> take_place() { return std::move(place_); }
  bool has_place() const { return place_ != nullptr; }

  /// Notes facts for the access log. On the strand.
  virtual void note(GenerationNote note) { request_.note = std::move(note); }

  /// Runs a task on the strand of the connection.
  virtual void post(std::function<void()> task) = 0;
  /// The I/O thread that owns the connection, counted from 0.
  virtual size_t io_thread() const = 0;

 protected:
  explicit Exchange(HttpRequest request) : request_(std::move(request)) {}

  HttpRequest request_;
  std::atomic<bool> gone_{false};

 private:
  std::shared_ptr<void> held_object_;
  std::shared_ptr<const void> place_;  // of the model that is held
};

}  // namespace tessera::server
