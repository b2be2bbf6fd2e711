#include "tessera/cli/replay_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tessera/base/index.h"
#include "tessera/cli/console.h"
#include "tessera/cli/replay_text.h"
#include "tessera/cli/summary.h"
#include "tessera/cli/text_args.h"

namespace tessera::cli {

namespace {

struct Replay {
  std::vector<double> plain, guessed, ratios;  // tokens per second of each turn, and the ratio of the two
  SpeculationCounts counts;
};

}  // namespace

Result<> ReplayBenchArgs::run(ModelArgs model_args, const ContextArgs& context, Context& process) const {
  TESSERA_TRY(speculation.apply(model_args.options));
  if (!model_args.options.speculation.is_on())
    return fail(ErrorCode::invalid_argument, "--replay: no guesses to measure: give --spec-type or -md");
  TESSERA_ASSIGN(const std::string text, read_text(path, process));
  TESSERA_ASSIGN(LoadedModel model, open_model(model_args, context));
  auto tokenized = model.engine->tokenizer().tokenize(text, {.add_special = true});
  if (!tokenized) return forward_error(tokenized, path);
  const std::vector<int32_t>& tokens = *tokenized;
  const int64_t n_tokens = std::ssize(tokens), n = n_written > 0 ? n_written : n_tokens / 2;
  if (n < 1 || n >= n_tokens)
    return fail(ErrorCode::invalid_argument, "{}: {} tokens, too few to write {} after a prompt", path, n_tokens, n);
  ContextArgs with_room = context;
  with_room.session.n_ctx = n_tokens;
  TESSERA_TRY(load_session(model, with_room, process));
  Replay replay;
  for (int64_t i = 0; i < n_repetitions; ++i) {
    GenerateOptions options{.n_batch = context.n_batch};
    TESSERA_ASSIGN(const double plain, write_text(model, tokens, n, options, process.interrupt));
    TESSERA_ASSIGN(const auto speculator, model.create_speculator());
    options.speculator = speculator.get();
    TESSERA_ASSIGN(const double guessed, write_text(model, tokens, n, options, process.interrupt));
    replay.plain.push_back(static_cast<double>(n) / plain);
    replay.guessed.push_back(static_cast<double>(n) / guessed);
    replay.ratios.push_back(plain / guessed);
    replay.counts.add(speculator->counts());
  }
  const std::string kinds = names_of(model.speculation.kinds);
  if (is_json) {
    const nlohmann::ordered_json row = {{"model_filename", model.engine->files().name()},
                                        {"text", path},
                                        {"spec_type", kinds},
                                        {"n_prompt", n_tokens - n},
                                        {"n_written", n},
                                        {"n_threads", context.session.threads.n_threads},
                                        {"plain_ts", replay.plain},
                                        {"spec_ts", replay.guessed},
                                        {"median_ratio", median(replay.ratios)},
                                        {"n_drafts", replay.counts.n_drafts},
                                        {"n_drafted", replay.counts.n_drafted},
                                        {"n_accepted", replay.counts.n_accepted}};
    return print(row.dump() + "\n");
  }
  const std::vector<std::vector<std::string>> rows = {
      {"guesses by", "prompt", "written", "t/s without", "t/s with", "ratio", "right", "verified"},
      {kinds, std::to_string(n_tokens - n), std::to_string(n), fmt::format("{:.1f}", median(replay.plain)),
       fmt::format("{:.1f}", median(replay.guessed)), fmt::format("{:.2f}", median(replay.ratios)),
       std::to_string(replay.counts.n_accepted / n_repetitions),
       std::to_string(replay.counts.n_drafted / n_repetitions)}};
  return print(format_table(rows, "lrrrrrrr"));
}

}  // namespace tessera::cli
