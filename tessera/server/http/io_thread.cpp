#include "tessera/server/http/io_thread.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <exception>
#include <limits>
#include <random>
#include <system_error>
#include <utility>

#include "tessera/server/http/connection.h"

namespace tessera::server {
namespace {

constexpr int64_t kTickMs = 100;
constexpr int64_t kLingerMs = 2000;
constexpr int64_t kMaxCheckMs = 1000;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// Signals go to the other threads of the process.
void block_all_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

// The finalizer of MurmurHash3: distinct numbers stay distinct.
uint64_t scramble_bits(uint64_t x) {
  x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdULL;
  x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

}  // namespace

Result<std::shared_ptr<IoThread>> IoThread::create(std::shared_ptr<SharedState> shared, size_t index) {
  TESSERA_ASSIGN(auto reactor, Reactor::create());
  return std::shared_ptr<IoThread>(new IoThread(std::move(shared), index, std::move(reactor)));
}

IoThread::IoThread(std::shared_ptr<SharedState> shared, size_t index, std::unique_ptr<Reactor> reactor)
    : shared_(std::move(shared)),
      index_(index),
      reactor_(std::move(reactor)),
      scratch_(std::make_unique<char[]>(kScratchBytes)) {
  for (auto& oldest : oldest_) oldest.store(kNever);
  std::random_device random;
  id_key_ = (uint64_t{random()} << 32) | random();
}

IoThread::~IoThread() { stop(); }

Result<> IoThread::start() {
  try {
    thread_ = std::thread([this] { run(); });
    return {};
  } catch (const std::system_error& error) {
    return fail(ErrorCode::io, "I/O thread: {}", error.what());
  }
}

void IoThread::run() {
  block_all_signals();
  pthread_setname_np(pthread_self(), "tessera-http");
  reactor_->run();
  is_stopping_ = true;
  close_all();
  // The last tasks may clean up after exchanges.
  std::vector<Item> last;
  {
    const std::lock_guard lock(mutex_);
    is_closed_ = true;
    last.swap(inbox_);
  }
  run_items(last);
  extra_tick_ = nullptr;
}

void IoThread::stop() {
  if (!thread_.joinable()) return;
  reactor_->stop();
  thread_.join();
}

bool IoThread::push(Item item) {
  const std::lock_guard lock(mutex_);
  if (is_closed_) return false;
  inbox_.push_back(std::move(item));
  if (is_woken_) return true;
  // If this fails, the next tick or the next item runs the inbox.
  is_woken_ = reactor_->post([](void* self) { static_cast<IoThread*>(self)->run_inbox(); }, this);
  return true;
}

bool IoThread::post(std::function<void()> task) { return push({.task = std::move(task)}); }

void IoThread::post_flush(std::shared_ptr<Connection> connection) { push({.flush = std::move(connection)}); }

void IoThread::run_inbox() {
  {
    const std::lock_guard lock(mutex_);
    is_woken_ = false;
    running_.swap(inbox_);
  }
  run_items(running_);
  running_.clear();
}

void IoThread::run_items(std::vector<Item>& items) {
  for (Item& item : items) {
    try {
      if (item.flush) item.flush->flush();
      if (item.task) item.task();
    } catch (const std::exception&) {
      // A task has no caller that could use its error.
    }
  }
}

void IoThread::uncount(bool is_counted) {
  (is_counted ? shared_->n_open : shared_->n_refusing).fetch_sub(1, std::memory_order_relaxed);
}

void IoThread::adopt(int descriptor, Peer peer, bool is_refused) {
  const int on = 1;
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // fails for Unix sockets
  std::shared_ptr<Connection> connection;
  try {
    connection = make_connection(descriptor, std::move(peer), is_refused);
    if (connection) enter(*connection, Phase::head);
  } catch (const std::exception&) {  // no memory
    connection = nullptr;
  }
  if (!connection) return uncount(!is_refused);
  ensure_tick();
  if (is_refused) return connection->start_refusal();
  connection->start();
  limit_heads();
}

// Null: it cannot be had. The descriptor is closed then, also if an exception is thrown.
std::shared_ptr<Connection> IoThread::make_connection(int descriptor, Peer peer, bool is_refused) {
  auto watched = reactor_->watch(descriptor);
  if (!watched || is_stopping_) return nullptr;
  std::unique_ptr<TlsSession> session;
  if (auto context = shared_->current_tls()) {
    auto made = TlsSession::create(std::move(context), descriptor);
    if (!made) return nullptr;
    session = std::move(*made);
  }
  return std::make_shared<Connection>(*this, shared_, std::move(*watched), std::move(session), std::move(peer),
                                      !is_refused);
}

void IoThread::limit_heads() {
  const int64_t limit = std::max<int64_t>(1, shared_->options.limits.n_connections / 4);
  if (shared_->phase_count(Phase::head) <= limit) return;
  const auto& threads = shared_->threads;
  const auto oldest =
      std::ranges::min_element(threads, {}, [](const IoThread* thread) { return thread->oldest_ms(Phase::head); });
  (*oldest)->evict_oldest_head();
}

std::string IoThread::next_request_id() {
  const uint64_t number = (++n_ids_ << 8) | (index_ & 0xff);
  return fmt::format("req_{:016x}{:08x}", scramble_bits(id_key_ + number), number & 0xffffffff);
}

void IoThread::publish(Phase phase) {
  const List& members = list(phase);
  if (phase == Phase::idle) n_idle_.store(static_cast<int64_t>(members.size()), std::memory_order_relaxed);
  oldest_[static_cast<size_t>(phase)].store(members.empty() ? kNever : members.front()->phase_ms,
                                            std::memory_order_relaxed);
}

void IoThread::enter(Connection& connection, Phase phase) {
  if (!connection.is_listed) {
    List& members = list(phase);
    connection.place = members.insert(members.end(), connection.shared_from_this());
    connection.is_listed = true;
  } else {
    list(phase).splice(list(phase).end(), list(connection.phase), connection.place);
    shared_->n_phase[static_cast<size_t>(connection.phase)].fetch_sub(1, std::memory_order_relaxed);
  }
  shared_->n_phase[static_cast<size_t>(phase)].fetch_add(1, std::memory_order_relaxed);
  const Phase before = std::exchange(connection.phase, phase);
  connection.phase_ms = now_ms();
  publish(before);
  publish(phase);
}

void IoThread::remove(Connection& connection) {
  if (!std::exchange(connection.is_listed, false)) return;
  shared_->n_phase[static_cast<size_t>(connection.phase)].fetch_sub(1, std::memory_order_relaxed);
  uncount(connection.is_counted());
  list(connection.phase).erase(connection.place);
  publish(connection.phase);
}

bool IoThread::evict_idle() {
  if (n_idle_.load(std::memory_order_relaxed) <= n_evicting_.load(std::memory_order_relaxed)) return false;
  n_evicting_.fetch_add(1, std::memory_order_relaxed);
  evict_here(Phase::idle);
  return true;
}

bool IoThread::evict_oldest_head() {
  if (oldest_ms(Phase::head) == kNever) return false;
  evict_here(Phase::head);
  return true;
}

void IoThread::evict_here(Phase phase) {
  if (!is_this_thread()) {
    post([this, phase] { evict_here(phase); });
    return;
  }
  if (phase == Phase::idle) n_evicting_.fetch_sub(1, std::memory_order_relaxed);
  if (list(phase).empty()) return;
  const auto oldest = list(phase).front();
  oldest->evict();
}

void IoThread::close_idle() {
  while (!list(Phase::idle).empty()) {
    const auto connection = list(Phase::idle).front();
    connection->time_out();
  }
  std::vector<std::shared_ptr<Connection>> silent;
  for (const auto& connection : list(Phase::head))
    if (connection->has_no_request()) silent.push_back(connection);
  for (const auto& connection : silent) connection->lose();
}

void IoThread::close_all() {
  for (List& members : lists_) {
    while (!members.empty()) {
      const auto connection = members.front();
      connection->lose();
    }
  }
}

void IoThread::ensure_tick() {
  if (std::exchange(is_tick_set_, true)) return;
  reactor_->call_after(
      kTickMs, [](void* self) { static_cast<IoThread*>(self)->tick(); }, this);
}

void IoThread::tick() {
  is_tick_set_ = false;
  bool has_more = true;
  try {
    has_more = check_connections();
  } catch (const std::exception&) {
    // Without memory the next tick does it.
  }
  if (has_more) ensure_tick();
}

// Closes what is overdue. Returns whether there are connections or other things to look at again.
bool IoThread::check_connections() {
  const int64_t now = now_ms();
  const HttpLimits& limits = shared_->options.limits;
  expire(Phase::head, limits.head_ms, now);
  expire(Phase::body, limits.body_ms, now);
  expire(Phase::idle, limits.idle_ms, now);
  expire(Phase::closing, kLingerMs, now);
  if (now >= next_check_ms_) {
    next_check_ms_ = now + std::min(kMaxCheckMs, limits.body_stall_ms / 4);
    check_each(Phase::body, now);
    check_each(Phase::answering, now);
  }
  run_inbox();
  const bool has_more = extra_tick_ && extra_tick_();
  return has_more || std::ranges::any_of(lists_, [](const List& members) { return !members.empty(); });
}

void IoThread::expire(Phase phase, int64_t limit_ms, int64_t now) {
  while (!list(phase).empty()) {
    const auto connection = list(phase).front();
    if (now - connection->phase_ms < limit_ms) return;
    connection->time_out();
  }
}

void IoThread::check_each(Phase phase, int64_t now) {
  List& members = list(phase);
  for (auto next = members.begin(); next != members.end();) {
    const auto connection = *next++;  // it may leave the list
    connection->check_progress(now);
  }
}

}  // namespace tessera::server
