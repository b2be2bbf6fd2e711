#include "tessera/server/api/live_streams.h"

#include <utility>

namespace tessera::server {

void LiveStreams::add(std::weak_ptr<LiveStream> stream) {
  const std::lock_guard lock(mutex_);
  streams_.push_back(std::move(stream));
}

std::shared_ptr<LiveStream> LiveStreams::find(std::string_view id) {
  const std::lock_guard lock(mutex_);
  for (const std::weak_ptr<LiveStream>& weak : streams_) {
    std::shared_ptr<LiveStream> stream = weak.lock();
    if (stream != nullptr && stream->id() == id && !stream->exchange().is_gone()) return stream;
  }
  return nullptr;
}

void LiveStreams::tick() {
  std::vector<std::shared_ptr<LiveStream>> alive;
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(streams_, [&](const std::weak_ptr<LiveStream>& weak) {
      std::shared_ptr<LiveStream> stream = weak.lock();
      if (stream == nullptr || stream->exchange().is_gone()) return true;
      alive.push_back(std::move(stream));
      return false;
    });
  }
  const auto now = std::chrono::steady_clock::now();
  for (const std::shared_ptr<LiveStream>& stream : alive) stream->exchange().post([stream, now] { stream->ping(now); });
}

}  // namespace tessera::server
