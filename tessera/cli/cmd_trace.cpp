// tessera trace: records a generation as a timeline of tokens, devices and copies.
#include <fmt/format.h>

#include "tessera/base/file.h"
#include "tessera/cli/console.h"
#include "tessera/cli/run_args.h"
#include "tessera/observe/trace_events.h"

namespace tessera::cli {

namespace {

class TraceCommand final : public Command {
 public:
  TraceCommand() { args_.generate.n_predict = kUsualTokens; }

  FlagTable flags() override {
    FlagTable table;
    args_.add_to(table);
    table.common("--output -o", "FILE", "file for the trace, to open in ui.perfetto.dev or chrome://tracing",
                 set_string(output_));
    return table;
  }

  Result<> check() override {
    if (output_.empty()) return fail(ErrorCode::invalid_argument, "no file for the trace: give one with -o FILE");
    return args_.check();
  }

  Result<> run(Context& process) override {
    TESSERA_ASSIGN(const std::string prompt, args_.prompt.read(process));
    const auto begin = observe::TraceEvents::Clock::now();
    observe::TraceEvents trace(begin);
    args_.use_tuning(process);
    TESSERA_ASSIGN(const LoadedModel model, load_model(args_.model, args_.context, process));
    if (const ModelInfo& info = model.engine->model().info(); !generates_by_diffusion(info))
      TESSERA_TRY(args_.diffusion.require_absent(info.architecture));
    trace.add_devices(model.session->executor().devices());
    const auto loaded = observe::TraceEvents::Clock::now();
    trace.add_phase("load", begin, loaded);
    auto tokens = model.engine->tokenizer().tokenize(prompt, {.add_special = true, .parse_special = args_.special});
    if (!tokens) return forward_error(tokens, "prompt");
    trace.add_phase("tokenize", loaded, observe::TraceEvents::Clock::now());
    TESSERA_TRY(generate(model, *tokens, trace, process.interrupt));
    TESSERA_ASSIGN(AtomicFile file, AtomicFile::create(output_));
    const std::string json = std::move(trace).json();
    TESSERA_TRY(file.write(std::as_bytes(std::span(json))));
    return file.commit();
  }

 private:
  static constexpr int64_t kUsualTokens = 32;

  Result<> generate(const LoadedModel& model, std::span<const int32_t> tokens, observe::TraceEvents& trace,
                    const CancelToken& cancel) {
    TESSERA_ASSIGN(const auto chain, args_.create_chain(model, args_.sampling.seeded()));
    TESSERA_ASSIGN(const auto speculator, model.create_speculator());
    GenerateOptions options = args_.generate;
    options.speculator = speculator.get();
    Generator generator(*model.session, *chain, 0, options);
    model.session->observe_steps([&](const StepView& step) {
      const int64_t n = generator.n_generated();
      trace.add_step(n == 0 ? fmt::format("prefill {}", step.n_tokens) : fmt::format("decode {}", n), step);
    });
    Result<> done = generator.start(tokens, &cancel);
    while (done) {
      const auto begin = observe::TraceEvents::Clock::now();
      Result<int32_t> token = generator.next(&cancel);
      if (!token) done = forward_error(token);
      if (!token || *token < 0) break;
      trace.add_phase("sample", std::max(begin, trace.last_end()), observe::TraceEvents::Clock::now());
    }
    model.session->observe_steps({});
    return done;
  }

  RunArgs args_;
  std::string output_;
};

}  // namespace

std::unique_ptr<Command> create_trace_command() { return std::make_unique<TraceCommand>(); }

}  // namespace tessera::cli
