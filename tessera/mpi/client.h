// Rank 0's side of the conversation with the workers: requests, each with a number, and the answers to them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "tessera/base/cancel.h"
#include "tessera/mpi/link.h"
#include "tessera/mpi/message.h"

namespace tessera::mpi {

/// The files from which workers load weights.
enum class FileMode : uint8_t {
  automatic,  // a worker's own file if it is the same as rank 0's, else that of rank 0, in messages
  local,      // a worker's own file; an error if it has none
  send,       // rank 0's file, in messages
};

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

  /// Begins to exchange heartbeats with all other ranks of the transport, which must outlive the client. Errors: those
  /// of Link::start().
  static Result<std::unique_ptr<Client>> create(Transport& transport, const LinkOptions& options);
  /// Shakes hands with all workers, once. Errors: mismatch (another version); io (a worker that is silent, or ends);
  /// those of a worker.
  Result<> greet(const HelloRequest& hello);

  const std::vector<Worker>& workers() const { return workers_; }
  /// A worker from which nothing comes for so long is lost.
  void set_timeout(std::chrono::milliseconds timeout) { link_.set_timeout(timeout); }
  /// Whether a worker was lost, or has ended before this rank.
  bool has_lost() const;

  /// path: of the workers' files, if not the same as on rank 0; "": the same. For files that are not open yet.
  void set_files(FileMode mode, std::string path);
  /// The number of a worker's file that is the same as this one, or nothing if its bytes must be sent. Errors: io or
  /// mismatch (it must load from its own file, and has none or another one).
  Result<std::optional<uint64_t>> find_file(int rank, const FileBytes& file);

  /// Sends a request and returns its number, for finish(). other: a worker without which no answer comes. Errors: io
  /// (the worker is lost).
  Result<uint64_t> start(int rank, const Message& request, std::optional<int> other = std::nullopt);
  /// Waits for the answer. If the token is cancelled, the worker is told so, and its answer is awaited nevertheless.
  /// There is no limit on the time of a request as long as the worker shows signs of life. Errors: those that the
  /// worker answers; io (the worker is lost).
  Result<Reply> finish(uint64_t request, const CancelToken* cancel = nullptr);
  /// A number that no other copy has.
  uint64_t new_copy() { return next_copy_++; }
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
    std::optional<int> other{};
    bool is_done = false;
    Result<Reply> reply = Reply{};
  };

  Client(Transport& transport, const std::vector<int>& peers, const LinkOptions& options)
      : link_(transport, peers, options) {}
  void receive(int from, std::vector<std::byte> bytes);
  void end(int rank, const std::optional<Error>& why);

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t next_ = 1;
  std::atomic<uint64_t> next_copy_{1};
  std::map<uint64_t, Pending> pending_;
  bool has_lost_ = false;
  std::mutex files_mutex_;  // held while a worker opens a file, so that it does so once
  FileMode file_mode_ = FileMode::automatic;
  std::string file_path_;
  std::map<std::pair<int, std::string>, Result<std::optional<uint64_t>>> files_;
  std::vector<Worker> workers_;
  Link link_;  // destroyed first: its thread uses the other members
};

}  // namespace tessera::mpi
