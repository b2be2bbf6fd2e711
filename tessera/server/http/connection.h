// A connection: reads heads and bodies within the limits, passes requests to their handlers, and sends the answers.
//
// All functions run on the connection's I/O thread. A read is always pending, so that a client that leaves is noticed.
// Between requests a connection holds no buffer.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tessera/server/http/body.h"
#include "tessera/server/http/connection_exchange.h"
#include "tessera/server/http/head.h"
#include "tessera/server/http/io_thread.h"
#include "tessera/server/http/transport.h"

namespace tessera::server {

class Connection final : public IoHandler, public std::enable_shared_from_this<Connection> {
 public:
  Connection(IoThread& thread, std::shared_ptr<SharedState> shared, std::unique_ptr<WatchedDescriptor> descriptor,
             std::unique_ptr<TlsSession> session, Peer peer, bool is_counted);

  void start();
  /// Sends 503 and closes, without reading a request.
  void start_refusal();
  void on_event(IoEvent event) override;
  /// Sends what the exchange has.
  void flush();

  /// Closes without a word; the exchange learns that the client has left.
  void lose();
  /// The time of the present phase is over.
  void time_out();
  /// Closes at once; a client that has begun a request gets 408 if its socket takes it.
  void evict();
  /// Looks at the times that are not those of a phase: progress of bodies and of whole answers.
  void check_progress(int64_t now);
  /// In phase head: whether no byte of a request has come.
  bool has_no_request() const { return !head_.has_begun(); }
  bool is_counted() const { return is_counted_; }

  // For IoThread.
  Phase phase = Phase::head;
  int64_t phase_ms = 0;  // time of entry
  std::list<std::shared_ptr<Connection>>::iterator place{};
  bool is_listed = false;

 private:
  // A request whose body is not complete.
  struct Incoming {
    HttpRequest request{};
    RequestHead head{};
    BodyReader reader{};
    std::vector<HttpField> cors{};
    const Route* route = nullptr;  // null: OPTIONS
    std::string allow{};
    HeldBytes held{};
    std::string piece{};   // decoded bytes for a sink
    bool is_full = false;  // the sink is: nothing is read
    int64_t progress_ms = 0;
  };
  struct Refusal {
    int status = 400;
    std::string message{};
  };

  template <class F>
  void guarded(F f);
  void on_readable();
  void on_end();
  void advance_handshake();
  size_t read_bytes() const;
  void wait_readable();
  void wait_writable();

  void receive(std::string_view bytes);
  void process(std::string_view bytes);
  size_t process_head(std::string_view bytes);
  size_t process_body(std::string_view bytes);
  size_t pass_body(std::string_view bytes);
  void resume_body();
  bool make_room(size_t n);
  void on_head();
  std::optional<Refusal> check_head();
  std::optional<Refusal> check_access(const Route* route);
  void begin_body();
  bool open_sink();
  void refuse(const Refusal& refusal, std::string_view target = {});
  void begin_exchange(bool keeps_alive);
  void dispatch();
  void answer_options();
  void send_continue();

  bool send_output();
  void finish_exchange();
  void report(const HttpRequest& request, int status);
  void linger();
  void close();

  IoThread& thread_;
  const std::shared_ptr<SharedState> shared_;
  std::unique_ptr<WatchedDescriptor> descriptor_;  // null once closed
  Transport transport_;
  const Peer peer_;
  const bool is_counted_;

  HeadReader head_;
  std::unique_ptr<Incoming> incoming_{};
  std::shared_ptr<ConnectionExchange> exchange_{};
  std::string stray_{};  // input that came while a request was answered
  std::string out_head_{}, out_body_{};
  size_t n_sent_ = 0;  // bytes of both that are sent
  int64_t n_requests_ = 0;
  bool is_handshaking_ = false;
  bool is_processing_ = false;
  bool is_half_closed_ = false;  // the client sends no more
  bool reports_ = true;          // the request in progress is one of the client's
  bool waits_readable_ = false, waits_writable_ = false;
};

}  // namespace tessera::server
