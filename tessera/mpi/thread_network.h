// A transport between threads of one process, for tests of everything above it. Latency, bandwidth and faults are
// parameters.
#pragma once

#include <memory>
#include <vector>

#include "tessera/mpi/transport.h"

namespace tessera::mpi {

/// A fault of one message, counted from 0 among those from one rank to another.
struct NetworkFault {
  enum class Kind : uint8_t { drop, delay, duplicate, truncate };

  Kind kind = Kind::drop;
  int from = 0;
  int to = 0;
  uint64_t message = 0;
  // Later messages between these ranks do not overtake it.
  std::chrono::microseconds delay{0};
};

struct ThreadNetworkOptions {
  int n_ranks = 2;
  std::chrono::microseconds latency{0};
  double bytes_per_second = 0;  // of each pair of ranks and direction; 0: without limit
  std::vector<NetworkFault> faults{};
};

class ThreadNetwork {
 public:
  explicit ThreadNetwork(ThreadNetworkOptions options);
  ~ThreadNetwork();
  ThreadNetwork(const ThreadNetwork&) = delete;
  ThreadNetwork& operator=(const ThreadNetwork&) = delete;

  /// The transport of a rank, valid as long as the network. Different ranks may be used by different threads.
  Transport& of(int rank) const;

  /// From now on, nothing that this rank sends arrives, as if its process were stopped.
  void silence(int rank);
  /// Number of messages that were sent from one rank to another.
  uint64_t n_sent(int from, int to) const;

 private:
  class Shared;
  class Rank;
  std::unique_ptr<Shared> shared_;
  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace tessera::mpi
