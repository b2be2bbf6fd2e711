// The connection of a rank with others, kept by one thread that alone uses the transport. Messages of any size travel
// in frames. A frame has a number, so a frame that is missing, comes twice or is cut short is noticed with the next one
// at the latest. Every rank sends a heartbeat when it has nothing else to send. A peer from which nothing has come for
// longer than the timeout is lost, and so is one whose frames are wrong. A lost peer stays lost.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tessera/mpi/transport.h"

namespace tessera::mpi {

struct LinkOptions {
  std::chrono::milliseconds heartbeat{500};
  std::chrono::milliseconds timeout{5000};
  // Of a message, in a frame. Equal on all ranks: a receiver has room for one frame of each peer.
  size_t frame_bytes = size_t{1} << 20;
};

class Link {
 public:
  /// Called by the thread of the link, which does nothing else meanwhile.
  struct Events {
    std::function<void(int from, std::vector<std::byte> message)> received;
    /// Called once for each peer that is lost, with the reason; without one, the peer has said that it ends.
    std::function<void(int rank, const std::optional<Error>& why)> ended;
  };

  /// The transport must outlive the link.
  Link(Transport& transport, const std::vector<int>& peers, const LinkOptions& options);
  /// Sends what is queued and a farewell, for at most the timeout.
  ~Link();
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  /// Starts the thread. Errors: out_of_memory (the system refuses a thread); invalid_argument (a rank that is not
  /// there); those of Transport::post_receive().
  Result<> start(Events events);

  /// Queues a message. Errors: io (the peer is lost or has ended).
  Result<> send(int to, std::vector<std::byte> message);
  /// Treats a peer as lost, and tells it why. For peers whose messages make no sense.
  void give_up(int rank, Error why);
  /// How errors name a peer: "mpi:1 (hostb)".
  void name_peer(int rank, std::string name);
  std::string name_of(int rank) const;

  std::vector<int> peers() const;
  /// The options' timeout from now on.
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }
  /// Whether the thread does its work: false if it has been stuck in the transport for several timeouts.
  bool is_running() const;

 private:
  struct Outgoing {
    std::vector<std::byte> bytes;
    uint16_t flags = 0;
    size_t n_framed = 0;  // bytes that are in frames already
  };
  struct Peer {
    int rank = 0;
    // Guarded by the mutex:
    std::string name;
    std::deque<Outgoing> outgoing;
    std::optional<Error> lost;
    std::optional<Error> wanted_end;  // of give_up()
    // Used by the thread alone:
    std::deque<Transport::Ticket> sending;
    Bytes room;
    Transport::Ticket receiving = 0;
    bool receives = false;
    std::vector<std::byte> message;  // the frames of it that have come
    uint64_t n_sent = 0, n_received = 0;
    Clock::time_point heard, sent;
  };

  Peer* find(int rank) const;
  void work();
  bool step(Peer& peer);
  bool receive(Peer& peer);
  Result<> take_frame(Peer& peer, std::span<const std::byte> frame, uint16_t& flags);
  bool send_frames(Peer& peer);
  std::optional<Outgoing> next_part(Peer& peer);
  void lose(Peer& peer, std::optional<Error> why, bool tells);
  bool is_drained();

  Transport& transport_;
  const LinkOptions options_;
  std::atomic<std::chrono::milliseconds> timeout_;
  Events events_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool has_news_ = false, is_closing_ = false;
  std::vector<std::unique_ptr<Peer>> peers_;
  std::atomic<Clock::duration::rep> last_step_{0};
  std::thread thread_;
};

}  // namespace tessera::mpi
