#include "tessera/engine/fit.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/checked.h"

namespace tessera {

namespace {

constexpr int64_t kContextStep = 256;
constexpr int64_t kLeastUbatch = 16;
constexpr int kMaxAttempts = 6;

class Fitter {
 public:
  Fitter(Engine& engine, std::span<const SessionAdapter> adapters, const SessionOptions& asked,
         const FitOptions& options)
      : engine_(engine), adapters_(adapters), options_(options), placement_(engine.placement_options()), asked_(asked) {
    asked_.adapters.assign(adapters.begin(), adapters.end());
    if (asked_.n_ctx == 0) asked_.n_ctx = engine.model().info().n_ctx_train;
    for (const Device* device : engine.devices()) {
      const uint64_t free = device->memory().free_bytes;
      const bool is_cpu = device == &engine.placement().cpu();
      const uint64_t margin = is_cpu ? std::min(options.margin_bytes, free / 16) : options.margin_bytes;
      // A device that does not tell has what is asked for, until it is to have nothing.
      const bool is_unknown = free == 0 && margin != UINT64_MAX;
      budgets_.push_back({device, free, is_unknown ? UINT64_MAX : free - std::min(free, margin)});
    }
    const bool is_split = engine.placement().n_offloaded() > 0 && placement_.n_gpu_layers == kAutoLayers;
    n_entries_ = is_split ? engine.placement().n_entries() : 0;
    const auto is_expert = [](const Weight& weight) { return weight.use == Op::mul_mat_experts; };
    const bool moves_experts = n_entries_ > 0 && placement_.n_cpu_expert_layers == 0 && placement_.rules.empty() &&
                               std::ranges::any_of(engine.model().weights().weights(), is_expert);
    n_expert_levels_ = moves_experts ? engine.model().info().n_layers : 0;
  }

  Result<Fitted> run() {
    SessionOptions settings = asked_;
    TESSERA_ASSIGN(MemoryReport report, plan(0, settings));
    if (is_as_asked(report)) return Fitted{settings, std::move(report), ""};
    why_ = describe_lack(report);
    const int64_t floor = options_.fits_context ? std::min(asked_.n_ctx, options_.least_ctx) : asked_.n_ctx;
    settings.n_ctx = floor;
    int64_t level = 0;
    while (true) {
      TESSERA_ASSIGN(level, first_level(settings));
      TESSERA_ASSIGN(report, plan(level, settings));
      if (fits(report, true)) return largest_context(level, settings, std::move(report));
      if (!options_.fits_ubatch || settings.n_ubatch <= kLeastUbatch) break;
      settings.n_ubatch /= 2;
    }
    // The margin is a wish.
    TESSERA_TRY(want_memory(engine_, report));
    return finish(settings, std::move(report));
  }

 private:
  struct Budget {
    const Device* device;
    uint64_t free;
    uint64_t bytes;
  };

  // Level 0 is as asked; then experts of one layer more on the CPU, then one entry less on devices.
  int64_t n_levels() const { return n_expert_levels_ + n_entries_; }
  PlacementOptions placement_at(int64_t level) const {
    PlacementOptions placement = placement_;
    if (level == 0) return placement;
    if (n_expert_levels_ > 0) placement.n_cpu_expert_layers = std::min(level, n_expert_levels_);
    placement.n_gpu_layers = n_entries_ - std::max<int64_t>(level - n_expert_levels_, 0);
    return placement;
  }

  Result<MemoryReport> plan(int64_t level, const SessionOptions& settings) {
    if (level != level_) {
      TESSERA_TRY(engine_.place(placement_at(level)));
      for (const SessionAdapter& one : adapters_) TESSERA_TRY(one.adapter->place());
      level_ = level;
    }
    return Session::plan(engine_, settings);
  }

  bool fits(const MemoryReport& report, bool on_cpu_too) const {
    return std::ranges::all_of(budgets_, [&](const Budget& budget) {
      const bool counts = on_cpu_too || budget.device != &engine_.placement().cpu();
      return !counts || report.bytes_of(budget.device->name()) <= budget.bytes;
    });
  }

  // What was asked for fits with margins on devices that were filled by our own choice, else without.
  bool is_as_asked(const MemoryReport& report) const {
    return std::ranges::all_of(budgets_, [&](const Budget& budget) {
      const bool has_margin = n_entries_ > 0 && budget.device != &engine_.placement().cpu();
      const uint64_t most = has_margin || budget.free == 0 ? budget.bytes : budget.free;
      return report.bytes_of(budget.device->name()) <= most;
    });
  }

  // The first level at which the devices hold their part: from level to level they hold less, but from the first to the
  // second, where copies between devices begin.
  Result<int64_t> first_level(const SessionOptions& settings) {
    TESSERA_ASSIGN(const MemoryReport whole, plan(0, settings));
    if (fits(whole, false) || n_levels() == 0) return 0;
    int64_t low = 1, high = n_levels();
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      TESSERA_ASSIGN(const MemoryReport report, plan(middle, settings));
      if (fits(report, false)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  // Bytes grow with the context: halves the interval between what fits and what was asked for, which may fit too.
  Result<Fitted> largest_context(int64_t level, SessionOptions settings, MemoryReport report) {
    for (int64_t step = div_ceil(asked_.n_ctx - settings.n_ctx, kContextStep); step > 0; step /= 2) {
      while (settings.n_ctx < asked_.n_ctx) {
        SessionOptions longer = settings;
        longer.n_ctx = std::min(asked_.n_ctx, settings.n_ctx + step * kContextStep);
        TESSERA_ASSIGN(MemoryReport more, plan(level, longer));
        if (!fits(more, true)) break;
        settings = longer;
        report = std::move(more);
      }
    }
    return finish(settings, std::move(report));
  }

  std::string describe_lack(const MemoryReport& report) const {
    for (const Budget& budget : budgets_)
      if (const uint64_t wanted = report.bytes_of(budget.device->name()); wanted > budget.bytes)
        return fmt::format("{} has {} bytes free, {} were wanted", budget.device->name(), budget.free, wanted);
    return "";
  }

  Fitted finish(const SessionOptions& settings, MemoryReport report) const {
    std::string flags;
    const PlacementOptions& placement = engine_.placement_options();
    if (placement.n_gpu_layers != placement_.n_gpu_layers)
      flags += fmt::format(" -ngl {} (of {})", engine_.placement().n_offloaded(), n_entries_);
    if (placement.n_cpu_expert_layers != placement_.n_cpu_expert_layers)
      flags += fmt::format(" -ncmoe {}", placement.n_cpu_expert_layers);
    if (settings.n_ctx != asked_.n_ctx) flags += fmt::format(" -c {} (of {})", settings.n_ctx, asked_.n_ctx);
    if (settings.n_ubatch != asked_.n_ubatch)
      flags += fmt::format(" -ub {} (of {})", settings.n_ubatch, asked_.n_ubatch);
    return {settings, std::move(report), flags.empty() ? "" : fmt::format("fit:{}: {}", flags, why_)};
  }

  Engine& engine_;
  std::span<const SessionAdapter> adapters_;
  const FitOptions& options_;
  const PlacementOptions placement_;
  SessionOptions asked_;
  std::vector<Budget> budgets_;
  int64_t n_entries_ = 0;        // that may be taken from devices
  int64_t n_expert_levels_ = 0;  // layers whose experts may be taken first
  int64_t level_ = 0;
  std::string why_;
};

// So much that the fullest device is planned for three quarters of what it was.
uint64_t larger_margin(const Engine& engine, const MemoryReport& report, uint64_t margin) {
  for (const Device* device : engine.devices()) {
    if (device == &engine.placement().cpu()) continue;
    const uint64_t wanted = report.bytes_of(device->name()) / 4 * 3, free = device->memory().free_bytes;
    margin = std::max(margin, free - std::min(free, wanted));
  }
  return margin;
}

}  // namespace

Result<Fitted> fit(Engine& engine, std::span<const SessionAdapter> adapters, const SessionOptions& asked,
                   const FitOptions& options) {
  if (options.is_on) return Fitter(engine, adapters, asked, options).run();
  Fitted fitted{.session = asked, .report = {}, .choice = ""};
  fitted.session.adapters.assign(adapters.begin(), adapters.end());
  TESSERA_ASSIGN(fitted.report, Session::plan(engine, fitted.session));
  TESSERA_TRY(want_memory(engine, fitted.report));
  return fitted;
}

Result<std::unique_ptr<Session>> load_fitted(Engine& engine, std::span<const SessionAdapter> adapters,
                                             const SessionOptions& asked, FitOptions options, const LoadSession& load,
                                             const std::function<void(const std::string&)>& tell) {
  const PlacementOptions placement = engine.placement_options();
  for (int attempt = 1;; ++attempt) {
    TESSERA_ASSIGN(const Fitted fitted, fit(engine, adapters, asked, options));
    if (!fitted.choice.empty()) tell(fitted.choice);
    auto session = load(fitted.session);
    const bool is_last = attempt == kMaxAttempts || engine.placement().n_offloaded() == 0;
    if (session || session.error().code() != ErrorCode::out_of_memory || !options.is_on || is_last ||
        placement.n_gpu_layers != kAutoLayers)
      return session;
    tell("fit: less is tried: " + session.error().message());
    // What was loaded is given back before the devices are asked again.
    TESSERA_TRY(engine.place(placement));
    for (const SessionAdapter& one : adapters) TESSERA_TRY(one.adapter->place());
    options.margin_bytes =
        attempt + 1 == kMaxAttempts ? UINT64_MAX : larger_margin(engine, fitted.report, options.margin_bytes);
  }
}

}  // namespace tessera
