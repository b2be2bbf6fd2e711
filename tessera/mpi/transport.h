// Messages between the processes (ranks) of a job, as MPI has them: a message goes from one rank to another and has a
// tag, and messages with the same ranks and tag arrive in the order in which they were sent. Nothing here blocks. A
// send or a receive is posted, then polled until it is done, and wait_until() polls up to a deadline.
//
// Calls on one transport never overlap: MPI is cheapest if only one thread of a process uses it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "tessera/base/result.h"

namespace tessera::mpi {

using Clock = std::chrono::steady_clock;
/// Memory of a message. A transport keeps it while it uses it, also after cancel().
using Bytes = std::shared_ptr<std::vector<std::byte>>;

class Transport {
 public:
  /// Identifies a send or a receive until poll() has returned its size or an error, or until cancel().
  using Ticket = uint64_t;

  virtual ~Transport() = default;

  virtual int rank() const = 0;
  virtual int n_ranks() const = 0;

  /// Begins to send. Nobody changes the bytes while the ticket is valid. Errors: invalid_argument (no such rank); io.
  virtual Result<Ticket> post_send(int to, int tag, Bytes bytes) = 0;
  /// Begins to receive the next message of a rank with this tag. It has at most as many bytes as `room`, whose size
  /// does not change. Errors: as post_send().
  virtual Result<Ticket> post_receive(int from, int tag, Bytes room) = 0;
  /// Returns the bytes of the message if it was sent or received, and nothing if it is on its way. Errors: limit (a
  /// message is larger than the room for it); io.
  virtual Result<std::optional<size_t>> poll(Ticket ticket) = 0;
  /// Gives up. The message may be lost or arrive, and the room for it may still be written.
  virtual void cancel(Ticket ticket) = 0;
};

/// The pause between two polls. The first polls follow one another at once, since most answers are quick. Then a pause
/// is an eighth of the time that has passed, from 20 to 200 us, since other threads compute meanwhile.
class PollPause {
 public:
  /// The pause before the next poll, 0 at first.
  std::chrono::microseconds next(Clock::time_point now);
  /// Called after a poll that found something.
  void restart() { *this = PollPause(); }

 private:
  std::optional<Clock::time_point> begin_;
};

/// Polls until the send or receive is done. Errors: those of poll(); io (not done at the deadline; it is cancelled).
Result<size_t> wait_until(Transport& transport, Transport::Ticket ticket, Clock::time_point deadline);

}  // namespace tessera::mpi
