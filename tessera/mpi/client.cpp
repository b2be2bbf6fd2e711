#include "tessera/mpi/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "tessera/mpi/file_samples.h"
#include "tessera/mpi/handshake.h"

namespace tessera::mpi {

namespace {

// How often a waiting thread looks at its token.
constexpr std::chrono::milliseconds kCancelPoll{1}, kIdlePoll{100};

}  // namespace

Result<std::unique_ptr<Client>> Client::create(Transport& transport, const LinkOptions& options) {
  std::vector<int> peers;
  for (int rank = 0; rank < transport.n_ranks(); ++rank)
    if (rank != transport.rank()) peers.push_back(rank);
  std::unique_ptr<Client> client(new Client(transport, peers, options));
  TESSERA_TRY(client->link_.start(
      {.received = [raw = client.get()](int from,
                                        std::vector<std::byte> bytes) { raw->receive(from, std::move(bytes)); },
       .ended = [raw = client.get()](int rank, const std::optional<Error>& why) { raw->end(rank, why); }}));
  return client;
}

Result<> Client::greet(const HelloRequest& hello) {
  const std::vector<int> ranks = link_.peers();
  std::vector<uint64_t> requests;
  for (const int rank : ranks) {
    TESSERA_ASSIGN(const uint64_t request, start(rank, hello));
    requests.push_back(request);
  }
  for (size_t i = 0; i < ranks.size(); ++i) {
    TESSERA_ASSIGN(Reply reply, finish(requests[i]));
    TESSERA_ASSIGN(WelcomeAnswer welcome, take<WelcomeAnswer>(ranks[i], reply));
    TESSERA_TRY(require_same(hello.identity, welcome.identity));
    link_.name_peer(ranks[i], fmt::format("mpi:{} ({})", ranks[i], welcome.identity.host));
    workers_.push_back({ranks[i], std::move(welcome.identity.host), std::move(welcome.devices)});
  }
  return {};
}

Result<uint64_t> Client::start(int rank, const Message& request, std::optional<int> other) {
  uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    number = next_++;
    pending_[number].rank = rank;
    pending_[number].other = other;
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

bool Client::has_lost() const {
  const std::lock_guard lock(mutex_);
  return has_lost_;
}

void Client::set_files(FileMode mode, std::string path) {
  const std::lock_guard lock(files_mutex_);
  file_mode_ = mode;
  file_path_ = std::move(path);
}

Result<std::optional<uint64_t>> Client::find_file(int rank, const FileBytes& file) {
  const std::lock_guard lock(files_mutex_);
  if (file_mode_ == FileMode::send) return std::nullopt;
  std::string name(file.path);
  const auto known = files_.find({rank, name});
  if (known != files_.end()) return known->second;
  OpenFileRequest request{.path = file_path_, .n_bytes = file.file.size(), .hash = 0};
  std::error_code error;
  if (request.path.empty()) request.path = std::filesystem::absolute(name, error).string();
  if (request.path.empty()) request.path = name;
  TESSERA_ASSIGN(request.hash, hash_of_samples(file.file.size(), [&](uint64_t offset, std::span<std::byte> into) {
                   std::ranges::copy(file.file.subspan(offset, into.size()), into.begin());
                   return Result<>{};
                 }));
  const auto opened = ask<DoneAnswer>(rank, request);
  Result<std::optional<uint64_t>> found = std::nullopt;
  if (opened)
    found = opened->number;
  else if (file_mode_ == FileMode::local)
    found = std::unexpected(opened.error());
  files_.emplace(std::pair(rank, std::move(name)), found);
  return found;
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
    has_lost_ = true;
    for (auto& [number, pending] : pending_) {
      if ((pending.rank != rank && pending.other != rank) || pending.is_done) continue;
      pending.reply = std::unexpected(error);
      pending.is_done = true;
    }
  }
  changed_.notify_all();
}

}  // namespace tessera::mpi
