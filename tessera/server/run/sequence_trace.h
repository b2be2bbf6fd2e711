// The stages of a sequence with their times, for requests with `trace`.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::server {

enum class TraceStage : uint8_t {
  received,     // the head of the request
  parsed,       // n prompt tokens are known
  queued,       // the scheduler has the sequence of n tokens
  admitted,     // it has a slot, and the cache has n of its tokens
  chunk,        // n more tokens of the prompt are computed
  first_token,  // n: 1
  paused,       // the client has n bytes to read
  preempted,    // it lost its slot, with n computed tokens
  resumed,      // after `paused`, with n bytes to read; or after `preempted`, with n tokens in the cache
  end,          // n tokens were generated
};
std::string_view trace_stage_name(TraceStage stage);

struct TraceEntry {
  std::chrono::steady_clock::time_point time{};
  TraceStage stage = TraceStage::received;
  int64_t n = 0;
};

/// With the entry of the request itself. Later stages are left out, but for the end.
inline constexpr size_t kMaxTraceEntries = 1024;

class SequenceTrace {
 public:
  void add(TraceStage stage, int64_t n, std::chrono::steady_clock::time_point time);
  std::vector<TraceEntry> take() { return std::move(entries_); }

 private:
  std::vector<TraceEntry> entries_;
};

}  // namespace tessera::server
