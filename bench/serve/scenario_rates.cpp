// Scenarios that measure rates: a closed loop of streams, many short requests, and arrivals in an open loop.
#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "bench/serve/process.h"
#include "bench/serve/scenario.h"

namespace tessera::load {
namespace {

constexpr double kNoLimit_s = 1e9;

/// Runs a closed loop to its end. Returns its length in seconds.
double run_loop(Context& context, ClosedLoop& loop) {
  const double begin_ms = context.client.now_ms();
  loop.start();
  context.client.run_until([&] { return loop.is_done(); }, kNoLimit_s);
  return (context.client.now_ms() - begin_ms) / 1000;
}

ClosedLoop::Plan plan_of(Context& context, int64_t n_requests) {
  return {.n_workers = context.count("streams"), .n_requests = n_requests, .make = [&context](int64_t, int64_t) {
            return context.as_self(context.completion(context.count("tokens")));
          }};
}

/// Samples the memory of the server at the start and after every so many requests.
class MemorySeries {
 public:
  MemorySeries(int64_t pid, int64_t n_every) : pid_(pid), n_every_(std::max<int64_t>(n_every, 1)) { sample(); }

  void count_request() {
    if (++n_done_ % n_every_ == 0) sample();
  }

  void add_to(Report& report) const {
    if (points_.empty()) return;
    Series series = {"resident memory of the server", {"requests", "rss_kb"}, {}};
    std::vector<Point> later;
    for (const Point& point : points_) {
      series.rows.push_back({point.x, point.y});
      if (point.x >= 1000) later.push_back({point.x / 1000, point.y});  // caches fill in the first thousand
    }
    report.series.push_back(std::move(series));
    report.add("rss_first_kb", points_.front().y);
    report.add("rss_last_kb", points_.back().y);
    report.add("rss_slope_kb_per_1000_requests", slope(later));
  }

 private:
  void sample() {
    const auto state = read_process(pid_);
    if (state) points_.push_back({static_cast<double>(n_done_), static_cast<double>(state->rss_kb)});
  }

  int64_t pid_, n_every_, n_done_ = 0;
  std::vector<Point> points_;
};

/// Arrivals of a Poisson process, sent whether or not earlier ones have been answered.
class OpenLoop {
 public:
  OpenLoop(Context& context, double rate_per_s, double seconds)
      : context_(context), rate_per_s_(rate_per_s), end_ms_(context.client.now_ms() + seconds * 1000) {
    arrive();
  }
  OpenLoop(const OpenLoop&) = delete;
  OpenLoop& operator=(const OpenLoop&) = delete;
  ~OpenLoop() {
    for (const auto& [number, call] : calls_) context_.client.drop(call);
    *is_alive_ = false;
  }

  Tally tally;
  Samples refusal_ms;
  int64_t n_arrived = 0, n_unsent = 0, n_refused = 0, n_without_retry_after = 0;

 private:
  void arrive() {
    const double pause_s = -std::log(1 - context_.rng.next_double()) / rate_per_s_;
    due_ms_ = (due_ms_ == 0 ? context_.client.now_ms() : due_ms_) + pause_s * 1000;
    if (due_ms_ > end_ms_) return;
    context_.client.after((due_ms_ - context_.client.now_ms()) / 1000, [this, is_alive = is_alive_] {
      if (!*is_alive) return;
      send();
      arrive();
    });
  }

  void send() {
    const int64_t number = n_arrived++;
    if (static_cast<int64_t>(calls_.size()) >= context_.count("in-flight")) {
      ++n_unsent;
      return;
    }
    const auto meter = std::make_shared<StreamMeter>(context_.client.now_ms(), &tally);
    Handlers handlers;
    handlers.on_event = [meter](std::string_view event, double now_ms) { meter->take(event, now_ms); };
    handlers.on_end = [this, meter, number](const Answer& answer) {
      calls_.erase(number);
      end(*meter, answer);
    };
    const Completion completion = context_.completion(context_.count("tokens"));
    calls_[number] = context_.client.send(context_.as_client(completion, number % 64), std::move(handlers));
  }

  void end(StreamMeter& meter, const Answer& answer) {
    const bool is_refused = answer.status == 429 || answer.status == 503;
    if (!is_refused) {
      meter.end(answer);
      return;
    }
    ++n_refused;
    refusal_ms.add(answer.ended_ms - answer.sent_ms);
    if (answer.retry_after_s < 0) ++n_without_retry_after;
  }

  Context& context_;
  double rate_per_s_;
  double end_ms_;
  double due_ms_ = 0;
  std::map<int64_t, CallId> calls_;
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);  // for timers that outlive this
};

std::vector<double> parse_rates(const std::string& text) {
  std::vector<double> rates;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    const double rate = std::strtod(part.c_str(), nullptr);
    if (rate > 0) rates.push_back(rate);
  }
  return rates;
}

/// Measures one rate. Returns tokens/s of completed and running streams within the time.
double run_rate(Context& context, double multiple, double capacity_per_s, Report& report, Series& series) {
  const double seconds = context.real("seconds");
  OpenLoop loop(context, multiple * capacity_per_s, seconds);
  context.client.run_for(seconds);
  const double goodput = static_cast<double>(loop.tally.n_tokens) / seconds;
  series.rows.push_back({multiple, loop.n_arrived, goodput, loop.tally.n_complete, loop.n_refused,
                         loop.refusal_ms.percentile(50), loop.refusal_ms.percentile(99),
                         loop.tally.ttft_ms.percentile(50), loop.tally.ttft_ms.percentile(99), loop.n_unsent});
  if (loop.n_without_retry_after > 0) {
    report.failures.push_back(fmt::format("{} refusals without Retry-After", loop.n_without_retry_after));
  }
  for (const auto& [name, count] : loop.tally.failures) {
    report.failures.push_back(fmt::format("{} x capacity: {} streams: {}", multiple, count, name));
  }
  const std::string prefix = fmt::format("at_{}x_", multiple);
  report.add(prefix + "goodput_tokens_per_s", goodput);
  report.add(prefix + "refusal_p99_ms", loop.refusal_ms.percentile(99));
  return goodput;
}

}  // namespace

Report run_streams(Context& context) {
  Report report;
  ClosedLoop warmup(context.client, plan_of(context, context.count("warmup")));
  run_loop(context, warmup);
  ClosedLoop loop(context.client, plan_of(context, context.count("requests")));
  const double seconds = run_loop(context, loop);
  add_tally(report, loop.tally(), seconds);
  return report;
}

Report run_short(Context& context) {
  Report report;
  MemorySeries memory(context.options.pid, context.count("every"));
  ClosedLoop loop(context.client, plan_of(context, context.count("requests")));
  loop.on_end = [&] { memory.count_request(); };
  const double seconds = run_loop(context, loop);
  add_tally(report, loop.tally(), seconds);
  memory.add_to(report);
  return report;
}

Report run_open(Context& context) {
  Report report;
  ClosedLoop loop(context.client, plan_of(context, context.count("requests")));
  const double capacity_s = run_loop(context, loop);
  const double capacity_per_s = static_cast<double>(loop.tally().n_complete) / capacity_s;
  add_tally(report, loop.tally(), capacity_s, "capacity_");
  if (loop.tally().n_complete == 0) return report;
  Series series = {"arrivals by multiple of the capacity",
                   {"multiple", "arrived", "goodput tok/s", "completed", "refused", "refusal p50 ms", "refusal p99 ms",
                    "ttft p50 ms", "ttft p99 ms", "unsent"},
                   {}};
  double best = 0, last = 0;
  for (const double multiple : parse_rates(context.text("rates"))) {
    last = run_rate(context, multiple, capacity_per_s, report, series);
    best = std::max(best, last);
  }
  report.add("goodput_last_rate_of_best", last / best);
  report.series.push_back(std::move(series));
  return report;
}

}  // namespace tessera::load
