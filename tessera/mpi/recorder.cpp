#include "tessera/mpi/recorder.h"

#include <algorithm>
#include <span>
#include <utility>

namespace tessera::mpi {

Result<Transport::Ticket> Recorder::post_send(int to, int tag, Bytes bytes) {
  TESSERA_ASSIGN(const Ticket ticket, transport_.post_send(to, tag, bytes));
  pending_[ticket] = {{.peer = to, .tag = tag, .begin = Clock::now()}, std::move(bytes)};
  return ticket;
}

Result<Transport::Ticket> Recorder::post_receive(int from, int tag, Bytes room) {
  TESSERA_ASSIGN(const Ticket ticket, transport_.post_receive(from, tag, room));
  pending_[ticket] = {{.is_received = true, .peer = from, .tag = tag, .begin = Clock::now()}, std::move(room)};
  return ticket;
}

Result<std::optional<size_t>> Recorder::poll(Ticket ticket) {
  auto done = transport_.poll(ticket);
  if (done && !done->has_value()) return done;
  auto pending = pending_.extract(ticket);
  if (!done || pending.empty()) return done;
  auto& [message, memory] = pending.mapped();
  message.end = Clock::now();
  message.n_bytes = **done;
  const auto kept = std::span(*memory).first(std::min({message.n_bytes, memory->size(), kept_bytes_}));
  message.bytes.assign(kept.begin(), kept.end());
  const std::lock_guard lock(mutex_);
  messages_.push_back(std::move(message));
  return done;
}

void Recorder::cancel(Ticket ticket) {
  pending_.erase(ticket);
  transport_.cancel(ticket);
}

std::vector<RecordedMessage> Recorder::messages() const {
  const std::lock_guard lock(mutex_);
  return messages_;
}

}  // namespace tessera::mpi
