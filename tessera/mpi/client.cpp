#include "tessera/mpi/client.h"

#include <fmt/format.h>

#include <utility>

#include "tessera/mpi/handshake.h"

namespace tessera::mpi {

namespace {

// How often a waiting thread looks at its token.
constexpr std::chrono::milliseconds kCancelPoll{1}, kIdlePoll{100};

}  // namespace

Result<std::unique_ptr<Client>> Client::connect(Transport& transport, const Identity& identity,
                                                const LinkOptions& options) {
  std::vector<int> peers;
  for (int rank = 0; rank < transport.n_ranks(); ++rank)
    if (rank != transport.rank()) peers.push_back(rank);
  std::unique_ptr<Client> client(new Client(transport, peers, options));
  TESSERA_TRY(client->link_.start(
      {.received = [raw = client.get()](int from,
                                        std::vector<std::byte> bytes) { raw->receive(from, std::move(bytes)); },
       .ended = [raw = client.get()](int rank, const std::optional<Error>& why) { raw->end(rank, why); }}));
  std::vector<uint64_t> requests;
  for (const int rank : peers) {
    TESSERA_ASSIGN(const uint64_t request, client->start(rank, HelloRequest{identity}));
    requests.push_back(request);
  }
  for (size_t i = 0; i < peers.size(); ++i) {
    TESSERA_ASSIGN(Reply reply, client->finish(requests[i]));
    TESSERA_ASSIGN(WelcomeAnswer welcome, client->take<WelcomeAnswer>(peers[i], reply));
    TESSERA_TRY(require_same(identity, welcome.identity));
    client->link_.name_peer(peers[i], fmt::format("mpi:{} ({})", peers[i], welcome.identity.host));
    client->workers_.push_back({peers[i], std::move(welcome.identity.host), std::move(welcome.devices)});
  }
  return client;
}

Result<uint64_t> Client::start(int rank, const Message& request) {
  uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = next_++;
    pending_[number].rank = rank;
  }
  auto sent = link_.send(rank, encode({number, request}));
  if (sent) return number;
  const std::lock_guard lock(mutex_);
  pending_.erase(number);
  return forward_error(sent);
}

Result<Client::Reply> Client::finish(uint64_t request, const CancelToken* cancel) {
  std::unique_lock lock(mutex_);
  const auto pending = pending_.find(request);
  if (pending == pending_.end()) return fail(ErrorCode::internal, "request {} is not pending", request);
  bool has_cancelled = false;
  while (!pending->second.is_done) {
    const bool may_cancel = cancel != nullptr && !has_cancelled;
    if (may_cancel && cancel->cancelled()) {
      has_cancelled = true;
      lock.unlock();
      post(pending->second.rank, CancelRequest{request});
      lock.lock();
      continue;
    }
    changed_.wait_for(lock, may_cancel ? kCancelPoll : kIdlePoll);
    if (pending->second.is_done || link_.is_running()) continue;
    pending_.erase(pending);
    return fail(ErrorCode::io, "the thread for messages is stuck");
  }
  const int rank = pending->second.rank;
  Result<Reply> reply = std::move(pending->second.reply);
  pending_.erase(pending);
  lock.unlock();
  if (!reply) return reply;
  if (const auto* error = std::get_if<ErrorAnswer>(&reply->message))
    return std::unexpected(Error(error->code, error->text).within(link_.name_of(rank)));
  return reply;
}

void Client::post(int rank, const Message& message) {
  if (auto sent = link_.send(rank, encode({0, message})); !sent) return;
}

void Client::receive(int from, std::vector<std::byte> bytes) {
  auto envelope = decode(bytes);
  if (!envelope) return link_.give_up(from, std::move(envelope).error().within(link_.name_of(from)));
  {
    const std::lock_guard lock(mutex_);
    const auto pending = pending_.find(envelope->request);
    if (pending == pending_.end() || pending->second.rank != from || pending->second.is_done) return;
    pending->second.reply = Reply{std::move(bytes), std::move(envelope->message)};
    pending->second.is_done = true;
  }
  changed_.notify_all();
}

void Client::end(int rank, const std::optional<Error>& why) {
  const Error error = why ? *why : Error(ErrorCode::io, fmt::format("{} has ended", link_.name_of(rank)));
  {
    const std::lock_guard lock(mutex_);
    for (auto& [number, pending] : pending_) {
      if (pending.rank != rank || pending.is_done) continue;
      pending.reply = std::unexpected(error);
      pending.is_done = true;
    }
  }
  changed_.notify_all();
}

}  // namespace tessera::mpi
