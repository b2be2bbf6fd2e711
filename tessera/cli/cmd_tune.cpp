// tessera tune: measures which threads, micro-batch and guesses are fastest for a model on this machine, and keeps the
// result for run, chat, serve and bench.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ctime>

#include "tessera/cli/console.h"
#include "tessera/cli/tuner.h"
#include "tessera/cli/tuning_file.h"

namespace tessera::cli {

namespace {

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return fmt::format("{:04}-{:02}-{:02}", local.tm_year + 1900, local.tm_mon + 1, local.tm_mday);
}

class TuneCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    model_.add_to(table);
    table.common("--n-prompt -p", "N", "prompt tokens of the request whose time is to become short",
                 set_integer(goal_.n_prompt, 1, kMaxTokens));
    table.common("--n-gen -n", "N", "tokens that the request generates", set_integer(goal_.n_gen, 1, kMaxTokens));
    table.common("--seconds", "N", "time to measure in, about", set_integer(goal_.seconds, 1, 3600));
    table.common("--forget", "", "remove what was found for the model, and measure nothing", set_switch(forgets_));
    return table;
  }

  Result<> check() override {
    path_ = TuningFile::default_path();
    if (path_.empty())
      return fail(ErrorCode::invalid_argument, "no folder to keep the result in: set HOME or XDG_STATE_HOME");
    return model_.check();
  }

  Result<> run(Context& process) override {
    TESSERA_ASSIGN(const std::string identity, model_identity(model_.options.path));
    TESSERA_TRY(TuningFile::require_usable(path_, process.interrupt));  // before the measurements
    if (forgets_) return forget(identity, process);
    TESSERA_ASSIGN(LoadedModel model, load(process));
    SessionOptions session = context_.session;
    session.adapters = model.adapters;
    Tuner tuner(model, session, goal_, process.interrupt);
    TESSERA_TRY(print(line("setting", "choice", fmt::format("time of {} + {} tokens", goal_.n_prompt, goal_.n_gen))));
    TESSERA_ASSIGN(Tuning tuning, tuner.run([](const TuneChoice& choice) {
      return print(line(choice.setting, choice.chosen, fmt::format("{}", fmt::join(choice.trials, ", "))));
    }));
    tuning.date = today();
    TESSERA_TRY(TuningFile::keep(path_, machine_identity(), identity, tuning, process.interrupt));
    if (!process.quiet)
      log(fmt::format("kept in {}: {}\nrun, chat, serve and bench use this from now on", path_, describe(tuning)));
    return {};
  }

 private:
  static constexpr int64_t kMaxTokens = 1 << 17;

  static std::string line(std::string_view setting, std::string_view choice, std::string_view trials) {
    return fmt::format("{:<12} {:<10} {}\n", setting, choice, trials);
  }

  Result<> forget(const std::string& identity, const Context& process) const {
    TESSERA_ASSIGN(const bool was_there, TuningFile::remove(path_, machine_identity(), identity, process.interrupt));
    return print(was_there ? "removed the tuning of the model\n" : "there is no tuning of the model\n");
  }

  Result<LoadedModel> load(const Context& process) const {
    TESSERA_ASSIGN(auto registry, open_registry());
    ModelOptions options = model_options(model_, context_);
    options.tries_head = true;
    TESSERA_ASSIGN(LoadedModel model, tessera::open_model(std::move(registry), options));
    LoadDisplay display(process);
    const LoadEvents events = display.events();
    SessionOptions largest = context_.session;
    largest.n_ctx = goal_.n_prompt + goal_.n_gen;
    largest.adapters = model.adapters;
    TESSERA_ASSIGN(const Fitted fitted, fit(*model.engine, model.adapters, largest, model.fit));
    if (!fitted.choice.empty()) events.on_choice(fitted.choice);
    TESSERA_TRY(load_weights(model, events));
    return model;
  }

  ModelArgs model_{.may_be_bundled = true};
  ContextArgs context_;
  TuneGoal goal_;
  bool forgets_ = false;
  std::string path_;
};

}  // namespace

std::unique_ptr<Command> create_tune_command() { return std::make_unique<TuneCommand>(); }

}  // namespace tessera::cli
