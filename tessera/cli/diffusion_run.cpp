#include "tessera/cli/diffusion_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>

#include "tessera/cli/console.h"
#include "tessera/cli/diffusion_view.h"
#include "tessera/cli/offload_args.h"

namespace tessera::cli {

namespace {

constexpr std::string_view kMaskSign = "_";  // of a token that is still masked

// Parameters of samplers that generation by diffusion has as well.
constexpr std::string_view kDiffusionSamplers[] = {"temp", "top_k", "top_p"};

// A sampler that is off, or as it is without flags, needs no refusal.
bool is_at_rest(const sample::SamplingParam& param, const sample::SamplerParams& params) {
  const sample::SamplerParams defaults;
  if (param.name == "min_p" && params.min_p == 0) return true;
  return std::visit([&](auto member) { return params.*member == defaults.*member; }, param.member);
}

std::string sampler_that_differs(const SamplingArgs& sampling) {
  if (!sampling.samplers.empty()) return "--samplers";
  if (!sampling.sampling_letters.empty()) return "--sampling-seq";
  if (!sampling.params.logit_bias.empty()) return "--logit-bias";
  for (const sample::SamplingParam& param : sample::sampling_params())
    if (std::ranges::find(kDiffusionSamplers, param.name) == std::end(kDiffusionSamplers) &&
        !is_at_rest(param, sampling.params))
      return sampling_flag(param.name);
  return "";
}

// A flag of token by token generation that was given; empty: none.
std::string inapplicable_flag(const RunArgs& args) {
  if (args.grammar.is_given()) return "a grammar";
  if (args.model.options.speculation.is_on()) return "--spec-type";
  if (args.generate.context_shift) return "--context-shift";
  return sampler_that_differs(args.sampling);
}

// The messages of the library name no flags.
Result<> check_schedule(const DiffusionOptions& o) {
  if (o.eps > 0 || o.block_length == 0) return {};
  if (o.n_predict % o.block_length != 0)
    return fail(ErrorCode::invalid_argument, "--diffusion-block-length {}: want a divisor of the {} tokens (-n)",
                o.block_length, o.n_predict);
  const int64_t n_blocks = o.n_predict / o.block_length;
  if (n_blocks > 0 && o.n_steps % n_blocks != 0)
    return fail(ErrorCode::invalid_argument, "--diffusion-steps {}: want a multiple of the {} blocks of {} tokens",
                o.n_steps, n_blocks, o.block_length);
  return {};
}

class DiffusionPrinter {
 public:
  DiffusionPrinter(const RunArgs& args, const Engine& engine, const DiffusionGenerator& generator)
      : args_(args), engine_(engine), generator_(generator) {}

  // The text ends before the first token that ends one: all tokens are there at once, also those after it.
  std::span<const int32_t> tokens() const {
    const auto all = generator_.tokens();
    if (args_.sampling.ignore_eos) return all;
    const auto end = std::ranges::find_if(all, [&](int32_t id) { return engine_.vocab().is_eog(id); });
    return all.first(static_cast<size_t>(end - all.begin()));
  }

  Result<std::string> text() const {
    text::DetokenizeStream stream(engine_.tokenizer(), {.render_special = args_.special, .at_start = false});
    std::string text;
    for (const int32_t token : tokens()) {
      if (token == generator_.mask_token()) {
        text.append(stream.finish()).append(kMaskSign);
        continue;
      }
      TESSERA_ASSIGN(const std::string piece, stream.push(token));
      text += piece;
    }
    return text + stream.finish();
  }

  Result<> print_result(const std::string& prompt) const {
    if (args_.echo) TESSERA_TRY(print(prompt));
    if (args_.print_ids) return print(fmt::format("{}\n", fmt::join(tokens(), ",")));
    TESSERA_ASSIGN(const std::string written, text());
    return print(written + "\n");
  }

 private:
  const RunArgs& args_;
  const Engine& engine_;
  const DiffusionGenerator& generator_;
};

Result<> fill_in(DiffusionGenerator& generator, const DiffusionPrinter& printer, DiffusionView& view,
                 const Context& process) {
  while (!generator.is_finished()) {
    TESSERA_TRY(generator.step(&process.interrupt));
    TESSERA_ASSIGN(const std::string text, printer.text());
    view.show(generator.n_steps_done(), generator.n_steps(), text);
  }
  return {};
}

}  // namespace

Result<std::vector<int32_t>> tokenize_prompt(const RunArgs& args, const Engine& engine, std::string_view prompt) {
  auto tokens = engine.tokenizer().tokenize(prompt, {.add_special = true, .parse_special = args.special});
  if (!tokens) return forward_error(tokens, "prompt");
  return tokens;
}

Result<DiffusionRun> plan_diffusion(const RunArgs& args, const Engine& engine, std::optional<int64_t> n_prompt) {
  const ModelInfo& info = engine.model().info();
  TESSERA_ASSIGN(const DiffusionFacts facts, diffusion_facts(engine));
  if (const std::string flag = inapplicable_flag(args); !flag.empty())
    return fail(ErrorCode::unsupported, "{}: does not apply to {}, which fills in a whole text at once", flag,
                info.architecture);
  const SessionOptions& given = args.context.session;
  const int64_t n_ctx = given.n_ctx > 0 ? given.n_ctx : info.n_ctx_train;
  if (n_prompt && *n_prompt >= n_ctx)
    return fail(ErrorCode::limit, "the prompt has {} tokens, the context holds {} (-c)", *n_prompt, n_ctx);
  DiffusionOptions options = args.diffusion.options;
  options.sampling = args.sampling.params;
  options.n_predict = args.generate.n_predict;
  const int64_t room = n_ctx - n_prompt.value_or(0);
  if (options.n_predict < 0) options.n_predict = default_diffusion_length(room, options.block_length);
  if (options.n_predict == 0 && args.generate.n_predict != 0)
    return fail(ErrorCode::limit, "--diffusion-block-length {}: the prompt leaves {} tokens of a context of {} (-c)",
                options.block_length, room, n_ctx);
  options = with_default_schedule(options, facts.shifts_logits);
  TESSERA_TRY(check_schedule(options));
  const int64_t n_before = n_prompt.value_or(std::max<int64_t>(std::min(n_ctx, kMaxUbatch) - options.n_predict, 0));
  const int64_t n_tokens = n_before + options.n_predict;
  if (args.context.has_ubatch && given.n_ubatch < n_tokens)
    return fail(ErrorCode::limit, "a text of {} tokens, micro-batch of {} (-ub): this model computes a text at once",
                n_tokens, given.n_ubatch);
  TESSERA_ASSIGN(const SessionOptions session, diffusion_session(engine, options, n_before, given));
  return DiffusionRun{std::move(options), session};
}

Result<> run_diffusion(const RunArgs& args, LoadedModel& model, const std::string& prompt, Context& process) {
  using Clock = std::chrono::steady_clock;
  TESSERA_ASSIGN(const auto tokens, tokenize_prompt(args, *model.engine, prompt));
  TESSERA_ASSIGN(DiffusionRun run, plan_diffusion(args, *model.engine, std::ssize(tokens)));
  run.options.sampling = args.sampling.seeded();
  TESSERA_TRY(load_session(model, args.context, run.session, process));
  TESSERA_ASSIGN(const auto generator, DiffusionGenerator::create(*model.session, run.options, tokens));
  const DiffusionPrinter printer(args, *model.engine, *generator);
  DiffusionView view(args.diffusion.is_visual);
  const auto start = Clock::now();
  const auto filled = fill_in(*generator, printer, view, process);
  const std::chrono::duration<double> time = Clock::now() - start;
  view.erase();
  // An interrupted run prints the text as it is.
  if (!filled && filled.error().code() != ErrorCode::cancelled) return filled;
  TESSERA_TRY(printer.print_result(prompt));
  if (!filled) return filled;
  if (!process.quiet)
    log(fmt::format("prompt {} tokens; generated {} tokens in {} steps, {:.1f} tokens/s{}; seed {}", tokens.size(),
                    run.options.n_predict, generator->n_steps(),
                    static_cast<double>(run.options.n_predict) / time.count(), describe(model.engine->stream_counts()),
                    run.options.sampling.seed));
  return {};
}

}  // namespace tessera::cli
