// The streams of GET /models/sse: an event for each change of a model's state.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/server/api/live_streams.h"
#include "tessera/server/json/writer.h"
#include "tessera/server/models/model_registry.h"

namespace tessera::server {

/// "loaded", "unloaded", "sleeping" or "loading".
std::string_view state_name(ModelState state);

/// All functions may be called from any thread.
class ModelEvents {
 public:
  /// Comments keep the streams alive.
  explicit ModelEvents(LiveStreams& streams) : live_(streams) {}

  /// Begins a stream. After close() it ends at once.
  void subscribe(std::shared_ptr<Exchange> exchange);
  void send(const ModelView& view);
  /// Ends all streams.
  void close();

 private:
  class Stream;

  LiveStreams& live_;
  std::mutex mutex_;
  std::vector<std::shared_ptr<Stream>> streams_;
  bool is_closed_ = false;
};

}  // namespace tessera::server
