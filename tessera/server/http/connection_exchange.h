// The exchange of a connection: takes an answer from any thread and hands its bytes to the connection, which sends
// them. A mutex guards what is not sent yet; the connection takes all of it at once.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "tessera/server/http/exchange.h"
#include "tessera/server/http/shared_state.h"

namespace tessera::server {

class Connection;

struct ExchangeSetup {
  HttpRequest request{};
  int minor_version = 1;
  bool keeps_alive = true;
  std::vector<HttpField> cors{};
  HeldBytes held{};  // of the body
};

class ConnectionExchange final : public Exchange {
 public:
  ConnectionExchange(ExchangeSetup setup, std::shared_ptr<Connection> connection, std::shared_ptr<IoThread> thread,
                     std::shared_ptr<SharedState> shared);
  ~ConnectionExchange() override;

  void answer(HttpAnswer answer) override;
  void begin_stream(HttpAnswer head) override;
  void write(std::string piece) override;
  void end_stream() override;
  void abort() override;
  size_t n_unsent() const override { return n_unsent_.load(std::memory_order_relaxed); }
  int64_t stalled_ms() const override;
  void on_drained(std::function<void()> f) override { drained_ = std::move(f); }
  std::shared_ptr<ByteBudget> held_budget() const override { return shared_->budget; }
  void on_gone(std::function<void()> f) override;
  void post(std::function<void()> task) override;
  size_t io_thread() const override;

  // The connection's side, on its I/O thread.

  /// Answers with a refusal instead of the handler; ends a stream that has begun.
  void refuse(int status, const std::string& message, std::vector<HttpField> fields = {});

  enum class Output { none, bytes, finished, aborted };
  /// Moves all that is to be sent into two empty strings. Until a handler has returned, nothing asks for a flush.
  Output take_output(std::string& head, std::string& body);
  /// Counts n bytes as sent.
  void mark_sent(size_t n);
  /// Whether the whole answer is known, sent or not.
  bool is_ended() const;
  bool is_aborted() const;
  bool keeps_alive() const;
  int status() const;

  /// All is sent: later calls do nothing.
  void finish();
  /// The client has left: calls the functions of on_gone().
  void lose();

 private:
  enum class State { fresh, streaming, ended, aborted, closed };

  template <class F>
  void guarded(F change);
  void start_answer(HttpAnswer& answer, bool is_stream);
  void add_unsent(size_t n);
  void ask_for_flush();
  void release_body();
  void close_state();

  const std::shared_ptr<IoThread> thread_;
  const std::shared_ptr<SharedState> shared_;
  const int minor_version_;
  const std::vector<HttpField> cors_;

  mutable std::mutex mutex_{};
  State state_ = State::fresh;
  std::shared_ptr<Connection> connection_;  // null once closed
  std::string pending_head_{}, pending_body_{};
  bool is_chunked_ = false, drops_body_ = false;
  bool is_end_taken_ = false;
  bool is_flush_posted_ = true;  // the connection flushes after the handler
  bool keeps_alive_;
  int status_ = 0;
  HeldBytes held_;
  std::vector<std::function<void()>> gone_callbacks_{};
  std::function<void()> drained_{};  // constant once the stream has begun

  std::atomic<size_t> n_unsent_{0};
  std::atomic<int64_t> progress_ms_{0};  // of the last byte that the system took, or of the first unsent one
};

}  // namespace tessera::server
