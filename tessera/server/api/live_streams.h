// The streams that are open, so that silent ones get a comment from time to time: proxies and clients give up
// connections on which nothing comes.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "tessera/server/http/exchange.h"
#include "tessera/server/run/reasoning_limit.h"

namespace tessera::server {

/// A stream of events to a client. Its functions run on the strand of its exchange.
class LiveStream {
 public:
  virtual ~LiveStream() = default;
  /// Writes a comment if the stream was silent for as long as its client asked for.
  virtual void ping(std::chrono::steady_clock::time_point now) = 0;
  virtual Exchange& exchange() = 0;
  /// The id that its client sees, or "". From any thread.
  virtual std::string_view id() const { return {}; }
  /// Null if nothing can end its reasoning. From any thread.
  virtual std::shared_ptr<ReasoningSwitch> reasoning() const { return nullptr; }
};

class LiveStreams {
 public:
  void add(std::weak_ptr<LiveStream> stream);
  /// Asks each stream to ping. Called about once a second, from any thread.
  void tick();
  /// The open stream with this id, which is not empty, or null.
  std::shared_ptr<LiveStream> find(std::string_view id);

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<LiveStream>> streams_;
};

}  // namespace tessera::server
