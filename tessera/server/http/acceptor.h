// Accepts connections on the first I/O thread and spreads them over all. Keeps the limit of connections: idle ones
// close first, and then new ones get 503.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "tessera/server/http/io_thread.h"
#include "tessera/server/http/listener.h"

namespace tessera::server {

class Acceptor {
 public:
  /// Watches the listeners before the threads run, and owns them from here on.
  static Result<std::unique_ptr<Acceptor>> create(std::shared_ptr<SharedState> shared, std::vector<Listener> listeners);
  /// After the threads have stopped.
  ~Acceptor();

  // The functions from here on run on the first I/O thread.

  void accept_from(size_t listener);
  /// Listens again after a pause; returns whether one goes on.
  bool tick();
  void close();

 private:
  struct Watch;

  explicit Acceptor(std::shared_ptr<SharedState> shared) : shared_(std::move(shared)) {}
  bool accept_one(size_t listener);
  void hand_over(int descriptor, Peer peer, bool is_refused);
  bool make_place();
  void pause();

  const std::shared_ptr<SharedState> shared_;
  std::vector<std::shared_ptr<Watch>> watches_{};
  size_t next_thread_ = 0;
  bool is_paused_ = false;
};

}  // namespace tessera::server
