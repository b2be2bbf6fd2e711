// Scenarios in which clients disturb one another by lawful means: a long prompt beside short ones, thousands of idle
// streams beside active ones.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "bench/serve/monitor.h"
#include "bench/serve/process.h"
#include "bench/serve/scenario.h"

namespace tessera::load {
namespace {

constexpr int64_t kLongClient = 60000;  // a client number that no short prompt has
constexpr int64_t kLowestPriority = 10;

/// Sends one long prompt and runs the loop until its first token. Returns the milliseconds, or NaN.
double time_long_prompt(Context& context) {
  Completion completion;
  completion.ids = context.random_ids(std::max<int64_t>(context.count("long-tokens"), 1));
  completion.n_tokens = 1;
  double first_ms = 0;
  bool is_done = false;
  Handlers handlers;
  handlers.on_event = [&](std::string_view, double now_ms) { first_ms = first_ms == 0 ? now_ms : first_ms; };
  handlers.on_end = [&](const Answer&) { is_done = true; };
  const double begin_ms = context.client.now_ms();
  const CallId call = context.client.send(context.as_client(completion, kLongClient), std::move(handlers));
  context.client.run_until([&] { return is_done || first_ms > 0; }, context.real("limit"));
  context.client.drop(call);
  return first_ms > 0 ? first_ms - begin_ms : std::numeric_limits<double>::quiet_NaN();
}

/// Requests that wait in the server's queue: of the lowest priority, from many clients.
class IdleStreams {
 public:
  explicit IdleStreams(Context& context) : context_(context) {
    for (int64_t i = 0; i < context.count("idle"); ++i) begin(i);
  }
  IdleStreams(const IdleStreams&) = delete;
  IdleStreams& operator=(const IdleStreams&) = delete;
  ~IdleStreams() {
    for (const CallId call : calls_) context_.client.drop(call);
  }

  int64_t n_ended() const { return n_ended_; }
  const std::string& first_failure() const { return first_failure_; }

 private:
  void begin(int64_t i) {
    Completion completion = context_.completion(context_.count("tokens"));
    completion.priority = kLowestPriority;
    Handlers handlers;
    handlers.on_end = [this](const Answer& answer) {
      ++n_ended_;
      if (answer.status != 200 && first_failure_.empty()) {
        first_failure_ = fmt::format("status {}: {}", answer.status, answer.body.substr(0, 200));
      }
    };
    Request request = context_.as_client(completion, i);
    request.fresh = true;
    calls_.push_back(context_.client.send(std::move(request), std::move(handlers)));
  }

  Context& context_;
  std::vector<CallId> calls_;
  int64_t n_ended_ = 0;
  std::string first_failure_;
};

/// Connections that were used once and are kept alive.
void open_kept_connections(Context& context) {
  const int64_t n = context.count("idle");
  int64_t n_done = 0;
  for (int64_t i = 0; i < n; ++i) {
    Request request;
    request.method = "GET";
    request.target = "/health";
    request.fresh = true;
    context.client.send(std::move(request), {.on_event = {}, .on_end = [&](const Answer&) { ++n_done; }});
  }
  context.client.run_until([&] { return n_done == n; }, context.real("limit"));
}

double rss_kb(const Context& context) {
  const auto state = read_process(context.options.pid);
  return state ? static_cast<double>(state->rss_kb) : std::numeric_limits<double>::quiet_NaN();
}

/// Measures the active streams for the scenario's time. Returns tokens/s.
double measure_active(Context& context, ClosedLoop& active, Report& report, const std::string& prefix) {
  active.clear();
  HealthProbe probe(context);
  const double begin_ms = context.client.now_ms();
  context.client.run_for(context.real("seconds"));
  const double seconds = (context.client.now_ms() - begin_ms) / 1000;
  add_tally(report, active.tally(), seconds, prefix);
  probe.add_to(report, prefix);
  return report.metric(prefix + "tokens_per_s");
}

}  // namespace

Report run_mixed(Context& context) {
  Report report;
  ClosedLoop::Plan plan;
  plan.n_workers = context.count("streams");
  plan.make = [&](int64_t worker, int64_t) {
    return context.as_client(context.completion(context.count("tokens")), worker);
  };
  ClosedLoop loop(context.client, std::move(plan));
  loop.start();
  context.client.run_for(std::min(1.0, context.real("alone")));  // warm-up
  loop.clear();
  context.client.run_for(context.real("alone"));
  add_tally(report, loop.tally(), context.real("alone"), "alone_");
  loop.clear();
  const double begin_ms = context.client.now_ms();
  const double long_ms = time_long_prompt(context);
  const double seconds = (context.client.now_ms() - begin_ms) / 1000;
  add_tally(report, loop.tally(), seconds, "beside_");
  report.add("beside_jain_index", jain_index(loop.n_tokens_by_worker()));
  report.add("long_ttft_ms", long_ms);
  report.add("short_ttft_p99_beside_over_alone",
             report.metric("beside_ttft_p99_ms") / report.metric("alone_ttft_p99_ms"));
  if (!(long_ms > 0)) report.failures.push_back("the long prompt gave no token");
  return report;
}

Report run_idle(Context& context) {
  Report report;
  ClosedLoop::Plan plan;
  // Two workers per stream: one request of the better priority always waits, so that no idle stream gets a slot.
  plan.n_workers = 2 * context.count("active");
  plan.make = [&](int64_t worker, int64_t) {
    return context.as_client(context.completion(context.count("tokens")), kLongClient + worker);
  };
  ClosedLoop active(context.client, std::move(plan));
  active.start();
  context.client.run_for(std::min(1.0, context.real("seconds")));  // warm-up
  const double before = measure_active(context, active, report, "before_");
  const double before_kb = rss_kb(context);
  std::optional<IdleStreams> idle;
  if (context.text("kind") == "kept") {
    open_kept_connections(context);
  } else {
    idle.emplace(context);
    context.client.run_for(std::min(2.0, context.real("seconds")));
  }
  const double beside = measure_active(context, active, report, "beside_");
  report.add("beside_over_before", beside / before);
  report.add("rss_per_idle_kb", (rss_kb(context) - before_kb) / static_cast<double>(context.count("idle")));
  if (idle) report.add("idle_ended", static_cast<double>(idle->n_ended()));
  if (idle && !idle->first_failure().empty()) report.failures.push_back("an idle stream: " + idle->first_failure());
  return report;
}

}  // namespace tessera::load
