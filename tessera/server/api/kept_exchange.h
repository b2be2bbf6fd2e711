// The exchange of a chat stream with X-Conversation-Id: the generation writes to a kept stream instead of to its
// client, so it goes on when the client leaves and ends only when it is stopped.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/server/api/context.h"
#include "tessera/server/api/kept_stream.h"

namespace tessera::server {

inline constexpr size_t kMaxConversationBytes = 256;

/// An exchange that writes to a kept stream, if the request asks for a stream and has an X-Conversation-Id; otherwise
/// the exchange itself. Errors: 400 for a long id; those of KeptStreams::add().
FieldResult<std::shared_ptr<Exchange>> keep_stream(ApiContext& context, const std::shared_ptr<Exchange>& exchange);

class KeptExchange final : public Exchange {
 public:
  /// Takes the request of `client`. `streams` outlives this.
  KeptExchange(KeptStreams& streams, std::shared_ptr<Exchange> client);
  ~KeptExchange() override;

  /// Sets the stream, once.
  void write_to(std::shared_ptr<KeptStream> stream) { stream_ = std::move(stream); }
  /// Ends the generation as if its client had left. Before the stream begins, the client gets 400 `cancelled`.
  void stop();

  void answer(HttpAnswer answer) override;
  void begin_stream(HttpAnswer head) override;
  void write(std::string piece) override;
  void end_stream() override;
  void abort() override;
  // Nobody waits for readers.
  size_t n_unsent() const override { return 0; }
  int64_t stalled_ms() const override { return 0; }
  void on_drained(std::function<void()>) override {}
  std::shared_ptr<ByteBudget> held_budget() const override { return client_->held_budget(); }
  void on_gone(std::function<void()> f) override;
  void note(GenerationNote note) override;
  void post(std::function<void()> task) override { client_->post(std::move(task)); }
  size_t io_thread() const override { return client_->io_thread(); }

 private:
  enum class State : uint8_t { fresh, streaming, ended };

  bool leave(State from, State to);

  KeptStreams& streams_;
  const std::shared_ptr<Exchange> client_;
  std::shared_ptr<KeptStream> stream_{};
  std::mutex mutex_{};
  State state_ = State::fresh;
  std::vector<std::function<void()>> gone_callbacks_{};
};

}  // namespace tessera::server
