#include "tessera/cli/serve_args.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "tessera/server/http/access.h"
#include "tessera/server/server_memory.h"

namespace tessera::cli {

namespace {

constexpr int32_t kMaxSlots = 1024;
constexpr int kWorkers = 2;  // so that one request of much work does not stop the others
constexpr int32_t kManySlots = 16, kFewSlots = 4;
constexpr unsigned kFewCpus = 4;                      // below: few slots for a large model
constexpr size_t kLargeModelBytes = size_t{4} << 30;  // its weights
// The part of --memory that experts in the file leave to the prefix cache and the server itself.
constexpr uint64_t kPrefixShareBesideExperts = 8;
constexpr uint64_t kMostCacheBytes = uint64_t{8} << 30;  // of the prefix cache, by default
constexpr uint64_t kMostCacheTokens = uint64_t{1} << 20;
constexpr int32_t kMarksPerSlot = 8;
constexpr int64_t kScoreBytes = int64_t{32} << 20;  // of the logits by which the prompts of a step are scored
constexpr int64_t kFewestScoreRows = 16;
constexpr double kGuessedMacsPerSecond = 20e9;  // of a thread; the scheduler learns the real rate

// Prompt tokens that a step can score. More make larger products, but each takes a row of logits.
int64_t score_rows(const ModelInfo& info, int64_t n_ubatch) {
  if (!info.has_logits) return 0;
  const int64_t row_bytes = std::max<int64_t>(info.n_vocab, 1) * static_cast<int64_t>(sizeof(float));
  const int64_t n_rows = std::min(kScoreBytes / row_bytes, n_ubatch) / kFewestScoreRows * kFewestScoreRows;
  return std::max(n_rows, kFewestScoreRows);
}

// The elements of a list with commas, trimmed; empty ones are left out.
std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> items;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view item = text.substr(0, comma);
    while (item.starts_with(' ')) item.remove_prefix(1);
    while (item.ends_with(' ')) item.remove_suffix(1);
    if (!item.empty()) items.emplace_back(item);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return items;
}

Setter set_list(std::vector<std::string>& target, std::string default_text = {}) {
  return Setter(
      [&target](std::string_view text) -> Result<> {
        target = split_list(text);
        return {};
      },
      std::move(default_text));
}

// A number of seconds for a member in milliseconds.
Setter set_seconds(int64_t& target_ms, int64_t max_s) {
  return Setter(
      [&target_ms, max_s](std::string_view text) -> Result<> {
        TESSERA_ASSIGN(const int64_t seconds, parse_integer(text, 1, max_s));
        target_ms = seconds * 1000;
        return {};
      },
      std::to_string(target_ms / 1000));
}

Setter set_byte_count(size_t& target) {
  return Setter(
      [&target](std::string_view text) -> Result<> {
        TESSERA_ASSIGN(target, parse_bytes(text));
        return {};
      },
      fmt::format("{}K", target >> 10));
}

template <class T>
Setter set_number(T& target, int64_t min, int64_t max) {
  return Setter(
      [&target, min, max](std::string_view text) -> Result<> {
        TESSERA_ASSIGN(const int64_t value, parse_integer(text, min, max));
        target = static_cast<T>(value);
        return {};
      },
      std::to_string(target));
}

// Bytes of the keys and values of a token in all layers, of entries a part of one.
Result<uint64_t> bytes_of_token(const KvCache& cache) {
  uint64_t bytes = 0;
  for (int64_t layer = 0; layer < std::ssize(cache.config().layers); ++layer) {
    TESSERA_ASSIGN(const KvTokenBytes one, cache.token_bytes(layer));
    const int64_t stride = std::max<int64_t>(cache.config().layers[to_size(layer)].stride, 1);
    bytes += div_ceil<uint64_t>(one.k + one.v, static_cast<uint64_t>(stride));
  }
  return bytes;
}

Setter refuse(std::string_view reason) {
  return [reason](std::string_view) -> Result<> { return fail(ErrorCode::invalid_argument, "{}", reason); };
}

}  // namespace

void ServeArgs::add_to(FlagTable& table) {
  add_network_flags(table);
  add_catalog_flags(table);
  add_model_flags(table);
  add_endpoint_flags(table);
  add_limit_flags(table);
  add_log_flags(table);
  add_peer_flags(table);
}

void ServeArgs::add_model_flags(FlagTable& table) {
  model.bounds_memory = false;  // the memory of all models, below
  model.add_to(table);
  add_slot_flags(table);
  add_embedding_flags(table);
  speculation.add_to(table);
  context.add_to(table);
  add_tuning_flag(table, context);
  chat_template.add_to(table);
  sampling.add_to(table);
}

void ServeArgs::add_network_flags(FlagTable& table) {
  server::HttpOptions& http = server.http;
  table.common("--host", "ADDRESS,...", "addresses to listen on; a path that ends in .sock is a unix socket",
               set_list(http.hosts, "127.0.0.1"));
  table.common("--port", "N", "TCP port; 0: a free one", set_number(http.port, 0, 65535));
  table.rare("--reuse-port", "", "let several processes listen on the port", set_switch(http.reuse_port));
  table.rare("--api-prefix", "PATH", "prefix of all paths", set_string(http.api_prefix));
  table.common("--api-key", "KEY,...", "keys of clients; with keys, only /health and the page are open to others",
               set_list(http.api_keys));
  table.rare("--api-key-file", "FILE",
             "file with a key per line, with optional name= and best=", set_string(http.api_key_file));
  table.rare("--insecure", "", "listen on other addresses than loopback without keys", set_switch(http.insecure));
  table.rare("--allowed-hosts", "NAME,...", "names of this machine in URLs, beside those of loopback; any: all",
             set_list(http.allowed_hosts));
  table.rare("--ssl-key-file", "FILE", "private key for TLS (PEM)", set_string(http.tls_key_file));
  table.rare("--ssl-cert-file", "FILE", "certificate for TLS (PEM)", set_string(http.tls_certificate_file));
  table.rare("--cors-origins", "LIST", "web pages of other origins that may use the server",
             set_string(http.cors_origins), "localhost; * with keys");
  table.rare("--cors-methods", "LIST", "methods that they may use", set_string(http.cors_methods));
  table.rare("--cors-headers", "LIST", "fields that they may send", set_string(http.cors_headers));
  table.rare("--threads-http", "N", "I/O threads", set_number(http.n_threads, 1, 64), "1; 2 with 8 CPUs or more");
}

void ServeArgs::add_catalog_flags(FlagTable& table) {
  table.common("--models-dir", "DIR", "serve all models of a folder; each is loaded when a request asks for it",
               set_string(catalog.directory));
  table.rare("--models-write", "", "let clients of the Ollama API copy, create and delete models in --models-dir",
             set_switch(lets_clients_name_models));
  table.rare("--models-preset", "FILE", "serve the models of an INI file, with flags for each",
             set_string(catalog.presets));
  table.rare("--models-max", "N", "models that are loaded at once", set_number(registry.max_loaded, 1, 1000));
  table.rare("--no-models-autoload", "", "load models only by POST /models/load",
             set_switch(registry.loads_on_demand, false));
  table.common("--memory", "SIZE", "memory of all models and caches, e.g. 12G (2^30)",
               [this](std::string_view text) -> Result<> {
                 TESSERA_ASSIGN(memory_bytes, parse_bytes(text));
                 return {};
               });
  const auto set_time = [](std::chrono::milliseconds& target) {
    return Setter([&target](std::string_view text) -> Result<> {
      TESSERA_ASSIGN(const int64_t seconds, parse_integer(text, -1, 10'000'000));
      target = std::chrono::seconds(seconds);
      return {};
    });
  };
  table.rare("--keep-alive", "S", "seconds until an unused model is unloaded; -1: never", set_time(registry.keep_alive),
             "-1; 5 minutes for requests of the Ollama API");
  table.rare("--sleep-idle-seconds", "S", "seconds until an unused model is unloaded until the next request; -1: never",
             set_time(registry.sleep_after), "-1");
}

void ServeArgs::add_slot_flags(FlagTable& table) {
  table.common("--parallel -np", "N", "slots: sequences that are computed at once", set_integer(n_slots, 1, kMaxSlots),
               "16; 4 for a large model on few CPUs");
  table.common("--predict -n --n-predict", "N", "most tokens of an answer; -1: no bound",
               set_integer(n_predict, -1, INT32_MAX));
  table.rare("--kv-unified -kvu", "", "let each slot use the whole context", set_switch(shares_context),
             "on without -np");
  table.rare("--kv-unified-per-slot", "N", "most tokens of a slot", set_integer(slot_context, 0, kMaxContext),
             "no bound");
  table.rare("--no-cont-batching -nocb", "", "compute one sequence at a time", set_switch(batches_slots, false));
  table.rare("--cache-ram -cram", "MIB", "memory of the prefix cache beyond the context; 0: none, -1: all that is left",
             set_integer(cache_mib, -1, int64_t{1} << 30), "half of what is left, at most 8192");
  table.rare("--cache-reuse", "N",
             "fewest tokens of a chunk of the prompt that is reused at another place; 0: none are",
             set_integer(server.api.defaults.n_cache_reuse, 0, INT32_MAX), "0, as reused chunks are not exact");
  table.rare("--cache-disk", "DIR", "directory in which the prefix cache survives a restart; made if it is missing",
             set_string(server.storage.cache_directory));
  table.rare(
      "--cache-disk-size", "SIZE", "most bytes in it",
      [this](std::string_view text) -> Result<> {
        TESSERA_ASSIGN(server.storage.cache_bytes, parse_bytes(text));
        return {};
      },
      "16G");
  table.rare("--cache-share", "", "clients with different API keys share the prefix cache",
             set_switch(server.api.shares_cache));
  table.rare("--slot-save-path", "DIR", "directory to which clients may save slots",
             set_string(server.storage.slot_directory));
  table.rare(
      "--step-target", "MS", "time that a step may take while tokens are being generated",
      [this](std::string_view text) -> Result<> {
        TESSERA_ASSIGN(const float ms, parse_real(text, 1, 60'000));
        scheduler.step_target_ms = static_cast<double>(ms);
        return {};
      },
      "the larger of 50 and three steps without prompts");
  table.rare("--reverse-prompt -r", "TEXT", "stop string of requests that have none; may be repeated",
             [this](std::string_view text) -> Result<> {
               stop.emplace_back(text);
               return {};
             });
  table.rare("--context-shift", "", "when the context of an answer is full, forget its older half and continue",
             set_switch(server.api.shifts_context));
  table.rare("--keep", "N", "prompt tokens that a context shift keeps; -1: all",
             set_integer(server.api.defaults.n_keep, -1, INT32_MAX));
  table.rare("--reasoning-budget", "N", "tokens of a chat reply's reasoning; then its end is forced; -1: no bound",
             set_integer(server.api.defaults.reasoning_budget, -1, INT32_MAX));
  table.rare("--reasoning-budget-message", "TEXT", "text before an end of the reasoning that is forced",
             set_string(server.api.defaults.reasoning_budget_message));
  table.rare("--lora-init-without-apply", "", "load LoRA adapters with the scale 0, until clients set others",
             set_switch(begins_without_loras));
  table.rare("--special -sp", "", "special tokens are part of answers", set_switch(server.api.renders_special));
}

void ServeArgs::add_embedding_flags(FlagTable& table) {
  table.common("--embeddings --embedding", "", "compute embeddings of texts, beside generating",
               set_switch(has_embeddings));
  table.rare(
      "--pooling", "KIND",
      "pooling of embeddings: none (a vector per token), mean, cls (first token), last, rank (scores)",
      [this](std::string_view text) -> Result<> {
        TESSERA_ASSIGN(pooling, nn::pooling_from_name(text));
        return {};
      },
      "the model's, or mean");
  table.common("--reranking --rerank", "", "compute scores of a query and documents, for models with a rank head",
               set_switch(has_reranking));
}

void ServeArgs::add_endpoint_flags(FlagTable& table) {
  table.common("--metrics", "", "answer GET /metrics (Prometheus)", set_switch(server.api.has_metrics));
  table.rare("--embd-normalize", "N",
             "normalization of embeddings: -1: none; 0: largest magnitude 32760; 1: taxicab; 2: Euclidean; N: p-norm",
             set_integer(server.api.embd_normalize, -1, server::kMaxNorm));
  table.rare("--no-slots", "", "do not answer GET /slots", set_switch(server.api.has_slots, false));
  table.rare("--no-ui --no-webui", "", "serve no chat page", set_switch(server.api.has_page, false));
  table.rare("--props", "", "answer POST /props", set_switch(server.api.has_props));
  table.common("--alias -a", "NAME,...", "names of the model for clients", set_list(aliases), "the file's name");
  table.rare("--tags", "TEXT,...", "tags of the model for clients", set_list(tags));
  table.rare("--sse-ping-interval", "S", "seconds between comments in silent streams; -1: none",
             set_integer(server.api.defaults.sse_ping_interval_s, -1, 3600));
}

void ServeArgs::add_limit_flags(FlagTable& table) {
  server::HttpLimits& http = server.http.limits;
  server::QueueLimits& queue = scheduler.queue;
  table.rare("--timeout -to", "S", "most time of a request", set_seconds(server.api.request_ms, 1'000'000));
  table.rare("--max-connections", "N", "open connections", set_integer(http.n_connections, 1, 1'000'000));
  table.rare("--max-body", "SIZE", "bytes of a request", set_byte_count(http.body_bytes));
  table.rare("--http-memory", "SIZE", "bytes of all requests and answers", set_byte_count(http.held_bytes));
  table.rare("--http-timeout", "S", "time for the head of a request", set_seconds(http.head_ms, 3600));
  table.rare(
      "--responses-store", "MIB", "memory for answers that clients of /v1/responses may go on from; 0: none",
      [this](std::string_view text) -> Result<> {
        TESSERA_ASSIGN(const int64_t n_mib, parse_integer(text, 0, 1 << 20));
        server.api.stored_response_bytes = static_cast<size_t>(n_mib) << 20;
        return {};
      },
      "64");
  table.rare("--max-queue", "N", "requests that wait", set_integer(queue.n_tasks, 1, 1'000'000));
  table.rare("--max-queue-client", "N", "requests of one client that wait",
             set_integer(queue.n_client_tasks, 1, 1'000'000));
  table.rare("--max-choices", "N", "answers to one prompt", set_integer(server.api.max_choices, 1, 4096));
  table.rare("--max-logprobs", "N", "alternatives of a token", set_integer(server.api.max_logprobs, 0, 1000));
  table.rare("--stream-buffer", "SIZE", "unsent bytes at which a stream pauses",
             set_byte_count(scheduler.stream_buffer));
  table.rare("--slow-reader-timeout", "S", "time without a byte read after which a stream ends",
             set_seconds(scheduler.slow_reader_ms, 86'400));
  table.rare("--drain-timeout", "S", "time for running requests after SIGTERM, and then for --cache-disk",
             set_integer(drain_s, 0, 86'400));
}

void ServeArgs::add_log_flags(FlagTable& table) {
  table.common("--log-requests", "FILE", "write a line of JSON for each request; -: to standard output",
               set_string(server.access_log));
  table.rare("--log-file", "FILE", "append the log to a file too", set_string(log_file));
  table.rare("--log-timestamps", "", "lines of the log have the seconds since the start",
             set_switch(log_style.has_time));
  table.rare("--no-log-timestamps", "", "they have not", set_switch(log_style.has_time, false));
  table.rare("--log-prefix", "", "lines of the log have a letter: E, W or I", set_switch(log_style.has_level));
  table.rare("--no-log-prefix", "", "they have not", set_switch(log_style.has_level, false));
  table.rare("--log-jsonl", "", "lines of the log are JSON", set_switch(log_style.is_json));
  table.rare("--log-verbosity -lv", "N", "below 3: no log", set_integer(log_verbosity, 0, 100));
  table.rare("--log-disable", "", "no log", set_switch(is_log_disabled));
}

// Flags of llama-server that have no effect, or that this server does not offer on purpose.
void ServeArgs::add_peer_flags(FlagTable& table) {
  const auto ignore = [&](const std::string& names, std::string value) {
    const std::string name = names.substr(0, names.find(' '));
    table.rare(names, std::move(value), "ignored, for scripts of llama-server",
               [this, name](std::string_view) -> Result<> {
                 ignored.push_back(name);
                 return {};
               });
  };
  for (const char* name : {"--backend-sampling", "--offline", "--no-warmup", "--warmup", "--perf", "--no-mmproj",
                           "--jinja", "--cont-batching -cb", "--slots", "--ui --webui"})
    ignore(name, "");
  for (const char* name : {"--poll-batch", "--defrag-thold -dt", "--slot-prompt-similarity -sps", "--log-colors"})
    ignore(name, "X");
  constexpr std::string_view kNotOffered =
      "not offered: this server runs no commands, reads no files for clients and contacts no other host";
  for (const char* name : {"--tools", "--mcp-servers-config", "--path"})
    table.rare(name, "X", "not offered", refuse(kNotOffered));
  for (const char* name : {"--agent", "--ui-mcp-proxy"}) table.rare(name, "", "not offered", refuse(kNotOffered));
  table.rare("--mmproj", "FILE", "not offered", refuse("models for images and audio are not supported"));
}

Result<> ServeArgs::check() {
  TESSERA_TRY(model.check());
  TESSERA_TRY(speculation.apply(model.options));
  TESSERA_TRY(context.check());
  TESSERA_TRY(chat_template.check());
  TESSERA_TRY(sampling.check());
  if (server.http.tls_key_file.empty() != server.http.tls_certificate_file.empty())
    return fail(ErrorCode::invalid_argument, "--ssl-key-file and --ssl-cert-file: give both or neither");
  const bool has_keys = !server.http.api_keys.empty() || !server.http.api_key_file.empty();
  for (const std::string& host : server.http.hosts)
    if (!has_keys && !server.http.insecure && !host.ends_with(".sock") && !server::is_host_allowed({}, host))
      return fail(ErrorCode::invalid_argument,
                  "--host {}: other machines could use the server without a key: want --api-key, or --insecure", host);
  if (stop.size() > server::kMaxStopStrings)
    return fail(ErrorCode::invalid_argument, "--reverse-prompt: {} texts, want at most {}", stop.size(),
                server::kMaxStopStrings);
  for (const std::string& text : stop)
    if (text.empty() || text.size() > server::kMaxStopStringBytes)
      return fail(ErrorCode::invalid_argument, "--reverse-prompt: {} bytes, want 1 to {}", text.size(),
                  server::kMaxStopStringBytes);
  if (lets_clients_name_models && catalog.directory.empty())
    return fail(ErrorCode::invalid_argument, "--models-write: there is no folder to write to, want --models-dir");
  if (lets_clients_name_models) server.api.named_models = catalog.directory;
  if (begins_without_loras)
    for (AdapterSource& lora : model.options.adapters.loras) lora.scale = 0;
  std::ranges::sort(aliases);
  const auto n_cpus = std::thread::hardware_concurrency();
  server.n_workers = kWorkers;
  if (server.http.n_threads == 1 && n_cpus >= 8) server.http.n_threads = 2;
  server::GenerationFields& defaults = server.api.defaults;
  defaults.sampling = sampling.params;
  defaults.ignore_eos = sampling.ignore_eos;
  defaults.n_predict = static_cast<int32_t>(n_predict);
  defaults.stop = stop;
  return {};
}

int32_t ServeArgs::slots_for(size_t weight_bytes) const {
  if (!batches_slots) return 1;
  if (n_slots > 0) return n_slots;
  const bool is_slow = std::thread::hardware_concurrency() < kFewCpus && weight_bytes > kLargeModelBytes;
  return is_slow ? kFewSlots : kManySlots;
}

Result<std::optional<EmbeddingUse>> ServeArgs::embedding_use(const Engine& engine) const {
  const ModelInfo& info = engine.model().info();
  const bool generates = server::generates_text(info);
  const bool is_ranker = info.n_scores > 0 && info.pooling == nn::Pooling::rank;
  const bool must_rank = has_reranking || pooling == nn::Pooling::rank;
  if (generates && !is_ranker && !has_embeddings && !must_rank) return std::nullopt;
  if (must_rank) TESSERA_TRY(embedding_pooling(engine, nn::Pooling::rank));
  TESSERA_ASSIGN(const nn::Pooling chosen, embedding_pooling(engine, pooling));
  EmbeddingUse use{.ranks = must_rank || chosen == nn::Pooling::rank};
  if (chosen != nn::Pooling::rank && (has_embeddings || !generates)) use.pooling = chosen;
  return use;
}

Result<std::optional<EmbeddingUse>> ServeArgs::second_session(const Engine& engine) const {
  if (!server::generates_text(engine.model().info())) return std::nullopt;
  return embedding_use(engine);
}

Result<SessionOptions> ServeArgs::session_options(const LoadedModel& model, int32_t slots) const {
  SessionOptions session = context.session;
  session.adapters = model.adapters;
  const Engine& engine = *model.engine;
  if (!server::generates_text(engine.model().info())) {
    TESSERA_ASSIGN(const auto use, embedding_use(engine));
    return embedding_session(engine, *use, session);
  }
  session.n_sequences = slots;
  session.n_outputs = slots + score_rows(engine.model().info(), session.n_ubatch);
  model.speculation.extend(session);
  TESSERA_ASSIGN(const auto planned, Session::plan_session(engine, session));
  if (planned->needs_marks() && cache_mib != 0) session.n_cache_marks = kMarksPerSlot * slots;
  TESSERA_ASSIGN(const MemoryReport report, plan_sessions(engine, session, model.fit));
  uint64_t used = memory_bytes > 0 ? report.total() : report.bytes_of(engine.device().name());
  if (memory_bytes > 0 && used > memory_bytes && !engine.placement_options().expert_cache &&
      engine.can_stream_experts()) {
    const uint64_t for_prefixes =
        cache_mib >= 0 ? static_cast<uint64_t>(cache_mib) << 20 : memory_bytes / kPrefixShareBesideExperts;
    TESSERA_ASSIGN(const MemoryReport streamed,
                   stream_experts(*model.engine, model.adapters, session,
                                  memory_bytes - std::min(memory_bytes, for_prefixes), model.fit));
    used = streamed.total();
  }
  if (memory_bytes > 0 && used > memory_bytes)
    return fail(ErrorCode::out_of_memory, "the plan needs {} bytes, --memory is {}; a smaller -c needs less", used,
                memory_bytes);
  TESSERA_ASSIGN(const uint64_t token_bytes, bytes_of_token(planned->cache()));
  if (cache_mib == 0 || token_bytes == 0) return session;
  const uint64_t free_bytes = memory_bytes > 0 ? memory_bytes : engine.device().memory().free_bytes;
  // Beside a model in the machine's memory there is the server itself.
  const bool is_on_host = engine.device().kind() == DeviceKind::cpu;
  const uint64_t taken = used + (is_on_host ? server::server_memory(server, scheduler.queue).total() : 0);
  const uint64_t left = free_bytes > taken ? free_bytes - taken : 0;  // a context that is shortened to fit leaves none
  const uint64_t share = left / 2 / (has_many_models() ? registry.max_loaded : 1);
  uint64_t bytes = std::min({kMostCacheBytes, share, kMostCacheTokens * token_bytes});
  if (cache_mib == -1) bytes = left;
  if (cache_mib > 0) bytes = static_cast<uint64_t>(cache_mib) << 20;
  session.n_cache_tokens =
      static_cast<int64_t>(std::min(bytes / token_bytes, static_cast<uint64_t>(kMaxRetainedTokens)));
  return session;
}

server::SchedulerOptions ServeArgs::scheduler_options(const Session& session) const {
  server::SchedulerOptions options = scheduler;
  options.speculation = model.options.speculation;
  options.disk_flush_ms = drain_s * 1000;
  options.n_slots = session.options().n_sequences;
  options.n_batch = context.n_batch;
  options.n_ubatch = session.options().n_ubatch;
  options.slot_context = n_slots > 0 && !shares_context ? session.n_ctx() / options.n_slots : session.n_ctx();
  if (slot_context > 0) options.slot_context = std::min(options.slot_context, slot_context);
  options.n_sampling_threads = session.options().threads.n_threads;
  const double rate = kGuessedMacsPerSecond * options.n_sampling_threads;
  if (const auto cost = session.step_cost(1, 1)) options.token_ms = std::max(1e-3, cost->macs / rate * 1e3);
  return options;
}

server::EmbedderOptions ServeArgs::embedder_options(const Session& session, int64_t n_ubatch) const {
  const server::SchedulerOptions common = scheduler_options(session);
  return {
      .n_batch = n_ubatch, .step_target_ms = common.step_target_ms, .token_ms = common.token_ms, .queue = common.queue};
}

}  // namespace tessera::cli
