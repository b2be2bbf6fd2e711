#include "tessera/server/models/model_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <system_error>
#include <utility>

#include "tessera/text/utf8.h"

namespace tessera::server {

namespace {

// Whether an entry is no longer listed, and nothing needs it.
constexpr auto kIsGone = [](const auto& entry) {
  return !entry->is_listed && entry->state == ModelState::unloaded && entry->waiters.empty() && !entry->is_queued;
};

constexpr size_t kMostShownBytes = 200;  // of an unknown name
constexpr float kProgressStep = 0.02f;   // of loading, between two reports

FieldError shutting_down() { return unavailable(kShuttingDown); }

FieldError not_loaded(std::string_view name) {
  return {.message = fmt::format("model '{}' is not loaded", name), .param = "model"};
}

// The answer to requests that waited for a model that could not be loaded.
FieldError load_error(std::string_view name, const Error& error) {
  const bool is_busy = error.code() == ErrorCode::out_of_memory || error.code() == ErrorCode::cancelled;
  return {.status = is_busy ? 503 : 500,
          .type = is_busy ? "unavailable_error" : "server_error",
          .message = fmt::format("model '{}' could not be loaded: {}", name, error.message()),
          .retry_after_s = is_busy ? 1 : 0};
}

std::string mib(uint64_t bytes) { return fmt::format("{:.1f} MiB", static_cast<double>(bytes) / (1 << 20)); }

}  // namespace

FieldError model_not_found(std::string_view name) {
  return {.status = 404,
          .type = "not_found_error",
          .message = fmt::format("model '{}' not found", text::to_valid_utf8(name.substr(0, kMostShownBytes))),
          .param = "model"};
}

// Threads that write files may hold exchanges, and so leases, a moment longer than their requests.
ModelRegistry::~ModelRegistry() {
  stop();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return std::ranges::all_of(entries_, [](const auto& e) { return e->n_users == 0; }); });
  for (const EntryRef& entry : entries_) entry->model.reset();
}

// --- the start

Result<> ModelRegistry::serve(LoadedModel loaded, ServedModelOptions options) {
  options.scheduler.storage = storage_;
  TESSERA_ASSIGN(auto model, ServedModel::create(std::move(loaded), std::move(options), turns_, post_to_io_));
  const std::lock_guard lock(mutex_);
  options_.is_single = true;
  auto entry = std::make_shared<Entry>();
  entry->facts = {.name = model->facts().id, .path = model->facts().path, .aliases = model->options().aliases};
  entry->state = ModelState::loaded;
  entry->model = std::move(model);
  entry->stays = true;
  entries_.push_back(std::move(entry));
  is_ready_ = true;
  return {};
}

Result<> ModelRegistry::open(ModelSource& source, const RegistryOptions& options, const LoadProgress& progress) {
  source_ = &source;
  options_ = options;
  TESSERA_ASSIGN(std::vector<CatalogEntry> listed, source.list());
  {
    const std::lock_guard lock(mutex_);
    merge(std::move(listed));
  }
  if (options.is_single) {
    if (entries_.size() != 1) return fail(ErrorCode::internal, "{} models, want one", entries_.size());
    const EntryRef only = entries_.front();
    only->stays = options.sleep_after < std::chrono::milliseconds(0);
    TESSERA_TRY(load_entry(only, progress));
  }
  try {
    loader_ = std::thread([this] { run(); });
  } catch (const std::system_error& e) {
    return fail(ErrorCode::out_of_memory, "cannot start the thread that loads models: {}", e.what());
  }
  const std::lock_guard lock(mutex_);
  is_ready_ = true;
  for (const EntryRef& entry : entries_) {
    if (!entry->facts.is_loaded_first || entry->state != ModelState::unloaded) continue;
    entry->is_ordered = true;
    queue(entry);
  }
  return {};
}

bool ModelRegistry::is_ready() const {
  const std::lock_guard lock(mutex_);
  return is_ready_;
}

Result<> ModelRegistry::reload() {
  if (source_ == nullptr) return {};
  TESSERA_ASSIGN(std::vector<CatalogEntry> listed, source_->list());
  const std::lock_guard lock(mutex_);
  merge(std::move(listed));
  return {};
}

// Models that are no longer listed go, once they are not loaded.
void ModelRegistry::merge(std::vector<CatalogEntry> listed) {
  for (const EntryRef& entry : entries_) entry->is_listed = false;
  for (CatalogEntry& facts : listed) {
    const auto known = std::ranges::find(entries_, facts.name, [](const EntryRef& e) { return e->facts.name; });
    const EntryRef entry = known != entries_.end() ? *known : entries_.emplace_back(std::make_shared<Entry>());
    entry->facts = std::move(facts);
    entry->is_listed = true;
    if (entry->state == ModelState::unloaded) entry->keep_alive = options_.keep_alive;
  }
  std::erase_if(entries_, kIsGone);
  std::ranges::sort(entries_, {}, [](const EntryRef& e) { return e->facts.name; });
}

// --- names

ModelRegistry::EntryRef ModelRegistry::find(std::string_view name) const {
  const auto exact =
      std::ranges::find(entries_, name, [](const EntryRef& e) -> std::string_view { return e->facts.name; });
  if (exact != entries_.end()) return *exact;
  const auto other = std::ranges::find_if(entries_, [&](const EntryRef& e) { return is_name_of(e->facts, name); });
  return other != entries_.end() ? *other : nullptr;
}

FieldResult<ModelRegistry::EntryRef> ModelRegistry::require(std::string_view name) const {
  if (options_.is_single || (name.empty() && entries_.size() == 1)) return entries_.front();
  if (!name.empty()) {
    if (EntryRef entry = find(name)) return entry;
    return std::unexpected(model_not_found(name));
  }
  const auto is_loaded = [](const EntryRef& entry) { return entry->state == ModelState::loaded; };
  if (std::ranges::count_if(entries_, is_loaded) == 1) return *std::ranges::find_if(entries_, is_loaded);
  return std::unexpected(FieldError{
      .message =
          fmt::format("Field 'model': missing; this server has {} models (GET /models lists them)", entries_.size()),
      .param = "model"});
}

// --- leases

// A use of a model. It ends with the last copy of a lease.
struct ModelRegistry::Use {
  ModelRegistry& registry;
  EntryRef entry;
  LeaseUse kind = LeaseUse::look;
  bool is_counted = false;

  ~Use() {
    if (is_counted) registry.release(*entry, kind);
  }
};

// Counts only what cannot fail any more: the end of a use takes the mutex.
ModelRegistry::Lease ModelRegistry::lease(const EntryRef& entry, LeaseUse kind) {
  const auto use = std::make_shared<Use>(*this, entry, kind);
  ++entry->n_users;
  use->is_counted = true;
  return {use, entry->model.get()};
}

void ModelRegistry::release(Entry& entry, LeaseUse kind) {
  const std::lock_guard lock(mutex_);
  --entry.n_users;
  if (kind == LeaseUse::request) entry.last_use = Clock::now();
  if (entry.n_users == 0) changed_.notify_all();
}

FieldResult<ModelRegistry::Lease> ModelRegistry::acquire(std::string_view name, bool may_load, Waiter waiter) {
  const std::lock_guard lock(mutex_);
  if (is_draining_) return std::unexpected(shutting_down());
  auto entry = require(name);
  if (!entry) return forward_error(entry);
  Entry& wanted = **entry;
  if (wanted.state == ModelState::loaded) {
    wanted.last_use = Clock::now();
    return lease(*entry, LeaseUse::request);
  }
  const bool is_coming = wanted.state == ModelState::loading || wanted.is_queued;
  if (!is_coming && !(may_load && options_.loads_on_demand) && !options_.is_single)
    return std::unexpected(not_loaded(wanted.facts.name));
  if (n_waiting() >= options_.max_waiting)
    return std::unexpected(FieldError{.status = 503,
                                      .type = "unavailable_error",
                                      .message = fmt::format("{} requests wait for models", options_.max_waiting),
                                      .retry_after_s = 1});
  wanted.waiters.push_back(std::move(waiter));
  if (wanted.state != ModelState::loading) queue(*entry);
  return nullptr;
}

FieldResult<ModelRegistry::Lease> ModelRegistry::find_loaded(std::string_view name, LeaseUse kind) {
  const std::lock_guard lock(mutex_);
  auto entry = require(name);
  if (!entry) return forward_error(entry);
  if ((*entry)->state != ModelState::loaded) return std::unexpected(not_loaded((*entry)->facts.name));
  return lease(*entry, kind);
}

size_t ModelRegistry::n_waiting() const {
  size_t n = 0;
  for (const EntryRef& entry : entries_) n += entry->waiters.size();
  return n;
}

void ModelRegistry::queue(const EntryRef& entry) {
  if (std::exchange(entry->is_queued, true)) return;
  queue_.push_back(entry);
  changed_.notify_all();
}

FieldResult<> ModelRegistry::load(std::string_view name) {
  const std::lock_guard lock(mutex_);
  if (is_draining_) return std::unexpected(shutting_down());
  auto entry = require(name);
  if (!entry) return forward_error(entry);
  if ((*entry)->state == ModelState::loaded || (*entry)->state == ModelState::loading)
    return std::unexpected(
        FieldError{.message = fmt::format("model '{}' is loaded already", (*entry)->facts.name), .param = "model"});
  (*entry)->is_ordered = true;
  queue(*entry);
  return {};
}

FieldResult<> ModelRegistry::unload(std::string_view name) {
  const std::lock_guard lock(mutex_);
  auto entry = require(name);
  if (!entry) return forward_error(entry);
  if ((*entry)->stays)
    return std::unexpected(FieldError{.message = "the only model of this server stays loaded", .param = "model"});
  if ((*entry)->state != ModelState::loaded) return std::unexpected(not_loaded((*entry)->facts.name));
  (*entry)->state = ModelState::unloading;
  changed_.notify_all();
  return {};
}

void ModelRegistry::keep_alive(const ServedModel& model, std::chrono::milliseconds time) {
  const std::lock_guard lock(mutex_);
  for (const EntryRef& entry : entries_)
    if (entry->model.get() == &model) entry->keep_alive = time;
}

// --- views

std::optional<ModelRegistry::Clock::time_point> ModelRegistry::expiry(const Entry& entry) const {
  if (entry.state != ModelState::loaded) return std::nullopt;
  std::optional<std::chrono::milliseconds> time;
  for (const auto one : {entry.keep_alive, options_.sleep_after})
    if (one >= std::chrono::milliseconds(0)) time = std::min(one, time.value_or(one));
  if (!time) return std::nullopt;
  return (entry.n_users > 0 ? Clock::now() : entry.last_use) + *time;
}

ModelView ModelRegistry::view(const EntryRef& entry, bool has_lease) {
  ModelView view{.entry = entry->facts,
                 .state = entry->state,
                 .failure = entry->failure,
                 .progress = entry->progress,
                 .lease = nullptr,
                 .expires = {}};
  if (const auto time = expiry(*entry))
    view.expires = std::chrono::system_clock::now() +
                   std::chrono::duration_cast<std::chrono::system_clock::duration>(*time - Clock::now());
  if (has_lease && entry->state == ModelState::loaded) view.lease = lease(entry, LeaseUse::look);
  return view;
}

std::vector<ModelView> ModelRegistry::views() {
  std::vector<ModelView> all;
  const std::lock_guard lock(mutex_);
  all.reserve(entries_.size());  // the end of a lease takes the mutex, so nothing may fail after it was made
  for (const EntryRef& entry : entries_) all.push_back(view(entry, true));
  return all;
}

void ModelRegistry::tell(const EntryRef& entry) {
  if (!on_change_) return;
  std::optional<ModelView> shown;
  {
    const std::lock_guard lock(mutex_);
    shown = view(entry, false);
  }
  on_change_(*shown);
}

// --- the loader's thread

void ModelRegistry::run() {
  while (true) {
    EntryRef to_unload, to_load;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return is_stopping_ || (to_unload = next_to_unload()) || !queue_.empty(); });
      if (is_stopping_) return;
      if (!to_unload) {
        to_load = queue_.front();
        queue_.pop_front();
        to_load->is_queued = false;
      }
    }
    to_unload ? unload_now(to_unload) : load_next(to_load);
  }
}

ModelRegistry::EntryRef ModelRegistry::next_to_unload() const {
  for (const EntryRef& entry : entries_)
    if (entry->state == ModelState::unloading && entry->n_users == 0) return entry;
  return nullptr;
}

void ModelRegistry::load_next(const EntryRef& entry) {
  bool must_unload = false;
  {
    std::unique_lock lock(mutex_);
    // A model that is being unloaded is loaded again when its last user has left.
    changed_.wait(lock, [&] { return is_stopping_ || entry->state != ModelState::unloading || entry->n_users == 0; });
    if (is_stopping_) return;
    must_unload = entry->state == ModelState::unloading;
  }
  if (must_unload) unload_now(entry);
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(entry->waiters, [](const Waiter& waiter) { return waiter.is_gone(); });
    if (!std::exchange(entry->is_ordered, false) && entry->waiters.empty()) return;
    if (entry->state == ModelState::loaded) return;
    entry->state = ModelState::loading;
    entry->progress = 0;
    entry->failure.clear();
  }
  tell(entry);
  Result<> loaded;
  try {
    loaded = load_entry(entry, [this, &entry](float share) {
      bool is_told = false, goes_on = true;
      {
        const std::lock_guard lock(mutex_);
        is_told = static_cast<double>(share) >= entry->progress + static_cast<double>(kProgressStep);
        if (is_told) entry->progress = static_cast<double>(share);
        goes_on = !is_stopping_;
      }
      if (is_told) tell(entry);
      return goes_on;
    });
  } catch (const std::bad_alloc&) {
    loaded = fail(ErrorCode::out_of_memory, "out of memory");
  }
  answer_waiters(entry, loaded);
  tell(entry);
}

Result<> ModelRegistry::load_entry(const EntryRef& entry, const LoadProgress& progress) {
  TESSERA_ASSIGN(const PlannedModel planned, source_->plan(entry->facts));
  TESSERA_TRY(make_room(*entry, planned.n_bytes));
  TESSERA_ASSIGN(ReadyModel ready, planned.load(progress));
  ready.options.scheduler.storage = storage_;
  if (!options_.is_single) ready.options.name = entry->facts.name;
  for (const std::string& alias : entry->facts.aliases) ready.options.aliases.push_back(alias);
  for (const std::string& tag : entry->facts.tags) ready.options.tags.push_back(tag);
  TESSERA_ASSIGN(auto model,
                 ServedModel::create(std::move(ready.loaded), std::move(ready.options), turns_, post_to_io_));
  const std::lock_guard lock(mutex_);
  entry->model = std::move(model);
  entry->n_bytes = planned.n_bytes;
  entry->state = ModelState::loaded;
  entry->progress = 1;
  entry->has_failed = false;
  entry->last_use = Clock::now();
  entry->keep_alive = options_.keep_alive;
  return {};
}

uint64_t ModelRegistry::kept_bytes(bool only_staying) const {
  uint64_t bytes = 0;
  for (const EntryRef& entry : entries_)
    if (entry->model && (!only_staying || entry->stays)) bytes += entry->n_bytes;
  return bytes;
}

// Of the loaded models, an idle one before a busy one, then the one that was used longest ago.
ModelRegistry::EntryRef ModelRegistry::next_victim() const {
  EntryRef victim;
  const auto key = [](const Entry& e) { return std::pair(e.n_users > 0, e.last_use); };
  for (const EntryRef& entry : entries_)
    if (entry->state == ModelState::loaded && !entry->stays && (!victim || key(*entry) < key(*victim))) victim = entry;
  return victim;
}

// Unloads other models until n_bytes fit. Requests of a busy model are waited for; new ones wait until it is loaded
// again.
Result<> ModelRegistry::make_room(const Entry& entry, uint64_t n_bytes) {
  std::unique_lock lock(mutex_);
  const uint64_t limit = options_.memory_bytes;
  if (limit > 0 && n_bytes > limit - std::min(limit, kept_bytes(true)))
    return fail(ErrorCode::out_of_memory, "it needs {}, and the limit of all models is {}", mib(n_bytes), mib(limit));
  while (true) {
    const auto n_kept =
        static_cast<size_t>(std::ranges::count_if(entries_, [](const EntryRef& e) { return e->model != nullptr; }));
    const bool fits = limit == 0 || n_bytes <= limit - std::min(limit, kept_bytes(false));
    if (fits && (options_.is_single || n_kept < options_.max_loaded)) return {};
    EntryRef victim;
    const auto find_victim = [&] {
      for (const EntryRef& one : entries_)  // one that is being unloaded already
        if (one->state == ModelState::unloading && one.get() != &entry) victim = one;
      if (!victim) victim = next_victim();
      return victim != nullptr;
    };
    if (!find_victim()) return fail(ErrorCode::out_of_memory, "no other model can be unloaded");
    victim->state = ModelState::unloading;
    changed_.wait(lock, [&] { return is_stopping_ || victim->n_users == 0; });
    if (is_stopping_) return fail(ErrorCode::cancelled, "the server is shutting down");
    lock.unlock();
    unload_now(victim);
    lock.lock();
  }
}

void ModelRegistry::unload_now(const EntryRef& entry) {
  std::unique_ptr<ServedModel> model;
  {
    const std::lock_guard lock(mutex_);
    model = std::move(entry->model);
    entry->n_bytes = 0;
  }
  model.reset();
  {
    const std::lock_guard lock(mutex_);
    entry->state = std::exchange(entry->falls_asleep, false) ? ModelState::sleeping : ModelState::unloaded;
    entry->progress = 0;
    std::erase_if(entries_, kIsGone);
  }
  tell(entry);
}

void ModelRegistry::answer_waiters(const EntryRef& entry, const Result<>& loaded) {
  std::vector<Waiter> waiters;
  {
    const std::lock_guard lock(mutex_);
    waiters = std::exchange(entry->waiters, {});
    if (!loaded) {
      entry->state = ModelState::unloaded;
      entry->failure = loaded.error().message();
      entry->has_failed = true;
    }
  }
  for (const Waiter& waiter : waiters) {
    try {
      waiter.ready(loaded ? lease_now(entry) : std::unexpected(load_error(entry->facts.name, loaded.error())));
    } catch (const std::bad_alloc&) {
      waiter.ready(std::unexpected(load_error(entry->facts.name, {ErrorCode::out_of_memory, "out of memory"})));
    }
  }
}

FieldResult<ModelRegistry::Lease> ModelRegistry::lease_now(const EntryRef& entry) {
  const std::lock_guard lock(mutex_);
  return lease(entry, LeaseUse::request);
}

// --- time and the end

void ModelRegistry::tick() {
  const std::lock_guard lock(mutex_);
  for (const EntryRef& entry : entries_) {
    const bool is_lost = entry->state == ModelState::loaded && entry->model->has_lost_files();
    const auto time = expiry(*entry);
    const bool is_over = time && !entry->stays && entry->n_users == 0 && Clock::now() >= *time;
    if (options_.is_single && entry->has_failed && Clock::now() >= entry->retry) {
      entry->retry = Clock::now() + options_.retry_after;
      entry->is_ordered = true;
      queue(entry);
    }
    if (!is_lost && !is_over) continue;
    entry->has_failed = is_lost;
    entry->falls_asleep = is_over && options_.sleep_after >= std::chrono::milliseconds(0);
    entry->state = ModelState::unloading;
    changed_.notify_all();
  }
}

void ModelRegistry::drain() {
  std::vector<Waiter> waiters;
  {
    const std::lock_guard lock(mutex_);
    is_draining_ = true;
    for (const EntryRef& entry : entries_) {
      std::ranges::move(entry->waiters, std::back_inserter(waiters));
      entry->waiters.clear();
      if (entry->model) entry->model->drain();
    }
  }
  for (const Waiter& waiter : waiters) waiter.ready(std::unexpected(shutting_down()));
}

bool ModelRegistry::is_idle() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::all_of(entries_, [](const EntryRef& entry) {
    return entry->waiters.empty() && (!entry->model || entry->model->is_idle());
  });
}

void ModelRegistry::end_requests() {
  const std::lock_guard lock(mutex_);
  for (const EntryRef& entry : entries_)
    if (entry->model) entry->model->stop_all();
}

bool ModelRegistry::has_failed() const {
  const std::lock_guard lock(mutex_);
  return options_.is_single && std::ranges::any_of(entries_, &Entry::has_failed);
}

double ModelRegistry::overdue_ms() const {
  const std::lock_guard lock(mutex_);
  double most = 0;
  for (const EntryRef& entry : entries_)
    if (entry->model) most = std::max(most, entry->model->overdue_ms());
  return most;
}

void ModelRegistry::stop_loading() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    changed_.notify_all();
  }
  if (loader_.joinable()) loader_.join();
}

void ModelRegistry::stop() {
  stop_loading();
  // The schedulers release leases while they stop, so the mutex is not held.
  for (const EntryRef& entry : entries_)
    if (entry->model) entry->model->stop();
}

}  // namespace tessera::server
