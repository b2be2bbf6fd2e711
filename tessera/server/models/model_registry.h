// The models of a server: one that is loaded at the start, or any number that are loaded when a request asks for them
// and unloaded to make room for others. One thread loads and unloads; requests for other models go on meanwhile.
//
// A request holds a lease of its model. A model is unloaded only when nobody holds a lease.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tessera/server/json/field_error.h"
#include "tessera/server/models/catalog.h"
#include "tessera/server/models/served_model.h"

namespace tessera::server {

/// A model with its session, ready to be served.
struct ReadyModel {
  LoadedModel loaded{};
  ServedModelOptions options{};
};

/// A model that is open, but not loaded.
struct PlannedModel {
  uint64_t n_bytes = 0;  // that it takes when it is loaded, mapped files included
  std::function<Result<ReadyModel>(const LoadProgress& progress)> load{};
};

/// The source of models. Its functions are called by one thread at a time.
class ModelSource {
 public:
  virtual ~ModelSource() = default;
  /// The models, by name. Read anew at each call.
  virtual Result<std::vector<CatalogEntry>> list() = 0;
  virtual Result<PlannedModel> plan(const CatalogEntry& entry) = 0;
};

enum class ModelState : uint8_t { unloaded, loading, loaded, unloading, sleeping };

/// A model as GET /models shows it.
struct ModelView {
  CatalogEntry entry{};
  ModelState state = ModelState::unloaded;
  std::string failure{};                                           // of the last attempt to load it
  double progress = 0;                                             // of loading, 0 to 1
  std::shared_ptr<ServedModel> lease{};                            // of a loaded model
  std::optional<std::chrono::system_clock::time_point> expires{};  // when an idle model is unloaded
};

/// The purpose of a lease. A request counts as a use of the model, after which its time begins anew.
enum class LeaseUse : uint8_t { look, request };

struct RegistryOptions {
  bool is_single = false;                         // there is one model, and the names in requests do not matter
  size_t max_loaded = 4;                          // models at once
  uint64_t memory_bytes = 0;                      // of all loaded models; 0: no limit
  bool loads_on_demand = true;                    // --models-autoload
  size_t max_waiting = 512;                       // requests that wait for models
  std::chrono::milliseconds keep_alive{-1};       // until an unused model is unloaded; below 0: never
  std::chrono::milliseconds sleep_after{-1};      // the same, for --sleep-idle-seconds
  std::chrono::milliseconds retry_after{10'000};  // with is_single: between two loads of a model that failed
};

/// 404 model 'NAME' not found
FieldError model_not_found(std::string_view name);

class ModelRegistry {
 public:
  using Lease = std::shared_ptr<ServedModel>;

  /// A request that waits for its model. Both functions are called from the loader's thread, without locks.
  struct Waiter {
    std::function<bool()> is_gone;                        // the client has left
    std::function<void(FieldResult<Lease> lease)> ready;  // called once
  };
  /// Called after each change of a model's state or progress, without locks. The view has no lease.
  using OnChange = std::function<void(const ModelView& view)>;

  /// `storage` is that of all models; null: they keep no files.
  explicit ModelRegistry(PostToIo post_to_io, std::shared_ptr<Storage> storage = nullptr)
      : post_to_io_(std::move(post_to_io)), storage_(std::move(storage)) {}
  /// Waits for the ends of all leases.
  ~ModelRegistry();

  /// Serves one model that stays. Errors: those of ServedModel::create().
  Result<> serve(LoadedModel loaded, ServedModelOptions options);
  /// Serves the models of a source, and loads those that are to be loaded first. The source must outlive the registry.
  /// With is_single the model is loaded when the function returns. Errors: those of the source; with is_single also
  /// those of loading; out_of_memory (the system refuses a thread).
  Result<> open(ModelSource& source, const RegistryOptions& options, const LoadProgress& progress);

  /// Whether serve() or open() has been called.
  bool is_ready() const;
  const RegistryOptions& options() const { return options_; }

  /// Returns the lease of a loaded model. An empty name means the only model, or the only loaded one. Without a lease
  /// the model is being loaded for `waiter`. Errors: 404 (no such model), 400 (no name; not loaded, and may_load or
  /// loads_on_demand is off), 503 (too many wait).
  FieldResult<Lease> acquire(std::string_view name, bool may_load, Waiter waiter);
  /// The same for a model that is loaded now. Nothing is loaded.
  FieldResult<Lease> find_loaded(std::string_view name, LeaseUse kind = LeaseUse::look);

  /// Begins to load or unload a model. Errors: 404, 400 (it is loaded; it is not loaded).
  FieldResult<> load(std::string_view name);
  FieldResult<> unload(std::string_view name);
  /// Reads the source again. Models that are loaded stay. Errors: those of the source.
  Result<> reload();
  /// Sets the time until the model of a lease is unloaded after its last use. Below 0: never.
  void keep_alive(const ServedModel& model, std::chrono::milliseconds time);

  /// All models by name, with leases that do not count as uses.
  std::vector<ModelView> views();
  /// Sets the function, before serve() and open().
  void on_change(OnChange f) { on_change_ = std::move(f); }

  /// Whether the only model of the server has failed: its file has changed, or it could not be loaded again.
  bool has_failed() const;

  /// Unloads models whose time has come or whose file has changed. Loads the only model again after it has failed.
  /// Called about every second.
  void tick();

  /// Takes no more requests, and refuses those that wait.
  void drain();
  bool is_idle() const;
  /// Milliseconds beyond its forecast that a step takes, the most of all models.
  double overdue_ms() const;
  /// Ends running requests with an error.
  void end_requests();
  /// Joins the loader: no waiter is called any more.
  void stop_loading();
  /// Also joins the schedulers: nothing more is posted to I/O threads.
  void stop();

 private:
  using Clock = std::chrono::steady_clock;

  struct Entry {
    CatalogEntry facts{};
    ModelState state = ModelState::unloaded;
    std::string failure{};
    double progress = 0;
    uint64_t n_bytes = 0;
    std::unique_ptr<ServedModel> model{};
    size_t n_users = 0;
    bool is_listed = true;      // the source still has it
    bool is_queued = false;     // for the loader
    bool is_ordered = false;    // to be loaded although no request waits
    bool falls_asleep = false;  // it is being unloaded because of --sleep-idle-seconds
    bool has_failed = false;    // its file has changed, or it could not be loaded; until it is loaded
    bool stays = false;         // it is never unloaded
    std::chrono::milliseconds keep_alive{-1};
    Clock::time_point last_use{}, retry{};
    std::vector<Waiter> waiters{};
  };
  using EntryRef = std::shared_ptr<Entry>;
  struct Use;

  // With the mutex held.
  EntryRef find(std::string_view name) const;
  FieldResult<EntryRef> require(std::string_view name) const;
  Lease lease(const EntryRef& entry, LeaseUse kind);
  std::optional<Clock::time_point> expiry(const Entry& entry) const;
  ModelView view(const EntryRef& entry, bool has_lease);
  size_t n_waiting() const;
  void queue(const EntryRef& entry);
  void merge(std::vector<CatalogEntry> listed);
  uint64_t kept_bytes(bool only_staying) const;
  EntryRef next_victim() const;
  EntryRef next_to_unload() const;

  // On the loader's thread, without the mutex.
  void run();
  void load_next(const EntryRef& entry);
  Result<> load_entry(const EntryRef& entry, const LoadProgress& progress);
  Result<> make_room(const Entry& entry, uint64_t n_bytes);
  void unload_now(const EntryRef& entry);
  void answer_waiters(const EntryRef& entry, const Result<>& loaded);
  FieldResult<Lease> lease_now(const EntryRef& entry);

  void tell(const EntryRef& entry);
  void release(Entry& entry, LeaseUse kind);

  PostToIo post_to_io_;
  std::shared_ptr<Storage> storage_;
  ComputeTurns turns_;
  RegistryOptions options_{};
  ModelSource* source_ = nullptr;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<EntryRef> entries_;  // by name
  std::deque<EntryRef> queue_;     // to be loaded, in order of arrival
  OnChange on_change_;
  bool is_ready_ = false, is_draining_ = false, is_stopping_ = false;
  std::thread loader_;
};

}  // namespace tessera::server
