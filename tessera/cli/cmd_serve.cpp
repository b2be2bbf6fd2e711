// tessera serve: answers HTTP requests until it is interrupted.
#include <fmt/format.h>
#include <malloc.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <optional>
#include <thread>

#include "tessera/cli/console.h"
#include "tessera/cli/memory_reserve.h"
#include "tessera/cli/peer_environment.h"
#include "tessera/cli/program.h"
#include "tessera/cli/progress.h"
#include "tessera/cli/serve_models.h"

namespace tessera::cli {

namespace {

std::atomic<bool> g_reload{false};  // a signal handler has no other way to reach the command

extern "C" void on_hangup(int) { g_reload.store(true); }

constexpr auto kPoll = std::chrono::milliseconds(50);
constexpr auto kTick = std::chrono::seconds(1);

// Large buffers of requests are mapped, so that the system gets them back at once. By default glibc raises the bound
// with each large block that is freed, and then keeps tens of megabytes.
void give_back_large_buffers() {
  ::mallopt(M_MMAP_THRESHOLD, 256 << 10);
  ::mallopt(M_TRIM_THRESHOLD, 1 << 20);
}

class ServeCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    args_.add_to(table);
    add_peer_environment(table);
    for (Flag& flag : table.flags)  // they are given to each model of several
      flag.set = [this, name = flag.name, set = std::move(flag.set)](std::string_view value) -> Result<> {
        TESSERA_TRY(set(value));
        given_.push_back({name, std::string(value)});
        return {};
      };
    return table;
  }

  Result<> check() override {
    if (args_.has_many_models() && !args_.model.options.path.empty())
      return fail(ErrorCode::invalid_argument, "--model: with --models-dir and --models-preset, requests name a model");
    return args_.check();
  }

  Result<> run(Context& process) override {
    constexpr int32_t kInformation = 3;  // of --log-verbosity
    if (args_.is_log_disabled || args_.log_verbosity < kInformation) process.quiet = true;
    set_log_style(args_.log_style);
    if (!args_.log_file.empty()) TESSERA_TRY(set_log_file(args_.log_file));
    for (const std::string& name : args_.ignored)
      if (!process.quiet) log(fmt::format("warning: {} has no effect", name));
    args_.server.api.build_info = build_info();
    give_back_large_buffers();
    install_memory_reserve();
    survive_lost_files();
    args_.server.api.is_short_of_memory = is_memory_reserve_used;
    TESSERA_ASSIGN(const auto models, ServeModels::create(args_, given_, process));
    TESSERA_TRY(models->open_first());
    TESSERA_ASSIGN(auto server, server::Server::start(args_.server));
    if (!process.quiet && !args_.has_many_models())
      for (const std::string& address : server->addresses()) log("loading the model; listening on " + address);
    TESSERA_TRY(open(*models, *server, process));
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

  // Loads the model if there is one only. The server answers GET /health meanwhile.
  Result<> open(ServeModels& models, server::Server& server, const Context& process) {
    std::optional<ProgressBar> bar;
    if (!args_.has_many_models()) bar.emplace("loading", process.quiet);
    TESSERA_TRY(server.serve(models, models.registry_options(), [&](float share) {
      if (bar) bar->update(share);
      return !process.interrupt.cancelled();
    }));
    bar.reset();
    if (!args_.has_many_models() || process.quiet) return {};
    log(fmt::format("{} models; each is loaded when a request asks for it", models.n_listed()));
    return {};
  }

  void wait(server::Server& server, const Context& process) {
    auto last_tick = Clock::now();
    while (!process.interrupt.cancelled()) {
      std::this_thread::sleep_for(kPoll);
      refill_memory_reserve();
      if (Clock::now() - last_tick >= kTick) {
        last_tick = Clock::now();
        server.tick();
      }
      if (!g_reload.exchange(false)) continue;
      const auto reloaded = server.reload();
      if (!process.quiet)
        log(reloaded ? "keys and certificates read again, the access log opened again"
                     : "error: " + reloaded.error().message());
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
  std::vector<GivenFlag> given_;
};

}  // namespace

std::unique_ptr<Command> create_serve_command() { return std::make_unique<ServeCommand>(); }

}  // namespace tessera::cli
