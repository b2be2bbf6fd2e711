// The self-test of serve_load (self_test.h). No test depends on speed: those that wait, wait for a condition.
#include "bench/serve/self_test.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "bench/serve/fake_server.h"
#include "bench/serve/http.h"
#include "bench/serve/monitor.h"
#include "bench/serve/options.h"
#include "bench/serve/report.h"
#include "bench/serve/stats.h"
#include "bench/serve/streams.h"

namespace tessera::load {
namespace {

constexpr double kDeadline_s = 60;

/// Collects the failed checks of one test.
class Checks {
 public:
  void is_true(bool holds, std::string_view what) {
    if (!holds) failed_.emplace_back(what);
  }
  template <class A, class B>
  void equal(const A& got, const B& want, std::string_view what) {
    if (!(got == want)) failed_.push_back(fmt::format("{}: got {}, want {}", what, got, want));
  }
  const std::vector<std::string>& failed() const { return failed_; }

 private:
  std::vector<std::string> failed_;
};

void percentiles_are_nearest_ranks(Checks& checks) {
  Samples samples;
  checks.is_true(std::isnan(samples.percentile(50)), "no samples: NaN");
  for (int i = 100; i >= 1; --i) samples.add(i);
  checks.equal(samples.percentile(50), 50.0, "p50 of 1..100");
  checks.equal(samples.percentile(99), 99.0, "p99 of 1..100");
  checks.equal(samples.percentile(0), 1.0, "p0 of 1..100");
  checks.equal(samples.max(), 100.0, "maximum of 1..100");
  samples.add(1000);
  checks.equal(samples.max(), 1000.0, "maximum after another sample");
  checks.equal(median({4, 1, 3, 2}), 2.5, "median of four");
}

void fairness_and_slopes(Checks& checks) {
  const std::vector<double> equal = {3, 3, 3}, one = {5, 0, 0, 0};
  checks.equal(jain_index(equal), 1.0, "equal shares");
  checks.equal(jain_index(one), 0.25, "one client of four has everything");
  const std::vector<Point> line = {{0, 1}, {1, 3}, {2, 5}}, point = {{1, 1}, {1, 2}};
  checks.equal(slope(line), 2.0, "slope of a line");
  checks.is_true(std::isnan(slope(point)), "slope at a single x");
}

/// Parses text given in pieces of n bytes.
AnswerParser parse(std::string_view text, size_t n, std::string& body) {
  AnswerParser parser;
  for (size_t at = 0; at < text.size(); at += n) parser.feed(text.substr(at, n), body);
  return parser;
}

void answers_in_pieces(Checks& checks) {
  constexpr std::string_view kChunked =
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 Service Unavailable\r\nretry-after: 7\r\n"
      "Transfer-Encoding: chunked\r\n\r\n5;x=1\r\nhello\r\nA\r\n, 10 bytes\r\n0\r\nTrailer: 1\r\n\r\n";
  constexpr std::string_view kLength = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}";
  for (size_t n = 1; n <= kChunked.size(); ++n) {
    std::string body;
    const AnswerParser chunked = parse(kChunked, n, body);
    checks.is_true(chunked.state() == AnswerParser::State::done, fmt::format("chunked, pieces of {}", n));
    checks.equal(body, "hello, 10 bytes", "chunked body");
    checks.equal(chunked.status(), 503, "status");
    checks.equal(chunked.retry_after_s(), 7, "Retry-After");
    checks.is_true(chunked.keeps_alive(), "kept alive by default");
    body.clear();
    const AnswerParser plain = parse(kLength, n, body);
    checks.is_true(plain.state() == AnswerParser::State::done && body == "{}", fmt::format("length, pieces of {}", n));
    checks.is_true(!plain.keeps_alive(), "Connection: close");
  }
}

void answers_end_where_they_must(Checks& checks) {
  std::string body;
  AnswerParser until_close = parse("HTTP/1.0 200 OK\r\n\r\nabc", 4, body);
  checks.is_true(until_close.state() == AnswerParser::State::body, "a body without length is open");
  until_close.end_of_file();
  checks.is_true(until_close.state() == AnswerParser::State::done && body == "abc", "the end of file ends it");
  AnswerParser cut = parse("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", 4, body);
  cut.end_of_file();
  checks.is_true(cut.state() == AnswerParser::State::failed, "the end of file cuts a body with a length");
  AnswerParser two;
  checks.equal(two.feed("HTTP/1.1 204 X\r\n\r\nHTTP", body), size_t{18}, "bytes after an answer are left");
  for (const std::string_view bad :
       {"HTTQ/1.1 200 OK\r\n\r\n", "HTTP/1.1 2x0 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n"}) {
    checks.is_true(parse(bad, 1000, body).state() == AnswerParser::State::failed, bad);
  }
}

void events_in_pieces(Checks& checks) {
  constexpr std::string_view kText =
      ": ping\n\ndata: {\"a\":1}\n\nevent: x\r\ndata:two\r\ndata: lines\r\n\r\ndata: cut";
  for (size_t n = 1; n <= kText.size(); ++n) {
    EventSplitter splitter;
    std::vector<std::string> events;
    for (size_t at = 0; at < kText.size(); at += n) {
      splitter.feed(kText.substr(at, n), [&](std::string_view data) { events.emplace_back(data); });
    }
    checks.is_true(events == std::vector<std::string>{"{\"a\":1}", "two\nlines"}, fmt::format("pieces of {}", n));
    checks.equal(splitter.n_comments(), 1, "pings");
  }
}

void numbers_and_metrics_are_found(Checks& checks) {
  checks.equal(find_number(R"({"a":1,"timings":{"prompt_n":12}})", "prompt_n"), 12.0, "a number of an inner object");
  checks.equal(find_number(R"({"a":1})", "b", -1), -1.0, "a missing number");
  constexpr std::string_view kMetrics = "# HELP x y\nx_total 1\nx{a=\"1 2\"} 3\nx{a=\"2\"} 4.5\n";
  checks.equal(find_metric(kMetrics, "x"), 7.5, "the sum over labels");
  checks.is_true(std::isnan(find_metric(kMetrics, "y")), "a missing metric");
}

void command_lines_are_checked(Checks& checks) {
  const auto parse_all = [](std::vector<std::string> arguments) { return parse_command_line(arguments); };
  const auto good = parse_all({"streams", "--tokens=3", "--port", "99", "--json", "--seed", "5"});
  checks.is_true(good && good->common.port == 99 && good->common.json && good->parameters.count("tokens") == 3,
                 "both forms of a flag");
  for (const auto& bad : std::vector<std::vector<std::string>>{{"nonsense"},
                                                               {"streams", "--tokens", "x"},
                                                               {"streams", "--tokens", "1.5"},
                                                               {"streams", "--tokens"},
                                                               {"streams", "--half-open", "1"},
                                                               {"streams", "--port", "70000"},
                                                               {"streams", "8"}}) {
    checks.is_true(!parse_all(bad), fmt::format("{}: refused", bad.back()));
  }
  checks.is_true(help_text().find("--half-open") != std::string::npos, "help lists the flags of scenarios");
}

void reports_hold_medians(Checks& checks) {
  std::vector<Report> reports(3);
  for (size_t i = 0; i < 3; ++i) reports[i].add("rate_per_s", std::vector<double>{3, 1, 2}[i]);
  reports[0].add("none_ms", std::nan(""));
  const Json json = as_json(reports);
  checks.equal(json["median"]["rate_per_s"].get<double>(), 2.0, "median of three runs");
  checks.is_true(json["median"]["none_ms"].is_null(), "a value that does not exist");
  checks.equal(aligned({{"a", "1"}, {"bcd", "22"}}), "a     1\nbcd  22\n", "alignment");
}

/// Runs a scenario against a fake server.
Report run_against(const FakeServer::Options& server_options, std::vector<std::string> arguments) {
  Report failure;
  const auto server = FakeServer::start(server_options);
  const auto line = parse_command_line(arguments);
  failure.failures.push_back("no server, or a wrong command line");
  if (!server || !line) return failure;
  const auto client = Client::create("127.0.0.1", (*server)->port());
  if (!client) return failure;
  Context context(**client, line->common, line->parameters, 1);
  Report report = line->scenario->run(context);
  report.add("connections", static_cast<double>((*server)->n_connections()));
  return report;
}

void no_failures(Checks& checks, const Report& report) {
  for (const std::string& failure : report.failures) checks.is_true(false, failure);
}

void streams_are_counted(Checks& checks) {
  for (const size_t fragment_bytes : {size_t{0}, size_t{37}}) {
    const Report report = run_against({.fragment_bytes = fragment_bytes},
                                      {"streams", "--streams=4", "--requests=40", "--tokens=5", "--warmup=4"});
    no_failures(checks, report);
    checks.equal(report.metric("completed"), 40.0, "completed streams");
    checks.equal(std::round(report.metric("tokens_per_s") / report.metric("requests_per_s")), 5.0, "tokens a stream");
    checks.equal(report.metric("connections"), 4.0, "connections are reused");
  }
}

void lost_connections_are_replaced(Checks& checks) {
  const Report report =
      run_against({.closes = true}, {"streams", "--streams=2", "--requests=10", "--tokens=3", "--warmup=0"});
  no_failures(checks, report);
  checks.equal(report.metric("completed"), 10.0, "completed streams");
  checks.is_true(report.metric("connections") >= 10, "a connection for each");
}

void cut_streams_are_failures(Checks& checks) {
  const Report report =
      run_against({.n_cut_after = 2}, {"streams", "--streams=2", "--requests=6", "--tokens=5", "--warmup=0"});
  checks.equal(report.metric("completed"), 0.0, "completed streams");
  checks.is_true(report.failures == std::vector<std::string>{"6 streams: disconnected"}, "failures by kind");
}

void absent_servers_are_failures(Checks& checks) {
  int port = 0;
  {
    const auto server = FakeServer::start({});
    if (server) port = (*server)->port();
  }
  const auto client = Client::create("127.0.0.1", port);
  const auto line = parse_command_line(std::vector<std::string>{"streams", "--requests=3", "--warmup=0"});
  if (!client || !line) return checks.is_true(false, "setup");
  Context context(**client, line->common, line->parameters, 1);
  checks.is_true(run_streams(context).failures == std::vector<std::string>{"3 streams: unreachable"}, "no listener");
}

void dropped_calls_end_silently(Checks& checks) {
  const auto server = FakeServer::start({.round_ms = 1});
  if (!server) return checks.is_true(false, "setup");
  const auto client = Client::create("127.0.0.1", (*server)->port());
  if (!client) return checks.is_true(false, "setup");
  const auto line = parse_command_line(std::vector<std::string>{"cancel"});
  Context context(**client, line->common, line->parameters, 1);
  Completion completion;
  completion.text = "x";
  completion.n_tokens = 1'000'000;
  int n_events = 0;
  bool has_ended = false;
  CallId call = 0;
  Handlers handlers;
  handlers.on_event = [&](std::string_view, double) {
    if (++n_events == 3) (*client)->drop(call);
  };
  handlers.on_end = [&](const Answer&) { has_ended = true; };
  call = (*client)->send(context.as_self(completion), std::move(handlers));
  checks.is_true((*client)->run_until([&] { return n_events >= 3; }, kDeadline_s), "events come");
  checks.is_true(wait_until_idle(context, kDeadline_s) >= 0, "the server notices");
  checks.equal(n_events, 3, "no event after the drop");
  checks.is_true(!has_ended, "no end after the drop");
}

void short_requests_sample_memory(Checks& checks) {
  const Report report = run_against({}, {"short", "--requests=60", "--every=20", "--pid", std::to_string(getpid())});
  no_failures(checks, report);
  checks.is_true(report.metric("rss_last_kb") > 0, "resident memory of this process");
  checks.equal(report.series.size(), size_t{1}, "a table of samples");
  if (!report.series.empty()) checks.equal(report.series[0].rows.size(), size_t{4}, "start and every 20");
}

void overload_is_refused(Checks& checks) {
  const Report report = run_against({.n_active_max = 2, .round_ms = 1}, {"open", "--streams=2", "--requests=10",
                                                                         "--rates=20", "--seconds=0.2", "--tokens=20"});
  no_failures(checks, report);
  if (report.series.empty()) return checks.is_true(false, "a table of rates");
  const auto& row = report.series[0].rows[0];
  checks.is_true(row[1].get<int64_t>() > 0 && row[4].get<int64_t>() > 0, "arrivals, of which some are refused");
}

void a_long_prompt_runs_beside(Checks& checks) {
  const Report report = run_against({}, {"mixed", "--streams=3", "--alone=0.1", "--long-tokens=500", "--tokens=4"});
  no_failures(checks, report);
  checks.is_true(report.metric("long_ttft_ms") > 0, "the long prompt's first token");
  checks.is_true(report.metric("alone_tokens_per_s") > 0, "streams alone");
}

void active_streams_run_beside(Checks& checks) {
  for (const char* kind : {"queued", "kept"}) {
    const Report idle = run_against({}, {"idle", "--idle=50", "--active=2", "--seconds=0.1", "--kind", kind});
    no_failures(checks, idle);
    checks.is_true(idle.metric("beside_over_before") > 0 && idle.metric("beside_health_failed") == 0, kind);
    checks.is_true(idle.metric("connections") >= 54, "idle connections are opened");
  }
  const Report half_open = run_against({}, {"slowloris", "--half-open=50", "--active=2", "--seconds=0.1"});
  no_failures(checks, half_open);
  checks.is_true(half_open.metric("connections") >= 52, "half-open connections");
  const Report slow = run_against(
      {}, {"slow-readers", "--readers=4", "--reader-tokens=100", "--settle=0", "--active=2", "--seconds=0.1"});
  no_failures(checks, slow);
  checks.is_true(slow.metric("beside_tokens_per_s") > 0, "streams beside slow readers");
}

void half_of_a_storm_is_dropped(Checks& checks) {
  const Report report = run_against({.round_ms = 1}, {"cancel", "--requests=200", "--streams=40", "--tokens=10"});
  no_failures(checks, report);
  checks.is_true(report.metric("dropped") > 50 && report.metric("dropped") < 150, "about half are dropped");
  checks.equal(report.metric("completed") + report.metric("dropped"), 200.0, "each is dropped or complete");
  checks.is_true(report.metric("until_idle_s") >= 0, "the server becomes idle");
  checks.is_true(report.metric("lost_tokens_per_drop") >= 0, "no token is counted twice");
}

void a_prefix_cache_computes_new_tokens_only(Checks& checks) {
  const Report report = run_against({}, {"replay", "--turns=8", "--branches=2", "--first-tokens=100",
                                         "--last-tokens=450", "--tokens=4", "--restart=true"});
  no_failures(checks, report);
  // The fake server's cache holds prompts, but not the 3 tokens that an answer leaves computed. Of the 14 turns, all
  // but the first one and the second branch's first one are the first to send an answer.
  checks.equal(report.metric("computed_tokens") - report.metric("new_tokens"), 3 * 12.0,
               "tokens computed beyond the new ones");
  checks.is_true(report.metric("ttft_after_restart_p50_ms") > 0, "turns after the restart command");
}

void wrong_statuses_are_found(Checks& checks) {
  const Report good = run_against({}, {"soak", "--requests=100", "--hostile=0"});
  no_failures(checks, good);
  checks.equal(good.metric("same_answers"), 1.0, "equal answers");
  const Report bad = run_against({}, {"soak", "--requests=40", "--hostile=1"});
  checks.is_true(bad.metric("wrong_statuses") > 0, "a server that checks nothing");
}

struct Test {
  std::string_view name;
  void (*run)(Checks& checks);
};

constexpr Test kTests[] = {
    {"percentiles are nearest ranks", percentiles_are_nearest_ranks},
    {"fairness and slopes", fairness_and_slopes},
    {"answers in pieces", answers_in_pieces},
    {"answers end where they must", answers_end_where_they_must},
    {"events in pieces", events_in_pieces},
    {"numbers and metrics are found", numbers_and_metrics_are_found},
    {"command lines are checked", command_lines_are_checked},
    {"reports hold medians", reports_hold_medians},
    {"streams are counted", streams_are_counted},
    {"lost connections are replaced", lost_connections_are_replaced},
    {"cut streams are failures", cut_streams_are_failures},
    {"absent servers are failures", absent_servers_are_failures},
    {"dropped calls end silently", dropped_calls_end_silently},
    {"short requests sample memory", short_requests_sample_memory},
    {"overload is refused", overload_is_refused},
    {"a long prompt runs beside", a_long_prompt_runs_beside},
    {"active streams run beside", active_streams_run_beside},
    {"half of a storm is dropped", half_of_a_storm_is_dropped},
    {"a prefix cache computes new tokens only", a_prefix_cache_computes_new_tokens_only},
    {"wrong statuses are found", wrong_statuses_are_found},
};

}  // namespace

int run_self_test() {
  int n_failed = 0;
  for (const Test& test : kTests) {
    Checks checks;
    test.run(checks);
    n_failed += checks.failed().empty() ? 0 : 1;
    for (const std::string& what : checks.failed()) fmt::print("FAILED: {}: {}\n", test.name, what);
  }
  fmt::print("{} of {} tests passed\n", std::size(kTests) - static_cast<size_t>(n_failed), std::size(kTests));
  return n_failed;
}

}  // namespace tessera::load
