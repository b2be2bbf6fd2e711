// Copies from one worker to another, as the receiver sees them. The request of rank 0 and the bytes come from two
// ranks, in any order. Nothing waits: whoever adds the second part gets the whole copy.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "tessera/mpi/message.h"

namespace tessera::mpi {

/// A message and the bytes from which it may borrow.
struct ReceivedMessage {
  std::vector<std::byte> bytes;
  Envelope envelope;
};

/// Used by one thread.
class WorkerCopies {
 public:
  struct Copy {
    int from = 0;                              // the rank that sent the data
    std::shared_ptr<ReceivedMessage> request;  // a ReceiveCopyRequest
    std::shared_ptr<ReceivedMessage> data;     // a CopyMessage
  };

  /// Adds a part of a copy. Returns the copy if it has both parts, and forgets it.
  std::optional<Copy> add_request(std::shared_ptr<ReceivedMessage> request);
  std::optional<Copy> add_data(int from, std::shared_ptr<ReceivedMessage> data);
  /// Forgets a copy whose data has not come. Returns false if no such request waits.
  bool cancel(uint64_t request);
  /// Forgets all requests that wait for data of a rank, and returns their numbers.
  std::vector<uint64_t> cancel_from(int rank);

 private:
  std::optional<Copy> take_if_whole(uint64_t number);

  std::map<uint64_t, Copy> copies_;  // by number
};

}  // namespace tessera::mpi
