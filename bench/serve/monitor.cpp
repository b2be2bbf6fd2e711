// Probes of the server (monitor.h).
#include "bench/serve/monitor.h"

#include <cmath>
#include <cstdlib>
#include <limits>

namespace tessera::load {
namespace {

constexpr double kProbeInterval_s = 0.02, kIdleInterval_s = 0.05;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

bool is_zero_or_unknown(double value) { return !(value > 0); }

bool is_idle(Context& context) {
  const Answer slots = context.get("/slots");
  if (slots.status == 200 && slots.body.find(R"("is_processing":true)") != std::string::npos) return false;
  const Answer metrics = context.get("/metrics");
  if (metrics.status != 200) return true;
  return is_zero_or_unknown(find_metric(metrics.body, "llamacpp:requests_processing")) &&
         is_zero_or_unknown(find_metric(metrics.body, "llamacpp:requests_deferred"));
}

}  // namespace

HealthProbe::HealthProbe(Context& context) : context_(context) { probe(); }

HealthProbe::~HealthProbe() {
  context_.client.drop(call_);
  *is_alive_ = false;
}

void HealthProbe::probe() {
  Request request;
  request.method = "GET";
  request.target = "/health";
  request.fresh = true;
  Handlers handlers;
  handlers.on_end = [this](const Answer& answer) {
    latency_ms_.add(answer.ended_ms - answer.sent_ms);
    if (answer.status != 200) ++n_failed_;
    context_.client.after(kProbeInterval_s, [this, is_alive = is_alive_] {
      if (*is_alive) probe();
    });
  };
  call_ = context_.client.send(std::move(request), std::move(handlers));
}

void HealthProbe::add_to(Report& report, const std::string& prefix) const {
  report.add(prefix + "health_p50_ms", latency_ms_.percentile(50));
  report.add(prefix + "health_p99_ms", latency_ms_.percentile(99));
  report.add(prefix + "health_failed", static_cast<double>(n_failed_));
}

double find_metric(std::string_view text, std::string_view name) {
  double sum = 0;
  bool found = false;
  while (!text.empty()) {
    const std::string line(text.substr(0, text.find('\n')));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (!line.starts_with(name) || line.size() == name.size()) continue;
    const char next = line[name.size()];
    if (next != ' ' && next != '{') continue;
    const size_t value = next == ' ' ? name.size() : line.rfind('}') + 1;
    sum += std::strtod(line.c_str() + value, nullptr);
    found = true;
  }
  return found ? sum : kNone;
}

double read_metric(Context& context, const std::string& name) {
  const Answer answer = context.get("/metrics");
  return answer.status == 200 ? find_metric(answer.body, name) : kNone;
}

double wait_until_idle(Context& context, double limit_s) {
  const double begin_ms = context.client.now_ms();
  while (context.client.now_ms() - begin_ms < limit_s * 1000) {
    if (is_idle(context)) return (context.client.now_ms() - begin_ms) / 1000;
    context.client.run_for(kIdleInterval_s);
  }
  return kNone;
}

}  // namespace tessera::load
