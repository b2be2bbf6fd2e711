// A transport that notes each message that passes through it, for traces and tests.
#pragma once

#include <map>
#include <mutex>
#include <vector>

#include "tessera/mpi/transport.h"

namespace tessera::mpi {

struct RecordedMessage {
  bool is_received = false;  // else sent
  int peer = 0;              // the other rank
  int tag = 0;
  Clock::time_point begin{}, end{};  // posted, and seen to be done
  std::vector<std::byte> bytes{};    // the first of them: as many as the recorder keeps
  size_t n_bytes = 0;
};

class Recorder final : public Transport {
 public:
  /// kept_bytes: how many bytes of each message are kept. The transport must outlive the recorder.
  Recorder(Transport& transport, size_t kept_bytes) : transport_(transport), kept_bytes_(kept_bytes) {}

  int rank() const override { return transport_.rank(); }
  int n_ranks() const override { return transport_.n_ranks(); }
  Result<Ticket> post_send(int to, int tag, Bytes bytes) override;
  Result<Ticket> post_receive(int from, int tag, Bytes room) override;
  Result<std::optional<size_t>> poll(Ticket ticket) override;
  void cancel(Ticket ticket) override;

  /// The messages that are complete, in the order in which they completed. Any thread may call it.
  std::vector<RecordedMessage> messages() const;

 private:
  struct Pending {
    RecordedMessage message;
    Bytes memory;
  };

  Transport& transport_;
  const size_t kept_bytes_;
  std::map<Ticket, Pending> pending_;
  mutable std::mutex mutex_;  // of messages_
  std::vector<RecordedMessage> messages_;
};

}  // namespace tessera::mpi
