#include "tessera/server/http/acceptor.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <string>
#include <utility>

namespace tessera::server {
namespace {

constexpr int kMaxAccepts = 64;       // in a row, before connections have their turn
constexpr int64_t kMaxRefusing = 32;  // connections that wait for the end of their 503; others close at once
constexpr int kPauseEvictions = 8;

std::string peer_text(const sockaddr_storage& storage) {
  char text[INET6_ADDRSTRLEN] = "";
  if (storage.ss_family == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr, text, sizeof text);
    return text;
  }
  if (storage.ss_family != AF_INET6) return "unix";
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&v6))
    inet_ntop(AF_INET, &v6.s6_addr[12], text, sizeof text);
  else
    inet_ntop(AF_INET6, &v6, text, sizeof text);
  return text;
}

Peer peer_of(const sockaddr_storage& storage, const Listener& listener) {
  Peer peer{.address = peer_text(storage)};
  const bool is_unix = !listener.path.empty();
  peer.is_on_loopback = is_unix || peer.address.starts_with("127.") || peer.address == "::1";
  peer.checks_host = listener.is_loopback && !is_unix;
  return peer;
}

}  // namespace

// A listener in the reactor.
struct Acceptor::Watch final : IoHandler {
  Acceptor* acceptor = nullptr;
  size_t index = 0;
  Listener listener{};
  std::unique_ptr<WatchedDescriptor> descriptor{};
  bool is_waiting = false;

  void on_event(IoEvent) override {
    is_waiting = false;
    if (descriptor != nullptr) acceptor->accept_from(index);
  }
  void wait(const std::shared_ptr<Watch>& self) {
    if (descriptor == nullptr || is_waiting) return;
    descriptor->wait(IoEvent::readable, self);
    is_waiting = true;
  }
};

Result<std::unique_ptr<Acceptor>> Acceptor::create(std::shared_ptr<SharedState> shared,
                                                   std::vector<Listener> listeners) {
  std::unique_ptr<Acceptor> acceptor(new Acceptor(std::move(shared)));
  Reactor& reactor = acceptor->shared_->threads.front()->reactor();
  while (!listeners.empty()) {
    auto watch = std::make_shared<Watch>();
    watch->acceptor = acceptor.get();
    watch->index = acceptor->watches_.size();
    watch->listener = std::move(listeners.front());
    listeners.erase(listeners.begin());
    auto descriptor = reactor.watch(watch->listener.descriptor);
    if (!descriptor) {
      close_listeners(listeners);
      return forward_error(descriptor);
    }
    watch->descriptor = std::move(*descriptor);
    acceptor->watches_.push_back(watch);
    watch->wait(watch);
  }
  return acceptor;
}

Acceptor::~Acceptor() { close(); }

void Acceptor::close() {
  for (const auto& watch : watches_) {
    if (watch->descriptor == nullptr) continue;
    watch->descriptor.reset();
    remove_socket_file(watch->listener);
  }
}

void Acceptor::accept_from(size_t listener) {
  try {
    for (int i = 0; i < kMaxAccepts; ++i)
      if (!accept_one(listener)) break;
    if (!is_paused_) watches_[listener]->wait(watches_[listener]);
  } catch (const std::exception&) {
    pause();  // no memory
  }
}

// False: nothing more to accept at present.
bool Acceptor::accept_one(size_t listener) {
  const Watch& watch = *watches_[listener];
  sockaddr_storage storage{};
  socklen_t n_bytes = sizeof storage;
  const int descriptor = ::accept4(watch.descriptor->descriptor(), reinterpret_cast<sockaddr*>(&storage), &n_bytes,
                                   SOCK_NONBLOCK | SOCK_CLOEXEC);
  if (descriptor < 0) {
    if (errno == EAGAIN) return false;
    if (errno == EINTR || errno == ECONNABORTED) return true;
    pause();  // EMFILE and its like: the listener stays readable, so a wait would spin
    return false;
  }
  shared_->n_accepted.fetch_add(1, std::memory_order_relaxed);
  if (shared_->is_draining.load(std::memory_order_relaxed)) {
    ::close(descriptor);
    return true;
  }
  if (make_place()) {
    shared_->n_open.fetch_add(1, std::memory_order_relaxed);
    hand_over(descriptor, peer_of(storage, watch.listener), false);
    return true;
  }
  shared_->n_refused.fetch_add(1, std::memory_order_relaxed);
  if (shared_->n_refusing.load(std::memory_order_relaxed) >= kMaxRefusing) {
    ::close(descriptor);
    return true;
  }
  shared_->n_refusing.fetch_add(1, std::memory_order_relaxed);
  hand_over(descriptor, peer_of(storage, watch.listener), true);
  return true;
}

// Whether one more connection may be open, after an idle one has closed if need be.
bool Acceptor::make_place() {
  if (shared_->n_open.load(std::memory_order_relaxed) < shared_->options.limits.n_connections) return true;
  std::vector<IoThread*> threads = shared_->threads;
  std::ranges::sort(threads, {}, [](const IoThread* thread) { return thread->oldest_ms(Phase::idle); });
  return std::ranges::any_of(threads, [](IoThread* thread) { return thread->evict_idle(); });
}

void Acceptor::hand_over(int descriptor, Peer peer, bool is_refused) {
  const auto& threads = shared_->threads;
  IoThread* const thread = threads[next_thread_++ % threads.size()];
  if (thread == threads.front()) return thread->adopt(descriptor, std::move(peer), is_refused);
  bool is_posted = false;
  try {
    is_posted = thread->post(
        [thread, descriptor, peer = std::move(peer), is_refused] { thread->adopt(descriptor, peer, is_refused); });
  } catch (const std::exception&) {
    // Without memory the connection closes.
  }
  if (is_posted) return;
  ::close(descriptor);
  (is_refused ? shared_->n_refusing : shared_->n_open).fetch_sub(1, std::memory_order_relaxed);
}

void Acceptor::pause() {
  is_paused_ = true;
  shared_->threads.front()->ensure_tick();
  try {
    for (IoThread* thread : shared_->threads)
      for (int i = 0; i < kPauseEvictions; ++i) thread->evict_idle();
  } catch (const std::exception&) {
    // The pause itself may help.
  }
}

bool Acceptor::tick() {
  if (!is_paused_) return false;
  try {
    for (const auto& watch : watches_) watch->wait(watch);
    is_paused_ = false;
  } catch (const std::exception&) {
    // Without memory the pause goes on.
  }
  return is_paused_;
}

}  // namespace tessera::server
