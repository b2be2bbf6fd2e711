// tessera plan: the bytes that a run takes, by device and buffer, before anything is loaded; and the settings under
// which it fits a given memory.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tessera/base/checked.h"
#include "tessera/cli/console.h"
#include "tessera/cli/run_args.h"
#include "tessera/cli/schedule_log.h"

namespace tessera::cli {

namespace {

// A context is sought in these steps, and first down to a length that is still of use.
constexpr int64_t kContextStep = 256;
constexpr int64_t kUsefulContext = 4096;
constexpr int64_t kSmallestUbatch = 16;

std::string_view kind_name(MemoryPart::Kind kind) {
  switch (kind) {
    case MemoryPart::Kind::weights:
      return "weights";
    case MemoryPart::Kind::cache:
      return "kv";
    case MemoryPart::Kind::compute:
      return "compute";
    case MemoryPart::Kind::output:
      return "output";
  }
  return "";
}

struct Fit {
  SessionOptions settings;
  MemoryReport report;
};

class PlanCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    args_.add_to(table);
    table.flags.push_back({"--memory",
                           {},
                           "SIZE",
                           "find settings that fit, e.g. 12G (2^30) or 12GB (10^9): the largest context "
                           "(or -c), then a smaller micro-batch, then a q8_0 cache",
                           "",
                           true,
                           [this](std::string_view text) -> Result<> {
                             TESSERA_ASSIGN(memory_, parse_bytes(text));
                             return {};
                           }});
    table.flags.push_back({"--json", {}, "", "print JSON", "", true, set_switch(json_)});
    return table;
  }

  Result<> check() override { return args_.check(); }

  Result<> run(Context& process) override {
    TESSERA_ASSIGN(const LoadedModel model, open_model(args_.model, args_.context));
    Fit fit{.settings = args_.context.session, .report = {}};
    fit.settings.adapters = model.adapters;
    if (fit.settings.n_ctx == 0) fit.settings.n_ctx = model.engine->model().info().n_ctx_train;
    fit.settings.embeddings = !model.engine->model().info().has_logits;
    const FitOptions fit_options = fit_of(model, args_.context);
    TESSERA_ASSIGN(fit.report, Session::plan(*model.engine, fit.settings));
    if (memory_ != 0) {
      TESSERA_ASSIGN(fit, find_fit(*model.engine, fit));
    } else if (fit_options.is_on) {
      TESSERA_ASSIGN(fit, fit_as_run_does(model, std::move(fit), fit_options, process));
    }
    n_offloaded_ = model.engine->placement().n_offloaded();
    if (args_.context.log_schedule) TESSERA_TRY(log_schedules(*model.engine, fit.settings));
    return json_ ? print_json(fit) : print_plain(fit);
  }

 private:
  // Where nothing fits, the plan is as asked for all the same: it says how far away that is.
  static Result<Fit> fit_as_run_does(const LoadedModel& model, Fit asked, const FitOptions& options,
                                     const Context& process) {
    const PlacementOptions placement = model.engine->placement_options();
    auto fitted = tessera::fit(*model.engine, model.adapters, asked.settings, options);
    if (fitted && !fitted->choice.empty() && !process.quiet) log(fitted->choice);
    if (fitted) return Fit{std::move(fitted->session), std::move(fitted->report)};
    if (fitted.error().code() != ErrorCode::out_of_memory) return forward_error(fitted);
    if (!process.quiet) log("warning: " + fitted.error().message());
    TESSERA_TRY(model.engine->place(placement));
    for (const SessionAdapter& one : model.adapters) TESSERA_TRY(one.adapter->place());
    return asked;
  }

  // Of the settings in order of preference, the first that fit. `asked` is what the flags say.
  Result<Fit> find_fit(const Engine& engine, const Fit& asked) const {
    const int64_t most = asked.settings.n_ctx;
    const bool is_fixed = args_.context.session.n_ctx != 0;
    uint64_t least = asked.report.total();
    for (const int64_t floor :
         {std::min(most, is_fixed ? most : kUsefulContext), std::min(most, is_fixed ? most : kContextStep)}) {
      for (const bool q8_cache : {false, true}) {
        SessionOptions settings = asked.settings;
        if (q8_cache) settings.type_k = settings.type_v = DType::q8_0;
        for (; settings.n_ubatch >= 1; settings.n_ubatch /= 2) {
          settings.n_ctx = floor;
          const auto smallest = Session::plan(engine, settings);
          if (!smallest) break;  // this model's heads do not fit the blocks of q8_0
          least = std::min<uint64_t>(least, smallest->total());
          if (smallest->total() <= memory_) return largest_context(engine, {settings, *smallest}, most);
          if (settings.n_ubatch <= kSmallestUbatch) break;
        }
      }
    }
    return fail(ErrorCode::out_of_memory, "{}: nothing fits in {} bytes: the least that was found takes {}",
                engine.files().name(), memory_, least);
  }

  // Bytes grow with the context: halves the interval between what fits and `most`, which may fit too.
  Result<Fit> largest_context(const Engine& engine, Fit fits, int64_t most) const {
    int64_t step = div_ceil(most - fits.settings.n_ctx, kContextStep);
    for (; step > 0; step /= 2) {
      while (fits.settings.n_ctx < most) {
        SessionOptions settings = fits.settings;
        settings.n_ctx = std::min(most, settings.n_ctx + step * kContextStep);
        TESSERA_ASSIGN(MemoryReport report, Session::plan(engine, settings));
        if (report.total() > memory_) break;
        fits = {settings, std::move(report)};
      }
    }
    return fits;
  }

  std::string flags_of(const SessionOptions& settings) const {
    return fmt::format("-c {} -ub {} -ctk {} -ctv {}{}", settings.n_ctx, settings.n_ubatch, info(settings.type_k).name,
                       info(settings.type_v).name, n_offloaded_ == 0 ? "" : fmt::format(" -ngl {}", n_offloaded_));
  }

  Result<> print_plain(const Fit& fit) const {
    std::vector<std::vector<std::string>> rows = {{"device", "buffer", "what", "bytes", "size"}};
    for (const MemoryPart& part : fit.report.parts)
      rows.push_back({part.device, part.buffer, std::string(kind_name(part.kind)), std::to_string(part.bytes),
                      human_bytes(static_cast<double>(part.bytes))});
    rows.push_back(
        {"total", "", "", std::to_string(fit.report.total()), human_bytes(static_cast<double>(fit.report.total()))});
    const std::string verdict = memory_ == 0 ? "with " : fmt::format("fits in {} bytes with ", memory_);
    return print(format_table(rows, "lllrr") + verdict + flags_of(fit.settings) + "\n");
  }

  Result<> print_json(const Fit& fit) const {
    using Kind = MemoryPart::Kind;
    nlohmann::ordered_json buffers = nlohmann::ordered_json::array();
    for (const MemoryPart& part : fit.report.parts)
      buffers.push_back(
          {{"device", part.device}, {"buffer", part.buffer}, {"what", kind_name(part.kind)}, {"bytes", part.bytes}});
    const nlohmann::ordered_json plan = {
        {"weights_bytes", fit.report.bytes(Kind::weights)},
        {"kv_bytes", fit.report.bytes(Kind::cache)},
        {"compute_bytes", fit.report.bytes(Kind::compute) + fit.report.bytes(Kind::output)},
        {"total_bytes", fit.report.total()},
        {"n_ctx", fit.settings.n_ctx},
        {"n_ubatch", fit.settings.n_ubatch},
        {"cache_type_k", info(fit.settings.type_k).name},
        {"cache_type_v", info(fit.settings.type_v).name},
        {"n_gpu_layers", n_offloaded_},
        {"buffers", std::move(buffers)},
    };
    return print(plan.dump(2) + "\n");
  }

  RunArgs args_;
  uint64_t memory_ = 0;  // 0: just the plan
  int64_t n_offloaded_ = 0;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> create_plan_command() { return std::make_unique<PlanCommand>(); }

}  // namespace tessera::cli
