#include "tessera/mpi/link.h"

#include <fmt/format.h>
#include <sys/prctl.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "tessera/mpi/wire.h"

namespace tessera::mpi {

namespace {

constexpr int kFrameTag = 1;
constexpr size_t kMaxSending = 2;                     // frames of a peer that the transport has at a time
constexpr size_t kMaxMessageBytes = size_t{1} << 30;  // far above any: bounds what a peer can make us keep
constexpr uint32_t kFrameMagic = 0x5453524d;
constexpr int kStuckTimeouts = 10;
constexpr unsigned long kTimerSlackNs = 1000;

enum FrameFlag : uint16_t {
  kLastFrame = 1,  // the message is complete
  kHeartbeat = 2,  // no part of a message
  kBroken = 4,     // the sender has given this peer up; the text says why
  kFarewell = 8,   // the sender ends
};

struct FrameHead {
  uint32_t magic = kFrameMagic;
  uint16_t flags = 0;
  uint16_t reserved = 0;
  uint64_t number = 0;
  uint64_t n_bytes = 0;
  static auto members(auto& self) { return std::tie(self.magic, self.flags, self.reserved, self.number, self.n_bytes); }
};
constexpr size_t kFrameHeadBytes = 24;

}  // namespace

Link::Link(Transport& transport, const std::vector<int>& peers, const LinkOptions& options)
    : transport_(transport), options_(options), timeout_(options.timeout) {
  for (const int rank : peers) {
    peers_.push_back(std::make_unique<Peer>());
    peers_.back()->rank = rank;
    peers_.back()->name = rank == 0 ? "rank 0" : fmt::format("mpi:{}", rank);
  }
}

Link::~Link() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& peer : peers_)
      if (!peer->lost) peer->outgoing.push_back({{}, kFarewell});
    is_closing_ = has_news_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

Result<> Link::start(Events events) {
  events_ = std::move(events);
  const Clock::time_point now = Clock::now();
  last_step_ = now.time_since_epoch().count();
  for (const auto& peer : peers_) {
    peer->room = std::make_shared<std::vector<std::byte>>(kFrameHeadBytes + options_.frame_bytes);
    peer->heard = peer->sent = now;
    TESSERA_ASSIGN(peer->receiving, transport_.post_receive(peer->rank, kFrameTag, peer->room));
    peer->receives = true;
  }
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error& error) {
    return fail(ErrorCode::out_of_memory, "no thread for messages: {}", error.what());
  }
  return {};
}

Link::Peer* Link::find(int rank) const {
  const auto found = std::ranges::find(peers_, rank, [](const auto& peer) { return peer->rank; });
  return found == peers_.end() ? nullptr : found->get();
}

Result<> Link::send(int to, std::vector<std::byte> message) {
  Peer* peer = find(to);
  if (peer == nullptr) return fail(ErrorCode::invalid_argument, "no connection with rank {}", to);
  {
    const std::lock_guard lock(mutex_);
    if (peer->lost) return std::unexpected(*peer->lost);
    peer->outgoing.push_back({std::move(message)});
    has_news_ = true;
  }
  changed_.notify_one();
  return {};
}

void Link::give_up(int rank, Error why) {
  if (Peer* peer = find(rank)) {
    const std::lock_guard lock(mutex_);
    peer->wanted_end = std::move(why);
    has_news_ = true;
  }
  changed_.notify_one();
}

void Link::name_peer(int rank, std::string name) {
  const std::lock_guard lock(mutex_);
  if (Peer* peer = find(rank)) peer->name = std::move(name);
}

std::string Link::name_of(int rank) const {
  const std::lock_guard lock(mutex_);
  const Peer* peer = find(rank);
  return peer == nullptr ? fmt::format("rank {}", rank) : peer->name;
}

std::vector<int> Link::peers() const {
  std::vector<int> ranks;
  for (const auto& peer : peers_) ranks.push_back(peer->rank);
  return ranks;
}

bool Link::is_running() const {
  const Clock::duration since(Clock::now().time_since_epoch().count() - last_step_.load());
  return since < kStuckTimeouts * timeout_.load();
}

void Link::work() {
  // By default the system rounds pauses up by 50 us, which is longer than the pauses.
  ::prctl(PR_SET_TIMERSLACK, kTimerSlackNs, 0, 0, 0);
  PollPause pause;
  std::optional<Clock::time_point> close_by;
  while (true) {
    const Clock::time_point now = Clock::now();
    last_step_ = now.time_since_epoch().count();
    bool has_moved = false;
    for (const auto& peer : peers_) has_moved |= step(*peer);
    {
      std::unique_lock lock(mutex_);
      if (is_closing_ && !close_by) close_by = now + timeout_.load();
      if (close_by && (now >= *close_by || is_drained())) break;
      has_moved |= std::exchange(has_news_, false);
      if (has_moved) pause.restart();
      changed_.wait_for(lock, pause.next(now), [&] { return has_news_; });
    }
  }
  for (const auto& peer : peers_) {
    if (peer->receives) transport_.cancel(peer->receiving);
    for (const Transport::Ticket ticket : peer->sending) transport_.cancel(ticket);
  }
}

// Called with the mutex held. Nobody waits for a lost peer to take what is sent to it.
bool Link::is_drained() {
  return std::ranges::all_of(
      peers_, [](const auto& peer) { return peer->lost || (peer->outgoing.empty() && peer->sending.empty()); });
}

bool Link::step(Peer& peer) {
  bool has_moved = false;
  while (receive(peer)) has_moved = true;
  std::optional<Error> wanted_end;
  {
    const std::lock_guard lock(mutex_);
    wanted_end = std::exchange(peer.wanted_end, std::nullopt);
  }
  if (wanted_end) lose(peer, std::move(wanted_end), true);
  // Frames that arrived while this thread did not run have been read by now, so it blames nobody for its own pause.
  const auto silence = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - peer.heard);
  if (peer.receives && silence > timeout_.load())
    lose(peer, Error(ErrorCode::io, fmt::format("{}: no sign of life for {} ms", name_of(peer.rank), silence.count())),
         true);
  return send_frames(peer) || has_moved;
}

bool Link::receive(Peer& peer) {
  if (!peer.receives) return false;
  auto got = transport_.poll(peer.receiving);
  if (got && !got->has_value()) return false;
  uint16_t flags = 0;
  Result<> taken;
  if (!got)
    taken = forward_error(got);
  else
    taken = take_frame(peer, std::span(*peer.room).first(**got), flags);
  if (!taken) {
    peer.receives = false;  // the ticket is void
    lose(peer, std::move(taken).error().within(name_of(peer.rank)), true);
    return true;
  }
  peer.heard = Clock::now();
  if ((flags & (kBroken | kFarewell)) != 0) {
    peer.receives = false;
    std::optional<Error> why;
    if ((flags & kBroken) != 0) {
      const std::string text(reinterpret_cast<const char*>(peer.message.data()), peer.message.size());
      why.emplace(ErrorCode::io, fmt::format("{} gave up: {}", name_of(peer.rank), text));
    }
    lose(peer, std::move(why), false);
    return true;
  }
  if ((flags & kLastFrame) != 0) events_.received(peer.rank, std::exchange(peer.message, {}));
  auto next = transport_.post_receive(peer.rank, kFrameTag, peer.room);
  peer.receives = next.has_value();
  if (next)
    peer.receiving = *next;
  else
    lose(peer, std::move(next).error().within(name_of(peer.rank)), true);
  return true;
}

// Checks a frame and adds its bytes to the message.
Result<> Link::take_frame(Peer& peer, std::span<const std::byte> frame, uint16_t& flags) {
  WireReader reader(frame);
  FrameHead head;
  TESSERA_TRY(reader.read(head));
  if (head.magic != kFrameMagic) return fail(ErrorCode::format, "bytes that are no frame: {:#x}", head.magic);
  if (head.number < peer.n_received) return fail(ErrorCode::format, "frame {} came twice", head.number);
  if (head.number > peer.n_received)
    return fail(ErrorCode::format, "frame {} is missing, {} came", peer.n_received, head.number);
  ++peer.n_received;
  const auto bytes = frame.subspan(kFrameHeadBytes);
  if (head.n_bytes != bytes.size())
    return fail(ErrorCode::format, "frame {} has {} bytes, want {}", head.number, bytes.size(), head.n_bytes);
  if (bytes.size() > kMaxMessageBytes - peer.message.size())
    return fail(ErrorCode::limit, "a message has more than {} bytes", kMaxMessageBytes);
  flags = head.flags;
  if ((flags & kBroken) != 0) peer.message.clear();
  peer.message.insert(peer.message.end(), bytes.begin(), bytes.end());
  return {};
}

bool Link::send_frames(Peer& peer) {
  bool has_moved = false;
  Result<> done;
  while (!peer.sending.empty() && done) {
    auto sent = transport_.poll(peer.sending.front());
    if (sent && !sent->has_value()) break;
    peer.sending.pop_front();
    has_moved = true;
    if (!sent) done = forward_error(sent);
  }
  while (peer.sending.size() < kMaxSending && done) {
    const std::optional<Outgoing> part = next_part(peer);
    if (!part) break;
    auto frame = std::make_shared<std::vector<std::byte>>();
    frame->reserve(kFrameHeadBytes + part->bytes.size());
    WireWriter(*frame).write(FrameHead{.flags = part->flags, .number = peer.n_sent++, .n_bytes = part->bytes.size()});
    frame->insert(frame->end(), part->bytes.begin(), part->bytes.end());
    peer.sent = Clock::now();
    auto ticket = transport_.post_send(peer.rank, kFrameTag, std::move(frame));
    has_moved = true;
    if (ticket)
      peer.sending.push_back(*ticket);
    else
      done = forward_error(ticket);
  }
  if (!done) lose(peer, std::move(done).error().within(name_of(peer.rank)), false);
  return has_moved;
}

// The contents of the next frame: a part of a message, or a heartbeat if it is time for one.
std::optional<Link::Outgoing> Link::next_part(Peer& peer) {
  const std::lock_guard lock(mutex_);
  if (peer.outgoing.empty()) {
    const auto pause = std::min(options_.heartbeat, timeout_.load() / 4);
    const bool is_due = !peer.lost && peer.sending.empty() && Clock::now() - peer.sent >= pause;
    return is_due ? std::optional<Outgoing>({{}, kHeartbeat}) : std::nullopt;
  }
  Outgoing& first = peer.outgoing.front();
  const auto rest = std::span(first.bytes).subspan(first.n_framed);
  const auto part = rest.first(std::min(rest.size(), options_.frame_bytes));
  Outgoing out{{part.begin(), part.end()}, first.flags};
  first.n_framed += part.size();
  if (first.n_framed == first.bytes.size()) {
    if (out.flags == 0) out.flags = kLastFrame;
    peer.outgoing.pop_front();
  }
  return out;
}

void Link::lose(Peer& peer, std::optional<Error> why, bool tells) {
  if (peer.receives) transport_.cancel(peer.receiving);
  peer.receives = false;
  {
    const std::lock_guard lock(mutex_);
    if (peer.lost) return;
    peer.lost = why ? *why : Error(ErrorCode::io, fmt::format("{} has ended", peer.name));
    peer.outgoing.clear();
    if (tells) {
      const auto text = std::as_bytes(std::span(why ? why->message() : peer.lost->message()));
      const auto part = text.first(std::min(text.size(), options_.frame_bytes));
      peer.outgoing.push_back({{part.begin(), part.end()}, kBroken});
    }
  }
  events_.ended(peer.rank, why);
}

}  // namespace tessera::mpi
