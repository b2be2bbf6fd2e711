// serve_load: load tests of a server that speaks llama-server's HTTP API.
//   build/release/bench/serve_load streams --port 8080 --streams 8 --requests 200 --repeat 3
//   build/release/bench/serve_load --help
// One thread sends and measures, so the client needs one core of its own: pin it with taskset, and the server
// elsewhere.
#include <fmt/format.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "bench/serve/client.h"
#include "bench/serve/fake_server.h"
#include "bench/serve/options.h"
#include "bench/serve/report.h"
#include "bench/serve/self_test.h"

namespace tessera::load {
namespace {

int refuse(const Error& error) {
  fmt::print(stderr, "serve_load: {}\n", error.message());
  return 2;
}

int serve_forever(const CommonOptions& common) {
  FakeServer::Options options;
  options.port = static_cast<int>(common.port);
  const auto server = FakeServer::start(options);
  if (!server) return refuse(server.error());
  for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

int run_scenario(const CommandLine& line) {
  const CommonOptions& common = line.common;
  raise_file_limit();
  std::vector<Report> reports;
  bool failed = false;
  for (int64_t i = 0; i < common.n_repeats; ++i) {
    const auto client = Client::create(common.host, static_cast<int>(common.port));
    if (!client) return refuse(client.error());
    Context context(**client, common, line.parameters, static_cast<uint64_t>(common.seed + i));
    reports.push_back(line.scenario->run(context));
    failed |= !reports.back().failures.empty();
  }
  if (common.json) {
    Json result = {{"scenario", line.scenario->name}, {"seed", common.seed}, {"parameters", line.parameters.all()}};
    result.update(as_json(reports));
    fmt::print("{}\n", result.dump(-1, ' ', false, Json::error_handler_t::replace));
  } else {
    fmt::print("{}", as_text(reports));
  }
  return failed ? 1 : 0;
}

int run(const std::vector<std::string>& arguments) {
  const auto line = parse_command_line(arguments);
  if (!line) return refuse(line.error());
  switch (line->action) {
    case CommandLine::Action::help:
      fmt::print("{}", help_text());
      return 0;
    case CommandLine::Action::self_test:
      return run_self_test() == 0 ? 0 : 1;
    case CommandLine::Action::fake_server:
      return serve_forever(line->common);
    case CommandLine::Action::run:
      break;
  }
  return run_scenario(*line);
}

}  // namespace
}  // namespace tessera::load

int main(int argc, char** argv) { return tessera::load::run({argv + 1, argv + argc}); }
