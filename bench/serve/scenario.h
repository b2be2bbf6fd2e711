// Scenarios and their parameters. A scenario is a row of the table in scenarios.cpp: its name, its flags with defaults,
// and the function that runs it. The parser of the command line, --help and the JSON result read the same rows.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/serve/client.h"
#include "bench/serve/report.h"
#include "bench/serve/streams.h"
#include "tessera/base/rng.h"

namespace tessera::load {

struct Parameter {
  enum class Kind { count, real, text };
  std::string_view name;
  Kind kind;
  std::string_view value;  // the default
  std::string_view help;
};

/// Values of the flags of one scenario. Kinds were checked when they were set.
class Parameters {
 public:
  Parameters() = default;
  explicit Parameters(std::span<const Parameter> declared);

  Result<> set(std::string_view name, const std::string& value);
  int64_t count(std::string_view name) const;
  double real(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const std::map<std::string, std::string, std::less<>>& all() const { return values_; }

 private:
  std::span<const Parameter> declared_;
  std::map<std::string, std::string, std::less<>> values_;
};

/// The flags common to all scenarios.
struct CommonOptions {
  std::string host = "127.0.0.1";
  int64_t port = 8080;
  std::string api_key;
  std::vector<std::string> client_keys;  // one per imitated client
  int64_t pid = 0;
  int64_t seed = 1;
  int64_t n_repeats = 1;
  bool json = false;
};

/// Everything that a run of a scenario uses.
class Context {
 public:
  Context(Client& client, const CommonOptions& options, const Parameters& parameters, uint64_t seed)
      : client(client), options(options), parameters(parameters), rng(seed) {}

  int64_t count(std::string_view name) const { return parameters.count(name); }
  double real(std::string_view name) const { return parameters.real(name); }
  const std::string& text(std::string_view name) const { return parameters.text(name); }

  /// Returns `n` random token ids. Ids of special tokens, which vocabularies list first, are left out.
  std::vector<int32_t> random_ids(int64_t n);
  /// Returns a completion with the prompt of the flags --prompt, --prompt-tokens and --vocab.
  Completion completion(int64_t n_tokens);
  /// Returns a request as one of several clients: by its own API key, or else by its own loopback address.
  Request as_client(const Completion& completion, int64_t i_client) const;
  /// Returns the same request as the only client.
  Request as_self(const Completion& completion) const { return completion_request(completion, options.api_key); }
  /// Calls a route without a body and waits for the answer, at most 30 s.
  Answer get(const std::string& target) const;

  Client& client;
  const CommonOptions& options;
  const Parameters& parameters;
  Rng rng;
};

struct Scenario {
  std::string_view name;
  std::string_view help;
  std::span<const Parameter> parameters;
  Report (*run)(Context& context);
};

std::span<const Scenario> scenarios();
/// Returns nullptr if there is none.
const Scenario* find_scenario(std::string_view name);

// Sources: scenario_rates.cpp, scenario_fairness.cpp, scenario_abuse.cpp, scenario_replay.cpp, scenario_soak.cpp.
Report run_streams(Context& context);
Report run_short(Context& context);
Report run_open(Context& context);
Report run_mixed(Context& context);
Report run_idle(Context& context);
Report run_slowloris(Context& context);
Report run_slow_readers(Context& context);
Report run_cancel(Context& context);
Report run_replay(Context& context);
Report run_hostile(Context& context);
Report run_soak(Context& context);

/// Adds tokens/s, requests/s, times and failures of a tally over `seconds`; `prefix` begins each name.
void add_tally(Report& report, const Tally& tally, double seconds, const std::string& prefix = "");

}  // namespace tessera::load
