// Rank 0's side of the conversation with the workers: requests, each with a number, and the answers to them.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/base/cancel.h"
#include "tessera/mpi/link.h"
#include "tessera/mpi/message.h"

namespace tessera::mpi {

class Client {
 public:
  /// A message with the bytes that it borrows from.
  struct Reply {
    std::vector<std::byte> bytes;
    Message message;
  };
  struct Worker {
    int rank = 0;
    std::string host;
    std::vector<WireDevice> devices;
  };

  /// Shakes hands with all other ranks of the transport, which must outlive the client. Errors: mismatch (another
  /// version); io (a worker that is silent, or ends).
  static Result<std::unique_ptr<Client>> connect(Transport& transport, const Identity& identity,
                                                 const LinkOptions& options);

  const std::vector<Worker>& workers() const { return workers_; }

  /// Sends a request and returns its number, for finish(). Errors: io (the worker is lost).
  Result<uint64_t> start(int rank, const Message& request);
  /// Waits for the answer. If the token is cancelled, the worker is told so, and its answer is awaited nevertheless.
  /// There is no limit on the time of a request as long as the worker shows signs of life. Errors: those that the
  /// worker answers; io (the worker is lost).
  Result<Reply> finish(uint64_t request, const CancelToken* cancel = nullptr);
  /// Sends a message that has no answer. It is no error if the worker is lost: then nothing is left to be done.
  void post(int rank, const Message& message);

  /// start() and finish(), with an answer of a certain kind that borrows nothing.
  template <class Answer>
  Result<Answer> ask(int rank, const Message& request, const CancelToken* cancel = nullptr) {
    TESSERA_ASSIGN(const uint64_t number, start(rank, request));
    TESSERA_ASSIGN(Reply reply, finish(number, cancel));
    return take<Answer>(rank, reply);
  }
  /// The answer in a reply. Errors: format (it is of another kind).
  template <class Answer>
  Result<Answer> take(int rank, Reply& reply) {
    if (auto* answer = std::get_if<Answer>(&reply.message)) return std::move(*answer);
    return fail(ErrorCode::format, "{}: an answer of kind {}", link_.name_of(rank), reply.message.index());
  }

 private:
  struct Pending {
    int rank = 0;
    bool is_done = false;
    Result<Reply> reply = Reply{};
  };

  Client(Transport& transport, std::vector<int> peers, const LinkOptions& options)
      : link_(transport, std::move(peers), options) {}
  void receive(int from, std::vector<std::byte> bytes);
  void end(int rank, const std::optional<Error>& why);

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ = 1;
  std::map<uint64_t, Pending> pending_;
  std::vector<Worker> workers_;
  Link link_;  // destroyed first: its thread uses the other members
};

}  // namespace tessera::mpi
