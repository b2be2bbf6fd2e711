// Scenarios of clients that harm a server by what they leave undone: heads that never end, answers that nobody reads,
// streams that are dropped.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/serve/monitor.h"
#include "bench/serve/process.h"
#include "bench/serve/scenario.h"

namespace tessera::load {
namespace {

ClosedLoop::Plan active_plan(Context& context) {
  return {.n_workers = context.count("active"), .n_requests = ClosedLoop::kUnlimited, .make = [&](int64_t, int64_t) {
            return context.as_self(context.completion(context.count("tokens")));
          }};
}

/// Measures active streams and /health for the scenario's time. Returns tokens/s.
double measure(Context& context, ClosedLoop& active, Report& report, const std::string& prefix) {
  active.clear();
  HealthProbe probe(context);
  context.client.run_for(context.real("seconds"));
  add_tally(report, active.tally(), context.real("seconds"), prefix);
  probe.add_to(report, prefix);
  return report.metric(prefix + "tokens_per_s");
}

/// Requests that are begun and never completed. One that the server ends is begun again, as an attacker would.
class HalfOpen {
 public:
  explicit HalfOpen(Context& context) : context_(context), calls_(static_cast<size_t>(context.count("half-open"))) {
    for (size_t i = 0; i < calls_.size(); ++i) begin(i);
  }
  HalfOpen(const HalfOpen&) = delete;
  HalfOpen& operator=(const HalfOpen&) = delete;
  ~HalfOpen() {
    for (const CallId call : calls_) context_.client.drop(call);
    *is_alive_ = false;
  }

  std::map<std::string, int64_t> n_ended;  // by status

 private:
  static constexpr double kPause_s = 1;

  void begin(size_t i) {
    Request request;
    request.raw = "POST /completion HTTP/1.1\r\nHost: " + context_.client.host() + "\r\n";
    if (i % 2 == 1) request.raw += "Content-Length: 1000\r\n\r\n{\"prompt\":";
    Handlers handlers;
    handlers.on_end = [this, i](const Answer& answer) {
      ++n_ended[answer.status == 0 ? "closed" : fmt::format("status {}", answer.status)];
      calls_[i] = 0;
      context_.client.after(kPause_s, [this, i, is_alive = is_alive_] {
        if (*is_alive) begin(i);
      });
    };
    calls_[i] = context_.client.send(std::move(request), std::move(handlers));
  }

  Context& context_;
  std::vector<CallId> calls_;
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);  // for timers that outlive this
};

/// Begins streams that are read at one byte a second. Probabilities make their events large, so that buffers fill soon.
std::vector<CallId> begin_slow_readers(Context& context) {
  std::vector<CallId> calls;
  for (int64_t i = 0; i < context.count("readers"); ++i) {
    Completion completion = context.completion(context.count("reader-tokens"));
    completion.more = R"("n_probs":50)";
    Request request = context.as_client(completion, i);
    request.read_bytes_per_s = 1;
    calls.push_back(context.client.send(std::move(request), {}));
  }
  return calls;
}

/// Streams of which half are dropped: at once, before the first token, or after some tokens.
class CancelStorm {
 public:
  CancelStorm(Context& context, double ttft_ms) : context_(context), ttft_ms_(ttft_ms) {
    n_left_ = context.count("requests");
    for (int64_t i = 0; i < context.count("streams"); ++i) next();
  }
  CancelStorm(const CancelStorm&) = delete;
  CancelStorm& operator=(const CancelStorm&) = delete;

  bool is_done() const { return n_left_ <= 0 && n_running_ == 0; }
  void add_to(Report& report) const {
    add_tally(report, tally_, (context_.client.now_ms() - begin_ms_) / 1000);
    report.add("dropped", static_cast<double>(n_dropped_));
    report.add("wrong_lengths", static_cast<double>(n_wrong_));
    if (n_wrong_ > 0) report.failures.push_back(fmt::format("{} kept streams of a wrong length", n_wrong_));
  }
  double n_tokens_received() const { return static_cast<double>(tally_.n_tokens); }
  double n_dropped() const { return static_cast<double>(n_dropped_); }

 private:
  enum class Moment { never, by_time, by_tokens };
  struct Stream {
    StreamMeter meter;
    Moment moment = Moment::never;
    int64_t n_tokens_at_drop = 0;
    CallId call = 0;
  };

  void next() {
    if (n_left_ <= 0) return;
    --n_left_;
    ++n_running_;
    const int64_t n_tokens = context_.count("tokens");
    const auto stream = std::make_shared<Stream>(Stream{.meter = {context_.client.now_ms(), &tally_}});
    Handlers handlers;
    handlers.on_event = [this, stream](std::string_view event, double now_ms) {
      stream->meter.take(event, now_ms);
      if (stream->moment == Moment::by_tokens && stream->meter.n_tokens() >= stream->n_tokens_at_drop) drop(*stream);
    };
    handlers.on_end = [this, stream, n_tokens](const Answer& answer) {
      stream->call = 0;
      if (stream->meter.end(answer) && stream->meter.n_tokens() != n_tokens) ++n_wrong_;
      --n_running_;
      next();
    };
    const Completion completion = context_.completion(n_tokens);
    stream->call = context_.client.send(context_.as_client(completion, n_left_ % 256), std::move(handlers));
    plan_drop(stream, n_tokens);
  }

  void plan_drop(const std::shared_ptr<Stream>& stream, int64_t n_tokens) {
    if (context_.rng.next_double() < 0.5) return;
    const uint32_t kind = context_.rng.next_u32() % 3;
    if (kind == 0) {
      stream->moment = Moment::by_tokens;
      stream->n_tokens_at_drop = 1 + static_cast<int64_t>(context_.rng.next_u32()) % std::max<int64_t>(n_tokens - 1, 1);
      return;
    }
    stream->moment = Moment::by_time;
    const double after_ms = kind == 1 ? context_.rng.next_double() : context_.rng.next_double() * ttft_ms_;
    context_.client.after(after_ms / 1000, [this, stream] { drop(*stream); });
  }

  void drop(Stream& stream) {
    if (stream.call == 0) return;  // it ended before its moment
    context_.client.drop(std::exchange(stream.call, 0));
    ++n_dropped_;
    --n_running_;
    next();
  }

  Context& context_;
  double ttft_ms_;
  double begin_ms_ = context_.client.now_ms();
  int64_t n_left_ = 0, n_running_ = 0, n_dropped_ = 0, n_wrong_ = 0;
  Tally tally_;
};

/// Closes idle connections and returns the server's open files once they are at most n_wanted, or after a second.
int64_t settled_fds(Context& context, int64_t n_wanted) {
  context.client.close_idle();
  int64_t n_fds = 0;
  context.client.run_until(
      [&] {
        const auto state = read_process(context.options.pid);
        n_fds = state ? state->n_fds : 0;
        return n_fds <= n_wanted;
      },
      1);
  return n_fds;
}

/// Returns the time to the first token under the load of the storm, from a few undisturbed streams.
double typical_ttft_ms(Context& context) {
  ClosedLoop::Plan plan;
  plan.n_workers = context.count("streams");
  plan.n_requests = std::min(context.count("requests"), plan.n_workers);
  plan.make = [&](int64_t worker, int64_t) {
    return context.as_client(context.completion(context.count("tokens")), worker);
  };
  ClosedLoop loop(context.client, std::move(plan));
  loop.start();
  context.client.run_until([&] { return loop.is_done(); }, context.real("limit"));
  const double ttft_ms = loop.tally().ttft_ms.percentile(50);
  return std::isfinite(ttft_ms) ? ttft_ms : 10;
}

}  // namespace

Report run_slowloris(Context& context) {
  Report report;
  ClosedLoop active(context.client, active_plan(context));
  active.start();
  context.client.run_for(std::min(1.0, context.real("seconds")));  // warm-up
  const double before = measure(context, active, report, "before_");
  HalfOpen half_open(context);
  const double beside = measure(context, active, report, "beside_");
  report.add("beside_over_before", beside / before);
  Series series = {"ends of half-open requests", {"end", "number"}, {}};
  for (const auto& [name, count] : half_open.n_ended) series.rows.push_back({name, count});
  report.series.push_back(std::move(series));
  return report;
}

Report run_slow_readers(Context& context) {
  Report report;
  ClosedLoop active(context.client, active_plan(context));
  active.start();
  context.client.run_for(std::min(1.0, context.real("seconds")));  // warm-up
  const double before = measure(context, active, report, "before_");
  const std::vector<CallId> readers = begin_slow_readers(context);
  context.client.run_for(context.real("settle"));
  const double beside = measure(context, active, report, "beside_");
  report.add("beside_over_before", beside / before);
  for (const CallId call : readers) context.client.drop(call);
  return report;
}

Report run_cancel(Context& context) {
  Report report;
  const double ttft_ms = typical_ttft_ms(context);
  wait_until_idle(context, context.real("limit"));
  const double n_before = read_metric(context, "llamacpp:tokens_predicted_total");
  const int64_t n_fds_before = settled_fds(context, 0);
  CancelStorm storm(context, ttft_ms);
  const bool ended = context.client.run_until([&] { return storm.is_done(); }, 3600);
  storm.add_to(report);
  const double idle_s = wait_until_idle(context, context.real("limit"));
  report.add("until_idle_s", idle_s);
  const double n_generated = read_metric(context, "llamacpp:tokens_predicted_total") - n_before;
  // Tokens that no client received: computed after a drop, or on their way when it happened.
  report.add("lost_tokens_per_drop", (n_generated - storm.n_tokens_received()) / storm.n_dropped());
  if (context.options.pid > 0) {
    report.add("fds_left", static_cast<double>(settled_fds(context, n_fds_before) - n_fds_before));
  }
  if (!ended) report.failures.push_back("streams still run after an hour");
  if (!std::isfinite(idle_s)) report.failures.push_back("the server is not idle after the limit");
  return report;
}

}  // namespace tessera::load
