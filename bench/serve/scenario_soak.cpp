// Scenarios of hostile requests: each once, and a long mix of them with ordinary ones.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "bench/serve/hostile.h"
#include "bench/serve/process.h"
#include "bench/serve/scenario.h"

namespace tessera::load {
namespace {

/// One kind of ordinary request. A status beside `statuses` is a failure.
struct Ordinary {
  std::string_view name;
  int weight;  // of 100
  std::string_view target;
  std::string_view body;  // $N stands for the number of tokens
  std::vector<int> statuses;
};

const std::vector<Ordinary>& ordinary_requests() {
  static const std::vector<Ordinary> rows = {
      {"completion", 40, "/completion", R"({"prompt":"Once upon a time","n_predict":$N,"stream":true})", {200}},
      {"chat",
       25,
       "/v1/chat/completions",
       R"({"messages":[{"role":"user","content":"Tell me a story"}],"max_tokens":$N,"stream":true})",
       {200}},
      {"tools",
       10,
       "/v1/chat/completions",
       R"({"messages":[{"role":"user","content":"Weather?"}],"max_tokens":$N,"tools":[{"type":"function","function":)"
       R"({"name":"weather","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}}]})",
       {200}},
      {"schema",
       15,
       "/completion",
       R"({"prompt":"A list:","n_predict":$N,"json_schema":{"type":"array","items":{"type":"integer"}}})",
       {200}},
      {"embeddings", 10, "/v1/embeddings", R"({"input":"A short text"})", {200, 501}},
  };
  return rows;
}

std::string answer_to_fixed_request(Context& context) {
  Request request;
  request.target = "/completion";
  request.body = R"({"prompt":"Once upon a time","n_predict":32,"temperature":0,"cache_prompt":true})";
  request.api_key = context.options.api_key;
  std::string content;
  bool is_done = false;
  Handlers handlers;
  handlers.on_end = [&](const Answer& answer) {
    is_done = true;
    const Json object = Json::parse(answer.body, nullptr, false);
    const bool has_content = answer.status == 200 && object.is_object() && object.contains("content");
    content = has_content ? object["content"].dump() : fmt::format("status {}", answer.status);
  };
  const CallId call = context.client.send(std::move(request), std::move(handlers));
  if (!context.client.run_until([&] { return is_done; }, 60)) context.client.drop(call);
  return content;
}

/// The mix of requests, sent by a number of workers in a closed loop.
class Soak {
 public:
  explicit Soak(Context& context) : context_(context), n_left_(context.count("requests")) {
    for (int64_t i = 0; i < context.count("streams"); ++i) next();
  }
  Soak(const Soak&) = delete;
  Soak& operator=(const Soak&) = delete;

  bool is_done() const { return n_left_ <= 0 && n_running_ == 0; }

  void add_to(Report& report) const {
    Series kinds = {"requests by kind", {"kind", "number", "wrong status"}, {}};
    int64_t n_wrong = 0;
    for (const auto& [name, kind] : kinds_) {
      kinds.rows.push_back({name, kind.n, kind.n_wrong});
      n_wrong += kind.n_wrong;
      if (!kind.first_wrong.empty()) report.failures.push_back(fmt::format("{}: {}", name, kind.first_wrong));
    }
    report.add("wrong_statuses", static_cast<double>(n_wrong));
    report.series.push_back(std::move(kinds));
    report.series.push_back(process_);
  }

 private:
  struct Kind {
    int64_t n = 0, n_wrong = 0;
    std::string first_wrong;
  };

  void next() {
    if (n_left_ <= 0) return;
    --n_left_;
    ++n_running_;
    if (context_.rng.next_double() < context_.real("hostile")) {
      const Hostile& row = choose_hostile();
      return send(row.name, hostile_request(row, context_.options.api_key), row.statuses);
    }
    const Ordinary& row = choose_ordinary();
    Request request;
    request.target = row.target;
    request.body = row.body;
    request.api_key = context_.options.api_key;
    const size_t at = request.body.find("$N");
    if (at != std::string::npos) request.body.replace(at, 2, std::to_string(context_.count("tokens")));
    send(row.name, std::move(request), row.statuses);
  }

  const Hostile& choose_hostile() {
    const auto rows = hostile_requests();
    const Hostile* row = &rows[context_.rng.next_u32() % rows.size()];
    while (row->size == Hostile::Size::large && context_.rng.next_u32() % 50 != 0) {
      row = &rows[context_.rng.next_u32() % rows.size()];
    }
    return *row;
  }

  const Ordinary& choose_ordinary() {
    const auto& rows = ordinary_requests();
    auto draw = static_cast<int>(context_.rng.next_u32() % 100);
    size_t i = 0;
    while (i + 1 < rows.size() && draw >= rows[i].weight) draw -= rows[i++].weight;
    return rows[i];
  }

  void send(std::string_view name, Request request, const std::vector<int>& statuses) {
    struct State {
      CallId call = 0;
    };
    const auto state = std::make_shared<State>();
    Handlers handlers;
    handlers.on_end = [this, name, state, &statuses](const Answer& answer) {
      state->call = 0;
      const bool is_right = std::find(statuses.begin(), statuses.end(), answer.status) != statuses.end();
      end(name, is_right ? "" : fmt::format("status {}: {}", answer.status, answer.body.substr(0, 160)));
    };
    state->call = context_.client.send(std::move(request), std::move(handlers));
    context_.client.after(context_.real("limit"), [this, name, state] {
      if (state->call == 0) return;
      context_.client.drop(std::exchange(state->call, 0));
      end(name, "no answer within the limit");
    });
  }

  void end(std::string_view name, const std::string& wrong) {
    Kind& kind = kinds_[std::string(name)];
    ++kind.n;
    if (!wrong.empty() && kind.n_wrong++ == 0) kind.first_wrong = wrong;
    --n_running_;
    if (++n_done_ % std::max<int64_t>(context_.count("every"), 1) == 0) sample();
    next();
  }

  void sample() {
    const auto state = read_process(context_.options.pid);
    if (state) process_.rows.push_back({n_done_, state->rss_kb, state->n_threads, state->n_fds});
  }

  Context& context_;
  int64_t n_left_, n_running_ = 0, n_done_ = 0;
  std::map<std::string, Kind> kinds_;
  Series process_ = {"process of the server", {"requests", "rss_kb", "threads", "fds"}, {}};
};

struct HostileResult {
  int status = -1;  // -1: no end within the limit
  double ms = 0;
};

HostileResult send_hostile(Context& context, const Hostile& row) {
  HostileResult result;
  bool is_done = false;
  Handlers handlers;
  handlers.on_end = [&](const Answer& answer) {
    is_done = true;
    result = {answer.status, answer.ended_ms - answer.sent_ms};
  };
  const CallId call = context.client.send(hostile_request(row, context.options.api_key), std::move(handlers));
  if (!context.client.run_until([&] { return is_done; }, context.real("limit"))) context.client.drop(call);
  return result;
}

int64_t rss_now_kb(const Context& context) {
  const auto state = read_process(context.options.pid);
  return state ? state->rss_kb : 0;
}

}  // namespace

Report run_hostile(Context& context) {
  Report report;
  Series series = {"hostile requests", {"request", "status", "right", "ms", "rss growth kb"}, {}};
  Samples times_ms;
  int64_t n_wrong = 0, n_slow = 0;
  for (const Hostile& row : hostile_requests()) {
    const int64_t before_kb = rss_now_kb(context);
    const HostileResult result = send_hostile(context, row);
    const bool right = is_right(row, result.status);
    times_ms.add(result.ms);
    n_slow += result.ms > context.real("slow") ? 1 : 0;
    series.rows.push_back(
        {std::string(row.name), result.status, right ? "yes" : "NO", result.ms, rss_now_kb(context) - before_kb});
    if (!right) {
      ++n_wrong;
      report.failures.push_back(fmt::format("{}: status {}", row.name, result.status));
    }
    if (context.get("/health").status == 200) continue;
    report.failures.push_back(fmt::format("{}: /health fails after it", row.name));
    break;
  }
  report.add("wrong_statuses", static_cast<double>(n_wrong));
  report.add("slow_answers", static_cast<double>(n_slow));
  report.add("answer_max_ms", times_ms.max());
  report.series.push_back(std::move(series));
  return report;
}

Report run_soak(Context& context) {
  Report report;
  const std::string first = answer_to_fixed_request(context);
  const double begin_ms = context.client.now_ms();
  Soak soak(context);
  context.client.run_until([&] { return soak.is_done(); }, 1e9);
  const double seconds = (context.client.now_ms() - begin_ms) / 1000;
  report.add("requests_per_s", static_cast<double>(context.count("requests")) / seconds);
  soak.add_to(report);
  const std::string last = answer_to_fixed_request(context);
  report.add("same_answers", first == last ? 1 : 0);
  if (first != last) report.failures.push_back(fmt::format("a fixed request: first {}, last {}", first, last));
  return report;
}

}  // namespace tessera::load
