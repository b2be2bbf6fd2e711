// tessera serve: answers HTTP requests until it is interrupted.
#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "tessera/app/bundled_model.h"
#include "tessera/cli/console.h"
#include "tessera/cli/serve_args.h"

namespace tessera::cli {

namespace {

std::atomic<bool> g_reload{false};  // a signal handler has no other way to reach the command

extern "C" void on_hangup(int) { g_reload.store(true); }

constexpr auto kPoll = std::chrono::milliseconds(50);
constexpr auto kTick = std::chrono::seconds(1);

class ServeCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    args_.add_to(table);
    return table;
  }

  Result<> check() override { return args_.check(); }

  Result<> run(Context& process) override {
    for (const std::string& name : args_.ignored)
      if (!process.quiet) log(fmt::format("warning: {} has no effect", name));
    args_.server.api.build_info = build_info();
    TESSERA_ASSIGN(LoadedModel model, open_model(args_.model, args_.context));
    TESSERA_ASSIGN(auto server, server::Server::start(args_.server));
    if (!process.quiet)
      for (const std::string& address : server->addresses()) log("loading the model; listening on " + address);
    TESSERA_TRY(load(model, *server, process));
    if (!process.quiet)
      for (const std::string& address : server->addresses()) log("listening on " + address);
    std::signal(SIGHUP, on_hangup);
    wait(*server, process);
    drain(*server, process);
    return {};
  }

 private:
  using Clock = std::chrono::steady_clock;

  static std::string build_info() { return fmt::format("b1-{}", TESSERA_VERSION); }

  // Loads the model and gives it to the server, which answers GET /health meanwhile.
  Result<> load(LoadedModel& model, server::Server& server, const Context& process) {
    const bool is_bundled = args_.model.options.path.empty();
    if (is_bundled && !process.quiet) log("no model given: using the bundled one; -m FILE selects another");
    const int32_t n_slots = args_.slots_for(model.engine->files().n_tensor_bytes());
    TESSERA_ASSIGN(args_.context.session, args_.session_options(model, n_slots));
    TESSERA_TRY(load_session(model, args_.context, process));
    if (!process.quiet) log_memory(model.session->allocated_memory());
    server::ServedModelOptions options{.path = is_bundled ? std::string(kBundledModelName) : args_.model.options.path,
                                       .aliases = args_.aliases,
                                       .tags = args_.tags,
                                       .scheduler = args_.scheduler_options(*model.session)};
    TESSERA_ASSIGN(options.chat_template,
                   args_.chat_template.source(&model.engine->files().metadata(), false, process));
    if (!process.quiet)
      log(fmt::format("{} slots, {} tokens each, {} in all; {} more in the prefix cache", n_slots,
                      options.scheduler.slot_context, model.session->n_ctx(), model.session->options().n_cache_tokens));
    return server.serve(std::move(model), std::move(options));
  }

  // In the form of llama-server's lines, which other programs read.
  static void log_memory(const MemoryReport& report) {
    constexpr double kMib = 1 << 20;
    for (const MemoryPart& part : report.parts) {
      std::string_view what = "model";
      if (part.kind == MemoryPart::Kind::cache) what = "KV";
      if (part.kind == MemoryPart::Kind::compute) what = "compute";
      if (part.kind == MemoryPart::Kind::output) what = "output";
      log(fmt::format("load: {} {} buffer size = {:.2f} MiB", part.buffer, what,
                      static_cast<double>(part.bytes) / kMib));
    }
  }

  void wait(server::Server& server, const Context& process) {
    auto last_tick = Clock::now();
    while (!process.interrupt.cancelled()) {
      std::this_thread::sleep_for(kPoll);
      if (Clock::now() - last_tick >= kTick) {
        last_tick = Clock::now();
        server.tick();
      }
      if (!g_reload.exchange(false)) continue;
      const auto reloaded = server.reload();
      if (!process.quiet) log(reloaded ? "keys and certificates read again" : "error: " + reloaded.error().message());
    }
  }

  // Running requests get some time. A second signal ends the process at once.
  void drain(server::Server& server, Context& process) {
    if (!process.quiet) log("shutting down; again to end at once");
    server.drain();
    const auto deadline = Clock::now() + std::chrono::seconds(args_.drain_s);
    while (!server.is_idle() && Clock::now() < deadline) std::this_thread::sleep_for(kPoll);
    server.end_requests();
    const auto last = Clock::now() + kTick;
    while (!server.is_idle() && Clock::now() < last) std::this_thread::sleep_for(kPoll);
    process.interrupt.reset();  // a shutdown as asked for is a success
  }

  ServeArgs args_;
};

}  // namespace

std::unique_ptr<Command> create_serve_command() { return std::make_unique<ServeCommand>(); }

}  // namespace tessera::cli
