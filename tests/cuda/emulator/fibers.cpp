#include <boost/context/detail/fcontext.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/cuda/emulator/emulated.h"

namespace tessera::cuda::emulated {

namespace {

namespace context = boost::context::detail;

constexpr size_t kStackBytes = size_t{256} << 10;

struct Barrier {
  uint32_t n_waiting = 0, n_alive = 0;
  uint64_t generation = 0;

  // Called when the last thread has arrived, or left.
  void open_if_complete() {
    if (n_waiting == 0 || n_waiting < n_alive) return;
    n_waiting = 0;
    ++generation;
  }
};

struct Fiber {
  std::unique_ptr<unsigned char[]> stack;
  context::fcontext_t resume = nullptr;
  bool is_done = false, waits_for_block = false;
  uint64_t generation = 0;  // of the block's barrier, for which it waits
};

struct Machine {
  std::mutex mutex;
  std::vector<Fiber> fibers;
  std::vector<unsigned char> shared;
  KernelFunction kernel = nullptr;
  const void* params = nullptr;
  uint32_t n_threads = 0, thread = 0, block = 0;
  context::fcontext_t scheduler = nullptr;
  Barrier all;
  std::vector<Barrier> warps;
  std::vector<std::array<std::array<uint32_t, kMostWords>, kWarpSize>> exchanged;  // by warp
};
Machine& machine() {
  static Machine one;
  return one;
}

void yield() {
  Machine& m = machine();
  const uint32_t thread = m.thread;
  const context::transfer_t back = context::jump_fcontext(m.scheduler, nullptr);
  m.scheduler = back.fctx;
  m.thread = thread;
}

void wait_at(Barrier& barrier) {
  const uint64_t mine = barrier.generation;
  ++barrier.n_waiting;
  barrier.open_if_complete();
  while (barrier.generation == mine) yield();
}

void leave(Barrier& barrier) {
  --barrier.n_alive;
  barrier.open_if_complete();
}

void run_thread(context::transfer_t from) {
  Machine& m = machine();
  m.scheduler = from.fctx;
  m.kernel(m.params);
  const uint32_t thread = m.thread;
  m.fibers[thread].is_done = true;
  leave(m.warps[thread / kWarpSize]);
  leave(m.all);
  context::jump_fcontext(m.scheduler, nullptr);
}

constexpr unsigned char kUnwritten = 0xa5;
constexpr size_t kSharedAlignment = 128, kSharedMargin = 128;

// Ends the tests if a block has written behind its dynamic shared memory.
void check_margin(uint32_t shared_bytes) {
  const unsigned char* margin = shared() + shared_bytes;
  if (std::all_of(margin, margin + kSharedMargin, [](unsigned char byte) { return byte == kUnwritten; })) return;
  std::fputs("a block wrote behind its dynamic shared memory\n", stderr);
  std::abort();
}

// Runs a warp until each of its threads has ended or waits for the block.
void run_warp(Machine& m, uint32_t warp, bool is_ascending) {
  for (bool is_running = true; is_running;) {
    is_running = false;
    for (uint32_t lane = 0; lane < kWarpSize; ++lane) {
      const uint32_t thread = warp * kWarpSize + (is_ascending ? lane : kWarpSize - 1 - lane);
      Fiber& fiber = m.fibers[thread];
      if (fiber.is_done || (fiber.waits_for_block && m.all.generation == fiber.generation)) continue;
      is_running = true;
      m.thread = thread;
      fiber.resume = context::jump_fcontext(fiber.resume, nullptr).fctx;
    }
  }
}

// Warps, and the threads of a warp, run in ascending and descending order, in turns. So what one does after a barrier
// comes before the work of others, and after it: a barrier that is missing gives wrong results.
void run_block(Machine& m) {
  m.all = {.n_waiting = 0, .n_alive = m.n_threads, .generation = 0};
  for (size_t w = 0; w < m.warps.size(); ++w) m.warps[w] = {.n_waiting = 0, .n_alive = kWarpSize, .generation = 0};
  for (uint32_t i = 0; i < m.n_threads; ++i) {
    Fiber& fiber = m.fibers[i];
    if (fiber.stack == nullptr) fiber.stack = std::make_unique_for_overwrite<unsigned char[]>(kStackBytes);
    fiber.resume = context::make_fcontext(fiber.stack.get() + kStackBytes, kStackBytes, run_thread);
    fiber.is_done = fiber.waits_for_block = false;
  }
  const auto n_warps = static_cast<uint32_t>(m.warps.size());
  for (bool is_ascending = true; m.all.n_alive > 0; is_ascending = !is_ascending)
    for (uint32_t w = 0; w < n_warps; ++w) run_warp(m, is_ascending ? w : n_warps - 1 - w, is_ascending);
}

std::map<std::string, Kernel>& kernels() {
  static std::map<std::string, Kernel> all;
  return all;
}

}  // namespace

Register::Register(const char* name, size_t params_bytes, void (*run)(const void*)) {
  kernels()[name] = {run, params_bytes};
}

Kernel find_kernel(const std::string& name) {
  const auto found = kernels().find(name);
  return found == kernels().end() ? Kernel{} : found->second;
}

void launch(KernelFunction kernel, const void* params, uint32_t n_blocks, uint32_t n_threads, uint32_t shared_bytes) {
  Machine& m = machine();
  const std::lock_guard lock(m.mutex);
  if (m.fibers.size() < n_threads) m.fibers.resize(n_threads);
  m.warps.resize(n_threads / kWarpSize);
  m.exchanged.resize(n_threads / kWarpSize);
  m.shared.resize(shared_bytes + kSharedAlignment + kSharedMargin);
  m.kernel = kernel;
  m.params = params;
  m.n_threads = n_threads;
  for (m.block = 0; m.block < n_blocks; ++m.block) {
    std::fill(m.shared.begin(), m.shared.end(), kUnwritten);
    run_block(m);
    check_margin(shared_bytes);
  }
}

uint32_t thread() { return machine().thread; }
uint32_t n_threads() { return machine().n_threads; }
uint32_t block() { return machine().block; }
unsigned char* shared() {
  unsigned char* start = machine().shared.data();
  return start + (kSharedAlignment - reinterpret_cast<uintptr_t>(start) % kSharedAlignment) % kSharedAlignment;
}
void sync_block() {
  Machine& m = machine();
  Fiber& fiber = m.fibers[m.thread];
  fiber.generation = m.all.generation;
  fiber.waits_for_block = true;
  wait_at(m.all);
  fiber.waits_for_block = false;
}
void sync_warp() { wait_at(machine().warps[machine().thread / kWarpSize]); }

const std::array<std::array<uint32_t, kMostWords>, kWarpSize>& exchange(const uint32_t* words, size_t n) {
  Machine& m = machine();
  const uint32_t thread = m.thread;
  auto& slots = m.exchanged[thread / kWarpSize];
  std::copy_n(words, n, slots[thread % kWarpSize].begin());
  wait_at(m.warps[thread / kWarpSize]);
  return slots;
}

}  // namespace tessera::cuda::emulated
