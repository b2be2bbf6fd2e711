// The table of scenarios with the defaults of their flags, and what all of them share (scenario.h).
#include <fmt/format.h>

#include <algorithm>

#include <cmath>
#include <cstdlib>
#include <optional>

#include "bench/serve/scenario.h"

namespace tessera::load {
namespace {

using enum Parameter::Kind;

#define TESSERA_PROMPT_FLAGS                                                                  \
  Parameter{"prompt-tokens", count, "16", "random ids of this number, new for each request"}, \
      Parameter{"prompt", text, "", "the prompt of all requests instead"}, Parameter {        \
    "vocab", count, "512", "random ids are below this number"                                 \
  }

constexpr Parameter kStreams[] = {
    {"streams", count, "8", "streams at a time"},
    {"requests", count, "200", "requests in all"},
    {"warmup", count, "16", "requests before the measurement"},
    {"tokens", count, "64", "tokens of each answer"},
    TESSERA_PROMPT_FLAGS,
};
constexpr Parameter kShort[] = {
    {"streams", count, "8", "requests at a time"},
    {"requests", count, "10000", "requests in all"},
    {"tokens", count, "8", "tokens of each answer"},
    {"every", count, "1000", "requests between two samples of the memory"},
    TESSERA_PROMPT_FLAGS,
};
constexpr Parameter kOpen[] = {
    {"streams", count, "32", "streams that measure the capacity"},
    {"requests", count, "400", "requests that measure the capacity"},
    {"rates", text, "0.5,1,2,10", "multiples of the capacity"},
    {"seconds", real, "10", "time per rate"},
    {"in-flight", count, "4000", "further arrivals are not sent"},
    {"tokens", count, "32", "tokens of each answer"},
    TESSERA_PROMPT_FLAGS,
};
constexpr Parameter kMixed[] = {
    {"streams", count, "16", "clients with short prompts, one stream each"},
    {"tokens", count, "32", "tokens of each answer"},
    {"alone", real, "5", "seconds of measurement without the long prompt"},
    {"long-tokens", count, "8000", "tokens of the long prompt"},
    {"limit", real, "600", "seconds that the long prompt may take"},
    TESSERA_PROMPT_FLAGS,
};
constexpr Parameter kIdle[] = {
    {"idle", count, "5000", "idle streams"},
    {"kind", text, "queued", "queued: streams that wait for a slot; kept: idle connections"},
    {"active", count, "8", "streams that run"},
    {"seconds", real, "10", "time of each measurement"},
    {"limit", real, "60", "seconds in which all idle streams must begin"},
    {"tokens", count, "64", "tokens of an active answer"},
    TESSERA_PROMPT_FLAGS,
};
constexpr Parameter kSlowloris[] = {
    {"half-open", count, "5000", "requests that are never completed"},
    {"active", count, "8", "streams that run"},
    {"seconds", real, "10", "time of each measurement"},
    {"tokens", count, "64", "tokens of an active answer"},
    TESSERA_PROMPT_FLAGS,
};
constexpr Parameter kSlowReaders[] = {
    {"readers", count, "64", "streams read at one byte a second"},
    {"reader-tokens", count, "4000", "tokens of a slow answer"},
    {"settle", real, "10", "seconds until the server has paused the slow streams"},
    {"active", count, "8", "streams that run"},
    {"seconds", real, "10", "time of each measurement"},
    {"tokens", count, "64", "tokens of an active answer"},
    TESSERA_PROMPT_FLAGS,
};
constexpr Parameter kCancel[] = {
    {"requests", count, "10000", "streams in all; half of them are dropped"},
    {"streams", count, "256", "streams at a time"},
    {"tokens", count, "32", "tokens of each answer"},
    {"limit", real, "30", "seconds until the server must be idle"},
    TESSERA_PROMPT_FLAGS,
};
constexpr Parameter kReplay[] = {
    {"turns", count, "40", "turns of each branch"},
    {"branches", count, "3", "branches, which share the first quarter of the turns"},
    {"first-tokens", count, "20000", "prompt of the first turn"},
    {"last-tokens", count, "60000", "prompt of the last turn"},
    {"tokens", count, "32", "tokens of each answer"},
    {"restart", text, "", "shell command that restarts the server; the last turns are then sent again"},
    {"limit", real, "600", "seconds that a turn may take"},
    {"vocab", count, "512", "random ids are below this number"},
};
constexpr Parameter kHostile[] = {
    {"limit", real, "30", "seconds after which a request counts as hanging"},
    {"slow", real, "1000", "ms beyond which an answer is listed as slow"},
};
constexpr Parameter kSoak[] = {
    {"requests", count, "100000", "requests in all"},
    {"streams", count, "8", "requests at a time"},
    {"hostile", real, "0.05", "share of hostile requests"},
    {"every", count, "1000", "requests between two samples of the process"},
    {"limit", real, "30", "seconds after which a request counts as hanging"},
    {"tokens", count, "16", "tokens of each answer"},
};

constexpr Scenario kScenarios[] = {
    {"streams", "a closed loop of streams: rates and times", kStreams, run_streams},
    {"short", "many short requests: rate and growth of memory", kShort, run_short},
    {"open", "arrivals at multiples of the capacity: goodput and refusals", kOpen, run_open},
    {"mixed", "short prompts beside a long one: gaps, times to the first token, fairness", kMixed, run_mixed},
    {"idle", "active streams beside thousands of idle ones: rate, /health, memory", kIdle, run_idle},
    {"slowloris", "active streams beside half-open requests", kSlowloris, run_slowloris},
    {"slow-readers", "active streams beside readers of a byte a second", kSlowReaders, run_slow_readers},
    {"cancel", "streams of which half are dropped at random moments", kCancel, run_cancel},
    {"replay", "a coding assistant's growing prompts: computed against new tokens", kReplay, run_replay},
    {"hostile", "each hostile request once: status, time, memory", kHostile, run_hostile},
    {"soak", "a long mix of requests, good and hostile: leaks, statuses, equal answers", kSoak, run_soak},
};

const Parameter* find(std::span<const Parameter> declared, std::string_view name) {
  const auto found = std::find_if(declared.begin(), declared.end(), [&](const Parameter& p) { return p.name == name; });
  return found == declared.end() ? nullptr : &*found;
}

/// Returns a number that is finite and not negative.
std::optional<double> parse_number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const bool ok = !text.empty() && *end == '\0' && std::isfinite(value) && value >= 0 && value < 1e15;
  return ok ? std::optional(value) : std::nullopt;
}

}  // namespace

std::span<const Scenario> scenarios() { return kScenarios; }

const Scenario* find_scenario(std::string_view name) {
  for (const Scenario& scenario : kScenarios) {
    if (scenario.name == name) return &scenario;
  }
  return nullptr;
}

Parameters::Parameters(std::span<const Parameter> declared) : declared_(declared) {
  for (const Parameter& parameter : declared) values_[std::string(parameter.name)] = parameter.value;
}

Result<> Parameters::set(std::string_view name, const std::string& value) {
  const Parameter* const parameter = find(declared_, name);
  if (parameter == nullptr) return fail(ErrorCode::invalid_argument, "unknown flag --{}", name);
  if (parameter->kind != Parameter::Kind::text) {
    const std::optional<double> number = parse_number(value);
    const bool fits = number && (parameter->kind == Parameter::Kind::real || *number == std::floor(*number));
    if (!fits) return fail(ErrorCode::invalid_argument, "--{}: '{}', want a number from 0", name, value);
  }
  values_.find(name)->second = value;
  return {};
}

int64_t Parameters::count(std::string_view name) const { return static_cast<int64_t>(real(name)); }

double Parameters::real(std::string_view name) const { return std::strtod(text(name).c_str(), nullptr); }

const std::string& Parameters::text(std::string_view name) const { return values_.find(name)->second; }

std::vector<int32_t> Context::random_ids(int64_t n) {
  constexpr uint32_t kSpecials = 259;  // unknown, begin, end, and the 256 bytes of SentencePiece vocabularies
  const auto n_vocab = static_cast<uint32_t>(std::max<int64_t>(count("vocab"), 1));
  const uint32_t first = n_vocab > kSpecials ? kSpecials : 0;  // small ones are of models without texts
  std::vector<int32_t> ids(static_cast<size_t>(n));
  for (int32_t& id : ids) id = static_cast<int32_t>(first + rng.next_u32() % (n_vocab - first));
  return ids;
}

Completion Context::completion(int64_t n_tokens) {
  Completion completion;
  completion.text = text("prompt");
  if (completion.text.empty()) completion.ids = random_ids(std::max<int64_t>(count("prompt-tokens"), 1));
  completion.n_tokens = n_tokens;
  return completion;
}

Request Context::as_client(const Completion& completion, int64_t i_client) const {
  if (!options.client_keys.empty()) {
    const size_t i_key = static_cast<size_t>(i_client) % options.client_keys.size();
    return completion_request(completion, options.client_keys[i_key]);
  }
  if (!client.is_loopback()) return as_self(completion);
  const std::string source = fmt::format("127.1.{}.{}", i_client / 250 % 250, 1 + i_client % 250);
  return completion_request(completion, options.api_key, source);
}

Answer Context::get(const std::string& target) const {
  Request request;
  request.method = "GET";
  request.target = target;
  request.api_key = options.api_key;
  request.fresh = true;
  Answer result;
  bool is_done = false;
  const CallId call = client.send(request, {.on_event = {}, .on_end = [&](const Answer& answer) {
                                              result = answer;
                                              is_done = true;
                                            }});
  if (!client.run_until([&] { return is_done; }, 30)) {
    client.drop(call);
    result.outcome = Outcome::unreachable;
  }
  return result;
}

void add_tally(Report& report, const Tally& tally, double seconds, const std::string& prefix) {
  report.add(prefix + "tokens_per_s", static_cast<double>(tally.n_tokens) / seconds);
  report.add(prefix + "requests_per_s", static_cast<double>(tally.n_complete) / seconds);
  for (const int p : {50, 95, 99}) report.add(fmt::format("{}ttft_p{}_ms", prefix, p), tally.ttft_ms.percentile(p));
  for (const int p : {50, 99}) report.add(fmt::format("{}gap_p{}_ms", prefix, p), tally.gap_ms.percentile(p));
  report.add(prefix + "gap_max_ms", tally.gap_ms.max());
  report.add(prefix + "completed", static_cast<double>(tally.n_complete));
  for (const auto& [name, count] : tally.failures) {
    report.failures.push_back(fmt::format("{}{} streams: {}", prefix, count, name));
  }
}

}  // namespace tessera::load
