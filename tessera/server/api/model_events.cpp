#include "tessera/server/api/model_events.h"

#include <atomic>
#include <chrono>
#include <utility>

namespace tessera::server {

namespace {

constexpr auto kPingPause = std::chrono::seconds(15);
constexpr size_t kMostUnsent = size_t{256} << 10;  // of a client that does not read

}  // namespace

class ModelEvents::Stream final : public LiveStream {
 public:
  explicit Stream(std::shared_ptr<Exchange> exchange) : exchange_(std::move(exchange)) {
    exchange_->begin_stream({.content_type = std::string(kEventStreamType),
                             .fields = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}});
  }

  /// False: the client has left or does not read.
  bool write(const std::string& event) {
    if (exchange_->is_gone()) return false;
    if (exchange_->n_unsent() > kMostUnsent) {
      exchange_->abort();
      return false;
    }
    exchange_->write(event);
    return true;
  }
  void end() {
    has_ended_ = true;
    exchange_->end_stream();
  }

  void ping(std::chrono::steady_clock::time_point now) override {
    if (has_ended_ || now - last_ping_ < kPingPause) return;
    last_ping_ = now;
    static_cast<void>(write(":\n\n"));
  }
  Exchange& exchange() override { return *exchange_; }

 private:
  std::shared_ptr<Exchange> exchange_;
  std::atomic<bool> has_ended_{false};
  std::chrono::steady_clock::time_point last_ping_ = std::chrono::steady_clock::now();  // on the strand
};

std::string_view state_name(ModelState state) {
  switch (state) {
    case ModelState::loading:
      return "loading";
    case ModelState::loaded:
      return "loaded";
    case ModelState::sleeping:
      return "sleeping";
    case ModelState::unloading:
    case ModelState::unloaded:
      break;
  }
  return "unloaded";
}

void ModelEvents::subscribe(std::shared_ptr<Exchange> exchange) {
  auto stream = std::make_shared<Stream>(std::move(exchange));
  const std::lock_guard lock(mutex_);
  if (is_closed_) return stream->end();
  live_.add(stream);
  std::erase_if(streams_, [](const auto& one) { return one->exchange().is_gone(); });
  streams_.push_back(std::move(stream));
}

void ModelEvents::send(const ModelView& view) {
  std::string event = "data: ";
  JsonWriter writer(event);
  writer.begin_object().member("model", view.entry.name).member("event", "model_status").key("data").begin_object();
  writer.member("status", state_name(view.state)).member("progress", view.progress);
  if (!view.failure.empty()) writer.member("failed", true).member("error", view.failure);
  writer.end_object().end_object();
  event += "\n\n";
  const std::lock_guard lock(mutex_);
  std::erase_if(streams_, [&](const auto& stream) { return !stream->write(event); });
}

void ModelEvents::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  for (const auto& stream : std::exchange(streams_, {})) stream->end();
}

}  // namespace tessera::server
