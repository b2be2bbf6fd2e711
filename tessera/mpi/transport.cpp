#include "tessera/mpi/transport.h"

#include <algorithm>
#include <thread>

namespace tessera::mpi {

namespace {

constexpr std::chrono::microseconds kSpin{30}, kShortestPause{20}, kLongestPause{200};
constexpr int kShareOfWait = 8;

}  // namespace

std::chrono::microseconds PollPause::next(Clock::time_point now) {
  if (!begin_) begin_ = now;
  if (now - *begin_ < kSpin) return std::chrono::microseconds(0);
  const auto waited = std::chrono::duration_cast<std::chrono::microseconds>(now - *begin_);
  return std::clamp(waited / kShareOfWait, kShortestPause, kLongestPause);
}

Result<size_t> wait_until(Transport& transport, Transport::Ticket ticket, Clock::time_point deadline) {
  PollPause pause;
  while (true) {
    TESSERA_ASSIGN(const std::optional<size_t> bytes, transport.poll(ticket));
    if (bytes) return *bytes;
    const Clock::time_point now = Clock::now();
    if (now >= deadline) {
      transport.cancel(ticket);
      return fail(ErrorCode::io, "rank {}: a message was not complete at its deadline", transport.rank());
    }
    std::this_thread::sleep_for(pause.next(now));
  }
}

}  // namespace tessera::mpi
