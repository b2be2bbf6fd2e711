// Streams that outlive their connection (X-Conversation-Id): what a generation writes is kept for a while, and any
// number of readers follow it, each at its own pace. The client that began a stream is its first reader.
//
// A generation never waits for a reader: one that falls behind what is kept is cut off.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/server/api/stream_buffer.h"
#include "tessera/server/http/byte_budget.h"
#include "tessera/server/http/exchange.h"
#include "tessera/server/json/field_error.h"

namespace tessera::server {

struct KeptStreamLimits {
  size_t stream_bytes = size_t{4} << 20;        // the last bytes of a stream
  size_t all_bytes = size_t{64} << 20;          // of all streams; they count as held bytes of HTTP as well
  size_t n_streams = 1024;                      // at once
  size_t n_client_streams = 128;                // of one client
  size_t n_readers = 8;                         // of one stream
  std::chrono::milliseconds lifetime{600'000};  // after the end
  int64_t slow_reader_ms = 30'000;              // a reader that takes no byte for so long is cut off
};

struct KeptStreamFacts {
  bool is_done = false;
  uint64_t begin = 0, end = 0;  // places of the first byte that is kept, and after the last one
  int64_t started_s = 0;        // since 1970
  std::optional<int64_t> completed_s{};
};

class KeptStreams;

/// All functions may be called from any thread.
class KeptStream : public std::enable_shared_from_this<KeptStream> {
 public:
  using Name = std::pair<std::string, std::string>;  // of the client, and the id that it gave

  /// `streams` outlives this. stop: cancels the generation, if there still is one.
  KeptStream(KeptStreams& streams, std::shared_ptr<ByteBudget> held, Name name, std::function<void()> stop);
  ~KeptStream();

  const Name& name() const { return name_; }

  // The side of the generation.
  void begin(HttpAnswer head, const std::shared_ptr<Exchange>& first_reader);
  void append(std::string_view piece);
  void end();
  /// Ends without a proper end: readers are cut off.
  void fail();

  /// Adds a reader from a place of the stream on. Errors: 503 before the stream begins, 400 for a place that is not
  /// kept or not there yet, 429 with too many readers.
  FieldResult<> follow(const std::shared_ptr<Exchange>& exchange, uint64_t from);
  /// Cancels the generation.
  void stop() const { stop_(); }
  /// Cuts off readers that take nothing.
  void cut_slow_readers();
  KeptStreamFacts facts() const;

 private:
  enum class State : uint8_t { waiting, running, ended, failed };

  struct Reader {
    std::shared_ptr<Exchange> exchange;
    uint64_t place = 0;
  };

  void add_reader(std::shared_ptr<Exchange> exchange, uint64_t from);
  void leave_on_end(const std::shared_ptr<Exchange>& exchange);
  void detach(const Exchange* exchange);
  void keep(std::string_view piece);
  bool make_room();
  void forget_all(size_t n_skipped);
  void pump();
  bool pump(Reader& reader);

  KeptStreams& streams_;
  const std::shared_ptr<ByteBudget> held_;
  const Name name_;
  const std::function<void()> stop_;
  const int64_t started_s_;

  mutable std::mutex mutex_;
  State state_ = State::waiting;
  HttpAnswer head_{};
  StreamBuffer buffer_{};
  std::vector<Reader> readers_{};
  std::optional<int64_t> completed_s_{};
};

/// The streams of a server. All functions may be called from any thread.
class KeptStreams {
 public:
  explicit KeptStreams(const KeptStreamLimits& limits) : limits_(limits), kept_(limits.all_bytes) {}

  const KeptStreamLimits& limits() const { return limits_; }

  /// Adds a stream. An older one of the same name is stopped and forgotten. Errors: 429 (the client has too many that
  /// run), 503 (there are too many that run).
  FieldResult<> add(const std::shared_ptr<KeptStream>& stream);
  /// The stream of this name, or null.
  std::shared_ptr<KeptStream> find(const KeptStream::Name& name);
  /// Forgets a stream, if it was not replaced.
  void erase(const KeptStream& stream);
  /// Begins the time for which an ended stream is kept.
  void note_end(const KeptStream& stream);
  /// Forgets streams whose time is over, and cuts off slow readers. Called about every second.
  void tick();
  /// Forgets all.
  void clear();

  /// Takes bytes, also of the budget of HTTP. Streams that have ended make room, the oldest first.
  bool take(size_t n, ByteBudget& held);
  void give(size_t n, ByteBudget& held);

  /// Called with each request whose client left before its stream ended, at that end: for the access log. Set before
  /// the first request.
  void on_late_end(std::function<void(const HttpRequest& request)> f) { late_end_ = std::move(f); }
  void report_late_end(const HttpRequest& request) const {
    if (late_end_) late_end_(request);
  }

 private:
  using Clock = std::chrono::steady_clock;

  struct Entry {
    std::shared_ptr<KeptStream> stream;
    std::optional<Clock::time_point> end{};
  };
  using Entries = std::map<KeptStream::Name, Entry>;

  // With the mutex held.
  std::shared_ptr<KeptStream> take_oldest_ended(const std::string* client);
  std::shared_ptr<KeptStream> take_out(Entries::iterator place);

  const KeptStreamLimits limits_;
  ByteBudget kept_;
  std::function<void(const HttpRequest&)> late_end_{};
  std::mutex mutex_;
  Entries entries_{};
  std::list<KeptStream::Name> ended_{};  // the oldest first
};

}  // namespace tessera::server
