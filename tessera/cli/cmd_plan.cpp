// tessera plan: prints the memory of a run, or of a server, by device and buffer before anything is loaded. Also finds
// settings that fit a given memory.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tessera/cli/console.h"
#include "tessera/cli/diffusion_run.h"
#include "tessera/cli/host_plan.h"
#include "tessera/cli/model_facts.h"
#include "tessera/cli/option_flags.h"
#include "tessera/cli/run_args.h"
#include "tessera/cli/serve_args.h"
#include "tessera/engine/attention_precision.h"
#include "tessera/server/server_memory.h"

namespace tessera::cli {

namespace {

class PlanCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    args_.add_to(table);
    table.common("--json", "", "print JSON", set_switch(json_));
    add_serve_flags(table);
    return table;
  }

  Result<> check() override {
    TESSERA_TRY(args_.check());
    memory_ = args_.model.options.fit.most_bytes;
    if (!plans_server_) return {};
    if (serve_.has_many_models())
      return fail(ErrorCode::invalid_argument, "--models-dir and --models-preset: a plan is for one model, want -m");
    serve_.model = args_.model;
    serve_.context = args_.context;
    serve_.sampling = args_.sampling;
    serve_.speculation = args_.speculation;
    return serve_.check();
  }

  Result<> run(Context& process) override {
    args_.use_tuning(process);
    serve_.model.options.speculation = args_.model.options.speculation;
    serve_.context.session = args_.context.session;
    TESSERA_ASSIGN(LoadedModel model, open_model(args_.model, args_.context));
    SessionOptions asked = args_.context.session;
    asked.embeddings = !model.engine->model().info().has_logits;
    const ModelInfo& info = model.engine->model().info();
    if (!generates_by_diffusion(info)) TESSERA_TRY(args_.diffusion.require_absent(info.architecture));
    is_diffusion_ = !plans_server_ && generates_by_diffusion(info);
    if (is_diffusion_) {
      TESSERA_ASSIGN(asked, diffusion_session_of(*model.engine, process));
    }
    if (plans_server_) asked.n_sequences = serve_.slots_for(model.engine->files().n_tensor_bytes());
    TESSERA_TRY(plan_draft(model, asked));
    if (plans_server_) {
      TESSERA_ASSIGN(model.fit.embeddings, serve_.second_session(*model.engine));
      TESSERA_ASSIGN(asked, server_session(model));
    } else {
      model.speculation.extend(asked);
    }
    asked.adapters = model.adapters;
    TESSERA_ASSIGN(const Fitted plan, plan_of(model, asked, process));
    if (!plan.choice.empty() && !process.quiet) log(with_flag_names(plan.choice));
    n_offloaded_ = model.engine->placement().n_offloaded();
    if (json_) attention_ = attention_precision(model.engine->model().info(), model.engine->files(), plan.session);
    expert_cache_ = model.engine->placement_options().expert_cache;
    if (args_.context.log_schedule) {
      TESSERA_ASSIGN(const auto session, Session::plan_session(*model.engine, plan.session));
      TESSERA_TRY(args_.context.log_schedules(*session));
    }
    TESSERA_ASSIGN(hosts_, plan_of_hosts(*model.engine, plan.report));
    return json_ ? print_json(plan) : print_plain(plan);
  }

 private:
  // The flags of serve that run has not. One of them makes the plan that of a server.
  void add_serve_flags(FlagTable& table) {
    table.common("--serve", "", "plan a server with its default slots and prefix cache", set_switch(plans_server_));
    FlagTable serve;
    serve_.add_to(serve);
    const auto is_known = [&](const std::string& name) { return find_flag(table, name) != nullptr; };
    for (Flag& flag : serve.flags) {
      if (is_known(flag.name) || std::ranges::any_of(flag.aliases, is_known)) continue;
      flag.shown = Shown::with_all;
      flag.set = noting(plans_server_, std::move(flag.set)).set;
      table.flags.push_back(std::move(flag));
    }
  }

  // The prefix cache gets its share of --memory, as in `serve`. If the rest alone is too large, there is no cache, and
  // plan_of() looks for smaller settings.
  Result<SessionOptions> server_session(const LoadedModel& model) {
    const int32_t n_slots = serve_.slots_for(model.engine->files().n_tensor_bytes());
    serve_.memory_bytes = memory_;
    auto session = serve_.session_options(model, n_slots);
    if (session || memory_ == 0 || session.error().code() != ErrorCode::out_of_memory) return session;
    serve_.memory_bytes = 0;
    serve_.cache_mib = 0;
    return serve_.session_options(model, n_slots);
  }

  // Without a prompt it is that of the longest text.
  Result<SessionOptions> diffusion_session_of(const Engine& engine, const Context& process) const {
    std::optional<int64_t> n_prompt;
    if (args_.prompt.text || !args_.prompt.file.empty()) {
      TESSERA_ASSIGN(const std::string prompt, args_.prompt.read(process));
      TESSERA_ASSIGN(const auto tokens, tokenize_prompt(args_, engine, prompt));
      n_prompt = std::ssize(tokens);
    }
    TESSERA_ASSIGN(DiffusionRun run, plan_diffusion(args_, engine, n_prompt));
    return run.session;
  }

  // Returns the plan of a run with these flags. If nothing fits, returns the requested plan, so that the shortfall is
  // visible.
  Result<Fitted> plan_of(const LoadedModel& model, SessionOptions asked, const Context& process) const {
    if (memory_ != 0) return fit(*model.engine, model.adapters, asked, model.fit);
    if (model.fit.is_on) {
      const PlacementOptions placement = model.engine->placement_options();
      auto fitted = fit(*model.engine, model.adapters, asked, model.fit);
      if (fitted || fitted.error().code() != ErrorCode::out_of_memory) return fitted;
      if (!process.quiet) log("warning: " + with_flag_names(fitted.error().message()));
      TESSERA_TRY(model.engine->place(placement));
      for (const SessionAdapter& one : model.adapters) TESSERA_TRY(one.adapter->place());
    }
    if (asked.n_ctx == 0) asked.n_ctx = model.engine->model().info().n_ctx_train;
    TESSERA_ASSIGN(MemoryReport report, plan_sessions(*model.engine, asked, model.fit));
    return Fitted{.session = std::move(asked), .report = std::move(report)};
  }

  std::string_view attention_name() const {
    return std::ranges::find(kAttentionNames, attention_, [](const auto& entry) { return entry.second; })->first;
  }

  std::string flags_of(const SessionOptions& settings) const {
    // Guidance of diffusion takes two texts, and -c is the length of one.
    const int64_t n_ctx = is_diffusion_ ? settings.n_ctx / settings.n_sequences : settings.n_ctx;
    return fmt::format("-c {} -ub {} -ctk {} -ctv {}{}{}", n_ctx, settings.n_ubatch, info(settings.type_k).name,
                       info(settings.type_v).name, n_offloaded_ == 0 ? "" : fmt::format(" -ngl {}", n_offloaded_),
                       expert_cache_ ? fmt::format(" --expert-cache {}", *expert_cache_) : "");
  }

  server::ServerMemory server_memory() const { return server::server_memory(serve_.server, serve_.scheduler.queue); }

  // The memory of a server beside the model, at most.
  std::string server_table() const {
    const server::ServerMemory memory = server_memory();
    std::vector<std::vector<std::string>> rows = {{"server", "bound in bytes", "size"}};
    const auto add = [&](std::string what, size_t n_bytes) {
      rows.push_back({std::move(what), std::to_string(n_bytes), human_bytes(static_cast<double>(n_bytes))});
    };
    add("bodies and answers (--http-memory)", memory.http);
    add("connections (--max-connections)", memory.connections);
    add("waiting prompts", memory.queue);
    add("stored responses (--responses-store)", memory.responses);
    add("compiled grammars", memory.grammars);
    add("total", memory.total());
    return "\n" + format_table(rows, "lrr") + "\n";
  }

  nlohmann::ordered_json server_json() const {
    const server::ServerMemory memory = server_memory();
    return {{"http_bytes", memory.http},        {"connection_bytes", memory.connections},
            {"queue_bytes", memory.queue},      {"response_bytes", memory.responses},
            {"grammar_bytes", memory.grammars}, {"total_bytes", memory.total()}};
  }

  Result<> print_plain(const Fitted& fit) const {
    const std::string server = plans_server_ ? server_table() : "";
    const std::string verdict = memory_ == 0 ? "with " : fmt::format("fits in {} bytes with ", memory_);
    const std::string hosts = hosts_.empty() ? "" : table_of(hosts_);
    return print(memory_table(fit.report) + hosts + server + verdict + flags_of(fit.session) + "\n");
  }

  Result<> print_json(const Fitted& fit) const {
    using Kind = MemoryPart::Kind;
    nlohmann::ordered_json buffers = nlohmann::ordered_json::array();
    for (const MemoryPart& part : fit.report.parts)
      buffers.push_back(
          {{"device", part.device}, {"buffer", part.buffer}, {"what", purpose_of(part.kind)}, {"bytes", part.bytes}});
    nlohmann::ordered_json plan = {
        {"weights_bytes", fit.report.bytes(Kind::weights)},
        {"kv_bytes", fit.report.bytes(Kind::cache)},
        {"compute_bytes", fit.report.bytes(Kind::compute) + fit.report.bytes(Kind::output)},
        {"total_bytes", fit.report.total()},
        {"n_ctx", fit.session.n_ctx},
        {"n_ubatch", fit.session.n_ubatch},
        {"cache_type_k", info(fit.session.type_k).name},
        {"cache_type_v", info(fit.session.type_v).name},
        {"attention_scores", attention_name()},
        {"n_gpu_layers", n_offloaded_},
        {"expert_cache", expert_cache_ ? nlohmann::ordered_json(*expert_cache_) : nlohmann::ordered_json()},
        {"buffers", std::move(buffers)},
    };
    if (!hosts_.empty()) plan["hosts"] = json_of(hosts_);
    if (plans_server_) plan["server"] = server_json();
    return print(plan.dump(2) + "\n");
  }

  RunArgs args_;
  ServeArgs serve_;
  bool plans_server_ = false;
  bool is_diffusion_ = false;
  uint64_t memory_ = 0;  // 0: no search for settings
  int64_t n_offloaded_ = 0;
  AttentionPrecision attention_ = AttentionPrecision::automatic;
  std::optional<uint64_t> expert_cache_{};
  std::vector<HostPlan> hosts_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> create_plan_command() { return std::make_unique<PlanCommand>(); }

}  // namespace tessera::cli
