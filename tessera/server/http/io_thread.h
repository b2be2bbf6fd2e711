// An I/O thread: its reactor, its connections by phase, its tasks from other threads, and one tick for all timeouts.
//
// Only post() and post_flush() may be called from other threads while the thread runs.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tessera/server/http/reactor.h"
#include "tessera/server/http/shared_state.h"

namespace tessera::server {

class Connection;

/// The other end of a connection.
struct Peer {
  std::string address{};  // without a port; "unix" for a Unix socket
  bool is_on_loopback = false;
  bool checks_host = false;  // it came by a loopback address of TCP
};

class IoThread : public std::enable_shared_from_this<IoThread> {
 public:
  static constexpr size_t kScratchBytes = 64 << 10;
  using List = std::list<std::shared_ptr<Connection>>;

  static Result<std::shared_ptr<IoThread>> create(std::shared_ptr<SharedState> shared, size_t index);
  ~IoThread();

  Result<> start();
  /// Closes all connections, runs the tasks that were posted, and joins the thread. Later tasks are dropped.
  void stop();

  size_t index() const { return index_; }
  /// Runs a task on this thread; false after stop(). May throw std::bad_alloc.
  bool post(std::function<void()> task);
  /// Calls Connection::flush() on this thread. May throw std::bad_alloc.
  void post_flush(std::shared_ptr<Connection> connection);

  // The functions from here on run on the thread.

  /// Takes over a socket that the acceptor has counted. `is_refused`: it gets 503.
  void adopt(int descriptor, Peer peer, bool is_refused);
  /// Closes the oldest connection without a head if they are more than a quarter of all that may be open.
  void limit_heads();
  /// Calls f every tick until the thread stops; ticks go on while it returns true or there are connections.
  void set_tick(std::function<bool()> f) { extra_tick_ = std::move(f); }
  void ensure_tick();
  /// Closes the connections that wait for a request.
  void close_idle();

  Reactor& reactor() { return *reactor_; }
  char* scratch() { return scratch_.get(); }
  std::string next_request_id();
  void enter(Connection& connection, Phase phase);
  void remove(Connection& connection);

  // Evictions may be asked for from any I/O thread. True: one connection closes now or soon.
  bool evict_idle();
  bool evict_oldest_head();
  /// Time of entry of the oldest connection in phase idle or head; INT64_MAX: none.
  int64_t oldest_ms(Phase phase) const { return oldest_[static_cast<size_t>(phase)].load(std::memory_order_relaxed); }

 private:
  struct Item {
    std::function<void()> task{};
    std::shared_ptr<Connection> flush{};
  };

  IoThread(std::shared_ptr<SharedState> shared, size_t index, std::unique_ptr<Reactor> reactor);
  bool push(Item item);
  void run_inbox();
  void run_items(std::vector<Item>& items);
  void run();
  std::shared_ptr<Connection> make_connection(int descriptor, Peer peer, bool is_refused);
  void tick();
  bool check_connections();
  void expire(Phase phase, int64_t limit_ms, int64_t now);
  void check_each(Phase phase, int64_t now);
  void close_all();
  void evict_here(Phase phase);
  void uncount(bool is_counted);
  bool is_this_thread() const { return std::this_thread::get_id() == thread_.get_id(); }
  void publish(Phase phase);
  List& list(Phase phase) { return lists_[static_cast<size_t>(phase)]; }

  const std::shared_ptr<SharedState> shared_;
  const size_t index_;
  const std::unique_ptr<Reactor> reactor_;
  const std::unique_ptr<char[]> scratch_;  // input of whichever connection is read
  std::thread thread_{};

  std::mutex mutex_{};
  std::vector<Item> inbox_{};
  bool is_woken_ = false, is_closed_ = false;

  std::vector<Item> running_{};
  std::array<List, kPhases> lists_{};
  std::array<std::atomic<int64_t>, kPhases> oldest_{};
  std::atomic<int64_t> n_idle_{0}, n_evicting_{0};
  std::function<bool()> extra_tick_{};
  bool is_tick_set_ = false, is_stopping_ = false;
  int64_t next_check_ms_ = 0;
  uint64_t id_key_ = 0, n_ids_ = 0;
};

}  // namespace tessera::server
