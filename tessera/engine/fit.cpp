#include "tessera/engine/fit.h"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/base/checked.h"
#include "tessera/base/function_ref.h"
#include "tessera/engine/speculative/prediction_head.h"

namespace tessera {

namespace {

constexpr int64_t kContextStep = 256;
constexpr int64_t kLeastUbatch = 16;

struct Planned {
  SessionOptions session;
  MemoryReport report;
};

// The longest context up to `most` whose plan fits, given one that fits. Bytes grow with the context, so the search
// halves its step. `most` itself may fit.
Result<Planned> largest_context(Planned longest, int64_t most,
                                FunctionRef<Result<MemoryReport>(const SessionOptions&)> plan,
                                FunctionRef<bool(const MemoryReport&)> fits) {
  for (int64_t step = div_ceil(most - longest.session.n_ctx, kContextStep); step > 0; step /= 2) {
    while (longest.session.n_ctx < most) {
      SessionOptions longer = longest.session;
      longer.n_ctx = std::min(most, longer.n_ctx + step * kContextStep);
      TESSERA_ASSIGN(MemoryReport report, plan(longer));
      if (!fits(report)) break;
      longest = {std::move(longer), std::move(report)};
    }
  }
  return longest;
}

class Fitter {
 public:
  Fitter(Engine& engine, std::span<const SessionAdapter> adapters, const SessionOptions& asked,
         const FitOptions& options)
      : engine_(engine), adapters_(adapters), options_(options), placement_(engine.placement_options()), asked_(asked) {
    asked_.adapters.assign(adapters.begin(), adapters.end());
    fits_context_ = asked_.n_ctx == 0;
    if (fits_context_) asked_.n_ctx = engine.model().info().n_ctx_train;
    // A model that is not causal computes a sequence at once.
    fits_ubatch_ = options.fits_ubatch && !asked_.embeddings && engine.model().info().embeds_causally();
    for (const Device* device : engine.devices()) {
      const uint64_t free = device->memory().free_bytes;
      const bool is_cpu = device == &engine.placement().cpu();
      const uint64_t margin = is_cpu ? std::min(options.margin_bytes, free / 16) : options.margin_bytes;
      // A device that reports no free memory has no limit, unless the margin asks for an empty device.
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
    const int64_t floor = fits_context_ ? std::min(asked_.n_ctx, options_.least_ctx) : asked_.n_ctx;
    settings.n_ctx = floor;
    int64_t level = 0;
    while (true) {
      TESSERA_ASSIGN(level, first_level(settings));
      TESSERA_ASSIGN(report, plan(level, settings));
      if (fits(report, true)) return lengthened(level, {settings, std::move(report)});
      if (!fits_ubatch_ || settings.n_ubatch <= kLeastUbatch) break;
      settings.n_ubatch /= 2;
    }
    // The margin is best-effort: drop it if nothing fits with it.
    TESSERA_TRY(require_memory(engine_, report));
    return finish(settings, std::move(report));
  }

 private:
  struct Budget {
    const Device* device;
    uint64_t free;
    uint64_t bytes;
  };

  // Level 0 is the requested placement. Each further level moves the experts of one more layer to the CPU, then, once
  // all are there, one more entry.
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
    return plan_sessions(engine_, settings, options_);
  }

  bool fits(const MemoryReport& report, bool on_cpu_too) const {
    return std::ranges::all_of(budgets_, [&](const Budget& budget) {
      const bool counts = on_cpu_too || budget.device != &engine_.placement().cpu();
      return !counts || report.bytes_of(budget.device->name()) <= budget.bytes;
    });
  }

  // Whether the requested settings fit. Margins count only on devices whose layers the fit itself may choose.
  bool is_as_asked(const MemoryReport& report) const {
    return std::ranges::all_of(budgets_, [&](const Budget& budget) {
      const bool has_margin = n_entries_ > 0 && budget.device != &engine_.placement().cpu();
      const uint64_t most = has_margin || budget.free == 0 ? budget.bytes : budget.free;
      return report.bytes_of(budget.device->name()) <= most;
    });
  }

  // The first level at which the plan fits on the devices. The bytes on devices fall from level to level, except from
  // level 0 to level 1, where copies between devices begin.
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

  Result<Fitted> lengthened(int64_t level, Planned planned) {
    TESSERA_ASSIGN(planned, largest_context(
                                std::move(planned), asked_.n_ctx,
                                [&](const SessionOptions& settings) { return plan(level, settings); },
                                [&](const MemoryReport& report) { return fits(report, true); }));
    return finish(planned.session, std::move(planned.report));
  }

  std::string describe_lack(const MemoryReport& report) const {
    for (const Budget& budget : budgets_)
      if (const uint64_t wanted = report.bytes_of(budget.device->name()); wanted > budget.bytes)
        return fmt::format("{} has {} bytes free, {} were wanted", budget.device->name(), budget.free, wanted);
    return "";
  }

  Fitted finish(const SessionOptions& settings, MemoryReport report) const {
    std::string options;
    const PlacementOptions& placement = engine_.placement_options();
    if (placement.n_gpu_layers != placement_.n_gpu_layers)
      options += fmt::format(" option n_gpu_layers {} (of {})", engine_.placement().n_offloaded(), n_entries_);
    if (placement.n_cpu_expert_layers != placement_.n_cpu_expert_layers)
      options += fmt::format(" option n_cpu_expert_layers {}", placement.n_cpu_expert_layers);
    if (settings.n_ctx != asked_.n_ctx)
      options += fmt::format(" option n_ctx {} (of {})", settings.n_ctx, asked_.n_ctx);
    if (settings.n_ubatch != asked_.n_ubatch)
      options += fmt::format(" option n_ubatch {} (of {})", settings.n_ubatch, asked_.n_ubatch);
    return {settings, std::move(report), options.empty() ? "" : fmt::format("fit:{}: {}", options, why_)};
  }

  Engine& engine_;
  std::span<const SessionAdapter> adapters_;
  const FitOptions& options_;
  const PlacementOptions placement_;
  SessionOptions asked_;
  bool fits_context_ = false, fits_ubatch_ = false;
  std::vector<Budget> budgets_;
  int64_t n_entries_ = 0;        // entries that may move to the CPU
  int64_t n_expert_levels_ = 0;  // layers whose experts may move before them
  int64_t level_ = 0;
  std::string why_;
};

}  // namespace

Result<MemoryReport> plan_sessions(const Engine& engine, const SessionOptions& options, const FitOptions& fit) {
  TESSERA_ASSIGN(MemoryReport report, Session::plan(engine, options));
  report.add(fit.beside);
  if (options.part == SessionPart::model_with_hidden) {
    TESSERA_ASSIGN(const MemoryReport head, PredictionHead::plan(engine, options));
    report.add(head.parts);
  }
  if (!fit.embeddings) return report;
  TESSERA_ASSIGN(const MemoryReport second, Session::plan(engine, embedding_session(engine, *fit.embeddings, options)));
  report.add_session(second);
  return report;
}

namespace {

Result<> place(Engine& engine, std::span<const SessionAdapter> adapters, const PlacementOptions& placement) {
  TESSERA_TRY(engine.place(placement));
  for (const SessionAdapter& one : adapters) TESSERA_TRY(one.adapter->place());
  return {};
}

std::string describe_cache(const Engine& engine, const Error& why) {
  return fmt::format("fit: experts stay in the file, option expert_cache {}: {}",
                     *engine.placement_options().expert_cache, why.message());
}

bool may_stream(const Engine& engine) {
  return !engine.placement_options().expert_cache && engine.can_stream_experts();
}

// Settings for a session beside a cache of experts: a context that nobody asked for must not take its memory.
SessionOptions beside_cache(const Engine& engine, const SessionOptions& asked, const FitOptions& options) {
  SessionOptions session = asked;
  if (session.n_ctx == 0) session.n_ctx = std::min(engine.model().info().n_ctx_train, options.least_ctx);
  return session;
}

// Lets the experts stay in the file, on the devices and in the memory that are free. `whole`: why they cannot be in
// memory.
Result<Fitted> fit_streaming(Engine& engine, std::span<const SessionAdapter> adapters, const SessionOptions& asked,
                             const FitOptions& options, const Error& whole) {
  PlacementOptions placement = engine.placement_options();
  placement.expert_cache = 0;
  TESSERA_TRY(place(engine, adapters, placement));
  TESSERA_ASSIGN(Fitted fitted, Fitter(engine, adapters, beside_cache(engine, asked, options), options).run());
  const Device& cpu = engine.placement().cpu();
  const uint64_t free = cpu.memory().free_bytes, taken = fitted.report.bytes_of(cpu.name());
  const uint64_t margin = std::min(options.margin_bytes, free / 16);
  const uint64_t left = free - std::min(free, margin + taken);
  TESSERA_ASSIGN(fitted.report,
                 stream_experts(engine, adapters, fitted.session, fitted.report.total() + left, options));
  fitted.choice = describe_cache(engine, whole);
  return fitted;
}

Result<Fitted> fit_total(Engine& engine, std::span<const SessionAdapter> adapters, SessionOptions asked,
                         const FitOptions& options) {
  asked.adapters.assign(adapters.begin(), adapters.end());
  auto fitted = fit_within(engine, asked, options.most_bytes, options);
  if (fitted || fitted.error().code() != ErrorCode::out_of_memory || !may_stream(engine)) return fitted;
  const Error whole = fitted.error();
  PlacementOptions placement = engine.placement_options();
  placement.expert_cache = 0;
  TESSERA_TRY(place(engine, adapters, placement));
  TESSERA_ASSIGN(fitted, fit_within(engine, beside_cache(engine, asked, options), options.most_bytes, options));
  TESSERA_ASSIGN(fitted->report, stream_experts(engine, adapters, fitted->session, options.most_bytes, options));
  fitted->choice = describe_cache(engine, whole);
  return fitted;
}

}  // namespace

Result<MemoryReport> stream_experts(Engine& engine, std::span<const SessionAdapter> adapters,
                                    const SessionOptions& session, uint64_t bytes, const FitOptions& options) {
  if (!engine.can_stream_experts())
    return fail(ErrorCode::unsupported, "{}: the CPU has no experts that can stay in the file", engine.files().name());
  const PlacementOptions before = engine.placement_options();
  PlacementOptions placement = before;
  placement.expert_cache = 0;
  TESSERA_TRY(place(engine, adapters, placement));
  TESSERA_ASSIGN(const MemoryReport least, plan_sessions(engine, session, options));
  if (least.total() > bytes) TESSERA_TRY(place(engine, adapters, before));
  if (least.total() > bytes)
    return fail(ErrorCode::out_of_memory, "{}: nothing fits in {} bytes: with two experts of each layer it takes {}",
                engine.files().name(), bytes, least.total());
  placement.expert_cache = engine.stream_bytes() + (bytes - least.total());
  TESSERA_TRY(place(engine, adapters, placement));
  return plan_sessions(engine, session, options);
}

Result<Fitted> fit(Engine& engine, std::span<const SessionAdapter> adapters, const SessionOptions& asked,
                   const FitOptions& options) {
  if (options.most_bytes != 0) return fit_total(engine, adapters, asked, options);
  if (options.is_on) {
    const PlacementOptions placement = engine.placement_options();
    auto fitted = Fitter(engine, adapters, asked, options).run();
    if (fitted || fitted.error().code() != ErrorCode::out_of_memory || !may_stream(engine)) return fitted;
    TESSERA_TRY(place(engine, adapters, placement));
    return fit_streaming(engine, adapters, asked, options, fitted.error());
  }
  Fitted fitted{.session = asked, .report = {}};
  fitted.session.adapters.assign(adapters.begin(), adapters.end());
  TESSERA_ASSIGN(fitted.report, plan_sessions(engine, fitted.session, options));
  TESSERA_TRY(require_memory(engine, fitted.report));
  return fitted;
}

Result<Fitted> fit_within(const Engine& engine, const SessionOptions& asked, uint64_t bytes,
                          const FitOptions& options) {
  const bool is_fixed = asked.n_ctx != 0;
  const int64_t most = is_fixed ? asked.n_ctx : engine.model().info().n_ctx_train;
  const auto plan = [&](const SessionOptions& settings) { return plan_sessions(engine, settings, options); };
  const auto fits = [&](const MemoryReport& report) { return report.total() <= bytes; };
  // A model that is not causal computes a sequence at once.
  const int64_t least_ubatch = engine.model().info().embeds_causally() ? kLeastUbatch : asked.n_ubatch;
  uint64_t least = UINT64_MAX;
  for (const int64_t floor : {FitOptions{}.least_ctx, kContextStep})
    for (const bool q8_cache : {false, true}) {
      SessionOptions settings = asked;
      settings.n_ctx = is_fixed ? most : std::min(most, floor);
      if (q8_cache) settings.type_k = settings.type_v = DType::q8_0;
      for (; settings.n_ubatch >= 1; settings.n_ubatch /= 2) {
        auto smallest = plan(settings);
        if (!smallest && !q8_cache) return forward_error(smallest);
        if (!smallest) break;  // the dimension of the heads is no multiple of the blocks of q8_0
        least = std::min<uint64_t>(least, smallest->total());
        if (fits(*smallest)) {
          TESSERA_ASSIGN(auto found, largest_context({settings, std::move(*smallest)}, most, plan, fits));
          return Fitted{.session = std::move(found.session), .report = std::move(found.report)};
        }
        if (settings.n_ubatch <= least_ubatch) break;
      }
    }
  return fail(ErrorCode::out_of_memory, "{}: nothing fits in {} bytes: the least that was found takes {}",
              engine.files().name(), bytes, least);
}

}  // namespace tessera
