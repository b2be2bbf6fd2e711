// The parser of serve_load's command line (options.h). Scenario flags come from the table of scenarios.
#include "bench/serve/options.h"

#include <fmt/format.h>

#include <charconv>
#include <sstream>

namespace tessera::load {
namespace {

constexpr std::string_view kUsage = R"(usage: serve_load SCENARIO [--flag VALUE]...
       serve_load --self-test
       serve_load --fake-server --port N     serves an API without a model until it is ended

flags of all scenarios:
  --host ADDRESS     IPv4 address of the server (127.0.0.1)
  --port N           its port (8080)
  --api-key KEY      sent as a bearer token
  --client-keys A,B  keys of the imitated clients; without them each has its own address 127.1.x.x
  --pid N            process of the server on this machine: memory, threads and files are sampled
  --seed N           seed of prompts, arrivals and drops (1)
  --repeat N         runs of the scenario; the result is the median (1)
  --json             the result as one JSON object

exit status: 0; 1 if a promise was broken or a stream failed; 2 for a wrong command line
)";

Result<int64_t> parse_count(std::string_view name, const std::string& text, int64_t min, int64_t max) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= min && value <= max) return value;
  return fail(ErrorCode::invalid_argument, "--{}: '{}', want {} to {}", name, text, min, max);
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

/// Sets a flag that all scenarios have. Returns false if there is none of this name.
Result<bool> set_common(CommonOptions& common, std::string_view name, const std::string& value) {
  struct Count {
    std::string_view name;
    int64_t& value;
    int64_t min, max;
  };
  const Count counts[] = {{"port", common.port, 1, 65535},
                          {"pid", common.pid, 1, INT32_MAX},
                          {"seed", common.seed, 0, INT64_MAX},
                          {"repeat", common.n_repeats, 1, 1000}};
  for (const Count& count : counts) {
    if (count.name != name) continue;
    const Result<int64_t> number = parse_count(name, value, count.min, count.max);
    if (!number) return std::unexpected(number.error());
    count.value = *number;
    return true;
  }
  if (name == "host") {
    common.host = value;
  } else if (name == "api-key") {
    common.api_key = value;
  } else if (name == "client-keys") {
    common.client_keys = split(value);
  } else {
    return false;
  }
  return true;
}

Result<> set_flag(CommandLine& line, std::string_view name, const std::string& value) {
  const Result<bool> is_common = set_common(line.common, name, value);
  if (!is_common) return std::unexpected(is_common.error());
  return *is_common ? Result<>() : line.parameters.set(name, value);
}

/// Takes the first argument: a scenario or an action. Returns false if it is neither.
bool set_action(CommandLine& line, std::string_view first) {
  if (first == "--help" || first == "-h") {
    line.action = CommandLine::Action::help;
  } else if (first == "--self-test") {
    line.action = CommandLine::Action::self_test;
  } else if (first == "--fake-server") {
    line.action = CommandLine::Action::fake_server;
  } else {
    line.scenario = find_scenario(first);
    line.action = CommandLine::Action::run;
    if (line.scenario == nullptr) return false;
    line.parameters = Parameters(line.scenario->parameters);
  }
  return true;
}

}  // namespace

Result<CommandLine> parse_command_line(std::span<const std::string> arguments) {
  CommandLine line;
  if (arguments.empty()) return line;
  if (!set_action(line, arguments[0])) {
    return fail(ErrorCode::invalid_argument, "unknown scenario '{}', see --help", arguments[0]);
  }
  for (size_t i = 1; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (!argument.starts_with("--")) return fail(ErrorCode::invalid_argument, "'{}': want a flag", argument);
    if (argument == "--json") {
      line.common.json = true;
      continue;
    }
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    const bool has_value = equals != std::string::npos || i + 1 < arguments.size();
    if (!has_value) return fail(ErrorCode::invalid_argument, "--{}: a value is missing", name);
    const std::string value = equals != std::string::npos ? argument.substr(equals + 1) : arguments[++i];
    TESSERA_TRY(set_flag(line, name, value));
  }
  return line;
}

std::string help_text() {
  std::string text(kUsage);
  for (const Scenario& scenario : scenarios()) {
    text += fmt::format("\n{}: {}\n", scenario.name, scenario.help);
    for (const Parameter& parameter : scenario.parameters) {
      const std::string note = parameter.value.empty() ? "" : fmt::format(" ({})", parameter.value);
      text += fmt::format("  --{:<16} {}{}\n", parameter.name, parameter.help, note);
    }
  }
  return text;
}

}  // namespace tessera::load
