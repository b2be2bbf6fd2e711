// Counts and times of the server, for GET /metrics and for the owner of a process. Every value is written by one thread
// at a time or is atomic; readers may be on any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

#include "tessera/server/run/task.h"
#include "tessera/server/storage/disk_store.h"

namespace tessera::server {

/// A histogram with fixed bounds, as Prometheus reads it.
class Histogram {
 public:
  static constexpr size_t kMostBuckets = 32;

  /// Bounds first, first * factor, ... up to at least last.
  Histogram(double first, double factor, double last);
  void observe(double value);
  /// Appends the lines of the buckets, the sum and the count. labels: `model="x"`, or empty.
  void write(std::string& out, std::string_view name, std::string_view labels) const;

 private:
  std::array<double, kMostBuckets> bounds_{};
  size_t n_bounds_ = 0;
  std::array<std::atomic<uint64_t>, kMostBuckets + 1> counts_{};  // the last one: above all bounds
  std::atomic<double> sum_{0};
};

/// The numbers of one model's scheduler.
struct ModelMetrics {
  using Counter = std::atomic<uint64_t>;
  using Gauge = std::atomic<int64_t>;

  Counter prompt_tokens{0};         // computed
  Counter cached_prompt_tokens{0};  // not computed
  Counter disk_prompt_tokens{0};    // of these, the ones that were read from the disk
  std::atomic<double> prompt_seconds{0};
  Counter generated_tokens{0};
  std::atomic<double> generation_seconds{0};
  Counter decode_calls{0};
  Counter busy_slot_steps{0};  // slots in a batch, over all steps
  Counter most_tokens{0};      // of a sequence
  Counter drafts{0};           // sequences of steps with guesses
  Counter guesses{0};          // that steps have verified
  Counter right_guesses{0};
  Gauge n_waiting{0}, n_waiting_tokens{0};
  Gauge n_slots{0}, n_busy_slots{0}, n_paused_slots{0};
  Gauge n_blocks{0}, n_used_blocks{0};
  Gauge n_prefix_blocks{0}, n_prefix_blocks_in_use{0};
  Counter prefix_evictions{0};         // of blocks, from memory
  std::array<Counter, 8> ended{};      // by EndReason
  std::array<Counter, 4> preempted{};  // by PreemptionReason
  Counter refused_full{0}, refused_client{0};
  Counter grammars_compiled{0}, grammar_hits{0};  // of requests with a schema or a grammar
  Gauge grammar_bytes{0};                         // of the compiled ones that are kept

  Histogram first_token_seconds{0.001, 1.5, 120}, between_tokens_seconds{0.001, 1.5, 120};
  Histogram queue_seconds{0.001, 1.5, 120}, request_seconds{0.001, 1.5, 120}, step_seconds{0.001, 1.5, 120};
  Histogram step_tokens{1, 2, 4096}, step_sequences{1, 2, 1024};
  Histogram prompt_length{1, 2, 1 << 20}, generation_length{1, 2, 1 << 20};
};

/// The name of an EndReason, as metrics and the access log show it: "stop", "length", "cancelled", ...
std::string_view end_reason_name(EndReason reason);

enum class PreemptionReason : uint8_t { memory, priority, slow_reader };

/// Requests by route and status. Routes are those of the router, so their number is bounded.
class RequestCounts {
 public:
  void count(std::string_view route, int status);
  void write(std::string& out) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<std::string, int>, uint64_t> counts_;
};

/// Adds to an atomic double.
inline void add(std::atomic<double>& target, double value) {
  double old = target.load(std::memory_order_relaxed);
  while (!target.compare_exchange_weak(old, old + value, std::memory_order_relaxed)) {
  }
}

struct NamedMetrics {
  std::string name{};  // of the model
  const ModelMetrics* metrics = nullptr;
};

/// The text of GET /metrics: the names of llama-server, then our own. Ours have the label `model`. Those of
/// llama-server have it too if there are several models.
std::string metrics_text(std::span<const NamedMetrics> models);

/// Appends the lines of the disk tier, which all models share.
void write_disk_metrics(std::string& out, const DiskCounters& counters);

}  // namespace tessera::server
