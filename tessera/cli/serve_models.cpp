#include "tessera/cli/serve_models.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "tessera/app/bundled_model.h"
#include "tessera/cli/console.h"
#include "tessera/cli/option_flags.h"
#include "tessera/text/utf8.h"

namespace tessera::cli {

namespace {

constexpr std::string_view kPeerPrefix = "LLAMA_ARG_";

// The flag of a key: "ctx-size", "c" or "LLAMA_ARG_CTX_SIZE". Null: there is none.
const Flag* flag_of_key(const FlagTable& table, std::string key) {
  if (key.starts_with(kPeerPrefix)) {
    key.erase(0, kPeerPrefix.size());
    std::ranges::transform(key, key.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  }
  const Flag* flag = find_flag(table, "--" + key);
  return flag != nullptr ? flag : find_flag(table, "-" + key);
}

Result<> apply_setting(const FlagTable& table, const server::PresetSetting& setting) {
  const Flag* flag = flag_of_key(table, setting.key);
  if (flag == nullptr)
    return fail(ErrorCode::invalid_argument, "line {}: {} is no flag of a model", setting.line,
                text::quote_text(setting.key));
  const std::string place = fmt::format("line {}: {}", setting.line, setting.key);
  std::string_view value = setting.value;
  if (flag->value.empty()) {
    auto is_on = parse_switch(value);
    if (!is_on) return forward_error(is_on, place);
    if (!*is_on) return {};
    value = {};
  }
  auto set = flag->set(value);
  if (!set) return forward_error(set, place);
  return {};
}

// In the form of llama-server's lines, which other programs read.
void log_memory(const MemoryReport& report, std::string_view name) {
  constexpr double kMib = 1 << 20;
  for (const MemoryPart& part : report.parts) {
    std::string_view what = "model";
    if (part.kind == MemoryPart::Kind::cache) what = "KV";
    if (part.kind == MemoryPart::Kind::compute) what = "compute";
    if (part.kind == MemoryPart::Kind::output) what = "output";
    log(fmt::format("{}: {} {} buffer size = {:.2f} MiB", name, part.buffer, what,
                    static_cast<double>(part.bytes) / kMib));
  }
}

// The options of the session for embeddings, if the model has one.
Result<> add_embeddings(server::ReadyModel& ready, const ServeArgs& args, int64_t n_ubatch) {
  const LoadedModel& loaded = ready.loaded;
  TESSERA_ASSIGN(const auto use, args.embedding_use(*loaded.engine));
  if (!use) return {};
  ready.options.embeddings = *use;
  ready.options.embedder = args.embedder_options(loaded.embeddings ? *loaded.embeddings : *loaded.session, n_ubatch);
  return {};
}

}  // namespace

Result<std::unique_ptr<ServeModels>> ServeModels::create(const ServeArgs& args, std::vector<GivenFlag> given,
                                                         const Context& process) {
  std::unique_ptr<ServeModels> models(new ServeModels(args, std::move(given), process));
  TESSERA_ASSIGN(models->registry_, open_registry());
  if (process.verbose)
    for (const std::string& note : models->registry_->notes()) log(note);
  return models;
}

server::RegistryOptions ServeModels::registry_options() const {
  server::RegistryOptions options = args_.registry;
  options.is_single = !args_.has_many_models();
  options.memory_bytes = args_.memory_bytes;
  if (!options.is_single && options.memory_bytes == 0)
    if (const auto cpu = registry_->find("cpu")) options.memory_bytes = (*cpu)->memory().free_bytes;
  options.max_waiting = static_cast<size_t>(args_.scheduler.queue.n_tasks);
  return options;
}

Result<std::vector<server::CatalogEntry>> ServeModels::list() {
  if (args_.has_many_models()) {
    TESSERA_ASSIGN(auto entries, server::read_catalog(args_.catalog));
    for (const server::CatalogEntry& entry : entries) TESSERA_TRY(args_of(entry));
    n_listed_ = entries.size();
    return entries;
  }
  const std::string& path = args_.model.options.path;
  server::CatalogEntry only{
      .name = path.empty() ? std::string(kBundledModelName) : std::filesystem::path(path).filename().string(),
      .path = path,
      .aliases = args_.aliases,
      .tags = args_.tags};
  if (!args_.aliases.empty()) only.name = args_.aliases.front();
  std::vector<server::CatalogEntry> entries;
  entries.push_back(std::move(only));
  return entries;
}

// The flags of a model: those of the presets, then those of the command line.
Result<std::shared_ptr<ServeArgs>> ServeModels::args_of(const server::CatalogEntry& entry) const {
  auto args = std::make_shared<ServeArgs>();
  FlagTable table;
  args->add_to(table);
  FlagTable of_model;
  args->add_model_flags(of_model);
  for (const server::PresetSetting& setting : entry.settings) {
    auto applied = apply_setting(of_model, setting);
    if (!applied) return forward_error(applied, args_.catalog.presets);
  }
  if (!args->model.options.path.empty())  // the catalog has read the key `model`
    return fail(ErrorCode::invalid_argument, "{}: {}: a preset names a file with `model`", args_.catalog.presets,
                args->model.options.path);
  for (const GivenFlag& flag : given_) TESSERA_TRY(table.at(flag.name).set(flag.value));
  args->model.options.path = entry.path;
  TESSERA_TRY(args->check());
  return args;
}

Result<> ServeModels::open_first() {
  if (args_.has_many_models()) return {};
  TESSERA_ASSIGN(const auto entries, list());
  TESSERA_ASSIGN(first_, plan(entries.front()));
  return {};
}

ServeModels::Pace ServeModels::pace() const {
  const auto is_loaded = [](const std::weak_ptr<const Engine>& engine) { return !engine.expired(); };
  return std::ranges::any_of(loaded_, is_loaded) ? Pace::beside_others : Pace::full;
}

Result<LoadedModel> ServeModels::open(const ServeArgs& args, Pace pace) const {
  ModelOptions options = model_options(args.model, args.context);
  if (pace == Pace::beside_others) {
    options.engine.threads.n_threads = 1;
    options.engine.threads.priority = Priority::low;
  }
  TESSERA_ASSIGN(LoadedModel model, tessera::open_model(registry_, options));
  TESSERA_ASSIGN(model.fit.embeddings, args.second_session(*model.engine));
  SessionOptions session = args.context.session;
  session.n_sequences = args.slots_for(model.engine->files().n_tensor_bytes());
  TESSERA_TRY(plan_draft(model, session));
  return model;
}

Result<server::PlannedModel> ServeModels::plan(const server::CatalogEntry& entry) {
  if (first_) return *std::exchange(first_, std::nullopt);
  TESSERA_ASSIGN(const std::shared_ptr<ServeArgs> args, args_of(entry));
  use_tuning(args->model, args->context, args->speculation, process_);
  const Pace planned_pace = pace();
  TESSERA_ASSIGN(LoadedModel model, open(*args, planned_pace));
  const int32_t n_slots = args->slots_for(model.engine->files().n_tensor_bytes());
  const int64_t n_ubatch = args->context.session.n_ubatch;  // as asked for
  TESSERA_ASSIGN(args->context.session, args->session_options(model, n_slots));
  server::PlannedModel planned;
  if (args_.has_many_models()) {
    const PlacementOptions placement = model.engine->placement_options();
    TESSERA_ASSIGN(const Fitted fitted, fit(*model.engine, model.adapters, args->context.session, model.fit));
    planned.n_bytes = fitted.report.total();
    TESSERA_TRY(model.engine->place(placement));
    for (const SessionAdapter& one : model.adapters) TESSERA_TRY(one.adapter->place());
  }
  // The function is copyable, the model is not.
  const auto opened = std::make_shared<LoadedModel>(std::move(model));
  planned.load = [this, opened, args, entry, n_ubatch,
                  planned_pace](const LoadProgress& progress) -> Result<server::ReadyModel> {
    if (pace() != planned_pace) {  // the other models had to go
      TESSERA_ASSIGN(*opened, open(*args, pace()));
      args->context.session.adapters = opened->adapters;
    }
    TESSERA_ASSIGN(server::ReadyModel ready, load(std::move(*opened), *args, entry, progress));
    TESSERA_TRY(add_embeddings(ready, *args, n_ubatch));
    std::erase_if(loaded_, [](const auto& engine) { return engine.expired(); });
    loaded_.push_back(ready.loaded.engine);
    return ready;
  };
  return planned;
}

Result<server::ReadyModel> ServeModels::load(LoadedModel opened, const ServeArgs& args,
                                             const server::CatalogEntry& entry, const LoadProgress& progress) const {
  const std::string name = args_.has_many_models() ? entry.name : "load";
  const auto tell = [&](std::string_view line) {
    if (!process_.quiet) log(args_.has_many_models() ? fmt::format("{}: {}", name, line) : std::string(line));
  };
  if (entry.path.empty()) tell("no model given: using the bundled one; -m FILE selects another");
  TESSERA_TRY(load_session(opened, args.context.session,
                           {.progress = progress,
                            .on_choice = [&](std::string_view line) { tell(with_flag_names(line)); },
                            .on_warning = [&](std::string_view line) { tell(fmt::format("warning: {}", line)); }}));
  TESSERA_TRY(args.context.log_schedules(*opened.session));
  if (!process_.quiet) log_memory(opened.allocated_memory(), name);
  if (const size_t bytes = opened.engine->stream_bytes(); bytes > 0)
    tell(fmt::format("experts stay in the file, with a cache of {}", human_bytes(static_cast<double>(bytes))));
  server::ReadyModel ready{.loaded = {},
                           .options = {.path = entry.path.empty() ? std::string(kBundledModelName) : entry.path,
                                       .scheduler = args.scheduler_options(*opened.session),
                                       .named = entry.named,
                                       .defaults = args.server.api.defaults}};
  TESSERA_ASSIGN(ready.options.chat_template,
                 args.chat_template.source(&opened.engine->files().metadata(), false, process_));
  const Session& first = *opened.session;
  if (!first.options().embeddings)
    tell(fmt::format("{} slots, {} tokens each, {} in all; {} more in the prefix cache", first.options().n_sequences,
                     ready.options.scheduler.slot_context, first.n_ctx(), first.options().n_cache_tokens));
  const Session* second = first.options().embeddings ? &first : opened.embeddings.get();
  if (second != nullptr) tell(fmt::format("embeddings of texts of up to {} tokens", second->n_ctx()));
  ready.loaded = std::move(opened);
  return ready;
}

}  // namespace tessera::cli
