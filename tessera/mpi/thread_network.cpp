#include "tessera/mpi/thread_network.h"

#include <algorithm>
#include <deque>
#include <map>
#include <mutex>

#include "tessera/base/index.h"

namespace tessera::mpi {

// The wires. Every member locks the mutex.
class ThreadNetwork::Shared {
 public:
  explicit Shared(ThreadNetworkOptions options)
      : options_(std::move(options)), wires_(to_size(options_.n_ranks) * to_size(options_.n_ranks)) {
    is_silent_.resize(to_size(options_.n_ranks));
  }

  int n_ranks() const { return options_.n_ranks; }

  // Returns the time at which the sender has sent all bytes.
  Clock::time_point send(int from, int to, int tag, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    Wire& wire = this->wire(from, to);
    const uint64_t index = wire.n_sent++;
    const Clock::time_point now = Clock::now();
    const auto carried = std::chrono::duration<double>(
        options_.bytes_per_second > 0 ? static_cast<double>(bytes.size()) / options_.bytes_per_second : 0);
    wire.is_free = std::max(wire.is_free, now) + std::chrono::duration_cast<Clock::duration>(carried);
    if (is_silent_[to_size(from)]) return wire.is_free;
    MessageInFlight message{tag, {bytes.begin(), bytes.end()}, wire.is_free + options_.latency};
    size_t n_copies = 1;
    for (const NetworkFault& fault : options_.faults) {
      if (fault.from != from || fault.to != to || fault.message != index) continue;
      switch (fault.kind) {
        case NetworkFault::Kind::drop:
          n_copies = 0;
          break;
        case NetworkFault::Kind::delay:
          message.arrives += fault.delay;
          break;
        case NetworkFault::Kind::duplicate:
          n_copies = 2;
          break;
        case NetworkFault::Kind::truncate:
          message.bytes.resize(message.bytes.size() / 2);
          break;
      }
    }
    message.arrives = std::max(message.arrives, wire.last_arrival);
    wire.last_arrival = message.arrives;
    for (size_t i = 0; i < n_copies; ++i) wire.messages.push_back(message);
    return wire.is_free;
  }

  Result<std::optional<size_t>> receive(int from, int to, int tag, std::span<std::byte> room) {
    const std::lock_guard lock(mutex_);
    Wire& wire = this->wire(from, to);
    const auto message = std::ranges::find(wire.messages, tag, &MessageInFlight::tag);
    if (message == wire.messages.end() || message->arrives > Clock::now() || is_silent_[to_size(from)])
      return std::nullopt;
    const size_t n = message->bytes.size();
    const bool fits = n <= room.size();
    if (fits) std::ranges::copy(message->bytes, room.begin());
    wire.messages.erase(message);
    if (!fits) return fail(ErrorCode::limit, "rank {}: a message of {} bytes, want at most {}", to, n, room.size());
    return n;
  }

  void silence(int rank) {
    const std::lock_guard lock(mutex_);
    is_silent_[to_size(rank)] = true;
  }

  uint64_t n_sent(int from, int to) {
    const std::lock_guard lock(mutex_);
    return wire(from, to).n_sent;
  }

 private:
  struct MessageInFlight {
    int tag;
    std::vector<std::byte> bytes;
    Clock::time_point arrives;
  };

  // One direction between two ranks.
  struct Wire {
    std::deque<MessageInFlight> messages;
    uint64_t n_sent = 0;
    Clock::time_point is_free{};  // when it has carried all bytes so far
    Clock::time_point last_arrival{};
  };

  Wire& wire(int from, int to) { return wires_[to_size(from) * to_size(options_.n_ranks) + to_size(to)]; }

  std::mutex mutex_;
  const ThreadNetworkOptions options_;
  std::vector<Wire> wires_;
  std::vector<bool> is_silent_;
};

class ThreadNetwork::Rank final : public Transport {
 public:
  Rank(Shared& shared, int rank) : shared_(shared), rank_(rank) {}

  int rank() const override { return rank_; }
  int n_ranks() const override { return shared_.n_ranks(); }

  Result<Ticket> post_send(int to, int tag, Bytes bytes) override {
    TESSERA_TRY(require_rank(to));
    posted_[next_] = {.sent = shared_.send(rank_, to, tag, *bytes), .n_sent = bytes->size()};
    return next_++;
  }

  Result<Ticket> post_receive(int from, int tag, Bytes room) override {
    TESSERA_TRY(require_rank(from));
    posted_[next_] = {.receives = true, .from = from, .tag = tag, .room = std::move(room)};
    return next_++;
  }

  Result<std::optional<size_t>> poll(Ticket ticket) override {
    const auto found = posted_.find(ticket);
    if (found == posted_.end()) return fail(ErrorCode::invalid_argument, "rank {}: ticket {} is void", rank_, ticket);
    const Posted& posted = found->second;
    Result<std::optional<size_t>> done;
    if (posted.receives)
      done = shared_.receive(posted.from, rank_, posted.tag, *posted.room);
    else if (posted.sent <= Clock::now())
      done = posted.n_sent;
    if (!done || done->has_value()) posted_.erase(found);
    return done;
  }

  void cancel(Ticket ticket) override { posted_.erase(ticket); }

 private:
  struct Posted {
    bool receives = false;
    int from = 0;
    int tag = 0;
    Bytes room{};
    Clock::time_point sent{};
    size_t n_sent = 0;
  };

  Result<> require_rank(int rank) const {
    if (rank < 0 || rank >= n_ranks())
      return fail(ErrorCode::invalid_argument, "rank {}, want 0 to {}", rank, n_ranks() - 1);
    return {};
  }

  Shared& shared_;
  int rank_;
  Ticket next_ = 1;
  std::map<Ticket, Posted> posted_;
};

ThreadNetwork::ThreadNetwork(ThreadNetworkOptions options) : shared_(std::make_unique<Shared>(std::move(options))) {
  for (int rank = 0; rank < shared_->n_ranks(); ++rank) ranks_.push_back(std::make_unique<Rank>(*shared_, rank));
}

ThreadNetwork::~ThreadNetwork() = default;

Transport& ThreadNetwork::of(int rank) const { return *ranks_[to_size(rank)]; }
void ThreadNetwork::silence(int rank) { shared_->silence(rank); }
uint64_t ThreadNetwork::n_sent(int from, int to) const { return shared_->n_sent(from, to); }

}  // namespace tessera::mpi
