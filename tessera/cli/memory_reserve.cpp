#include "tessera/cli/memory_reserve.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <new>
#include <thread>

#include "tessera/server/memory_patience.h"

namespace tessera::cli {

namespace {

// Below the size from which malloc() maps a block of its own: a freed block serves small requests of any thread.
constexpr size_t kBlockBytes = size_t{64} << 10;

// Calls of the handler with a shorter pause between them are about the same lack of memory.
constexpr auto kNewLack = std::chrono::milliseconds(500);
constexpr auto kPause = std::chrono::milliseconds(1);
constexpr auto kShortPatience = std::chrono::milliseconds(50), kLongPatience = std::chrono::milliseconds(5000);

struct Reserve {
  std::array<std::atomic<void*>, 16> for_all{};
  std::array<std::atomic<void*>, 48> for_urgent{};
  std::atomic<bool> is_used{false};
};

Reserve g_reserve;

template <size_t n>
bool give_back_block(std::array<std::atomic<void*>, n>& blocks) {
  for (std::atomic<void*>& block : blocks) {
    void* const memory = block.exchange(nullptr);
    if (memory == nullptr) continue;
    g_reserve.is_used.store(true, std::memory_order_release);
    std::free(memory);
    return true;
  }
  return false;
}

template <size_t n>
bool refill(std::array<std::atomic<void*>, n>& blocks) {
  for (std::atomic<void*>& block : blocks) {
    if (block.load() != nullptr) continue;
    void* const memory = std::malloc(kBlockBytes);  // not operator new, which would take a block
    if (memory == nullptr) return false;
    block.store(memory);
  }
  return true;
}

// Waits a moment for memory that other threads free. False: the present thread has waited long enough.
bool wait_for_memory() {
  using Clock = std::chrono::steady_clock;
  thread_local Clock::time_point first{}, last{};
  const auto now = Clock::now();
  if (now - last > kNewLack) first = now;
  last = now;
  if (now - first > (server::serves_all_requests ? kLongPatience : kShortPatience)) return false;
  std::this_thread::sleep_for(kPause);
  return true;
}

// operator new calls it when malloc() fails, and then tries again.
void on_no_memory() {
  if (give_back_block(g_reserve.for_all)) return;
  const bool is_unwinding = std::uncaught_exceptions() > 0;
  if ((is_unwinding || server::serves_all_requests) && give_back_block(g_reserve.for_urgent)) return;
  if (!wait_for_memory()) throw std::bad_alloc();
}

}  // namespace

void install_memory_reserve() {
  refill_memory_reserve();
  std::set_new_handler(on_no_memory);
}

bool is_memory_reserve_used() { return g_reserve.is_used.load(std::memory_order_acquire); }

void refill_memory_reserve() {
  // A block that is taken meanwhile sets the flag again.
  const bool was_used = g_reserve.is_used.exchange(false);
  if (!refill(g_reserve.for_all) || !refill(g_reserve.for_urgent)) {
    if (was_used) g_reserve.is_used.store(true, std::memory_order_release);
  }
}

}  // namespace tessera::cli
