// tessera run: reads a prompt and prints the generated text token by token.
#include <fmt/format.h>

#include <chrono>

#include "tessera/cli/console.h"
#include "tessera/cli/diffusion_run.h"
#include "tessera/cli/offload_args.h"
#include "tessera/cli/run_args.h"

namespace tessera::cli {

namespace {

class RunCommand final : public Command {
 public:
  FlagTable flags() override {
    FlagTable table;
    args_.add_to(table);
    return table;
  }

  Result<> check() override { return args_.check(); }

  Result<> run(Context& process) override {
    TESSERA_ASSIGN(const std::string prompt, args_.prompt.read(process));
    args_.use_tuning(process);
    TESSERA_ASSIGN(LoadedModel model, open_model(args_.model, args_.context, process));
    if (generates_by_diffusion(model.engine->model().info())) return run_diffusion(args_, model, prompt, process);
    TESSERA_TRY(args_.diffusion.require_absent(model.engine->model().info().architecture));
    TESSERA_TRY(load_session(model, args_.context, process));
    const text::Tokenizer& tokenizer = model.engine->tokenizer();
    auto tokens = tokenizer.tokenize(prompt, {.add_special = true, .parse_special = args_.special});
    if (!tokens) return forward_error(tokens, "prompt");
    const sample::SamplerParams params = args_.sampling.seeded();
    TESSERA_ASSIGN(const auto chain, args_.create_chain(model, params));
    TESSERA_ASSIGN(const auto speculator, model.create_speculator());
    GenerateOptions options = args_.generate;
    options.speculator = speculator.get();
    Generator generator(*model.session, *chain, 0, options);

    const auto start = Clock::now();
    TESSERA_TRY(generator.start(*tokens, &process.interrupt));
    const auto prefilled = Clock::now();
    if (args_.echo) TESSERA_TRY(print(prompt));
    TESSERA_TRY(generate(generator, tokenizer, process));
    if (!process.quiet)
      log_timings(*tokens, generator, prefilled - start, Clock::now() - prefilled, params,
                  describe(speculator.get()) + describe(model.engine->stream_counts()));
    return {};
  }

 private:
  using Clock = std::chrono::steady_clock;

  Result<> generate(Generator& generator, const text::Tokenizer& tokenizer, const Context& process) {
    text::DetokenizeStream stream(tokenizer, {.render_special = args_.special, .at_start = false});
    while (true) {
      Result<int32_t> token = generator.next(&process.interrupt);
      const bool stopped = !token || *token < 0;
      if (stopped) {
        // An interrupted run prints the rest of the text generated so far.
        TESSERA_TRY(print(args_.print_ids ? "\n" : stream.finish() + "\n"));
        if (!token) return forward_error(token);
        return {};
      }
      if (args_.print_ids) {
        TESSERA_TRY(print(fmt::format("{}{}", generator.n_generated() == 1 ? "" : ",", *token)));
      } else {
        TESSERA_ASSIGN(const std::string piece, stream.push(*token));
        TESSERA_TRY(print(piece));
      }
    }
  }

  static void log_timings(const std::vector<int32_t>& prompt, const Generator& generator, Clock::duration prefill,
                          Clock::duration decode, const sample::SamplerParams& params, const std::string& more) {
    const auto rate = [](double n, Clock::duration time) { return n / std::chrono::duration<double>(time).count(); };
    std::string why;
    if (generator.stop_reason() == StopReason::context_full)
      why = "; stopped: the context is full (-c, --context-shift)";
    log(fmt::format("prompt {} tokens, {:.1f} tokens/s; generated {} tokens, {:.1f} tokens/s{}; seed {}{}",
                    prompt.size(), rate(static_cast<double>(prompt.size()), prefill), generator.n_generated(),
                    rate(static_cast<double>(generator.n_generated()), decode), more, params.seed, why));
  }

  RunArgs args_;
};

}  // namespace

std::unique_ptr<Command> create_run_command() { return std::make_unique<RunCommand>(); }

}  // namespace tessera::cli
