// tessera perplexity: measures how well a model predicts a text, how far its predictions are from another model's, and
// its score in multiple-choice tests.
#include <fmt/format.h>

#include "tessera/cli/choice_args.h"
#include "tessera/cli/chunk_args.h"
#include "tessera/cli/console.h"
#include "tessera/cli/count_progress.h"
#include "tessera/cli/kl_report.h"
#include "tessera/text/json_quoted.h"

namespace tessera::cli {

namespace {

class PerplexityCommand final : public Command {
 public:
  FlagTable flags() override;
  Result<> check() override;
  Result<> run(Context& process) override;

 private:
  Result<> measure(Context& process);
  // Creates the base file if one was requested.
  Result<std::optional<eval::BaseFileWriter>> begin_base(const ChunkWork& work, const Context& process) const;
  Result<> compare(Context& process);
  // Decodes all chunks and passes their scored rows to `visit`. `figures` returns the interim result for the progress.
  static Result<> go_over(ChunkWork& work, const Context& process, eval::RowsVisitor visit,
                          FunctionRef<std::string()> figures);
  std::string json_head(const ChunkWork& work) const;

  ChunkArgs args_;
  ChoiceArgs choices_;
  std::string base_path_;
  bool compares_ = false;
  bool is_json_ = false;
};

FlagTable PerplexityCommand::flags() {
  FlagTable table;
  args_.add_to(table);
  table.common("--ppl-stride", "N", "overlap chunks: advance by N tokens and score the last N of each; 0: no overlap",
               set_integer(args_.chunks.stride, 0, kMaxContext));
  table.common("--kl-divergence-base --save-all-logits", "FILE",
               "file for the model's log-probabilities; with --kl-divergence: the base file to compare with",
               set_string(base_path_));
  table.common("--kl-divergence", "",
               "compare with the base file: KL divergence, change of perplexity and of probabilities",
               set_switch(compares_));
  choices_.add_to(table);
  table.common("--reference-activations", "",
               "use f32 activations instead of 8-bit codes (slow); same as --activations f32",
               [this](std::string_view) -> Result<> {
                 args_.context.session.activations = ActivationPrecision::float32;
                 return {};
               });
  table.common("--json", "", "print a JSON object", set_switch(is_json_));
  return table;
}

Result<> PerplexityCommand::check() {
  TESSERA_TRY(args_.model.check());
  TESSERA_TRY(args_.check());
  TESSERA_TRY(choices_.check());
  const bool has_base = !base_path_.empty();
  if (choices_.is_wanted() && (has_base || compares_ || args_.chunks.stride > 0))
    return fail(ErrorCode::invalid_argument, "{}: not together with --ppl-stride and --kl-divergence",
                choices_.mode_flag());
  if (compares_ && !has_base)
    return fail(ErrorCode::invalid_argument,
                "--kl-divergence: no base: give --kl-divergence-base FILE, which a run without --kl-divergence writes");
  if (has_base && args_.chunks.stride > 0)
    return fail(ErrorCode::invalid_argument, "--ppl-stride and --kl-divergence-base: give one of them");
  if (args_.chunks.n_max_chunks == 0) return fail(ErrorCode::invalid_argument, "--chunks 0: nothing to measure");
  return {};
}

Result<> PerplexityCommand::run(Context& process) {
  if (choices_.is_wanted()) {
    args_.context.session.n_ctx = args_.chunks.n_ctx;
    return choices_.run(args_.model, args_.context, args_.text, is_json_, process);
  }
  return compares_ ? compare(process) : measure(process);
}

Result<> PerplexityCommand::measure(Context& process) {
  eval::ChunkOptions& chunks = args_.chunks;
  // As in the reference implementation, at least n_ctx - stride / 2 tokens precede the scored ones.
  chunks.n_ctx += chunks.stride / 2;
  TESSERA_ASSIGN(ChunkWork work, args_.open(eval::scored_positions(chunks.n_ctx, chunks.stride), process));
  TESSERA_ASSIGN(std::optional<eval::BaseFileWriter> writer, begin_base(work, process));
  eval::Perplexity perplexity;
  TESSERA_TRY(go_over(
      work, process,
      [&](std::span<const eval::ChunkRow> rows) -> Result<> {
        TESSERA_TRY(eval::score(perplexity, work.chunks, rows, *work.threads));
        if (writer) TESSERA_TRY(writer->add(work.chunks, rows, *work.threads));
        return {};
      },
      [&] { return running_ppl(perplexity.estimate()); }));
  if (writer) TESSERA_TRY(writer->finish());
  const eval::PerplexityEstimate estimate = perplexity.estimate();
  if (!is_json_) return print(fmt::format("Final estimate: PPL = {:.4f} +/- {:.5f}\n", estimate.ppl, estimate.error));
  return print(fmt::format("{{{}, \"tokens\": {}, \"ppl\": {}, \"error\": {}}}\n", json_head(work), estimate.n_tokens,
                           estimate.ppl, estimate.error));
}

Result<std::optional<eval::BaseFileWriter>> PerplexityCommand::begin_base(const ChunkWork& work,
                                                                          const Context& process) const {
  if (base_path_.empty()) return std::nullopt;
  TESSERA_ASSIGN(auto writer, eval::BaseFileWriter::create(base_path_, work.chunks, work.model.engine->vocab()));
  if (!process.quiet)
    log(fmt::format("{}: {} of log-probabilities", base_path_, human_bytes(static_cast<double>(writer.bytes()))));
  return writer;
}

Result<> PerplexityCommand::compare(Context& process) {
  TESSERA_ASSIGN(const eval::BaseFile base, eval::BaseFile::open(base_path_));
  TESSERA_ASSIGN(ChunkWork work, args_.open(base, process));
  eval::KlDivergence divergence;
  TESSERA_TRY(go_over(
      work, process,
      [&](std::span<const eval::ChunkRow> rows) {
        return eval::compare(divergence, base, work.chunks, rows, *work.threads);
      },
      [&] { return fmt::format("{}, KLD = {:.6f}", running_ppl(divergence.perplexity()), divergence.mean_kl()); }));
  const eval::KlStatistics statistics = divergence.statistics();
  if (!is_json_) return print(format_kl_statistics(statistics));
  return print(fmt::format("{{{}, \"base\": {}, {}}}\n", json_head(work), text::json_quoted(base_path_),
                           kl_statistics_json(statistics)));
}

Result<> PerplexityCommand::go_over(ChunkWork& work, const Context& process, eval::RowsVisitor visit,
                                    FunctionRef<std::string()> figures) {
  const eval::Chunks& chunks = work.chunks;
  CountProgress progress("chunk", chunks.size(), 0, process);
  const auto show = [&](int64_t n_done) {
    progress.update(n_done, figures());
    return true;
  };
  return eval::decode_all(*work.model.session, chunks, work.run, visit, show, &process.interrupt);
}

std::string PerplexityCommand::json_head(const ChunkWork& work) const {
  return fmt::format("\"model\": {}, \"text\": {}, \"context\": {}, \"chunks\": {}",
                     text::json_quoted(args_.model.options.path), text::json_quoted(args_.text.file),
                     work.chunks.n_ctx(), work.chunks.size());
}

}  // namespace

std::unique_ptr<Command> create_perplexity_command() { return std::make_unique<PerplexityCommand>(); }

}  // namespace tessera::cli
