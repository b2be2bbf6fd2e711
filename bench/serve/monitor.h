// Watches the server while a scenario loads it: a probe of /health at fixed intervals, and the wait until no request is
// left in it.
#pragma once

#include <memory>
#include <string>

#include "bench/serve/scenario.h"
#include "bench/serve/stats.h"

namespace tessera::load {

/// Calls GET /health every 20 ms, each time on a new connection, as a load balancer does.
class HealthProbe {
 public:
  explicit HealthProbe(Context& context);
  HealthProbe(const HealthProbe&) = delete;
  HealthProbe& operator=(const HealthProbe&) = delete;
  ~HealthProbe();

  /// Adds the latencies and the number of failed calls, each name with the prefix.
  void add_to(Report& report, const std::string& prefix) const;
  const Samples& latency_ms() const { return latency_ms_; }

 private:
  void probe();

  Context& context_;
  Samples latency_ms_;
  int64_t n_failed_ = 0;
  CallId call_ = 0;
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);  // for timers that outlive this
};

/// Returns the sum of a metric over its labels in the text of GET /metrics, or NaN without it.
double find_metric(std::string_view text, std::string_view name);
/// Reads one metric of the server, or NaN where the server has no /metrics.
double read_metric(Context& context, const std::string& name);

/// Waits until /slots and /metrics show no request. Returns the seconds, or NaN if the limit came first. A server
/// without both routes counts as idle.
double wait_until_idle(Context& context, double limit_s);

}  // namespace tessera::load
