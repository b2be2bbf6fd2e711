#include "tessera/server/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace tessera::server {

namespace {

constexpr std::array<std::string_view, 8> kEndNames = {"stop",     "stop_word", "length",      "context_full",
                                                       "deadline", "cancelled", "slow_reader", "error"};
constexpr std::array<std::string_view, 3> kPreemptionNames = {"memory", "priority", "slow_reader"};

template <class... Args>
void append(std::string& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
}

// Writes values of llama-server's list. label: `{model="x"}`, or empty.
class PeerValues {
 public:
  PeerValues(std::string& out, std::string label) : out_(out), label_(std::move(label)) {}
  void add(std::string_view type, std::string_view name, std::string_view help, double value) {
    append(out_, "# HELP llamacpp:{} {}\n# TYPE llamacpp:{} {}\nllamacpp:{}{} {}\n", name, help, name, type, name,
           label_, value);
  }

 private:
  std::string& out_;
  std::string label_;
};

// Writes the values of one metric of our own, one per label.
class Family {
 public:
  Family(std::string& out, std::string_view name, std::string_view type, std::string_view help)
      : out_(out), name_(name) {
    append(out, "# HELP tessera_{} {}\n# TYPE tessera_{} {}\n", name, help, name, type);
  }
  void add(std::string_view labels, double value) { append(out_, "tessera_{}{{{}}} {}\n", name_, labels, value); }

 private:
  std::string& out_;
  std::string_view name_;
};

void write_histogram(std::string& out, std::string_view name, std::string_view help, const Histogram& histogram,
                     std::string_view labels) {
  append(out, "# HELP tessera_{} {}\n# TYPE tessera_{} histogram\n", name, help, name);
  histogram.write(out, fmt::format("tessera_{}", name), labels);
}

double rate(uint64_t n, double seconds) { return seconds > 0 ? static_cast<double>(n) / seconds : 0; }

void write_peer_metrics(PeerValues values, const ModelMetrics& m) {
  const auto number = [](const auto& counter) { return static_cast<double>(counter.load()); };
  values.add("counter", "prompt_tokens_total", "Prompt tokens computed.", number(m.prompt_tokens));
  values.add("counter", "prompt_tokens_cached_total", "Prompt tokens taken from the cache.",
             number(m.cached_prompt_tokens));
  values.add("counter", "prompt_seconds_total", "Time of prompts, over all requests.", m.prompt_seconds.load());
  values.add("counter", "tokens_predicted_total", "Tokens generated.", number(m.generated_tokens));
  values.add("counter", "tokens_predicted_seconds_total", "Time of generation, over all requests.",
             m.generation_seconds.load());
  values.add("counter", "n_decode_total", "Steps.", number(m.decode_calls));
  values.add("counter", "n_tokens_max", "Most tokens of a sequence.", number(m.most_tokens));
  values.add("counter", "spec_decode_num_drafts_total", "Speculation: drafts verified.", number(m.drafts));
  values.add("counter", "spec_decode_num_draft_tokens_total", "Speculation: guesses verified.", number(m.guesses));
  values.add("counter", "spec_decode_num_accepted_tokens_total", "Speculation: right guesses.",
             number(m.right_guesses));
  values.add("gauge", "prompt_tokens_seconds", "Prompt tokens per second.", rate(m.prompt_tokens, m.prompt_seconds));
  values.add("gauge", "predicted_tokens_seconds", "Generated tokens per second.",
             rate(m.generated_tokens, m.generation_seconds));
  values.add("gauge", "requests_processing", "Requests that have a slot.", number(m.n_busy_slots));
  values.add("gauge", "requests_deferred", "Requests that wait.", number(m.n_waiting));
  values.add("gauge", "n_busy_slots_per_decode", "Slots in a step, on average.",
             rate(m.busy_slot_steps, number(m.decode_calls)));
}

void write_own_metrics(std::string& out, const ModelMetrics& m, const std::string& label) {
  write_histogram(out, "ttft_seconds", "Time to the first token.", m.first_token_seconds, label);
  write_histogram(out, "inter_token_seconds", "Time between tokens of a sequence.", m.between_tokens_seconds, label);
  write_histogram(out, "queue_seconds", "Time until a slot is free.", m.queue_seconds, label);
  write_histogram(out, "e2e_seconds", "Time of a sequence, waiting included.", m.request_seconds, label);
  write_histogram(out, "step_seconds", "Time of a step.", m.step_seconds, label);
  write_histogram(out, "step_tokens", "Tokens of a step.", m.step_tokens, label);
  write_histogram(out, "batch_lanes", "Sequences of a step.", m.step_sequences, label);
  write_histogram(out, "prompt_tokens", "Tokens of a prompt.", m.prompt_length, label);
  write_histogram(out, "generation_tokens", "Tokens generated for a sequence.", m.generation_length, label);
  Family finished(out, "finished_total", "counter", "Sequences that ended, by reason.");
  for (size_t i = 0; i < kEndNames.size(); ++i)
    finished.add(fmt::format("{},reason=\"{}\"", label, kEndNames[i]), static_cast<double>(m.ended[i].load()));
  Family refused(out, "refused_total", "counter", "Requests that the queue did not take.");
  refused.add(label + ",why=\"queue_full\"", static_cast<double>(m.refused_full.load()));
  refused.add(label + ",why=\"client_limit\"", static_cast<double>(m.refused_client.load()));
  Family preempted(out, "preemptions_total", "counter", "Sequences that lost their slot for a while.");
  for (size_t i = 0; i < kPreemptionNames.size(); ++i)
    preempted.add(fmt::format("{},why=\"{}\"", label, kPreemptionNames[i]), static_cast<double>(m.preempted[i].load()));
  const auto pair = [&](std::string_view name, std::string_view help, std::string_view one, int64_t n_one,
                        std::string_view other, int64_t n_other) {
    Family family(out, name, "gauge", help);
    family.add(fmt::format("{},state=\"{}\"", label, one), static_cast<double>(n_one));
    family.add(fmt::format("{},state=\"{}\"", label, other), static_cast<double>(n_other));
  };
  Family tokens(out, "prefix_tokens_total", "counter", "Prompt tokens, by where they came from.");
  const uint64_t n_disk = m.disk_prompt_tokens, n_cached = m.cached_prompt_tokens;
  tokens.add(label + ",source=\"ram\"", static_cast<double>(n_cached - std::min(n_cached, n_disk)));
  tokens.add(label + ",source=\"disk\"", static_cast<double>(n_disk));
  tokens.add(label + ",source=\"computed\"", static_cast<double>(m.prompt_tokens.load()));
  Family(out, "prefix_evictions_total", "counter", "Blocks that left the prefix cache's memory.")
      .add(label + ",tier=\"ram\"", static_cast<double>(m.prefix_evictions.load()));
  Family(out, "grammars_compiled_total", "counter", "Schemas and grammars of requests that were compiled.")
      .add(label, static_cast<double>(m.grammars_compiled.load()));
  Family(out, "grammar_cache_hits_total", "counter", "Those that had been compiled before.")
      .add(label, static_cast<double>(m.grammar_hits.load()));
  Family(out, "grammar_cache_bytes", "gauge", "Memory of compiled schemas and grammars, estimated.")
      .add(label, static_cast<double>(m.grammar_bytes.load()));
  pair("prefix_blocks", "Blocks of the prefix cache.", "used", m.n_prefix_blocks_in_use, "idle",
       m.n_prefix_blocks - m.n_prefix_blocks_in_use);
  pair("kv_blocks", "Blocks of the cache.", "used", m.n_used_blocks, "free", m.n_blocks - m.n_used_blocks);
  pair("slots", "Slots.", "busy", m.n_busy_slots, "idle", m.n_slots - m.n_busy_slots);
  Family(out, "queue_requests", "gauge", "Requests that wait.").add(label, static_cast<double>(m.n_waiting.load()));
  Family(out, "queue_tokens", "gauge", "Prompt tokens of waiting requests.")
      .add(label, static_cast<double>(m.n_waiting_tokens.load()));
}

std::string model_label(std::string_view name) {
  std::string label = "model=\"";
  for (const char c : name) {
    if (c == '"' || c == '\\') label += '\\';
    label += c == '\n' ? ' ' : c;
  }
  return label += '"';
}

// Prometheus wants all values of a metric together, after one HELP and one TYPE.
std::string grouped_by_family(std::string_view text) {
  std::vector<std::pair<std::string_view, std::string>> families;  // the line of HELP, the others
  std::map<std::string_view, size_t> places;
  size_t place = 0;
  bool is_new = false;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n') + 1);
    text.remove_prefix(line.size());
    if (line.starts_with("# HELP ")) {
      const auto [known, added] = places.try_emplace(line, families.size());
      place = known->second;
      is_new = added;
      if (is_new) families.emplace_back(line, "");
    } else if (is_new || !line.starts_with("# TYPE ")) {
      families[place].second += line;
    }
  }
  std::string out;
  for (const auto& [help, lines] : families) out.append(help).append(lines);
  return out;
}

}  // namespace

Histogram::Histogram(double first, double factor, double last) {
  double bound = first;
  while (n_bounds_ < kMostBuckets) {
    bounds_[n_bounds_++] = bound;
    if (bound >= last) break;
    bound *= factor;
  }
}

void Histogram::observe(double value) {
  size_t i = 0;
  while (i < n_bounds_ && value > bounds_[i]) ++i;
  counts_[i].fetch_add(1, std::memory_order_relaxed);
  add(sum_, value);
}

void Histogram::write(std::string& out, std::string_view name, std::string_view labels) const {
  const std::string_view comma = labels.empty() ? "" : ",";
  uint64_t n = 0;
  for (size_t i = 0; i < n_bounds_; ++i) {
    n += counts_[i].load(std::memory_order_relaxed);
    append(out, "{}_bucket{{{}{}le=\"{:.6g}\"}} {}\n", name, labels, comma, bounds_[i], n);
  }
  n += counts_[n_bounds_].load(std::memory_order_relaxed);
  append(out, "{}_bucket{{{}{}le=\"+Inf\"}} {}\n", name, labels, comma, n);
  append(out, "{}_sum{{{}}} {}\n{}_count{{{}}} {}\n", name, labels, sum_.load(std::memory_order_relaxed), name, labels,
         n);
}

void RequestCounts::count(std::string_view route, int status) {
  const std::lock_guard lock(mutex_);
  ++counts_[{std::string(route), status}];
}

void RequestCounts::write(std::string& out) const {
  Family family(out, "requests_total", "counter", "Requests, by route and status.");
  const std::lock_guard lock(mutex_);
  for (const auto& [key, n] : counts_)
    family.add(fmt::format("route=\"{}\",status=\"{}\"", key.first, key.second), static_cast<double>(n));
}

std::string_view end_reason_name(EndReason reason) { return kEndNames[static_cast<size_t>(reason)]; }

std::string metrics_text(std::span<const NamedMetrics> models) {
  std::string out;
  for (const NamedMetrics& model : models) {
    const std::string label = model_label(model.name);
    write_peer_metrics(PeerValues(out, models.size() > 1 ? fmt::format("{{{}}}", label) : ""), *model.metrics);
    write_own_metrics(out, *model.metrics, label);
  }
  return models.size() > 1 ? grouped_by_family(out) : out;
}

void write_disk_metrics(std::string& out, const DiskCounters& counters) {
  const auto write = [&](std::string_view name, std::string_view type, std::string_view help, uint64_t value) {
    append(out, "# HELP tessera_{} {}\n# TYPE tessera_{} {}\ntessera_{} {}\n", name, help, name, type, name, value);
  };
  write("prefix_disk_bytes", "gauge", "Bytes of the cache's files.", counters.n_bytes);
  write("prefix_disk_evictions_total", "counter", "Files that were removed for want of room.",
        counters.n_evicted_files);
  write("prefix_disk_errors_total", "counter", "Files that could not be written.", counters.n_errors);
  write("damaged_files_total", "counter", "Cache files that were damaged, and removed.", counters.n_damaged_files);
}

}  // namespace tessera::server
